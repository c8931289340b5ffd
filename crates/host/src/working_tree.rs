//! The working tree as git sees it: what differs from HEAD, and a stamp for each such file (G104).
//!
//! `git status` knows best what belongs to a repository, so it is used. Nothing that the repository configures runs: no
//! hook, no file-system monitor, no filter, no external diff. It is stopped when it takes too long or prints too much.

use std::io::Read;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use camino::Utf8Path;
use workrail_model::digest::Sha256;
use workrail_model::evidence::{ContentStamp, DirtyFiles, NotSeenReason, TreeInspection, WorkingTree};
use workrail_model::text::BoundedText;

use crate::{bounded, timed_run};

/// A step takes minutes; a longer wait at its end is not acceptable.
const TIME_MAX: Duration = Duration::from_millis(2000);
/// Enough for about 40,000 paths.
const PRINTED_BYTES_MAX: usize = 4 * 1024 * 1024;
/// With more changed files than this, steps can no longer be distinguished.
const DIRTY_MAX: usize = 5000;
/// Larger files are identified by size and time.
const FILE_BYTES_MAX: u64 = 4 * 1024 * 1024;
/// Total size of the files that are read; the rest is identified by size and time.
const ALL_BYTES_MAX: u64 = 32 * 1024 * 1024;

/// Turned off regardless of what the repository configures.
const SETTINGS: [&str; 6] = [
    "core.fsmonitor=false",
    "core.hooksPath=/dev/null",
    "core.quotePath=false",
    "status.relativePaths=false",
    "diff.external=",
    "diff.ignoreSubmodules=dirty",
];

/// Inspects the repository with this root. `filters_off` are the settings that turn off its filters.
pub(crate) fn inspect(
    root: &Utf8Path,
    filters_off: &[String],
    branch: Option<String>,
    head: Option<String>,
) -> TreeInspection {
    // A repository can ask for more than its settings forbid: git would then also run the filters of submodules.
    let arguments = [
        "status",
        "--porcelain=v1",
        "-z",
        "--untracked-files=all",
        "--no-renames",
        "--ignore-submodules=dirty",
    ];
    match run(root, filters_off, &arguments) {
        Err(reason) => TreeInspection::NotSeen(reason),
        Ok(printed) => match dirty(root, &printed) {
            None => TreeInspection::NotSeen(NotSeenReason::TooLarge),
            Some(dirty) => TreeInspection::Seen(WorkingTree { branch, head, dirty }),
        },
    }
}

/// The files that differ between two commits; `None` if git cannot tell.
pub(crate) fn changed_between(root: &Utf8Path, from: &str, to: &str) -> Option<Vec<String>> {
    let is_commit = |text: &str| text.len() == 40 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    if !is_commit(from) || !is_commit(to) {
        return None;
    }
    let arguments =
        ["diff", "--name-only", "-z", "--no-renames", "--no-ext-diff", "--no-textconv", from, to, "--"];
    let printed = run(root, &[], &arguments).ok()?;
    Some(records(&printed).map(|path| String::from_utf8_lossy(path).into_owned()).collect())
}

/// What git printed with `-z` or `--null`.
pub(crate) fn records(printed: &[u8]) -> impl Iterator<Item = &[u8]> {
    printed.split(|byte| *byte == 0).filter(|record| !record.is_empty())
}

fn dirty(root: &Utf8Path, printed: &[u8]) -> Option<DirtyFiles> {
    let mut files = DirtyFiles::new();
    let mut left = ALL_BYTES_MAX;
    for record in records(printed) {
        // Two status letters and a space.
        let Some(path) = record.get(3..) else { continue };
        let path = String::from_utf8_lossy(path);
        let stamp = stamp(&root.join(path.trim_end_matches('/')), &mut left);
        // A path that is too long to record must still change the tree's fingerprint.
        let name = BoundedText::new(path.as_ref()).unwrap_or_else(|_| {
            BoundedText::clip(&format!("(long path) {}", Sha256::of(path.as_bytes()).hex()))
        });
        files.insert(name, stamp);
        if files.len() > DIRTY_MAX {
            return None;
        }
    }
    Some(files)
}

/// Equal for equal content.
fn stamp(path: &Utf8Path, left: &mut u64) -> ContentStamp {
    let Ok(metadata) = std::fs::symlink_metadata(path) else { return BoundedText::clip("absent") };
    if metadata.is_symlink() {
        let target = std::fs::read_link(path).unwrap_or_default();
        return BoundedText::clip(&format!("link {}", short(target.as_os_str().as_encoded_bytes())));
    }
    let size = metadata.len();
    if metadata.is_file()
        && size <= FILE_BYTES_MAX.min(*left)
        && let Ok(bytes) = bounded::read(path, FILE_BYTES_MAX)
    {
        *left = left.saturating_sub(size);
        let executable = if metadata.mode() & 0o100 == 0 { "" } else { "x " };
        return BoundedText::clip(&format!("{executable}{}", short(&bytes)));
    }
    BoundedText::clip(&format!("{size} bytes, {}.{}", metadata.mtime(), metadata.mtime_nsec()))
}

fn short(bytes: &[u8]) -> String {
    Sha256::of(bytes).hex()[..32].to_owned()
}

/// Runs git with nothing that the repository configures, and these settings `off`; returns what it printed.
pub(crate) fn run(root: &Utf8Path, off: &[String], arguments: &[&str]) -> Result<Vec<u8>, NotSeenReason> {
    let mut command = Command::new("git");
    command.env_clear();
    for name in ["PATH", "HOME", "XDG_CONFIG_HOME"] {
        if let Some(value) = std::env::var_os(name) {
            command.env(name, value);
        }
    }
    command.env("LC_ALL", "C").env("GIT_OPTIONAL_LOCKS", "0").env("GIT_NO_LAZY_FETCH", "1");
    for setting in SETTINGS.into_iter().chain(off.iter().map(String::as_str)) {
        command.args(["-c", setting]);
    }
    command.arg("--no-pager").args(arguments).current_dir(root);
    // A separate process group, so that whatever git starts ends with it.
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).process_group(0);
    let mut child = command.spawn().map_err(|_| NotSeenReason::GitFailed)?;
    let (sender, ended) = std::sync::mpsc::channel();
    if let Some(pipe) = child.stdout.take() {
        // Without a thread to spare the sender is dropped, and git counts as failed.
        let _ = std::thread::Builder::new().spawn(move || {
            let mut printed = Vec::new();
            let _ = pipe.take(PRINTED_BYTES_MAX as u64 + 1).read_to_end(&mut printed);
            let _ = sender.send(printed);
        });
    }
    let since = Instant::now();
    let printed = ended.recv_timeout(TIME_MAX);
    let is_over = matches!(&printed, Ok(printed) if printed.len() <= PRINTED_BYTES_MAX);
    if !is_over {
        timed_run::end(&mut child);
    }
    // It has closed its output, so it is about to end, or it was ended.
    let status = child.wait();
    let Ok(printed) = printed else {
        return Err(if since.elapsed() >= TIME_MAX {
            NotSeenReason::TimedOut
        } else {
            NotSeenReason::GitFailed
        });
    };
    if printed.len() > PRINTED_BYTES_MAX {
        return Err(NotSeenReason::TooLarge);
    }
    match status {
        Ok(status) if status.success() => Ok(printed),
        Ok(_) | Err(_) => Err(NotSeenReason::GitFailed),
    }
}

#[cfg(test)]
#[path = "working_tree_tests.rs"]
mod tests;
