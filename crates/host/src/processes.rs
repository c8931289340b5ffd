//! Processes on this machine: which ones started this one.

use std::io;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FileType, fstat};
use workrail_model::server::ProcessRef;

/// Programs that adopt orphans or start everything: descending from one says nothing about who started us.
const REAPERS: [&str; 10] = [
    "init",
    "systemd",
    "launchd",
    "tini",
    "dumb-init",
    "docker-init",
    "catatonit",
    "runit",
    "s6-svscan",
    "containerd-shim",
];

/// More generations than any shell has; stops at a loop in what the kernel reports.
const GENERATIONS_MAX: usize = 64;

/// A process that is running.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process {
    pub id: ProcessRef,
    /// The kernel's name for it, at most 15 bytes.
    pub name: String,
    parent: u32,
}

/// Whether another process holds the other end of standard input: an open pipe or socket. A terminal, a file and
/// `/dev/null` do not end with another process, and a pipe that is closed from the start, as under cron, was not
/// meant to last.
pub fn input_is_held() -> bool {
    let input = io::stdin();
    let kind = fstat(&input).map(|found| FileType::from_raw_mode(found.st_mode));
    if !matches!(kind, Ok(FileType::Fifo | FileType::Socket)) {
        return false;
    }
    let mut asked = [PollFd::new(&input, PollFlags::IN)];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut asked, Some(&now)).is_ok() && !asked[0].revents().contains(PollFlags::HUP)
}

/// The program that started this one; `None` if unknown, or if it is only a reaper.
pub fn parent() -> Option<Process> {
    process(std::os::unix::process::parent_id()).filter(|parent| !is_reaper(parent))
}

/// The processes above this one, nearest first, without reapers; `None` if they cannot be determined.
pub fn ancestors() -> Option<Vec<Process>> {
    let mut found = Vec::new();
    let mut next = std::os::unix::process::parent_id();
    while next != 0 && found.len() < GENERATIONS_MAX {
        // If a parent has just ended, the rest is unknown.
        let above = process(next)?;
        next = above.parent;
        found.push(above);
    }
    found.retain(|process| !is_reaper(process));
    Some(found)
}

/// Whether this exact process is running and visible from here; one in another container is not.
pub fn is_visible(wanted: ProcessRef) -> bool {
    process(wanted.process_id).is_some_and(|found| found.id == wanted)
}

fn is_reaper(process: &Process) -> bool {
    process.id.process_id == 1 || REAPERS.contains(&process.name.as_str())
}

/// The process that started a process, or that has adopted it since; `None` if the process is gone.
#[cfg(target_os = "linux")]
pub(crate) fn parent_of(process_id: u32) -> Option<u32> {
    process(process_id).map(|found| found.parent)
}

#[cfg(target_os = "linux")]
fn process(process_id: u32) -> Option<Process> {
    let stat = std::fs::read(format!("/proc/{process_id}/stat")).ok()?;
    // A name can be any bytes, and the kernel cuts a long one even within a character.
    parsed(process_id, &String::from_utf8_lossy(&stat))
}

#[cfg(not(target_os = "linux"))]
fn process(_: u32) -> Option<Process> {
    None
}

/// Parses `/proc/ID/stat`: the name is in brackets and may itself contain brackets and spaces.
#[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "read from /proc"))]
fn parsed(process_id: u32, stat: &str) -> Option<Process> {
    let (before, after) = stat.rsplit_once(')')?;
    let (_, name) = before.split_once('(')?;
    // After the name: state, parent, and 17 more before the start time.
    let mut fields = after.split_whitespace();
    let parent = fields.nth(1)?.parse().ok()?;
    let started_ticks = fields.nth(17)?.parse().ok()?;
    Some(Process { id: ProcessRef { process_id, started_ticks }, name: name.to_owned(), parent })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stat_line_is_read_whatever_the_name_holds() {
        let rest = "S 41 7 7 0 -1 4194304 1 0 0 0 0 0 0 0 20 0 1 0 98765 0 0";
        for name in ["sh", "a b", "odd) (name", ""] {
            let found = parsed(42, &format!("42 ({name}) {rest}\n")).unwrap();
            assert_eq!(found.name, name);
            assert_eq!((found.parent, found.id.process_id, found.id.started_ticks), (41, 42, 98_765));
        }
        for bad in ["", "42", "42 (sh", "42 (sh) S", "42 (sh) S x 7"] {
            assert_eq!(parsed(42, bad), None, "{bad:?}");
        }
    }

    #[test]
    fn only_the_first_process_and_programs_that_adopt_orphans_are_left_out() {
        let named = |process_id: u32, name: &str| {
            let rest = "S 1 7 7 0 -1 4194304 1 0 0 0 0 0 0 0 20 0 1 0 98765 0 0";
            parsed(process_id, &format!("{process_id} ({name}) {rest}\n")).unwrap()
        };
        assert!(is_reaper(&named(1, "bash")), "it adopts every orphan, whatever its name");
        // Outside a container, and as a service manager of a user or of a container.
        for name in REAPERS {
            assert!(is_reaper(&named(812, name)), "{name}");
            assert!(name.len() <= 15, "the kernel cuts longer names: {name}");
        }
        for name in ["bash", "claude", "node", "systemd-run", "init.sh", "runit2", ""] {
            assert!(!is_reaper(&named(812, name)), "{name:?}");
        }
    }

    /// Broke: such a process had no parent, so what a check left behind under such a name was not ended.
    #[cfg(target_os = "linux")]
    #[test]
    fn a_process_whose_name_is_not_utf8_has_a_parent() {
        use std::ffi::OsStr;
        use std::os::unix::ffi::OsStrExt as _;
        use std::os::unix::process::CommandExt as _;

        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join(OsStr::from_bytes(b"sleep\xff"));
        std::os::unix::fs::symlink("/bin/sleep", &program).unwrap();
        let mut child = std::process::Command::new(&program).arg0("sleep").arg("600").spawn().unwrap();
        let parent = parent_of(child.id());
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(parent, Some(std::process::id()));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn the_parent_is_the_first_ancestor() {
        let ancestors = ancestors().unwrap();
        if let Some(parent) = parent() {
            assert_eq!(ancestors.first().map(|process| process.id), Some(parent.id));
        }
        assert!(ancestors.iter().all(|process| process.id.process_id > 1));
        for process in ancestors {
            assert!(is_visible(process.id));
            let earlier = ProcessRef { started_ticks: process.id.started_ticks + 1, ..process.id };
            assert!(!is_visible(earlier), "a later process with the same number is another one");
        }
    }
}
