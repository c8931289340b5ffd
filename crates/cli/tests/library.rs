//! The bundled library: every workflow and routine validates without a message, passes its trial with nothing left
//! unreached, and compiles to the recorded hash (G45).

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use workrail_core::builtins::{self, PROBE_TEMPLATE};
use workrail_core::compile::{CompileInput, FileOrigin, check};
use workrail_core::discover::older_names;
use workrail_core::trial::{Script, try_workflow};
use workrail_host::sources::bundled;
use workrail_model::compiled::CompiledWorkflow;

/// The tasks that the library covers.
const JOBS: [&str; 12] = [
    "wr.bug_investigation",
    "wr.code_review",
    "wr.coding_task",
    "wr.discovery",
    "wr.documentation",
    "wr.production_readiness",
    "wr.refactoring",
    "wr.research",
    "wr.shaping",
    "wr.test_design",
    "wr.ticket_writing",
    "wr.workflow_authoring",
];

/// In longer steps the instruction gets lost; conditional texts are counted with their step.
const STEP_BYTES_MAX: usize = 5_000;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Compiled without an error, a warning or a hint.
fn clean(file: &str, text: &str) -> CompiledWorkflow {
    let checked =
        check(CompileInput { origin: FileOrigin::Bundled, ..CompileInput::new(text.as_bytes(), file) });
    assert_eq!(checked.diagnostics.to_string().trim(), "", "{file}");
    checked.workflow.unwrap()
}

fn recorded() -> Value {
    serde_json::from_slice(&fs::read(root().join("fixtures/bundled-hashes.json")).unwrap()).unwrap()
}

#[test]
fn every_file_of_the_folder_is_embedded_unchanged() {
    let mut files = BTreeSet::new();
    for entry in fs::read_dir(root().join("workflows")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "json") {
            files.insert(path.file_name().unwrap().to_str().unwrap().to_owned());
        }
    }
    let embedded: BTreeSet<String> = bundled().map(|(name, _)| name.to_owned()).collect();
    assert_eq!(embedded, files);
    for (name, text) in bundled() {
        assert_eq!(fs::read_to_string(root().join("workflows").join(name)).unwrap(), text, "{name}");
    }
}

#[test]
fn every_workflow_is_clean_passes_its_trial_and_compiles_to_its_hash() {
    let recorded = recorded();
    let mut done = BTreeSet::new();
    for (file, text) in bundled() {
        let workflow = clean(file, text);
        let script = root().join("workflows").join(file.replace(".json", ".test.toml"));
        let script: Script = toml::from_str(&fs::read_to_string(script).unwrap()).unwrap();
        let report = try_workflow(&workflow, &script);
        for run in &report.runs {
            assert_eq!(run.failures, [""; 0], "{file}: {}", run.name);
        }
        assert_eq!(report.coverage.missing(), [""; 0], "{file}");
        for (name, reached) in &report.coverage.loops {
            assert!(reached.repeated, "{file}: no run goes round {name} twice");
        }
        let id = workflow.workflow_id.to_string();
        assert_eq!(recorded["workflows"][&id], workflow.hash().unwrap().to_string(), "run `cargo xtask gen`");
        done.insert(id);
    }
    assert_eq!(recorded["workflows"].as_object().unwrap().len(), done.len());
    let jobs = JOBS.iter().filter(|id| done.contains(**id)).count();
    assert_eq!(jobs, 12);
    println!("{jobs} of 12 workflows, {} in all", done.len());
}

#[test]
fn every_routine_expands_cleanly_to_its_hash() {
    let recorded = recorded();
    let mut done = 0;
    for template in builtins::templates().iter().filter(|template| template.id != PROBE_TEMPLATE) {
        let sample = json!({
            "id": "wr.sample", "name": "Sample", "description": "Injects one routine.", "version": "1.0.0",
            "steps": [{ "id": "call", "title": "Call", "templateCall": template.sample_call() }],
        });
        let workflow = clean(template.id, &sample.to_string());
        assert_eq!(workflow.steps.len(), template.steps.len());
        for step in &workflow.steps {
            for part in
                ["## Goal\n", "## Constraints\n", "## Procedure\n1. ", "## Output Required\n", "## Verify\n"]
            {
                let owed =
                    step.prompt.contains(part) || (part.contains("Output") && step.prompt.contains("Write "));
                assert!(owed, "{} lacks {part:?}", step.step_id);
            }
            assert!(!step.prompt.contains('{'), "{}: every argument is filled in", step.step_id);
        }
        let hash = workflow.hash().unwrap().to_string();
        assert_eq!(recorded["routines"][template.id], hash, "run `cargo xtask gen`");
        done += 1;
    }
    assert_eq!((done, recorded["routines"].as_object().unwrap().len()), (14, 14));
    println!("{done} of 14 routines");
}

#[test]
fn steps_stay_short_enough_to_be_followed() {
    for (file, text) in bundled() {
        for step in clean(file, text).steps {
            let longest = step.fragments.iter().map(|fragment| fragment.text.len()).max().unwrap_or(0);
            let bytes = step.prompt.len() + longest;
            assert!(bytes <= STEP_BYTES_MAX, "{file}: {} has {bytes} bytes", step.step_id);
        }
    }
}

#[test]
fn older_names_lead_to_existing_workflows() {
    let known: BTreeSet<String> =
        bundled().map(|(file, text)| clean(file, text).workflow_id.to_string()).collect();
    for (old, new) in older_names() {
        assert!(known.contains(*new), "{old}");
        assert!(!known.contains(*old) && !known.contains(&format!("wr.{old}")), "{old} is a name of its own");
    }
}

#[test]
fn the_readme_states_the_number_of_bundled_workflows() {
    let readme = fs::read_to_string(root().join("README.md")).unwrap();
    let is_routine = |name: &str| name.starts_with("wr.routine-");
    let routines = bundled().filter(|(name, _)| is_routine(name)).count();
    let expected = format!("{} bundled workflows and {routines} routines", bundled().count() - routines);
    let readme = readme.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(readme.contains(&expected), "README.md does not say \"{expected}\"");
}
