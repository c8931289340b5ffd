//! Backups and restores: sessions copied from one store to another of the same layout (G26).
//!
//! The source may be in use: only validated, committed prefixes are read, and the shared store lock keeps a sweep
//! from removing content meanwhile. The target is a consistent store at every moment: content is durable before the
//! segments that refer to it, new sessions appear with one rename, and longer ones grow by the append protocol.

mod content;
mod copier;
mod decide;
mod log;
mod passkeys;
mod unusable;
mod write_session;

pub(crate) use content::replace_content;

use workrail_model::id::SessionId;
use workrail_model::limits::KEYRING_BYTES_MAX;
use workrail_ports::backup::{
    BackupOptions, CopyError, CopyReport, CopyWatch, KeysCopy, Replicate, RestoreOptions,
};
use workrail_ports::file_system::{FileKind, FileSystem, FsError, FsErrorKind, LockMode, RelPath};
use workrail_ports::keyring::KeyringStore as _;
use workrail_ports::session_store::StoreError;
use workrail_ports::upkeep::UpkeepError;

use self::copier::{BackupCopier, ContentCheck};
use self::decide::BackupDirection;
use self::passkeys::{SameStore, copy_passkeys};
use crate::content::write_temp;
use crate::store::{LOCK_WAIT, LocalStore};
use crate::{layout, suspect};

const MARKER: &[u8] = b"{\"kind\":\"workrail_backup\",\"v\":1}\n";
const MARKER_BYTES_MAX: u64 = 1024;
/// Settings that a user keeps in the data directory.
const SETTINGS_BYTES_MAX: u64 = 1024 * 1024;

impl<F: FileSystem> Replicate for LocalStore<F> {
    fn back_up_to(
        &self,
        backup: &Self,
        options: BackupOptions,
        watch: CopyWatch<'_>,
    ) -> Result<CopyReport, CopyError> {
        claim(backup.fs())?;
        let _backup_lock = exclusive(backup.fs())?;
        let _locks = (reading_lock(self.fs())?, writing_lock(backup.fs())?);
        let check = if options.check_all { ContentCheck::ByDigest } else { ContentCheck::ByName };
        let mut copier = BackupCopier::new(self, backup, BackupDirection::Backup, check)?;
        copier.copy_all(&sessions_of(self.fs())?, watch)?;
        copier.rewrite_content_in_doubt()?;
        // It holds only public keys, and without it no decision in the sessions can be verified.
        copier.report.unusable_passkeys = copy_passkeys(self.fs(), backup.fs(), SameStore::Yes)?;
        (copier.report.keys, copier.report.keys_aside) = match options.with_keys {
            true => self.back_up_keys(backup)?,
            false => (KeysCopy::LeftOut, None),
        };
        copier.report.keeps_earlier_keys = match copier.report.keys {
            KeysCopy::LeftOut | KeysCopy::SourceHasNone | KeysCopy::SourceUnusable => {
                backup.fs().stat(&layout::keyring()).is_ok()
            }
            KeysCopy::Copied | KeysCopy::Replaced | KeysCopy::Unchanged | KeysCopy::TargetHasOthers => false,
        };
        copy_settings(self.fs(), backup.fs(), BackupDirection::Backup)?;
        copier.finish()
    }

    fn restore_from(
        &self,
        backup: &Self,
        options: RestoreOptions,
        watch: CopyWatch<'_>,
    ) -> Result<CopyReport, CopyError> {
        let _source_lock = reading_lock(backup.fs())?;
        let _locks = match options.dry_run {
            true => None,
            false => {
                make_folders(self.fs())?;
                Some((exclusive(self.fs())?, writing_lock(self.fs())?))
            }
        };
        let check = if options.dry_run { ContentCheck::DryRun } else { ContentCheck::ByDigest };
        let mut copier = BackupCopier::new(backup, self, BackupDirection::Restore, check)?;
        let sessions = match options.only {
            Some(session) => vec![(session.to_string(), Ok(session))],
            None => sessions_of(backup.fs())?,
        };
        copier.copy_all(&sessions, watch)?;
        if options.only.is_none() {
            copier.repair_damaged_content()?;
            copier.rewrite_content_in_doubt()?;
            let is_same = self.is_same_store(backup);
            copier.report.keys = self.restore_keys(backup, options.dry_run)?;
            // A server may have made its own keys since the first look.
            let has_others = copier.report.keys == KeysCopy::TargetHasOthers;
            let is_same = if has_others { SameStore::Unknown } else { is_same };
            if !options.dry_run {
                copier.report.unusable_passkeys = copy_passkeys(backup.fs(), self.fs(), is_same)?;
                copy_settings(backup.fs(), self.fs(), BackupDirection::Restore)?;
            }
        }
        copier.finish()
    }
}

impl<F: FileSystem> LocalStore<F> {
    /// Copies the keyring as it is; an unusable one never replaces a usable one. Keys in the backup that the store no
    /// longer has are kept aside: they may have signed what an older backup of the store accepts.
    fn back_up_keys(&self, backup: &Self) -> Result<(KeysCopy, Option<String>), CopyError> {
        let ours = match self.peek() {
            Ok(None) => return Ok((KeysCopy::SourceHasNone, None)),
            Ok(Some(ours)) => ours,
            Err(_) => return Ok((KeysCopy::SourceUnusable, None)),
        };
        let is_known = match backup.peek() {
            Ok(None) => true,
            // After a rotation the old key is still accepted.
            Ok(Some(theirs)) => theirs.in_order().all(|key| ours.in_order().any(|own| own == key)),
            // Keys with other permissions, as some disks give to all files, may still be the same.
            Err(_) => is_same_keyring(self.fs(), backup.fs()),
        };
        if is_known {
            return Ok((copy_keyring(self.fs(), backup.fs(), BackupDirection::Backup)?, None));
        }
        let aside = keep_keyring_aside(backup.fs())?;
        let copied = copy_keyring(self.fs(), backup.fs(), BackupDirection::Backup)?;
        Ok(if aside.is_some() { (KeysCopy::Replaced, aside) } else { (copied, None) })
    }

    /// A store without keys accepts those of any backup; otherwise the keys must match.
    fn is_same_store(&self, backup: &Self) -> SameStore {
        match (self.peek(), backup.peek()) {
            (Ok(None), _) => SameStore::Yes,
            (Ok(Some(ours)), Ok(Some(theirs))) if ours == theirs => SameStore::Yes,
            (Ok(Some(_)) | Err(_), _) => SameStore::Unknown,
        }
    }

    /// Keys are restored only if there are none: tokens handed out since must stay valid.
    fn restore_keys(&self, backup: &Self, dry_run: bool) -> Result<KeysCopy, CopyError> {
        let theirs = match backup.peek() {
            Ok(Some(keyring)) => keyring,
            Ok(None) => return Ok(KeysCopy::SourceHasNone),
            Err(_) => return Ok(KeysCopy::SourceUnusable),
        };
        match self.peek() {
            Ok(None) if dry_run => Ok(KeysCopy::Copied),
            Ok(None) => copy_keyring(backup.fs(), self.fs(), BackupDirection::Restore),
            Ok(Some(ours)) if ours == theirs => Ok(KeysCopy::Unchanged),
            Ok(Some(_)) | Err(_) => Ok(KeysCopy::TargetHasOthers),
        }
    }
}

fn copy_keyring<F: FileSystem>(from: &F, to: &F, direction: BackupDirection) -> Result<KeysCopy, CopyError> {
    let path = layout::keyring();
    let bytes = from.read(&path, 0, KEYRING_BYTES_MAX).map_err(source_failed)?;
    let is_there = || to.read(&path, 0, KEYRING_BYTES_MAX).is_ok_and(|known| known == bytes);
    if is_there() {
        to.sync_dir(&layout::keys_dir()).map_err(target_failed)?;
        return Ok(KeysCopy::Unchanged);
    }
    suspect::make_folder(to, &layout::keys_dir()).map_err(target_failed)?;
    let lock = to.lock(&layout::keyring_lock(), LockMode::Exclusive, LOCK_WAIT).map_err(target_failed)?;
    let _lock = lock.ok_or(CopyError::Busy)?;
    // Under the lock: a server may have made keys since, and what it signed with them must stay valid.
    if direction == BackupDirection::Restore {
        match to.stat(&path) {
            Ok(_) if is_there() => return Ok(KeysCopy::Unchanged),
            Ok(_) => return Ok(KeysCopy::TargetHasOthers),
            Err(error) if error.kind == FsErrorKind::NotFound => {}
            Err(error) => return Err(target_failed(error)),
        }
    }
    put(to, &layout::keyring_temp(), &path, &bytes)?;
    Ok(KeysCopy::Copied)
}

fn is_same_keyring<F: FileSystem>(one: &F, other: &F) -> bool {
    let bytes = |fs: &F| fs.read(&layout::keyring(), 0, KEYRING_BYTES_MAX).ok();
    bytes(one).is_some() && bytes(one) == bytes(other)
}

/// Copies the target's keyring to a name that nothing replaces; `None` if there are no keys in its place.
fn keep_keyring_aside<F: FileSystem>(fs: &F) -> Result<Option<String>, CopyError> {
    let bytes = match fs.read(&layout::keyring(), 0, KEYRING_BYTES_MAX) {
        Ok(bytes) => bytes,
        Err(error) if holds_no_keys(&error) => return Ok(None),
        // A failing disk does not justify replacing keys.
        Err(error) => return Err(target_failed(error)),
    };
    let mut number = 1;
    while fs.stat(&layout::keyring_replaced(number)).is_ok() {
        number += 1;
    }
    let aside = layout::keyring_replaced(number);
    let lock = fs.lock(&layout::keyring_lock(), LockMode::Exclusive, LOCK_WAIT).map_err(target_failed)?;
    let _lock = lock.ok_or(CopyError::Busy)?;
    put(fs, &layout::keyring_temp(), &aside, &bytes)?;
    Ok(Some(aside.to_string()))
}

fn holds_no_keys(error: &FsError) -> bool {
    matches!(error.kind, FsErrorKind::NotFound | FsErrorKind::WrongKind | FsErrorKind::TooLarge { .. })
}

/// Copies settings kept in the data directory; a restore never replaces existing ones.
fn copy_settings<F: FileSystem>(from: &F, to: &F, direction: BackupDirection) -> Result<(), CopyError> {
    let path = layout::settings();
    let Ok(bytes) = from.read(&path, 0, SETTINGS_BYTES_MAX) else { return Ok(()) };
    match to.read(&path, 0, SETTINGS_BYTES_MAX) {
        Ok(known) if known == bytes || direction == BackupDirection::Restore => return Ok(()),
        Ok(_) => {}
        Err(error) if error.kind == FsErrorKind::NotFound => {}
        Err(error) => return Err(target_failed(error)),
    }
    put(to, &layout::settings_temp(), &path, &bytes)
}

/// Writes a whole file, durably under its name.
fn put<F: FileSystem>(fs: &F, temp: &RelPath, path: &RelPath, bytes: &[u8]) -> Result<(), CopyError> {
    write_temp(fs, temp, bytes).map_err(target_failed)?;
    fs.rename(temp, path).map_err(target_failed)?;
    fs.sync_dir(&path.parent().unwrap_or_else(RelPath::root)).map_err(target_failed)
}

/// Turns an empty folder into a backup, or checks that it is one.
fn claim<F: FileSystem>(fs: &F) -> Result<(), CopyError> {
    match fs.read(&layout::backup_marker(), 0, MARKER_BYTES_MAX) {
        Ok(bytes) => check_marker(&bytes)?,
        Err(error) if error.kind == FsErrorKind::NotFound => {
            let temp = layout::backup_marker_temp();
            let entries = fs.list(&RelPath::root()).map_err(target_failed)?;
            // A backup killed at its very start leaves only the temporary file.
            if entries.iter().any(|entry| entry.name != temp.as_str()) {
                return Err(CopyError::NotABackup);
            }
            put(fs, &temp, &layout::backup_marker(), MARKER)?;
        }
        Err(error) if matches!(error.kind, FsErrorKind::WrongKind | FsErrorKind::TooLarge { .. }) => {
            return Err(CopyError::NotABackup);
        }
        Err(error) => return Err(target_failed(error)),
    }
    make_folders(fs)
}

fn check_marker(bytes: &[u8]) -> Result<(), CopyError> {
    let marker: serde_json::Value = serde_json::from_slice(bytes).map_err(|_| CopyError::NotABackup)?;
    match (marker["kind"].as_str(), marker["v"].as_u64()) {
        (Some("workrail_backup"), Some(1)) => Ok(()),
        (Some("workrail_backup"), Some(version)) => Err(CopyError::NewerBackup { version }),
        _ => Err(CopyError::NotABackup),
    }
}

fn make_folders<F: FileSystem>(fs: &F) -> Result<(), CopyError> {
    layout::base_dirs().iter().try_for_each(|folder| suspect::make_folder(fs, folder)).map_err(target_failed)
}

/// Only one backup or restore writes to a store at a time.
fn exclusive<F: FileSystem>(fs: &F) -> Result<F::Lock, CopyError> {
    let lock = fs.lock(&layout::backup_lock(), LockMode::Exclusive, LOCK_WAIT).map_err(target_failed)?;
    lock.ok_or(CopyError::Busy)
}

fn writing_lock<F: FileSystem>(fs: &F) -> Result<F::Lock, CopyError> {
    let lock = fs.lock(&layout::store_lock(), LockMode::Shared, LOCK_WAIT).map_err(target_failed)?;
    lock.ok_or(CopyError::Busy)
}

/// Keeps sweeps out while the source is read. A read-only medium allows no lock, but no sweep either.
fn reading_lock<F: FileSystem>(fs: &F) -> Result<Option<F::Lock>, CopyError> {
    match fs.lock(&layout::store_lock(), LockMode::Shared, LOCK_WAIT) {
        Ok(Some(lock)) => Ok(Some(lock)),
        Ok(None) => Err(CopyError::Busy),
        Err(error) if matches!(error.kind, FsErrorKind::ReadOnly | FsErrorKind::PermissionDenied) => Ok(None),
        Err(error) => Err(source_failed(error)),
    }
}

/// A name in the sessions folder, with its session id or the reason why it is not one.
type Listed = (String, Result<SessionId, &'static str>);

/// Every session folder. An unreadable one is reported later, for that session alone.
fn sessions_of<F: FileSystem>(fs: &F) -> Result<Vec<Listed>, CopyError> {
    let entries = match fs.list(&layout::sessions()) {
        Err(error) if error.kind == FsErrorKind::NotFound => Vec::new(),
        listed => listed.map_err(source_failed)?,
    };
    let listed = entries.into_iter().filter_map(|entry| {
        let session = SessionId::parse(&entry.name).ok()?;
        let found = match entry.kind {
            FileKind::Directory => Ok(session),
            FileKind::Regular | FileKind::Other => Err("a file or a link is in the place of its folder"),
        };
        Some((entry.name, found))
    });
    Ok(listed.collect())
}

fn source_failed(error: FsError) -> CopyError {
    CopyError::Source(StoreError::Io(error))
}

fn target_failed(error: FsError) -> CopyError {
    CopyError::Target(UpkeepError::from(error))
}
