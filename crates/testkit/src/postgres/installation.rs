//! The installed server, and folders with a fresh cluster.

use std::fs::{self, File, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::home::{NOBODY, User};
use crate::skipped::skip;

use super::SUPERUSER;

/// Where the programs of a server are that can run here; otherwise this is named as skipped.
pub(super) fn programs() -> Option<PathBuf> {
    let why = match newest_programs() {
        None => "PostgreSQL 15 or newer is not installed",
        Some(_) if User::find() == User::OnlyRoot => "setpriv cannot drop root, which PostgreSQL refuses",
        Some(programs) => return Some(programs),
    };
    skip("sessions on PostgreSQL", why);
    None
}

/// Where the newest installed server's programs are.
fn newest_programs() -> Option<PathBuf> {
    let versions = fs::read_dir("/usr/lib/postgresql").ok()?;
    let numbers = versions.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok());
    let newest = numbers.filter(|version| *version >= 15).max()?;
    let programs = PathBuf::from(format!("/usr/lib/postgresql/{newest}/bin"));
    programs.join("postgres").exists().then_some(programs)
}

/// A command that does not run as root, which PostgreSQL refuses.
pub(crate) fn unprivileged(program: &str) -> Command {
    match User::find() {
        User::Ourselves | User::OnlyRoot => Command::new(program),
        User::Nobody => {
            let id = NOBODY.to_string();
            let mut command = Command::new("setpriv");
            command.args(["--reuid", &id, "--regid", &id, "--clear-groups", program]);
            command
        }
    }
}

/// A folder with a fresh cluster, copied from one that is made once per build folder and server.
pub(super) fn folder_with_data(programs: &Path) -> PathBuf {
    // Directly in the folder for temporary files: the path of a socket has at most 107 bytes.
    let folder = tempfile::Builder::new().prefix("pg").tempdir().expect("a temporary folder").keep();
    let data = folder.join("data");
    let copied = Command::new("cp").arg("-a").arg(template(programs)).arg(&data).status();
    assert!(copied.is_ok_and(|status| status.success()), "the cluster could be copied");
    if User::find() == User::Nobody {
        let owner = format!("{NOBODY}:{NOBODY}");
        let given = Command::new("chown").args(["-R", &owner]).arg(&folder).status();
        assert!(given.is_ok_and(|status| status.success()), "the cluster could be given to nobody");
    }
    fs::set_permissions(&folder, Permissions::from_mode(0o755)).expect("the folder is ours");
    folder
}

fn template(programs: &Path) -> PathBuf {
    // target/PROFILE, above the test programs.
    let program = std::env::current_exe().expect("a test has a program");
    let home = program.ancestors().nth(2).expect("test programs are in target/PROFILE/deps");
    let version =
        programs.components().rev().nth(1).map(|part| part.as_os_str().to_owned()).unwrap_or_default();
    let template = home.join("postgres-template").join(version);
    fs::create_dir_all(template.parent().expect("it was just joined")).expect("the build folder is ours");
    let lock = File::create(template.with_extension("lock")).expect("the build folder is ours");
    lock.lock().expect("the lock is had");
    if !template.exists() {
        make_template(programs, &template);
    }
    template
}

fn make_template(programs: &Path, template: &Path) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    fs::set_permissions(folder.path(), Permissions::from_mode(0o777)).expect("the folder is ours");
    let data = folder.path().join("data");
    let made = unprivileged(programs.join("initdb").to_str().expect("a plain path"))
        .args(["-U", SUPERUSER, "-A", "trust", "-E", "UTF8", "--no-locale", "--no-sync", "-D"])
        .arg(&data)
        .current_dir(folder.path())
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .output()
        .expect("initdb is installed with the server");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let fresh = template.with_extension("new");
    let copied = Command::new("cp").arg("-a").arg(&data).arg(&fresh).status();
    assert!(copied.is_ok_and(|status| status.success()), "the cluster could be copied");
    fs::rename(&fresh, template).expect("the build folder is ours");
}
