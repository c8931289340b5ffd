//! Which commands a person has trusted: a file owned by the user, outside every workspace (G121).
//!
//! It is always in the user's configuration folder, regardless of WorkRail's settings and variables: a repository
//! that brings settings must not bring trust. A file that others can write, or that is inside the workspace, trusts
//! nothing.

use std::fs::{File, TryLockError};
use std::os::unix::fs::MetadataExt as _;
use std::time::{Duration, Instant};

use camino::{Utf8Path, Utf8PathBuf};
use serde::{Deserialize, Serialize};
use workrail_model::digest::WorkflowHash;
use workrail_model::limits::TRUST_FILE_BYTES_MAX;
use workrail_model::name::{CheckName, WorkflowId};
use workrail_model::time::Timestamp;

use crate::config::ConfigPath;
use crate::{bounded, whole_file};

const VERSION: u32 = 1;
const FILE: &str = "trusted-checks.json";

/// Changing the file takes milliseconds; a process that holds the lock longer hangs.
const LOCK_WAIT_MAX: Duration = Duration::from_secs(5);
const LOCK_RETRY: Duration = Duration::from_millis(10);

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TrustError {
    #[error("no home directory was found, so there is no place for what you trust")]
    NoHome,
    #[error("{path} cannot be used: {problem}")]
    Unusable { path: Utf8PathBuf, problem: String },
}

/// Exactly what is trusted. If any part differs, it is another command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TrustedCommand {
    /// The root of the workspace, with links resolved.
    pub workspace: Utf8PathBuf,
    pub workflow_hash: WorkflowHash,
    pub check: CheckName,
    pub argv: Vec<String>,
    /// The executable, as an absolute path.
    pub program: Utf8PathBuf,
    /// Where it runs, relative to the root.
    pub directory: Utf8PathBuf,
}

/// A trusted command, with what helps people recognise it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TrustRecord {
    pub command: TrustedCommand,
    pub workflow_id: WorkflowId,
    pub trusted_at: Timestamp,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct TrustRecords {
    v: u32,
    trusted: Vec<TrustRecord>,
}

/// The file that lists what this user trusts.
#[derive(Clone, Debug)]
pub struct TrustFile {
    path: Utf8PathBuf,
}

impl TrustFile {
    pub fn of_user() -> Result<Self, TrustError> {
        let config = ConfigPath::of_user().map_err(|_| TrustError::NoHome)?;
        Ok(Self { path: config.path.with_file_name(FILE) })
    }

    pub fn path(&self) -> &Utf8Path {
        &self.path
    }

    /// Everything that is trusted.
    pub fn read(&self) -> Result<Vec<TrustRecord>, TrustError> {
        let unusable = |problem: String| TrustError::Unusable { path: self.path.clone(), problem };
        let metadata = match std::fs::symlink_metadata(&self.path) {
            Ok(metadata) => metadata,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(unusable(error.to_string())),
        };
        // A link has a mode of its own, which says nothing.
        if !metadata.is_file() {
            return Err(unusable("it is not a regular file".to_owned()));
        }
        if metadata.mode() & 0o022 != 0 {
            return Err(unusable("others can write to it; give it mode 0600".to_owned()));
        }
        if metadata.uid() != rustix::process::geteuid().as_raw() {
            return Err(unusable("it belongs to another user".to_owned()));
        }
        let bytes =
            bounded::read(&self.path, TRUST_FILE_BYTES_MAX).map_err(|error| unusable(error.to_string()))?;
        let written: TrustRecords =
            serde_json::from_slice(&bytes).map_err(|error| unusable(error.to_string()))?;
        match written.v {
            VERSION => Ok(written.trusted),
            other => Err(unusable(format!("it has the version {other}; this program knows {VERSION}"))),
        }
    }

    /// Whether exactly this command is trusted. An unreadable file trusts nothing.
    pub(super) fn trusts(&self, command: &TrustedCommand) -> bool {
        // Anyone who can write to the workspace could write to a trust file inside it.
        let is_outside = !self.path.starts_with(&command.workspace)
            && !self.path.canonicalize_utf8().is_ok_and(|path| path.starts_with(&command.workspace));
        is_outside && self.read().is_ok_and(|all| all.iter().any(|record| record.command == *command))
    }

    /// Adds records, replacing those for the same check of the same workflow in the same workspace.
    pub fn add(&self, new: Vec<TrustRecord>) -> Result<(), TrustError> {
        let _changing = self.lock()?;
        let mut all = self.read()?;
        let is_same = |a: &TrustedCommand, b: &TrustedCommand| {
            (&a.workspace, a.workflow_hash, &a.check) == (&b.workspace, b.workflow_hash, &b.check)
        };
        all.retain(|record| !new.iter().any(|new| is_same(&record.command, &new.command)));
        all.extend(new);
        self.write(all)
    }

    /// Removes the records for which `is_meant` holds, and returns them.
    pub fn remove(&self, is_meant: impl Fn(&TrustRecord) -> bool) -> Result<Vec<TrustRecord>, TrustError> {
        let _changing = self.lock()?;
        let (removed, remaining): (Vec<_>, Vec<_>) = self.read()?.into_iter().partition(is_meant);
        if !removed.is_empty() {
            self.write(remaining)?;
        }
        Ok(removed)
    }

    /// Held while the file is changed: a revocation must not be undone by another process that has read it before.
    fn lock(&self) -> Result<File, TrustError> {
        let unusable = |problem: String| TrustError::Unusable { path: self.path.clone(), problem };
        if let Some(folder) = self.path.parent() {
            whole_file::create_private_folder(folder).map_err(|error| unusable(error.to_string()))?;
        }
        let file = bounded::open_lock(&self.path.with_extension("lock"))
            .map_err(|error| unusable(format!("its lock: {error}")))?;
        let limit = Instant::now() + LOCK_WAIT_MAX;
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(file),
                Err(TryLockError::WouldBlock) if Instant::now() < limit => std::thread::sleep(LOCK_RETRY),
                Err(TryLockError::WouldBlock) => {
                    return Err(unusable("another process is changing it; try again".to_owned()));
                }
                Err(TryLockError::Error(error)) => return Err(unusable(format!("its lock: {error}"))),
            }
        }
    }

    fn write(&self, trusted: Vec<TrustRecord>) -> Result<(), TrustError> {
        let unusable = |problem: String| TrustError::Unusable { path: self.path.clone(), problem };
        let text = serde_json::to_string_pretty(&TrustRecords { v: VERSION, trusted })
            .map_err(|error| unusable(error.to_string()))?;
        if text.len() as u64 > TRUST_FILE_BYTES_MAX {
            return Err(unusable(
                "it would be too large; `workrail trust revoke` removes what is not needed".to_owned(),
            ));
        }
        whole_file::write_private(&self.path, &text).map_err(|error| unusable(error.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn command(workspace: &str) -> TrustedCommand {
        TrustedCommand {
            workspace: workspace.into(),
            workflow_hash: WorkflowHash::of(b"workflow"),
            check: CheckName::parse("test").unwrap(),
            argv: vec!["make".to_owned(), "test".to_owned()],
            program: "/usr/bin/make".into(),
            directory: ".".into(),
        }
    }

    fn record(command: TrustedCommand) -> TrustRecord {
        TrustRecord {
            command,
            workflow_id: WorkflowId::parse("team.fix").unwrap(),
            trusted_at: Timestamp::parse("2026-01-02T03:04:05.678Z").unwrap(),
        }
    }

    fn file(folder: &tempfile::TempDir) -> TrustFile {
        TrustFile { path: Utf8Path::from_path(folder.path()).unwrap().join("config/trusted-checks.json") }
    }

    #[test]
    fn only_the_exact_command_is_trusted() {
        let folder = tempfile::tempdir().unwrap();
        let file = file(&folder);
        let trusted = command("/work");
        assert!(!file.trusts(&trusted));
        file.add(vec![record(trusted.clone())]).unwrap();
        assert!(file.trusts(&trusted));
        assert_eq!(std::fs::metadata(file.path()).unwrap().permissions().mode() & 0o777, 0o600);
        let others = [
            command("/other"),
            TrustedCommand { workflow_hash: WorkflowHash::of(b"other"), ..trusted.clone() },
            TrustedCommand { check: CheckName::parse("lint").unwrap(), ..trusted.clone() },
            TrustedCommand { argv: vec!["make".to_owned()], ..trusted.clone() },
            TrustedCommand { program: "/tmp/make".into(), ..trusted.clone() },
            TrustedCommand { directory: "x".into(), ..trusted.clone() },
        ];
        for other in others {
            assert!(!file.trusts(&other), "{other:?}");
        }
        assert_eq!(file.remove(|_| true).unwrap().len(), 1);
        assert!(!file.trusts(&trusted));
    }

    #[test]
    fn trusting_again_replaces_the_record() {
        let folder = tempfile::tempdir().unwrap();
        let file = file(&folder);
        let trusted = command("/work");
        file.add(vec![record(trusted.clone())]).unwrap();
        let other = TrustedCommand { argv: vec!["make".to_owned()], ..trusted.clone() };
        file.add(vec![record(other.clone())]).unwrap();
        assert!(file.trusts(&other) && !file.trusts(&trusted));
    }

    #[test]
    fn a_file_that_others_can_write_or_that_is_in_the_workspace_trusts_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let file = file(&folder);
        let trusted = command("/work");
        let inside = command(folder.path().canonicalize().unwrap().to_str().unwrap());
        file.add(vec![record(trusted.clone()), record(inside.clone())]).unwrap();
        assert!(!file.trusts(&inside));
        std::fs::set_permissions(file.path(), std::fs::Permissions::from_mode(0o666)).unwrap();
        assert!(!file.trusts(&trusted));
    }
    #[test]
    fn a_lock_that_stays_held_or_is_no_regular_file_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let file = file(&folder);
        let held = file.lock().unwrap();
        let refused = file.remove(|_| true).unwrap_err();
        assert!(refused.to_string().contains("another process is changing it"), "{refused}");
        drop(held);
        file.remove(|_| true).unwrap();
        let lock = file.path.with_extension("lock");
        std::fs::remove_file(&lock).unwrap();
        let target = lock.with_extension("target");
        std::os::unix::fs::symlink(&target, &lock).unwrap();
        assert!(file.remove(|_| true).is_err());
        assert!(!target.exists(), "the link was followed");
        std::fs::remove_file(&lock).unwrap();
        rustix::fs::mkfifoat(
            rustix::fs::CWD,
            lock.as_std_path(),
            rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
        )
        .unwrap();
        assert!(file.remove(|_| true).is_err());
    }
}
