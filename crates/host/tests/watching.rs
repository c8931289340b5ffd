//! What a watching process notices: every change made before the call, and none if nothing changed.

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use std::fs;
use std::os::unix::fs::symlink;

use camino::{Utf8Path, Utf8PathBuf};
use workrail_host::sources::Sources;
use workrail_model::discovery::Precedence;
use workrail_ports::workflow_source::{SourceListing, WorkflowSource};
use workrail_ports::workspace::WorkspacePath;

struct Scene {
    folder: tempfile::TempDir,
}

impl Scene {
    fn new() -> Self {
        let scene = Self { folder: tempfile::tempdir().unwrap() };
        for name in ["home", "work", "custom"] {
            fs::create_dir(scene.path(name)).unwrap();
        }
        scene.write("custom/a.json", "1");
        scene
    }

    fn path(&self, below: &str) -> Utf8PathBuf {
        Utf8Path::from_path(self.folder.path()).unwrap().join(below)
    }

    fn write(&self, below: &str, text: &str) {
        let path = self.path(below);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn sources(&self) -> Sources {
        Sources::new(Some(&self.path("home")), vec![self.path("custom")])
            .with_plugins(vec![self.path("plugin")])
    }

    fn workspace(&self) -> WorkspacePath {
        WorkspacePath::parse(self.path("work").as_str()).unwrap()
    }
}

fn references(listing: &SourceListing) -> Vec<&str> {
    let outside = listing.files.iter().filter(|file| file.precedence != Precedence::Bundled);
    outside.map(|file| file.reference.as_str()).collect()
}

type Change = (&'static str, fn(&Scene));

const CHANGES: [Change; 13] = [
    ("a file is edited", |scene| scene.write("custom/a.json", "2")),
    ("a file is added", |scene| scene.write("custom/b.json", "2")),
    ("a file is renamed", |scene| {
        fs::rename(scene.path("custom/b.json"), scene.path("custom/c.json")).unwrap()
    }),
    ("a file is removed", |scene| fs::remove_file(scene.path("custom/c.json")).unwrap()),
    ("a folder is made with a file", |scene| scene.write("custom/deep/er/d.json", "2")),
    ("a file deep down is edited", |scene| scene.write("custom/deep/er/d.json", "3")),
    ("a folder is moved", |scene| fs::rename(scene.path("custom/deep"), scene.path("custom/moved")).unwrap()),
    ("a file in a moved folder is edited", |scene| scene.write("custom/moved/er/d.json", "4")),
    ("the workspace gets its folder", |scene| scene.write("work/.workrail/workflows/w.json", "1")),
    ("the user gets a folder", |scene| scene.write("home/.workrail/workflows/u.json", "1")),
    ("a folder above a root is replaced", |scene| {
        fs::rename(scene.path("home/.workrail"), scene.path("home/old")).unwrap();
        scene.write("home/.workrail/workflows/v.json", "1");
    }),
    ("a file of the replaced folder is edited", |scene| scene.write("home/.workrail/workflows/v.json", "2")),
    ("a plugin appears", |scene| {
        scene.write("plugin/x/p.json", "1");
        let manifest = r#"{"manifestVersion":1,"name":"plug","workflows":["x/p.json"]}"#;
        scene.write("plugin/workrail-plugin.json", manifest);
    }),
];

/// After each change the last listing is out of date, and a new one shows the same as walking.
fn every_change_is_noticed(sources: &Sources, scene: &Scene) {
    let workspace = scene.workspace();
    let mut last = sources.list(Some(&workspace));
    for (what, change) in CHANGES {
        change(scene);
        let listing = sources.unchanged_listing(Some(&workspace));
        assert!(listing.is_none() || listing != last.id, "{what} goes unnoticed");
        let seen = sources.list(Some(&workspace));
        let walked = scene.sources().list(Some(&workspace));
        assert_eq!(references(&seen), references(&walked), "{what}");
        last = seen;
    }
}

/// G93: every call sees the changes made before it.
#[test]
fn every_change_made_before_a_call_is_seen_by_it() {
    let scene = Scene::new();
    every_change_is_noticed(&scene.sources().watched(), &scene);
}

/// G93: where changes are not reported, every call scans the folders.
#[test]
fn folders_that_cannot_be_watched_are_walked() {
    let scene = Scene::new();
    let sources = scene.sources().watched_up_to(0);
    assert_eq!(sources.list(None).id, None);
    assert_eq!(sources.unchanged_listing(None), None);
    every_change_is_noticed(&sources, &scene);
}

/// G93: while nothing changes, no folder is scanned.
#[test]
fn without_a_change_the_listing_stays_known_for_each_workspace() {
    let scene = Scene::new();
    let sources = scene.sources().watched();
    let workspace = scene.workspace();
    let first = sources.list(Some(&workspace)).id;
    let listing = sources.list(None);
    let alone = listing.id;
    assert!(first.is_some() && alone.is_some() && first != alone);
    // Reading is not a change.
    for file in &listing.files {
        sources.read(file).unwrap();
    }
    fs::read(scene.path("custom/a.json")).unwrap();
    fs::read_dir(scene.path("custom")).unwrap().count();
    scene.write("work/other.txt", "");
    assert_eq!(
        (sources.unchanged_listing(Some(&workspace)), sources.unchanged_listing(None)),
        (first, alone)
    );
}

#[test]
fn nothing_behind_a_link_is_watched_or_walked() {
    let scene = Scene::new();
    scene.write("outside/o.json", "1");
    symlink(scene.path("outside"), scene.path("custom/link")).unwrap();
    let sources = scene.sources().watched();
    let listing = sources.list(None);
    assert_eq!(references(&listing), ["a.json"]);
    scene.write("outside/o.json", "2");
    scene.write("outside/new.json", "2");
    assert_eq!(sources.unchanged_listing(None), listing.id, "what happens outside is nobody's business");
}
