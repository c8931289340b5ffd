//! Real repositories whose configuration changes between two questions.

use std::process::Command;

use super::*;

fn git(root: &Utf8Path, arguments: &[&str]) {
    workrail_testkit::git::run(root.as_std_path(), root.as_std_path(), arguments);
}

fn repository() -> (tempfile::TempDir, Utf8PathBuf) {
    let folder = tempfile::tempdir().expect("a folder");
    let root = Utf8Path::from_path(folder.path()).expect("a path in UTF-8").to_owned();
    git(&root, &["init", "-q", "-b", "main"]);
    (folder, root)
}

fn names_at(known: &FilterNames, root: &Utf8Path, now: SystemTime) -> Vec<String> {
    let git = root.join(".git");
    let settings = known.settings_off(root, &git, &git, now).expect("git answers");
    settings.into_iter().filter_map(|setting| Some(setting.strip_suffix(".clean=")?.to_owned())).collect()
}

/// An hour later, when no file was written recently.
fn names(known: &FilterNames, root: &Utf8Path) -> Vec<String> {
    names_at(known, root, SystemTime::now() + Duration::from_secs(3600))
}

fn is_cached(known: &FilterNames) -> bool {
    !known.cached().is_empty()
}

#[test]
fn a_filter_that_is_configured_later_is_found() {
    let (_folder, root) = repository();
    let known = FilterNames::default();
    let before = names(&known, &root);
    // The configuration of the person who runs the tests counts as well.
    let includes =
        Command::new("git").args(["config", "--get-regexp", "^include"]).current_dir(&root).output();
    let has_includes = !includes.expect("git runs").stdout.is_empty();
    assert_eq!(is_cached(&known), !has_includes, "git is asked again only if a file includes another");
    assert_eq!(names(&known, &root), before);
    git(&root, &["config", "filter.evil.clean", "touch evil"]);
    assert!(names(&known, &root).contains(&"filter.evil".to_owned()));
}

#[test]
fn an_included_file_is_read_every_time() {
    let (_folder, root) = repository();
    let known = FilterNames::default();
    std::fs::write(root.join("more"), "").expect("a file");
    git(&root, &["config", "include.path", "../more"]);
    let before = names(&known, &root);
    assert!(!is_cached(&known));
    std::fs::write(root.join("more"), "[filter \"evil\"]\n  clean = touch evil\n").expect("a file");
    assert!(!before.contains(&"filter.evil".to_owned()));
    assert!(names(&known, &root).contains(&"filter.evil".to_owned()));
}

#[test]
fn a_configuration_that_was_just_written_is_read_again() {
    let (_folder, root) = repository();
    let known = FilterNames::default();
    names_at(&known, &root, SystemTime::now());
    assert!(!is_cached(&known));
}

#[test]
fn an_answer_that_git_could_not_give_is_not_cached() {
    let folder = tempfile::tempdir().expect("a folder");
    let root = Utf8Path::from_path(folder.path()).expect("a path in UTF-8").join("absent");
    let known = FilterNames::default();
    let now = SystemTime::now() + Duration::from_secs(3600);
    assert_eq!(known.settings_off(&root, &root, &root, now), Err(NotSeenReason::GitFailed));
    assert!(!is_cached(&known));
}

#[test]
fn a_filter_that_cannot_be_turned_off_is_an_error() {
    for name in [b"a=b".as_slice(), b"\xff"] {
        let (_folder, root) = repository();
        let mut config = std::fs::read(root.join(".git/config")).expect("git wrote it");
        config.extend([b"[filter \"".as_slice(), name, b"\"]\n  clean = touch evil\n"].concat());
        std::fs::write(root.join(".git/config"), config).expect("a file");
        let git = root.join(".git");
        let now = SystemTime::now() + Duration::from_secs(3600);
        let known = FilterNames::default();
        assert_eq!(known.settings_off(&root, &git, &git, now), Err(NotSeenReason::GitFailed));
    }
}
