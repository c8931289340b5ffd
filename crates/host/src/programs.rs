//! Programs on this machine, found on the user's path and started directly, never through a shell.

use std::os::unix::fs::PermissionsExt as _;

use camino::{Utf8Path, Utf8PathBuf};

/// The first program of this name on the path. Relative entries of the path are skipped: they would find programs in
/// the user's working folder.
pub(crate) fn find(name: &str) -> Option<Utf8PathBuf> {
    let path = std::env::var("PATH").unwrap_or_default();
    let folders = path.split(':').map(Utf8Path::new).filter(|folder| folder.is_absolute());
    folders.map(|folder| folder.join(name)).find(|program| is_program(program))
}

pub(crate) fn is_program(path: &Utf8Path) -> bool {
    std::fs::metadata(path).is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}
