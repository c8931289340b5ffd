//! Plugins as their authors leave them.

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use std::fs;
use std::os::unix::fs::symlink;

use camino::{Utf8Path, Utf8PathBuf};
use test_case::test_case;
use workrail_host::sources::{SourceState, Sources, plugin_name};
use workrail_model::discovery::Precedence;
use workrail_ports::workflow_source::WorkflowSource;

struct Scene(tempfile::TempDir);

impl Scene {
    fn new(manifest: &str) -> Self {
        let scene = Self(tempfile::tempdir().unwrap());
        scene.write("plugin/workrail-plugin.json", manifest);
        scene
    }

    fn path(&self, below: &str) -> Utf8PathBuf {
        Utf8Path::from_path(self.0.path()).unwrap().join(below)
    }

    fn write(&self, below: &str, text: &str) -> &Self {
        let path = self.path(below);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
        self
    }

    fn sources(&self) -> Sources {
        Sources::new(None, Vec::new()).with_plugins(vec![self.path("plugin")])
    }

    fn found(&self) -> Vec<String> {
        let listing = self.sources().list(None);
        let own = listing.files.into_iter().filter(|file| file.precedence == Precedence::Plugin);
        own.map(|file| file.reference).collect()
    }

    fn problems(&self) -> Vec<(String, String)> {
        let listing = self.sources().list(None);
        listing.problems.into_iter().map(|problem| (problem.reference, problem.problem)).collect()
    }

    fn state(&self) -> SourceState {
        let reports = self.sources().reports(None);
        reports.iter().find(|report| report.precedence == Precedence::Plugin).unwrap().state
    }
}

#[test]
fn the_files_that_the_manifest_names_are_found_and_no_others() {
    let scene = Scene::new(
        r#"{"manifestVersion":1,"name":"acme","workflows":["flows/b.json","a.jsonc","./a.jsonc"]}"#,
    );
    scene.write("plugin/flows/b.json", "1").write("plugin/a.jsonc", "2").write("plugin/c.json", "3");
    assert_eq!(scene.found(), ["acme/a.jsonc", "acme/flows/b.json"]);
    assert_eq!(scene.problems(), []);
    assert_eq!(scene.state(), SourceState::Ok);
    assert_eq!(plugin_name(&scene.path("plugin")).as_deref(), Ok("acme"));
}

#[test]
fn files_that_are_missing_outside_linked_or_not_workflows_are_reported() {
    let scene = Scene::new(
        r#"{"manifestVersion":1,"name":"acme","workflows":
            ["gone.json","../secret.json","/etc/passwd","link.json","linked/x.json","readme.md","good.json"]}"#,
    );
    scene.write("secret.json", "{}").write("plugin/good.json", "{}").write("elsewhere/x.json", "{}");
    scene.write("plugin/readme.md", "");
    symlink(scene.path("secret.json"), scene.path("plugin/link.json")).unwrap();
    symlink(scene.path("elsewhere"), scene.path("plugin/linked")).unwrap();
    assert_eq!(scene.found(), ["acme/good.json"]);
    let said = scene.problems();
    let named: Vec<&str> = said.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(
        named,
        ["../secret.json", "/etc/passwd", "gone.json", "link.json", "linked/x.json", "readme.md"],
        "{said:?}"
    );
    assert_eq!(said[2].1, "the manifest names it, but it does not exist");
}

#[test_case(r#"{"manifestVersion":1,"name":"acme","workflows":[],"extra":1}"#, "unknown field"; "an unknown member")]
#[test_case(r#"{"manifestVersion":1,"name":"acme","name":"b","workflows":[]}"#, "duplicate field"; "a member twice")]
#[test_case(r#"{"manifestVersion":2,"name":"acme","workflows":[]}"#, "version 2"; "another version")]
#[test_case(r#"{"manifestVersion":1,"name":"../x","workflows":[]}"#, "`name`"; "a name that is a path")]
#[test_case(r#"{"manifestVersion":1,"name":"acme","workflows":"a.json"}"#, "sequence"; "no list")]
#[test_case("{", "EOF"; "cut off")]
fn an_unusable_manifest_is_reported(manifest: &str, part: &str) {
    let scene = Scene::new(manifest);
    let said = scene.problems();
    assert_eq!(said.len(), 1);
    assert!(said[0].1.contains(part), "{said:?}");
    assert_eq!(scene.state(), SourceState::Unreadable);
    assert!(plugin_name(&scene.path("plugin")).is_err());
}

#[test]
fn a_linked_or_absent_manifest_is_reported() {
    let scene = Scene::new("{}");
    fs::rename(scene.path("plugin/workrail-plugin.json"), scene.path("real.json")).unwrap();
    assert_eq!(scene.problems().len(), 1);
    symlink(scene.path("real.json"), scene.path("plugin/workrail-plugin.json")).unwrap();
    assert_eq!(scene.problems().len(), 1);
    fs::remove_dir_all(scene.path("plugin")).unwrap();
    assert_eq!(scene.state(), SourceState::Missing);
}

#[test]
fn folders_that_cannot_be_reached_have_their_own_state() {
    let folder = tempfile::tempdir().unwrap();
    let path = |below: &str| Utf8Path::from_path(folder.path()).unwrap().join(below);
    symlink(path("circle"), path("circle")).unwrap();
    fs::write(path("file"), "").unwrap();
    let sources = Sources::new(Some(&path("home")), vec![path("circle"), path("file"), path("gone")]);
    let states: Vec<SourceState> = sources.reports(None).iter().map(|report| report.state).collect();
    let expected = [
        SourceState::Ok,
        SourceState::Absent,
        SourceState::Loop,
        SourceState::Unreadable,
        SourceState::Missing,
    ];
    assert_eq!(states, expected);
    assert_eq!(sources.list(None).problems.len(), 3, "and each is said");
}
