//! Files with one mistake each, and what their author reads: what is wrong, where, why, and what to do (G45).
//!
//! Each file in `fixtures/broken` is named after its mistake and has a snapshot.

#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test reads the fixtures and fails loudly"
)]

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use workrail_core::compile::{Checked, CompileInput, Library, check};
use workrail_model::compiled::ResolveFrom;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/broken")
}

fn files() -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<PathBuf> =
        entries.filter(|path| path.extension().is_some_and(|extension| extension == "json")).collect();
    files.sort();
    files
}

fn checked(path: &Path) -> Checked {
    let bytes = std::fs::read(path).unwrap();
    let library = Library::EMPTY
        .with_workflows(["team.release".to_owned(), "team.rollback".to_owned()])
        .with_missing_documents([
            (ResolveFrom::Workspace, "docs/release-runbok.md".to_owned()),
            (ResolveFrom::Package, "runbok.md".to_owned()),
        ]);
    check(CompileInput { library: &library, ..CompileInput::new(&bytes, "FILE") })
}

/// What is reported, with the line that it is about.
fn rendered(path: &Path) -> String {
    let text = String::from_utf8_lossy(&std::fs::read(path).unwrap()).into_owned();
    let mut page = String::new();
    for problem in &checked(path).diagnostics.problems {
        writeln!(page, "{problem}").unwrap();
        let line = text.lines().nth(problem.line - 1).unwrap_or_default().trim();
        let line: String = line.chars().filter(|c| !c.is_control()).take(100).collect();
        writeln!(page, "  | {line}\n").unwrap();
    }
    page
}

#[test]
fn every_mistake_is_explained() {
    let files = files();
    assert!(files.len() >= 120, "{} files", files.len());
    for path in files {
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        insta::with_settings!({
            snapshot_path => "../../../fixtures/broken/snapshots",
            prepend_module_to_snapshot => false,
            omit_expression => true,
        }, {
            insta::assert_snapshot!(name, rendered(&path));
        });
    }
}

#[test]
fn every_mistake_is_reported_even_among_many() {
    for path in files() {
        let count = checked(&path).diagnostics.problems.len();
        assert!((1..=3).contains(&count), "{}: {count} problems", path.display());
    }
}

/// An editor that knows only the schema also finds misspelled names of builtins.
#[test]
fn the_schema_rejects_unknown_builtins() {
    let schema = workrail_core::compile::workflow_schema();
    let validator = jsonschema::validator_for(&schema).unwrap();
    for name in [
        "contract-misspelt",
        "feature-misspelt",
        "template-misspelt",
        "prompt-snippet-misspelt",
        "capability-unknown",
    ] {
        let text = std::fs::read(folder().join(format!("{name}.json"))).unwrap();
        let value: serde_json::Value = serde_json::from_slice(&text).unwrap();
        assert!(!validator.is_valid(&value), "{name}");
    }
    let unknown = std::fs::read(folder().join("template-routine-unknown.json")).unwrap();
    let value: serde_json::Value = serde_json::from_slice(&unknown).unwrap();
    assert!(validator.is_valid(&value), "a file's routine is not known to the schema");
}
