//! Git repositories as owners and attackers leave them, using local bare repositories and the real git.

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use camino::{Utf8Path, Utf8PathBuf};
use workrail_host::sources::{Mirror, SourceState, Sources, SyncError, Synced};
use workrail_model::config::{GitProblem, GitSource};
use workrail_model::discovery::Precedence;
use workrail_ports::workflow_source::{SourceListing, WorkflowSource};
use workrail_testkit::git;

/// A repository with a working tree, and a data directory that fetches from it.
struct Scene {
    folder: tempfile::TempDir,
}

impl Scene {
    fn new() -> Self {
        let scene = Self { folder: tempfile::tempdir().unwrap() };
        fs::create_dir(scene.path("data")).unwrap();
        fs::create_dir(scene.path("repo")).unwrap();
        scene.git(&["init", "--quiet"]);
        scene
    }

    fn path(&self, below: &str) -> Utf8PathBuf {
        Utf8Path::from_path(self.folder.path()).unwrap().join(below)
    }

    fn git(&self, arguments: &[&str]) -> String {
        self.git_with(arguments, b"")
    }

    fn git_with(&self, arguments: &[&str], input: &[u8]) -> String {
        git::run_with_input(self.folder.path(), self.path("repo").as_std_path(), arguments, input)
    }

    fn write(&self, below: &str, text: &str) -> &Self {
        let path = self.path("repo").join(below);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
        self
    }

    fn commit(&self) -> String {
        self.git(&["add", "--all"]);
        self.git(&["commit", "--quiet", "--allow-empty", "--message=change"]);
        self.git(&["rev-parse", "HEAD"])
    }

    fn source(&self) -> GitSource {
        GitSource { allow_local: true, ..GitSource::new(self.path("repo").as_str()) }
    }

    fn sources(&self, source: GitSource) -> Sources {
        let git = BTreeMap::from([("team".to_owned(), source)]);
        Sources::new(None, Vec::new()).with_git(&git, &self.path("data"))
    }
}

fn mirror(sources: &Sources) -> &Mirror {
    &sources.mirrors()[0]
}

fn list(sources: &Sources) -> SourceListing {
    sources.list(None)
}

/// Reference and content of what was found.
fn found(sources: &Sources) -> Vec<(String, String)> {
    let listing = list(sources);
    let own = listing.files.iter().filter(|file| file.precedence == Precedence::Git);
    own.map(|file| (file.reference.clone(), String::from_utf8(sources.read(file).unwrap()).unwrap()))
        .collect()
}

fn references(sources: &Sources) -> Vec<String> {
    found(sources).into_iter().map(|(reference, _)| reference).collect()
}

fn problems(sources: &Sources) -> Vec<(String, String)> {
    list(sources).problems.into_iter().map(|problem| (problem.reference, problem.problem)).collect()
}

#[test]
fn a_branch_is_fetched_served_and_followed() {
    let scene = Scene::new();
    let first = scene.write("a.json", "1").write("deep/b.jsonc", "2").write("readme.md", "").commit();
    let sources = scene.sources(scene.source());
    assert_eq!(mirror(&sources).state().state, SourceState::NeverFetched);
    assert_eq!(problems(&sources), [("team".to_owned(), "it was never fetched".to_owned())]);
    let synced = mirror(&sources).sync();
    assert_eq!(synced, Ok(Synced::Updated { commit: first.clone(), files: 2 }));
    let pair = |reference: &str, text: &str| (reference.to_owned(), text.to_owned());
    assert_eq!(found(&sources), [pair("team/a.json", "1"), pair("team/deep/b.jsonc", "2")]);
    assert_eq!(problems(&sources), []);
    assert_eq!(mirror(&sources).sync(), Ok(Synced::Unchanged { commit: first, files: 2 }));
    let second = scene.write("a.json", "3").commit();
    assert_eq!(found(&sources)[0], pair("team/a.json", "1"), "nothing is fetched by looking");
    assert_eq!(mirror(&sources).sync(), Ok(Synced::Updated { commit: second, files: 2 }));
    assert_eq!(found(&sources)[0], pair("team/a.json", "3"));
    assert_eq!(mirror(&sources).state().state, SourceState::Ok);
}

#[test]
fn a_tag_and_a_commit_stay_where_they_are_and_a_folder_narrows() {
    let scene = Scene::new();
    let first = scene.write("flows/a.json", "1").write("other/b.json", "2").commit();
    scene.git(&["tag", "-a", "v1", "-m", "one"]);
    scene.write("flows/a.json", "3").commit();
    for pin in ["v1", "refs/tags/v1", first.as_str()] {
        let source =
            GitSource { r#ref: Some(pin.to_owned()), folder: Some("flows/".to_owned()), ..scene.source() };
        let sources = scene.sources(source);
        assert_eq!(mirror(&sources).sync(), Ok(Synced::Updated { commit: first.clone(), files: 1 }), "{pin}");
        assert_eq!(found(&sources), [("team/a.json".to_owned(), "1".to_owned())], "{pin}");
    }
    let pinned = scene.sources(GitSource { r#ref: Some(first), ..scene.source() });
    mirror(&pinned).sync().unwrap();
    assert_eq!(mirror(&pinned).due_in(), None, "a commit is fetched once");
    let absent = scene.sources(GitSource { folder: Some("nowhere".to_owned()), ..scene.source() });
    let failed = mirror(&absent).sync();
    assert_eq!(failed, Err(SyncError::Failed("the commit has no folder `nowhere`".to_owned())));
    let unknown = scene.sources(GitSource { r#ref: Some("nothing".to_owned()), ..scene.source() });
    assert!(matches!(mirror(&unknown).sync(), Err(SyncError::Failed(said)) if said.contains("nothing")));
}

/// G92: the version that was fetched last is served, and a failed fetch changes only the reason.
#[test]
fn the_last_commit_keeps_being_served_when_the_repository_is_gone() {
    let scene = Scene::new();
    let first = scene.write("a.json", "1").commit();
    let sources = scene.sources(scene.source());
    mirror(&sources).sync().unwrap();
    let fetched = mirror(&sources).state().fetched_at_ms;
    fs::rename(scene.path("repo"), scene.path("elsewhere")).unwrap();
    assert!(matches!(mirror(&sources).sync(), Err(SyncError::Failed(_))));
    assert_eq!(references(&sources), ["team/a.json"]);
    let state = mirror(&sources).state();
    assert_eq!((state.state, state.commit, state.fetched_at_ms), (SourceState::Stale, Some(first), fetched));
    assert!(state.problem.unwrap().contains("served"));
    fs::rename(scene.path("elsewhere"), scene.path("repo")).unwrap();
    mirror(&sources).sync().unwrap();
    assert_eq!(mirror(&sources).state().state, SourceState::Ok);
}

#[test]
fn special_files_are_reported_and_nothing_in_the_repository_runs() {
    let scene = Scene::new();
    let evidence = scene.path("evidence");
    scene
        .write("good.json", "{}")
        .write(".gitattributes", "*.json filter=evil\n")
        .write(".hidden/x.json", "{}");
    scene.write("large.json", &"x".repeat(1_000_001));
    symlink("/etc/passwd", scene.path("repo/link.json")).unwrap();
    let base = scene.commit();
    // A submodule, written as git would.
    scene.git(&["update-index", "--add", "--cacheinfo", &format!("160000,{base},sub")]);
    scene.git(&["commit", "--quiet", "--message=submodule"]);
    // Hooks and filters of the fetched repository, each of which would leave a trace.
    for hook in ["post-checkout", "reference-transaction", "post-merge"] {
        let path = scene.path("repo/.git/hooks").join(hook);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, format!("#!/bin/sh\ntouch {evidence}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    scene.git(&["config", "filter.evil.smudge", &format!("touch {evidence}")]);
    let sources = scene.sources(scene.source());
    assert!(matches!(mirror(&sources).sync(), Ok(Synced::Updated { files: 1, .. })));
    assert_eq!(found(&sources), [("team/good.json".to_owned(), "{}".to_owned())]);
    let said = problems(&sources);
    let names: Vec<&str> = said.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["team/large.json", "team/link.json", "team/sub"], "{said:?}");
    assert!(!evidence.exists());
}

#[test]
fn many_files_are_read_up_to_the_limit() {
    let scene = Scene::new();
    let mut stream = Vec::from(
        &b"commit refs/heads/main\ncommitter T <t@example.com> 1577836800 +0000\ndata 4\nmany\n"[..],
    );
    for number in 0..10_001 {
        let text = format!("{{\"n\":{number}}}");
        let file = format!("M 100644 inline f/{number:05}.json\ndata {}\n{text}\n", text.len());
        stream.extend_from_slice(file.as_bytes());
    }
    scene.git_with(&["fast-import", "--quiet", "--force"], &stream);
    let sources = scene.sources(scene.source());
    assert!(matches!(mirror(&sources).sync(), Ok(Synced::Updated { files: 10_000, .. })));
    assert_eq!(list(&sources).files.iter().filter(|file| file.precedence == Precedence::Git).count(), 10_000);
    let said = problems(&sources);
    assert_eq!(said.len(), 1);
    assert!(said[0].0 == "team/f/10000.json" && said[0].1.contains("more than 10000"), "{said:?}");
}

#[test]
fn an_address_with_tricks_is_listed_with_the_reason_and_git_is_never_started() {
    let scene = Scene::new();
    let evidence = scene.path("evidence");
    for (url, expected) in [
        (format!("ext::touch {evidence}"), GitProblem::Characters),
        (format!("ext::touch%20{evidence}"), GitProblem::Helper),
        (format!("-oProxyCommand=touch${{IFS}}{evidence}"), GitProblem::Option),
        (format!("ssh://-oProxyCommand=touch%20{evidence}/x"), GitProblem::Host),
        ("https://me:secret@example.com/a".to_owned(), GitProblem::Credentials),
        ("http://example.com/a".to_owned(), GitProblem::Transport),
        ("https://example.com/a\nb".to_owned(), GitProblem::Characters),
        (scene.path("repo").to_string(), GitProblem::Local),
        (format!("file://{}", scene.path("repo")), GitProblem::Local),
    ] {
        let sources = scene.sources(GitSource::new(&url));
        assert_eq!(mirror(&sources).sync(), Err(SyncError::Refused(expected)), "{url}");
        assert_eq!(mirror(&sources).state().state, SourceState::Refused);
        let said = problems(&sources);
        assert_eq!(said.len(), 1, "{url}");
        assert!(said[0].0 == "team" && said[0].1.contains("never fetched"), "{said:?}");
        assert!(!format!("{sources:?}{said:?}").contains("secret"));
    }
    let option = GitSource { r#ref: Some(format!("--upload-pack=touch {evidence}")), ..scene.source() };
    assert_eq!(mirror(&scene.sources(option)).sync(), Err(SyncError::Refused(GitProblem::Ref)));
    assert!(!evidence.exists());
    assert!(!scene.path("data/sources").exists(), "nothing is made for a refused source");
}

#[test]
fn a_file_address_works_with_the_switch() {
    let scene = Scene::new();
    scene.write("a.json", "1").commit();
    let url = format!("file://{}", scene.path("repo"));
    let sources = scene.sources(GitSource { allow_local: true, ..GitSource::new(&url) });
    assert!(mirror(&sources).sync().is_ok());
}

/// G92: one process fetches at a time, and serving waits for none.
#[test]
fn two_processes_do_not_fetch_at_once() {
    let scene = Scene::new();
    scene.write("a.json", "1").commit();
    let sources = scene.sources(scene.source());
    mirror(&sources).sync().unwrap();
    let folder = fs::read_dir(scene.path("data/sources/git")).unwrap().next().unwrap().unwrap().path();
    let lock = fs::File::options().write(true).open(folder.join("lock")).unwrap();
    lock.lock().unwrap();
    assert_eq!(mirror(&sources).sync(), Err(SyncError::Busy));
    assert_eq!(references(&sources), ["team/a.json"], "serving waits for nobody");
    drop(lock);
    assert!(mirror(&sources).sync().is_ok());
}

/// Broke: a pipe blocked the fetch for good, and a link was followed.
#[test]
fn a_pipe_or_a_link_in_the_place_of_the_lock_is_refused() {
    let scene = Scene::new();
    scene.write("a.json", "1").commit();
    let sources = scene.sources(scene.source());
    mirror(&sources).sync().unwrap();
    let folder = fs::read_dir(scene.path("data/sources/git")).unwrap().next().unwrap().unwrap().path();
    let lock = folder.join("lock");
    let other = scene.path("other");
    for obstacle in ["pipe", "link"] {
        fs::remove_file(&lock).unwrap();
        match obstacle {
            "pipe" => assert!(Command::new("mkfifo").arg(&lock).status().unwrap().success()),
            _ => symlink(&other, &lock).unwrap(),
        }
        let refused = mirror(&sources).sync();
        assert!(matches!(refused, Err(SyncError::Failed(_))), "{obstacle}: {refused:?}");
    }
    assert!(!other.exists(), "the link was not followed");
    assert_eq!(references(&sources), ["team/a.json"]);
}

fn contents(folder: &Path) -> Vec<PathBuf> {
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    files.filter(|path| path.extension().is_some_and(|own| own == "contents")).collect()
}

#[test]
fn lost_contents_and_a_broken_record_are_fetched_again() {
    let scene = Scene::new();
    scene.write("a.json", "1").commit();
    let sources = scene.sources(scene.source());
    mirror(&sources).sync().unwrap();
    let folder = fs::read_dir(scene.path("data/sources/git")).unwrap().next().unwrap().unwrap().path();
    fs::remove_file(&contents(&folder)[0]).unwrap();
    let listing = list(&sources);
    let file = listing.files.iter().find(|file| file.precedence == Precedence::Git).unwrap();
    assert!(sources.read(file).unwrap_err().to_string().contains("workrail workflow sources sync team"));
    mirror(&sources).sync().unwrap();
    assert_eq!(references(&sources), ["team/a.json"]);
    fs::write(folder.join("record.json"), "{").unwrap();
    assert_eq!(mirror(&sources).state().state, SourceState::NeverFetched);
    fs::remove_dir_all(folder.join("repository")).unwrap();
    mirror(&sources).sync().unwrap();
    assert_eq!(references(&sources), ["team/a.json"]);
    mirror(&sources).forget().unwrap();
    assert!(!folder.exists());
}

/// Broke: every later fetch failed.
#[test]
fn a_repository_that_git_cannot_use_is_fetched_anew() {
    type Harm = fn(&Path);
    let scene = Scene::new();
    let sources = scene.sources(scene.source());
    let harms: [(&str, Harm); 3] = [
        ("a lock that an ended git left", |repository| {
            fs::write(repository.join("shallow.lock"), "").unwrap();
        }),
        ("settings that are damaged", |repository| fs::write(repository.join("config"), "[").unwrap()),
        ("packs that are damaged", |repository| {
            for pack in fs::read_dir(repository.join("objects/pack")).unwrap() {
                let pack = pack.unwrap().path();
                fs::set_permissions(&pack, fs::Permissions::from_mode(0o600)).unwrap();
                fs::write(pack, "x").unwrap();
            }
        }),
    ];
    scene.write("a.json", "0").commit();
    mirror(&sources).sync().unwrap();
    let folder = fs::read_dir(scene.path("data/sources/git")).unwrap().next().unwrap().unwrap().path();
    for (text, (what, harm)) in ["1", "2", "3"].into_iter().zip(harms) {
        scene.write("a.json", text).commit();
        harm(&folder.join("repository"));
        let synced = mirror(&sources).sync();
        assert!(matches!(synced, Ok(Synced::Updated { .. })), "{what}: {synced:?}");
        assert_eq!(found(&sources)[0].1, text, "{what}");
    }
}

#[test]
fn a_link_in_the_place_of_the_repository_is_replaced_and_its_target_stays_as_it_is() {
    let scene = Scene::new();
    let sources = scene.sources(scene.source());
    scene.write("a.json", "1").commit();
    mirror(&sources).sync().unwrap();
    let folder = fs::read_dir(scene.path("data/sources/git")).unwrap().next().unwrap().unwrap().path();
    let (repository, elsewhere) = (folder.join("repository"), scene.path("elsewhere"));
    fs::remove_dir_all(&repository).unwrap();
    fs::create_dir(&elsewhere).unwrap();
    fs::set_permissions(&elsewhere, fs::Permissions::from_mode(0o755)).unwrap();
    symlink(&elsewhere, &repository).unwrap();
    scene.write("a.json", "2").commit();
    mirror(&sources).sync().unwrap();
    assert_eq!(found(&sources)[0].1, "2");
    assert_eq!(fs::metadata(&elsewhere).unwrap().permissions().mode() & 0o777, 0o755);
    assert_eq!(fs::read_dir(&elsewhere).unwrap().count(), 0);
}

/// Broke: the record kept permissions with which it could not be read, and a link was followed.
#[test]
fn what_is_in_the_place_of_the_record_is_replaced() {
    let scene = Scene::new();
    scene.write("a.json", "1").commit();
    let sources = scene.sources(scene.source());
    mirror(&sources).sync().unwrap();
    let folder = fs::read_dir(scene.path("data/sources/git")).unwrap().next().unwrap().unwrap().path();
    let record = folder.join("record.json");
    let elsewhere = scene.path("elsewhere");
    fs::rename(&record, &elsewhere).unwrap();
    let before = fs::read(&elsewhere).unwrap();
    symlink(&elsewhere, &record).unwrap();
    mirror(&sources).sync().unwrap();
    assert_eq!(references(&sources), ["team/a.json"]);
    assert_eq!(fs::read(&elsewhere).unwrap(), before, "the link was not followed");
    fs::set_permissions(&record, fs::Permissions::from_mode(0o000)).unwrap();
    mirror(&sources).sync().unwrap();
    assert_eq!(fs::metadata(&record).unwrap().permissions().mode() & 0o777, 0o600);
}

#[test]
fn contents_that_no_commit_needs_are_removed() {
    let scene = Scene::new();
    let sources = scene.sources(scene.source());
    for round in 0..4 {
        scene.write("a.json", &round.to_string()).commit();
        mirror(&sources).sync().unwrap();
    }
    let folder = fs::read_dir(scene.path("data/sources/git")).unwrap().next().unwrap().unwrap().path();
    assert_eq!(contents(&folder).len(), 2, "the served commit's and the one before");
    let mode = fs::metadata(&folder).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode, 0o700);
}
