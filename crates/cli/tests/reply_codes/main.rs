//! Every blocker and every warning that a reply can contain, as the agent reads it.
//!
//! Each code has a snapshot named after it. The case of a code is an arm of a `match` over all codes, so a new code
//! without a case does not compile.

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod blockers;
mod discovery;
mod forms;
mod scene;
#[path = "../snapshot/mod.rs"]
mod snapshot;
mod warnings;

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::Value;
use workrail_model::blocker::BlockerCode;
use workrail_model::discovery::DiscoveryWarningCode;
use workrail_model::reply::WarningCode;
use workrail_testkit::volatile;

use scene::Answer;

/// Compares the answer, and what it says about the code as data, with the snapshot of this kind and code.
fn compare(answer: &Answer, kind: &str, code: &str, member: &str) {
    let listed = answer.data[member].as_array().unwrap_or_else(|| panic!("{code}: {answer:?}"));
    let own: Vec<&Value> = listed.iter().filter(|one| one["code"] == code).collect();
    assert!(!own.is_empty(), "{code}: {}", answer.data);
    let text = answer.data["text"].as_str().unwrap();
    for one in &own {
        assert!(text.contains(one["message"].as_str().unwrap()), "the agent does not read it: {text}");
    }
    let data = serde_json::to_string_pretty(&own).unwrap();
    let shown = volatile::replaced(&format!("{text}\n\n({member}) {data}\n"), &answer.home);
    snapshot::settings().bind(|| insta::assert_snapshot!(name(kind, code), shown));
}

fn name(kind: &str, code: &str) -> String {
    format!("{kind}_{}", code.to_lowercase())
}

#[test]
fn every_blocker_is_shown_to_the_agent() {
    for code in BlockerCode::ALL {
        if let Some(answer) = blockers::case(code) {
            compare(&answer, "blocker", code.as_str(), "blockers");
        }
    }
}

#[test]
fn every_warning_is_shown_to_the_agent() {
    for code in WarningCode::ALL {
        compare(&warnings::case(code), "warning", code.as_str(), "warnings");
    }
}

#[test]
fn every_warning_about_a_workflow_is_shown_to_the_agent() {
    for code in DiscoveryWarningCode::ALL {
        compare(&discovery::case(code), "workflow_warning", code.as_str(), "warnings");
    }
}

#[test]
fn every_snapshot_belongs_to_a_code() {
    let blockers = BlockerCode::ALL.map(|code| name("blocker", code.as_str()));
    let warnings = WarningCode::ALL.map(|code| name("warning", code.as_str()));
    let of_workflows = DiscoveryWarningCode::ALL.map(|code| name("workflow_warning", code.as_str()));
    let known: BTreeSet<String> = blockers.into_iter().chain(warnings).chain(of_workflows).collect();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/reply_codes/snapshots");
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let is_snapshot = path.extension().is_some_and(|extension| extension == "snap");
        let stem = path.file_stem().unwrap().to_str().unwrap();
        assert!(!is_snapshot || known.contains(stem), "no code is named {stem}: remove {}", path.display());
    }
}
