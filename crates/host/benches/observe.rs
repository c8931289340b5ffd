//! What looking at a working tree costs: an advance waits for it (G104).
//!
//! Prints the best of several runs and fails above the target: at most twice as long as `git status`.
#![expect(clippy::print_stdout, reason = "a benchmark reports")]
#![expect(clippy::unwrap_used, reason = "a benchmark stops at the first surprise")]

use std::fs;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use workrail_host::workspace::GitObserver;
use workrail_model::evidence::TreeInspection;
use workrail_ports::workspace::{WorkspaceObserver as _, WorkspacePath};
use workrail_testkit::git;

const FILES: usize = 5_000;
const EDITED: usize = 20;
const REPETITIONS: usize = 21;
const RATIO_MAX: f64 = 2.0;

fn main() -> ExitCode {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    let write = |file: usize, text: &str| {
        let path = root.join(format!("src/{}/{file}.txt", file % 50));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    (0..FILES).for_each(|file| write(file, &format!("file {file}\n")));
    git::run(root, root, &["init", "--quiet"]);
    git::run(root, root, &["add", "."]);
    git::run(root, root, &["commit", "--quiet", "--message=one"]);
    (0..EDITED).for_each(|file| write(file, "edited\n"));
    let workspace = WorkspacePath::parse(root.to_str().unwrap()).unwrap();
    let observer = GitObserver::default();
    let (mut status, mut look) = (Duration::MAX, Duration::MAX);
    // Alternated, so that a change in the machine's load affects both.
    for _ in 0..REPETITIONS {
        status = status.min(time(|| listed(root)));
        look = look.min(time(|| match observer.inspect_tree(&workspace) {
            TreeInspection::Seen(tree) => tree.dirty.len(),
            TreeInspection::NoRepository | TreeInspection::NotSeen(_) => 0,
        }));
    }
    let ratio = look.as_secs_f64() / status.as_secs_f64();
    println!("{FILES} files, {EDITED} edited: git status {status:?}, look {look:?}");
    println!("look / git status: {ratio:.2} (at most {RATIO_MAX})");
    if ratio <= RATIO_MAX { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn listed(root: &Path) -> usize {
    git::run(root, root, &["status", "--porcelain", "--untracked-files=all"]).lines().count()
}

/// How long it takes to find all edited files.
fn time(look: impl Fn() -> usize) -> Duration {
    let began = Instant::now();
    let found = look();
    let took = began.elapsed();
    assert_eq!(found, EDITED, "every edited file is found");
    took
}
