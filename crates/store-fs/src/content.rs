//! Content-addressed files: written before the events that name them, and hashed again on every read (G12, G17).

use std::collections::BTreeSet;

use workrail_model::compiled::CompiledWorkflow;
use workrail_model::digest::{BlobRef, Sha256, SnapshotRef, WorkflowHash};
use workrail_model::event::Event;
use workrail_model::id::SessionId;
use workrail_model::plan::{Attachment, AttachmentKind};
use workrail_model::snapshot::ExecutionSnapshot;
use workrail_ports::content::{ContentError, ContentStore};
use workrail_ports::file_system::{FileKind, FileSystem, FsError, FsErrorKind, RelPath, WritableFile};
use workrail_ports::session_store::StoreError;

use crate::store::LocalStore;
use crate::{layout, suspect};

/// Makes every attachment durable, and every reference of the events resolvable.
///
/// Everything is written, even content that already exists: its writer may have failed to sync it, and a second sync
/// would not report that (G14). All files come first, then all names, then each folder once, to keep the number of
/// fsyncs low.
pub(crate) fn store_content<F: FileSystem>(
    fs: &F,
    session: SessionId,
    attachments: &[Attachment],
    events: &[Event],
) -> Result<(), StoreError> {
    let mut folders = BTreeSet::new();
    let mut renames = Vec::new();
    let mut done = BTreeSet::new();
    let mut write = |kind, digest, bytes: &[u8]| {
        let temp = layout::content_temp(kind, session, renames.len());
        write_temp(fs, &temp, bytes)?;
        folders.insert(layout::content_dir(kind));
        renames.push((temp, (kind, digest)));
        Ok::<(), FsError>(())
    };
    for attachment in attachments {
        let (kind, digest) = (attachment.kind(), attachment.digest());
        if done.insert((kind, digest)) {
            write(kind, digest, attachment.bytes())?;
        }
    }
    for (kind, digest) in events.iter().flat_map(|event| event.data.content_refs()) {
        if done.insert((kind, digest)) {
            let Some(bytes) = stored(fs, kind, digest)? else {
                return Err(StoreError::Unattached { kind, digest: digest.to_string() });
            };
            write(kind, digest, &bytes)?;
        }
    }
    for (temp, (kind, digest)) in &renames {
        put_in_place(fs, temp, *kind, *digest)?;
    }
    for folder in &folders {
        fs.sync_dir(folder)?;
    }
    Ok(())
}

/// Gives written and synced content its name. A folder of that name is moved aside; a link or a pipe holds no data of
/// ours and is replaced.
pub(crate) fn put_in_place<F: FileSystem>(
    fs: &F,
    temp: &RelPath,
    kind: AttachmentKind,
    digest: Sha256,
) -> Result<(), FsError> {
    let target = layout::content(kind, digest);
    match fs.rename(temp, &target) {
        Err(error)
            if error.kind == FsErrorKind::WrongKind
                && fs.stat(&target).is_ok_and(|stat| stat.kind == FileKind::Directory) =>
        {
            set_aside(fs, kind, digest)?;
            fs.rename(temp, &target)
        }
        renamed => renamed,
    }
}

/// Moves whatever has this content's name to `backups/content`, if anything does. Returns where it was moved.
pub(crate) fn set_aside<F: FileSystem>(
    fs: &F,
    kind: AttachmentKind,
    digest: Sha256,
) -> Result<Option<String>, FsError> {
    let path = layout::content(kind, digest);
    match fs.stat(&path) {
        Err(error) if error.kind == FsErrorKind::NotFound => return Ok(None),
        stat => stat?,
    };
    make_damaged_content_dir(fs)?;
    let moved = move_to_free_name(fs, &path, |number| layout::damaged_content(kind, digest, number))?;
    if moved.is_some() {
        fs.sync_dir(&layout::damaged_content_dir())?;
    }
    Ok(moved.map(|aside| aside.to_string()))
}

/// Creates `backups/content`, where damaged files are moved.
pub(crate) fn make_damaged_content_dir<F: FileSystem>(fs: &F) -> Result<(), FsError> {
    suspect::make_folder(fs, &layout::backups())?;
    suspect::make_folder(fs, &layout::damaged_content_dir())
}

/// Moves a file or folder to the first name that is free, and returns that name. A link or a pipe has no content of
/// its own to keep and is removed. The caller syncs the folder.
pub(crate) fn move_to_free_name<F: FileSystem>(
    fs: &F,
    path: &RelPath,
    name: impl Fn(u64) -> RelPath,
) -> Result<Option<RelPath>, FsError> {
    let Some(aside) = (1..).map(name).find(|aside| fs.stat(aside).is_err()) else { return Ok(None) };
    match fs.rename(path, &aside) {
        Err(error) if error.kind == FsErrorKind::WrongKind => fs.remove_file(path).map(|()| None),
        renamed => renamed.map(|()| Some(aside)),
    }
}

/// Content that events refer to but that cannot be used.
pub(crate) enum UnusableContent {
    /// Missing or damaged.
    Lost(RelPath),
    /// This user may not read it, so whether it is damaged is unknown.
    Denied(FsError),
}

/// The first piece of content that the events refer to and that cannot be used.
pub(crate) fn unusable<F: FileSystem>(fs: &F, events: &[Event]) -> Result<Option<UnusableContent>, FsError> {
    for (kind, digest) in events.iter().flat_map(|event| event.data.content_refs()) {
        match stored(fs, kind, digest) {
            Ok(Some(_)) => {}
            Ok(None) => return Ok(Some(UnusableContent::Lost(layout::content(kind, digest)))),
            Err(error) if error.kind == FsErrorKind::PermissionDenied => {
                return Ok(Some(UnusableContent::Denied(error)));
            }
            Err(error) => return Err(error),
        }
    }
    Ok(None)
}

/// Content that exists and matches its digest.
fn stored<F: FileSystem>(fs: &F, kind: AttachmentKind, digest: Sha256) -> Result<Option<Vec<u8>>, FsError> {
    match fs.read(&layout::content(kind, digest), 0, kind.bytes_max()) {
        Ok(bytes) if Sha256::of(&bytes) == digest => Ok(Some(bytes)),
        Ok(_) => Ok(None),
        Err(error)
            if matches!(
                error.kind,
                FsErrorKind::NotFound | FsErrorKind::WrongKind | FsErrorKind::TooLarge { .. }
            ) =>
        {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// Writes and syncs a file under a temporary name, replacing the leftover of an interrupted write.
pub(crate) fn write_temp<F: FileSystem>(fs: &F, temp: &RelPath, bytes: &[u8]) -> Result<(), FsError> {
    let mut file = create_fresh(fs, temp)?;
    file.append(bytes)?;
    file.sync()
}

/// Creates a file, first removing a leftover of the same name.
pub(crate) fn create_fresh<F: FileSystem>(fs: &F, path: &RelPath) -> Result<F::File, FsError> {
    match fs.create_file(path) {
        Err(error) if error.kind == FsErrorKind::AlreadyExists => {
            fs.remove_file(path)?;
            fs.create_file(path)
        }
        other => other,
    }
}

/// Reads content and refuses it unless it matches its digest.
pub(crate) fn read_verified<F: FileSystem>(
    fs: &F,
    kind: AttachmentKind,
    digest: Sha256,
) -> Result<(String, Vec<u8>), ContentError> {
    let path = layout::content(kind, digest);
    let named = path.to_string();
    let bytes = fs.read(&path, 0, kind.bytes_max()).map_err(|error| match error.kind {
        FsErrorKind::NotFound => ContentError::Missing { path: named.clone() },
        FsErrorKind::WrongKind | FsErrorKind::TooLarge { .. } => {
            ContentError::Damaged { path: named.clone() }
        }
        FsErrorKind::AlreadyExists
        | FsErrorKind::NoSpace
        | FsErrorKind::Quota
        | FsErrorKind::ReadOnly
        | FsErrorKind::PermissionDenied
        | FsErrorKind::TooManyOpenFiles
        | FsErrorKind::Database
        | FsErrorKind::Io => ContentError::Io(error),
    })?;
    if Sha256::of(&bytes) != digest {
        return Err(ContentError::Damaged { path: named });
    }
    Ok((named, bytes))
}

impl<F: FileSystem> ContentStore for LocalStore<F> {
    fn snapshot(&self, reference: SnapshotRef) -> Result<ExecutionSnapshot, ContentError> {
        let (path, bytes) = read_verified(self.fs(), AttachmentKind::Snapshot, reference.digest())?;
        ExecutionSnapshot::parse(&bytes).map_err(|source| ContentError::Snapshot { path, source })
    }

    fn blob(&self, reference: BlobRef) -> Result<Vec<u8>, ContentError> {
        read_verified(self.fs(), AttachmentKind::Blob, reference.digest()).map(|(_, bytes)| bytes)
    }

    fn workflow(&self, hash: WorkflowHash) -> Result<CompiledWorkflow, ContentError> {
        let (path, bytes) = read_verified(self.fs(), AttachmentKind::Workflow, hash.digest())?;
        CompiledWorkflow::parse(&bytes).map_err(|source| ContentError::Workflow { path, source })
    }
}
