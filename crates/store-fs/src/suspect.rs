//! Folders in which a sync failed: what they show may not be on the disk (G14).
//!
//! After a failed fsync the kernel may treat lost data as written, so reading it back proves nothing and syncing it
//! again does nothing: it must be rewritten. The mark tells every process of this boot, and is itself not synced: a
//! power cut that loses the mark has also settled the doubt.

use workrail_ports::file_system::{Created, FileSystem, FsError, FsErrorKind, FsOp, RelPath, WritableFile};

use crate::layout;

/// Best effort: even if no file can be created, the process that saw the failure still knows.
pub(crate) fn mark<F: FileSystem>(fs: &F, folder: &RelPath) {
    let _ = fs.create_file(&layout::suspect(folder));
}

pub(crate) fn is_marked<F: FileSystem>(fs: &F, folder: &RelPath) -> Result<bool, FsError> {
    match fs.stat(&layout::suspect(folder)) {
        Ok(_) => Ok(true),
        Err(error) if error.kind == FsErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// Called once everything in doubt was rewritten. A mark that remains only costs one more rewrite.
pub(crate) fn clear<F: FileSystem>(fs: &F, folder: &RelPath) {
    let _ = fs.remove_file(&layout::suspect(folder));
}

/// Syncs a file of the folder, and marks the folder if that fails.
pub(crate) fn sync_file<F: FileSystem>(fs: &F, folder: &RelPath, file: &mut F::File) -> Result<(), FsError> {
    file.sync().inspect_err(|_| mark(fs, folder))
}

/// Whether a sync was attempted and failed. If the file or folder could not even be opened, a later sync is as good
/// as this one would have been.
pub(crate) fn is_failed_sync(error: &FsError) -> bool {
    matches!(error.op, FsOp::SyncFile | FsOp::SyncDir)
}

/// Syncs names that this process did not change, and marks the folder if the sync fails. If the folder cannot be
/// opened, no mark is left.
pub(crate) fn sync_found_names<F: FileSystem>(fs: &F, folder: &RelPath) -> Result<(), FsError> {
    fs.sync_dir(folder).inspect_err(|error| {
        if is_failed_sync(error) {
            mark(fs, folder);
        }
    })
}

/// Syncs names in the folder that this process changed, and marks the folder if that fails: other processes rely on
/// names that they did not see change.
pub(crate) fn sync_names<F: FileSystem>(fs: &F, folder: &RelPath) -> Result<(), FsError> {
    fs.sync_dir(folder).inspect_err(|_| mark(fs, folder))
}

/// Creates a folder with a durable name, or none: one that lost its name in a failed sync would look intact ever
/// after.
pub(crate) fn make_folder<F: FileSystem>(fs: &F, folder: &RelPath) -> Result<(), FsError> {
    let created = fs.create_dir(folder)?;
    // Synced even if it exists: another process may have just created it.
    let Some(parent) = folder.parent() else { return Ok(()) };
    fs.sync_dir(&parent).inspect_err(|_| match created {
        Created::New => {
            let _ = fs.remove_dir(folder);
        }
        Created::Existed => {}
    })
}
