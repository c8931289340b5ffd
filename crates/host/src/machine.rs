//! The machine as `workrail doctor` sees it: programs on the path, free disk space, kind of disk.

use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

use camino::{Utf8Path, Utf8PathBuf};
use rustix::fs::Access;

use crate::timed_run::{self, RunLimits};
use crate::{bounded, programs};

/// A program on a slow disk needs seconds for its first start.
const VERSION_LIMITS: RunLimits = RunLimits { ms: 10_000, printed_bytes: 64 * 1024 };

/// Network file systems whose locks do not bind other machines, by magic number.
const NETWORK: [(u64, &str); 4] =
    [(0x6969, "NFS"), (0xff53_4d42, "CIFS"), (0xfe53_4d42, "SMB"), (0x6573_5546, "FUSE")];

/// Where a program is found by name; never in the working folder.
pub fn program(name: &str) -> Option<Utf8PathBuf> {
    programs::find(name)
}

/// The first line of a program's version output; `None` also if it takes too long.
pub fn version_of(program: &Utf8Path) -> Option<String> {
    version_within(program, VERSION_LIMITS)
}

fn version_within(program: &Utf8Path, limits: RunLimits) -> Option<String> {
    let mut command = Command::new(program);
    command.arg("--version");
    let printed =
        timed_run::run(command, String::new(), limits).ok().filter(|ended| ended.code == Some(0))?;
    printed.out.lines().next().map(str::to_owned)
}

/// The disk that holds a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Volume {
    pub free_bytes: u64,
    /// The name of the network file system, if it is one.
    pub network: Option<&'static str>,
}

pub fn volume(path: &Utf8Path) -> Option<Volume> {
    let room = rustix::fs::statvfs(path.as_std_path()).ok()?;
    let kind = rustix::fs::statfs(path.as_std_path()).ok()?;
    // The field is signed on some machines; only its low bits identify the file system.
    #[expect(clippy::cast_sign_loss, reason = "compared bit by bit")]
    let magic = kind.f_type as u64 & 0xffff_ffff;
    let network = NETWORK.iter().find(|(number, _)| *number == magic).map(|(_, name)| *name);
    Some(Volume { free_bytes: room.f_bavail.saturating_mul(room.f_frsize), network })
}

/// Whether this user may change the entries of a folder. False on a read-only disk, for root as well.
pub fn may_write_in(folder: &Utf8Path) -> bool {
    let wanted = Access::READ_OK | Access::WRITE_OK | Access::EXEC_OK;
    rustix::fs::access(folder.as_std_path(), wanted).is_ok()
}

/// Whether something other than a regular file is at the path; a link counts as such.
pub fn is_other_than_file(path: &Utf8Path) -> bool {
    std::fs::symlink_metadata(path).is_ok_and(|found| !found.is_file())
}

/// Whether the system lacked file handles or memory, which passes.
pub fn is_shortage(error: &io::Error) -> bool {
    bounded::is_shortage(error)
}

/// Whether users other than the owner may access a folder; `None` if it does not exist.
pub fn others_may_access(path: &Utf8Path) -> Option<bool> {
    std::fs::metadata(path).ok().map(|found| found.permissions().mode() & 0o077 != 0)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn script(folder: &tempfile::TempDir, text: &str) -> Utf8PathBuf {
        let path = Utf8PathBuf::from_path_buf(folder.path().join("program")).unwrap();
        fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    #[test]
    fn a_version_is_the_first_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = script(&folder, "echo 'tool 1.2'; echo more");
        assert_eq!(version_of(&path).as_deref(), Some("tool 1.2"));
        assert_eq!(version_of(&script(&folder, "echo 'tool 1.2'; exit 1")), None);
    }

    /// Broke: `doctor` waited for as long as the program ran.
    #[test]
    fn a_program_that_does_not_end_has_no_version() {
        let folder = tempfile::tempdir().unwrap();
        let path = script(&folder, "echo 'tool 1.2'; exec sleep 600");
        assert_eq!(version_within(&path, RunLimits { ms: 50, ..VERSION_LIMITS }), None);
    }
}
