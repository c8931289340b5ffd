//! Copies the passkey log between a store and its backup (G98).

use workrail_model::limits::PASSKEY_LOG_BYTES_MAX;
use workrail_ports::backup::{CopyError, CopySide, UnusablePasskeys};
use workrail_ports::file_system::{FileSystem, FsError, FsErrorKind, LockMode, RelPath};

use super::{put, source_failed, target_failed};
use crate::passkeys::{HEAD_BYTES_MAX, head_of, names_a_line};
use crate::store::LOCK_WAIT;
use crate::{layout, suspect};

/// Whether the copy is between a store and its own backup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SameStore {
    Yes,
    Unknown,
}

/// Copies the log if the target has none or an older state of it: two histories are never mixed, and a store never
/// starts to trust another store's passkeys. Returns a log that cannot be used; everything else can still be copied.
pub(super) fn copy_passkeys<F: FileSystem>(
    from: &F,
    to: &F,
    same: SameStore,
) -> Result<Option<UnusablePasskeys>, CopyError> {
    match copy(from, to, same) {
        Ok(()) => Ok(None),
        Err(CopyFailure::Unusable(log)) => Ok(Some(log)),
        Err(CopyFailure::Copy(error)) => Err(error),
    }
}

enum CopyFailure {
    Unusable(UnusablePasskeys),
    Copy(CopyError),
}

impl From<CopyError> for CopyFailure {
    fn from(error: CopyError) -> Self {
        Self::Copy(error)
    }
}

fn copy<F: FileSystem>(from: &F, to: &F, same: SameStore) -> Result<(), CopyFailure> {
    let path = layout::passkeys();
    let Some(bytes) = read_log(from, &path, CopySide::Source)? else { return Ok(()) };
    if !is_due(to, &path, &bytes, same)? {
        return Ok(());
    }
    suspect::make_folder(to, &layout::keys_dir()).map_err(target_failed)?;
    let lock = to.lock(&layout::keyring_lock(), LockMode::Exclusive, LOCK_WAIT).map_err(target_failed)?;
    let _lock = lock.ok_or(CopyError::Busy)?;
    // Under the lock: a server may have added a line since.
    if !is_due(to, &path, &bytes, same)? {
        return Ok(());
    }
    put(to, &layout::passkeys_temp(), &path, &bytes)?;
    // A head that names a later line is kept: it shows that the copy lacks that line.
    let is_behind = match to.read(&layout::passkeys_head(), 0, HEAD_BYTES_MAX) {
        Ok(head) => names_a_line(&head, &bytes),
        Err(error) => error.kind == FsErrorKind::NotFound,
    };
    match head_of(&bytes).filter(|_| is_behind) {
        Some(head) => Ok(put(to, &layout::passkeys_head_temp(), &layout::passkeys_head(), &head)?),
        None => Ok(()),
    }
}

fn is_due<F: FileSystem>(to: &F, path: &RelPath, bytes: &[u8], same: SameStore) -> Result<bool, CopyFailure> {
    // A log that cannot be read may hold passkeys that the source lacks, so it is never replaced.
    Ok(match read_log(to, path, CopySide::Target)? {
        Some(known) => {
            let is_older = !known.is_empty() || same == SameStore::Yes;
            known != bytes && bytes.starts_with(&known) && is_older
        }
        None => same == SameStore::Yes && !bytes.is_empty(),
    })
}

/// The log; `None` if there is none.
fn read_log<F: FileSystem>(fs: &F, path: &RelPath, side: CopySide) -> Result<Option<Vec<u8>>, CopyFailure> {
    match fs.read(path, 0, PASSKEY_LOG_BYTES_MAX) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind == FsErrorKind::NotFound => Ok(None),
        Err(error) if error.kind.is_verdict_on_file() => {
            let FsError { kind, detail: why, .. } = error;
            Err(CopyFailure::Unusable(UnusablePasskeys { side, kind, why }))
        }
        Err(error) => Err(match side {
            CopySide::Source => source_failed(error),
            CopySide::Target => target_failed(error),
        }
        .into()),
    }
}
