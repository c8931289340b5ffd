//! The append protocol: content, then segment, then one manifest group; each durable before the next.
//!
//! Whatever fails or wherever power goes, the log holds the plan whole or not at all (G10), and what
//! was acknowledged stays. A failed fsync is never retried on its handle (G14).

use workrail_model::id::SessionId;
use workrail_model::limits::MANIFEST_BYTES_MAX;
use workrail_model::manifest::{Cursor, commit_group, group_bytes, segment_rel_path};
use workrail_model::plan::AppendPlan;
use workrail_ports::file_system::{FileSystem, FsError, FsErrorKind, WritableFile};
use workrail_ports::session_store::StoreError;

use crate::content::{create_fresh, store_attachments, write_temp};
use crate::{layout, load};

/// What is known of the manifest on disk before an append.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tail {
    pub cursor: Cursor,
    /// Bytes that an interrupted write left behind the last complete group.
    pub torn_bytes: u64,
}

/// A commit that did not happen.
#[derive(Debug)]
pub(crate) enum CommitError {
    Store(StoreError),
    /// The manifest's fsync failed, and so did writing its durable part anew: whoever comes next must
    /// do that before anything else.
    Unrestored {
        cause: FsError,
        durable_bytes: u64,
    },
}

impl<E: Into<StoreError>> From<E> for CommitError {
    fn from(error: E) -> Self {
        Self::Store(error.into())
    }
}

/// Carries out a plan that was checked against `tail`; returns the cursor behind it.
pub(crate) fn commit<F: FileSystem>(fs: &F, tail: Tail, plan: &AppendPlan) -> Result<Cursor, CommitError> {
    let session = plan.session_id();
    let records = commit_group(tail.cursor.next_manifest_index, plan.events(), plan.segment());
    let group =
        group_bytes(&records).map_err(|_| load::too_long(session, tail.cursor.next_manifest_index))?;
    if tail.cursor.manifest_bytes + group.len() as u64 > MANIFEST_BYTES_MAX {
        return Err(load::too_long(session, tail.cursor.next_manifest_index).into());
    }
    store_attachments(fs, session, plan)?;
    write_segment(fs, plan)?;
    append_group(fs, session, tail, &group)?;
    fs.about_to_acknowledge();
    Ok(tail.cursor.after(&records, &group, plan.events().len() as u64))
}

fn write_segment<F: FileSystem>(fs: &F, plan: &AppendPlan) -> Result<(), FsError> {
    let session = plan.session_id();
    let first = plan.first_index();
    let last = first.plus(plan.events().len() as u64 - 1);
    let temp = layout::segment_temp(session);
    write_temp(fs, &temp, plan.segment())?;
    let name = segment_rel_path(first, last);
    // A name made of two numbers is always plain.
    let target = layout::in_session(session, &name).expect("segment names are plain");
    fs.rename(&temp, &target)?;
    fs.sync_dir(&layout::events(session))
}

fn append_group<F: FileSystem>(
    fs: &F,
    session: SessionId,
    tail: Tail,
    group: &[u8],
) -> Result<(), CommitError> {
    let path = layout::manifest(session);
    if tail.torn_bytes > 0 {
        cut_torn_tail(fs, session, tail)?;
    }
    let (mut file, is_new) = match fs.open_append(&path) {
        Ok(file) => (file, false),
        Err(error) if error.kind == FsErrorKind::NotFound && tail.cursor.manifest_bytes == 0 => {
            (fs.create_file(&path)?, true)
        }
        Err(error) => return Err(error.into()),
    };
    if let Err(error) = file.append(group) {
        // Best effort: if this fails too, the next append cuts the tail (G13).
        let _ = file.set_len(tail.cursor.manifest_bytes).and_then(|()| file.sync());
        return Err(error.into());
    }
    if let Err(cause) = file.sync() {
        drop(file);
        let durable_bytes = tail.cursor.manifest_bytes;
        return Err(match restore_durable_prefix(fs, session, durable_bytes) {
            Ok(()) => cause.into(),
            Err(_) => CommitError::Unrestored { cause, durable_bytes },
        });
    }
    // The name of a new manifest is not durable until its folder is.
    if is_new {
        fs.sync_dir(&layout::session(session))?;
    }
    Ok(())
}

/// Copies what an interrupted write left aside, then cuts the manifest back to its last group.
fn cut_torn_tail<F: FileSystem>(fs: &F, session: SessionId, tail: Tail) -> Result<(), FsError> {
    let path = layout::manifest(session);
    let torn = fs.read(&path, tail.cursor.manifest_bytes, MANIFEST_BYTES_MAX)?;
    let mut aside = create_fresh(fs, &layout::manifest_torn(session))?;
    aside.append(&torn)?;
    aside.sync()?;
    fs.sync_dir(&layout::session(session))?;
    let mut file = fs.open_append(&path)?;
    file.set_len(tail.cursor.manifest_bytes)?;
    file.sync()
}

/// After a failed fsync the page cache may show data that the disk has dropped, so the manifest is
/// rewritten from the part that is known to be durable, in a new file.
pub(crate) fn restore_durable_prefix<F: FileSystem>(
    fs: &F,
    session: SessionId,
    durable_bytes: u64,
) -> Result<(), FsError> {
    let path = layout::manifest(session);
    if durable_bytes == 0 {
        fs.remove_file(&path)?;
    } else {
        let mut bytes = fs.read(&path, 0, MANIFEST_BYTES_MAX)?;
        bytes.truncate(durable_bytes as usize);
        let temp = layout::manifest_temp(session);
        write_temp(fs, &temp, &bytes)?;
        fs.rename(&temp, &path)?;
    }
    fs.sync_dir(&layout::session(session))
}
