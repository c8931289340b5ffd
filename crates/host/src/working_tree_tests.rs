//! A real repository, looked at as an advance does.

use camino::{Utf8Path, Utf8PathBuf};

use super::*;

fn git(root: &Utf8Path, arguments: &[&str]) -> String {
    workrail_testkit::git::run(root.as_std_path(), root.as_std_path(), arguments)
}

/// A repository with some files in one commit.
fn repository(files: usize) -> (tempfile::TempDir, Utf8PathBuf) {
    let folder = tempfile::tempdir().expect("a folder");
    let root = Utf8Path::from_path(folder.path()).expect("a path in UTF-8").to_owned();
    for file in 0..files {
        let path = root.join(format!("src/{}/{file}.txt", file % 50));
        std::fs::create_dir_all(path.parent().expect("it is in a folder")).expect("a folder");
        std::fs::write(path, format!("file {file}\n")).expect("a file");
    }
    git(&root, &["init", "-q", "-b", "main"]);
    git(&root, &["add", "."]);
    git(&root, &["commit", "-q", "-m", "one"]);
    (folder, root)
}

fn seen(root: &Utf8Path) -> WorkingTree {
    match inspect(root, &[], None, None) {
        TreeInspection::Seen(tree) => tree,
        other @ (TreeInspection::NoRepository | TreeInspection::NotSeen(_)) => {
            panic!("the tree is seen: {other:?}")
        }
    }
}

#[test]
fn every_change_of_content_is_another_mark() {
    let (_folder, root) = repository(3);
    assert!(seen(&root).dirty.is_empty());
    std::fs::write(root.join("src/0/0.txt"), "edited\n").expect("a file");
    std::fs::write(root.join("new ü.txt"), "new\n").expect("a file");
    std::fs::remove_file(root.join("src/1/1.txt")).expect("it was there");
    let first = seen(&root);
    let paths: Vec<&str> = first.dirty.keys().map(|path| path.as_str()).collect();
    assert_eq!(paths, ["new ü.txt", "src/0/0.txt", "src/1/1.txt"]);
    assert_eq!(seen(&root).fingerprint(), first.fingerprint(), "looking changes nothing");
    std::fs::write(root.join("src/0/0.txt"), "EDITED\n").expect("a file");
    let second = seen(&root);
    assert_ne!(second.fingerprint(), first.fingerprint());
    assert_eq!(second.dirty.keys().collect::<Vec<_>>(), first.dirty.keys().collect::<Vec<_>>());
}

#[test]
fn commits_are_compared_by_their_files() {
    let (_folder, root) = repository(2);
    let before = git(&root, &["rev-parse", "HEAD"]);
    std::fs::write(root.join("two.txt"), "two\n").expect("a file");
    git(&root, &["add", "."]);
    git(&root, &["commit", "-q", "-m", "two"]);
    let after = git(&root, &["rev-parse", "HEAD"]);
    assert_eq!(changed_between(&root, &before, &after), Some(vec!["two.txt".to_owned()]));
    assert_eq!(changed_between(&root, "--output=x", &after), None, "only commits are compared");
}

#[test]
fn a_folder_that_git_rejects_is_not_seen() {
    let folder = tempfile::tempdir().expect("a folder");
    let root = Utf8Path::from_path(folder.path()).expect("a path in UTF-8");
    assert_eq!(inspect(root, &[], None, None), TreeInspection::NotSeen(NotSeenReason::GitFailed));
}

/// G104: a repository that asks for its submodules to be compared does not get their filters run.
#[test]
fn filters_of_submodules_do_not_run() {
    let (folder, root) = repository(1);
    let (_inner_folder, inner) = repository(1);
    git(&root, &["-c", "protocol.file.allow=always", "submodule", "add", "-q", inner.as_str(), "m"]);
    git(&root, &["config", "-f", ".gitmodules", "submodule.m.ignore", "none"]);
    let ran = folder.path().join("ran");
    git(&root.join("m"), &["config", "filter.evil.clean", &format!("touch {}; cat", ran.display())]);
    std::fs::write(root.join("m/.gitattributes"), "* filter=evil\n").expect("a file");
    std::fs::write(root.join("m/src/0/0.txt"), "edited\n").expect("a file");
    seen(&root);
    assert!(!ran.exists(), "the filter of the submodule ran");
}
