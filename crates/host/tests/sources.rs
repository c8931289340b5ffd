//! Folders as users and attackers leave them: what is found, what is reported, and that nothing hangs.

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use std::fs;
use std::os::unix::fs::symlink;

use camino::{Utf8Path, Utf8PathBuf};
use workrail_host::sources::Sources;
use workrail_model::compiled::{ReferenceDeclaration, ResolveFrom};
use workrail_model::discovery::Precedence;
use workrail_ports::workflow_source::{Located, SourceFile, SourceListing, WorkflowSource};
use workrail_ports::workspace::WorkspacePath;

/// A home, a workspace and a custom folder, each beneath one temporary folder.
struct Scene {
    folder: tempfile::TempDir,
}

impl Scene {
    fn new() -> Self {
        let scene = Self { folder: tempfile::tempdir().unwrap() };
        for name in ["home", "work", "custom"] {
            fs::create_dir(scene.path(name)).unwrap();
        }
        scene
    }

    fn path(&self, below: &str) -> Utf8PathBuf {
        Utf8Path::from_path(self.folder.path()).unwrap().join(below)
    }

    fn write(&self, below: &str, text: &str) -> &Self {
        let path = self.path(below);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
        self
    }

    fn sources(&self) -> Sources {
        Sources::new(Some(&self.path("home")), vec![self.path("custom")])
    }

    fn workspace(&self) -> WorkspacePath {
        WorkspacePath::parse(self.path("work").as_str()).unwrap()
    }

    fn list(&self) -> SourceListing {
        self.sources().list(Some(&self.workspace()))
    }
}

/// What was found outside the binary.
fn found(listing: &SourceListing) -> Vec<(Precedence, &str)> {
    let outside = listing.files.iter().filter(|file| file.precedence != Precedence::Bundled);
    outside.map(|file| (file.precedence, file.reference.as_str())).collect()
}

fn problems(listing: &SourceListing) -> Vec<(&str, &str)> {
    listing.problems.iter().map(|problem| (problem.reference.as_str(), problem.problem.as_str())).collect()
}

#[test]
fn every_source_is_searched_and_each_file_knows_its_place() {
    let scene = Scene::new();
    scene
        .write("home/.workrail/workflows/u.json", "1")
        .write("custom/deep/er/c.jsonc", "2")
        .write("custom/readme.md", "")
        .write("custom/.hidden/h.json", "")
        .write("work/workflows/p.json", "3")
        .write("work/workflows/routines/r.json", "4")
        .write("work/.workrail/workflows/q.json", "5")
        .write("work/other/x.json", "");
    let listing = scene.list();
    assert_eq!(
        found(&listing),
        [
            (Precedence::User, "u.json"),
            (Precedence::Custom, "deep/er/c.jsonc"),
            (Precedence::Project, "workflows/p.json"),
            (Precedence::Project, "workflows/routines/r.json"),
            (Precedence::Project, ".workrail/workflows/q.json"),
        ]
    );
    assert_eq!(problems(&listing), []);
    let outside = listing.files.iter().filter(|file| file.precedence != Precedence::Bundled);
    let texts: Vec<Vec<u8>> = outside.map(|file| scene.sources().read(file).unwrap()).collect();
    assert_eq!(texts, [b"1", b"2", b"3", b"4", b"5"]);
    assert!(listing.files.iter().all(|file| !file.reference.starts_with('/')));
}

#[test]
fn a_missing_default_folder_is_silent_and_a_missing_named_one_is_not() {
    let scene = Scene::new();
    let absent = scene.path("absent");
    let listing =
        Sources::new(Some(&scene.path("home")), vec![absent.clone()]).list(Some(&scene.workspace()));
    assert_eq!(found(&listing), []);
    assert_eq!(problems(&listing), [(absent.as_str(), "the folder does not exist")]);
    assert!(listing.problems[0].fix.contains("WORKFLOW_STORAGE_PATH"));
    let alone = Sources::new(None, Vec::new()).list(None);
    assert!(!alone.files.is_empty() && alone.problems.is_empty());
}

#[test]
fn bundled_files_can_be_read() {
    let sources = Sources::new(None, Vec::new());
    for file in sources.list(None).files {
        assert_eq!(file.precedence, Precedence::Bundled);
        assert!(sources.read(&file).unwrap().starts_with(b"{"), "{}", file.reference);
    }
}

#[test]
fn links_are_reported_and_never_followed() {
    let scene = Scene::new();
    scene.write("outside/secret.json", "{}").write("custom/good.json", "{}");
    symlink(scene.path("outside/secret.json"), scene.path("custom/file.json")).unwrap();
    symlink(scene.path("outside"), scene.path("custom/folder")).unwrap();
    symlink(scene.path("custom"), scene.path("custom/circle")).unwrap();
    symlink("self.json", scene.path("custom/self.json")).unwrap();
    symlink("nothing", scene.path("custom/dangling.txt")).unwrap();
    symlink(scene.path("outside"), scene.path("work/workflows")).unwrap();
    let listing = scene.list();
    assert_eq!(found(&listing), [(Precedence::Custom, "good.json")]);
    let named: Vec<&str> = listing.problems.iter().map(|problem| problem.reference.as_str()).collect();
    assert_eq!(named, ["circle", "file.json", "folder", "self.json", "workflows"]);
}

#[test]
fn a_file_that_becomes_a_link_is_not_read() {
    let scene = Scene::new();
    scene.write("outside/secret.json", "secret").write("custom/a.json", "{}");
    let listing = scene.list();
    let file = listing.files.iter().find(|file| file.reference == "a.json").unwrap();
    fs::remove_file(scene.path("custom/a.json")).unwrap();
    symlink(scene.path("outside/secret.json"), scene.path("custom/a.json")).unwrap();
    assert!(scene.sources().read(file).is_err());
}

#[test]
fn a_folder_the_user_linked_is_the_users_own() {
    let scene = Scene::new();
    scene.write("dotfiles/a.json", "{}");
    fs::create_dir_all(scene.path("home/.workrail")).unwrap();
    symlink(scene.path("dotfiles"), scene.path("home/.workrail/workflows")).unwrap();
    assert_eq!(found(&scene.list()), [(Precedence::User, "a.json")]);
}

#[test]
fn a_file_that_two_folders_hold_is_found_once() {
    let scene = Scene::new();
    scene.write("custom/inner/a.json", "{}").write("home/.workrail/workflows/u.json", "{}");
    let custom = vec![scene.path("custom"), scene.path("custom/inner"), scene.path("custom")];
    let home = scene.path("home");
    let at_home = WorkspacePath::parse(home.as_str()).unwrap();
    let listing = Sources::new(Some(&home), custom).list(Some(&at_home));
    assert_eq!(found(&listing), [(Precedence::User, "u.json"), (Precedence::Custom, "inner/a.json")]);
}

#[test]
fn a_missing_workspace_is_reported() {
    let scene = Scene::new();
    let absent = WorkspacePath::parse(scene.path("absent").as_str()).unwrap();
    let listing = scene.sources().list(Some(&absent));
    assert_eq!(problems(&listing), [(absent.as_str(), "the workspace is not a readable folder")]);
}

#[test]
fn unusual_entries_are_reported_or_searched() {
    let scene = Scene::new();
    scene.write("custom/x.json/inner.json", "{}");
    let large = fs::File::create(scene.path("custom/large.json")).unwrap();
    large.set_len(1_000_001).unwrap();
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    let pipe = scene.path("custom/pipe.json");
    rustix::fs::mknodat(rustix::fs::CWD, pipe.as_std_path(), rustix::fs::FileType::Fifo, mode, 0).unwrap();
    let listing = scene.list();
    assert_eq!(found(&listing), [(Precedence::Custom, "x.json/inner.json")]);
    assert_eq!(
        problems(&listing),
        [
            ("large.json", "it has 1000001 bytes, at most 1000000 are read"),
            ("pipe.json", "it is not a regular file"),
        ]
    );
}

#[test]
fn a_file_that_grew_or_became_unreadable_has_its_own_error() {
    let scene = Scene::new();
    scene.write("custom/a.json", "{}");
    let listing = scene.list();
    let file = listing.files.iter().find(|file| file.reference == "a.json").unwrap();
    fs::File::options().write(true).open(scene.path("custom/a.json")).unwrap().set_len(1_000_001).unwrap();
    let error = scene.sources().read(file).unwrap_err().to_string();
    assert!(error.contains("a.json") && error.contains("1000000"), "{error}");
    fs::remove_file(scene.path("custom/a.json")).unwrap();
    assert!(scene.sources().read(file).is_err());
}

#[test]
fn too_many_files_or_too_deep_folders_end_the_search_and_are_reported() {
    let scene = Scene::new();
    let deep: String = std::iter::repeat_n("d/", 20).collect();
    scene.write(&format!("home/.workrail/workflows/{deep}x.json"), "{}");
    for number in 0..10_001 {
        fs::write(scene.path(&format!("custom/{number:05}.json")), "").unwrap();
    }
    let listing = scene.list();
    assert_eq!(found(&listing).len(), 10_000);
    let said = problems(&listing);
    assert_eq!(said.len(), 2, "{said:?}");
    assert!(said[0].1.contains("deeper than 16"));
    assert_eq!(said[1].0, "10000.json");
}

#[test]
fn a_fresh_file_has_no_stamp_and_an_old_one_changes_it_with_its_content() {
    let scene = Scene::new();
    scene.write("custom/a.json", "{}");
    let stamp = || {
        let listing = scene.list();
        listing.files.iter().find(|file| file.reference == "a.json").unwrap().stamp
    };
    assert_eq!(stamp(), None);
    let age = |seconds: u64| {
        let file = fs::File::options().write(true).open(scene.path("custom/a.json")).unwrap();
        file.set_modified(std::time::UNIX_EPOCH + std::time::Duration::from_secs(seconds)).unwrap();
    };
    age(1_000);
    let first = stamp();
    assert!(first.is_some());
    assert_eq!(stamp(), first);
    scene.write("custom/a.json", "[]");
    age(1_001);
    assert_ne!(stamp(), first);
}

#[test]
fn bindings_are_those_of_the_workspace() {
    let scene = Scene::new();
    let sources = scene.sources();
    assert_eq!(sources.bindings(Some(&scene.workspace())), Ok(None));
    assert_eq!(sources.bindings(None), Ok(None));
    scene.write("work/.workrail/bindings.json", "{}");
    let file = sources.bindings(Some(&scene.workspace())).unwrap().unwrap();
    assert_eq!(
        (file.reference.as_str(), file.bytes.as_slice()),
        (".workrail/bindings.json", b"{}".as_slice())
    );
    fs::remove_file(scene.path("work/.workrail/bindings.json")).unwrap();
    fs::create_dir(scene.path("work/.workrail/bindings.json")).unwrap();
    assert!(sources.bindings(Some(&scene.workspace())).is_err());
}

#[test]
fn references_stay_inside_their_base() {
    let scene = Scene::new();
    scene.write("work/docs/a.md", "").write("custom/spec/b.md", "").write("outside.md", "");
    symlink(scene.path("outside.md"), scene.path("work/docs/link.md")).unwrap();
    let locate = |source: &str, resolve_from: ResolveFrom| {
        let declaration = ReferenceDeclaration {
            id: "r".to_owned(),
            title: "t".to_owned(),
            source: source.to_owned(),
            purpose: "p".to_owned(),
            authoritative: true,
            resolve_from,
        };
        let file = SourceFile {
            kind: Precedence::User,
            reference: "x.json".to_owned(),
            package: Some(scene.path("custom").to_string()),
        };
        match scene.sources().locate(&declaration, &file, Some(&scene.workspace())) {
            Located::Found { relative, .. } => Some(relative),
            Located::Missing => None,
        }
    };
    assert_eq!(locate("./docs/a.md", ResolveFrom::Workspace).as_deref(), Some("docs/a.md"));
    assert_eq!(locate("spec/b.md", ResolveFrom::Package).as_deref(), Some("spec/b.md"));
    for missing in ["docs", "docs/none.md", "docs/link.md", "../outside.md", "/etc/passwd"] {
        assert_eq!(locate(missing, ResolveFrom::Workspace), None, "{missing}");
    }
    assert_eq!(locate("docs/a.md", ResolveFrom::Package), None);
}
