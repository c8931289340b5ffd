//! The authoring tools never change what a file means (G101): layout, spellings, differences.

#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test reads the bundled files and stops at the first surprise"
)]

use std::fs;
use std::path::Path;

use proptest::prelude::*;
use workrail_core::author::diff::{WorkflowDiff, diff};
use workrail_core::author::{Renames, formatted, hash_inputs, migrated};
use workrail_core::compile::{CompileInput, FileOrigin, compile};
use workrail_model::compiled::CompiledWorkflow;

fn compiled(text: &str) -> CompiledWorkflow {
    let input = CompileInput { origin: FileOrigin::Bundled, ..CompileInput::new(text.as_bytes(), "x.json") };
    compile(input).unwrap()
}

fn hash(text: &str) -> String {
    compiled(text).hash().unwrap().to_string()
}

/// Every file that ships with WorkRail.
fn bundled() -> Vec<(String, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../workflows");
    let mut found: Vec<(String, String)> = Vec::new();
    for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
        let path = entry.path();
        if path.extension().is_some_and(|own| own == "json") {
            found.push((path.display().to_string(), fs::read_to_string(path).unwrap()));
        }
    }
    found.sort();
    assert!(found.len() >= 10, "the bundled workflows are found");
    found
}

#[test]
fn layout_keeps_hash_and_comments_and_is_stable_on_every_bundled_file() {
    for (name, text) in bundled() {
        let once = formatted(&text).unwrap();
        assert_eq!(formatted(&once).unwrap(), once, "{name}");
        assert_eq!(hash(&once), hash(&text), "{name}");
        // The worst possible layout: everything on one line.
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        let squeezed = formatted(&value.to_string()).unwrap();
        assert_eq!(hash(&squeezed), hash(&text), "{name}");
    }
}

const MESSY: &str = "\u{feff}// about the file
/* and more */
{ \"id\":\"team.x\" , // behind the id
  \"name\" /* odd */ : /* odder */ \"X\",\"description\":\"d\",
  \"version\":\"1.0.0\",


  // the steps
  \"steps\":[ // first
    {\"id\":\"a\",\"title\":\"A\",\"prompt\":\"Do.\",},
    /* alone */
    {\"id\":\"b\",\"title\":\"B\",\"promptBlocks\":{\"goal\":\"G\",\"procedure\":[\"one\",\"two\"],\"outputRequired\":{\"z\":\"last\",\"a\":\"first\"}},
     \"sets\":{\"size\":{\"values\":[\"small\",\"large\"],\"description\":\"How large it is, in one word that a later step reads and decides by.\"}}}
    // no more
  ],
}
// the end
";

#[test]
fn a_messy_file_gets_the_one_layout() {
    let once = formatted(MESSY).unwrap();
    insta::assert_snapshot!(once);
    assert_eq!(formatted(&once).unwrap(), once);
    assert_eq!(hash(&once), hash(MESSY));
    assert_eq!(formatted("{"), None);
    assert_eq!(formatted(""), None);
}

/// White space and comments that may be anywhere between two tokens.
fn filler() -> impl Strategy<Value = String> {
    prop::sample::select(vec![
        "",
        " ",
        "\n",
        "\n\n\n",
        "\t",
        "\r\n",
        "/* c */",
        "// c\n",
        " /* a\n b */ ",
        "// x\n// y\n",
    ])
    .prop_map(str::to_owned)
}

/// The tokens of a small workflow; fillers go between them.
const TOKENS: [&str; 41] = [
    "{",
    "\"id\"",
    ":",
    "\"team.x\"",
    ",",
    "\"name\"",
    ":",
    "\"N, {n} // no comment\"",
    ",",
    "\"description\"",
    ":",
    "\"d\"",
    ",",
    "\"version\"",
    ":",
    "\"1.0.0\"",
    ",",
    "\"metaGuidance\"",
    ":",
    "[",
    "\"a\"",
    ",",
    "\"b\"",
    ",",
    "]",
    ",",
    "\"steps\"",
    ":",
    "[",
    "{",
    "\"id\"",
    ":",
    "\"aaa\"",
    ",",
    "\"title\"",
    ":",
    "\"T\"",
    ",",
    "\"prompt\"",
    ":",
    "\"p\"",
];
const LAST_TOKENS: [&str; 4] = ["}", ",", "]", "}"];

proptest! {
    #[test]
    fn layout_keeps_hash_and_comments_and_is_stable_on_random_files(fillers in prop::collection::vec(filler(), 46)) {
        let tokens = TOKENS.iter().chain(&LAST_TOKENS);
        let mut text = fillers[0].clone();
        for (token, filler) in tokens.zip(&fillers[1..]) {
            text.push_str(token);
            text.push_str(filler);
        }
        let once = formatted(&text).unwrap();
        prop_assert_eq!(formatted(&once).unwrap(), once.clone(), "from {}", text);
        prop_assert_eq!(hash(&once), hash(&text));
        let comments = |text: &str| text.matches("/* c */").count() + text.matches("// y").count();
        prop_assert_eq!(comments(&once), comments(&text), "{} from {}", once, text);
    }
}

#[test]
fn current_files_need_no_migration() {
    for (name, text) in bundled() {
        let done = migrated(&text, &Renames::new()).unwrap();
        assert_eq!(done.text, text, "{name}");
    }
}

const BEFORE: &str = r#"{ "id": "team.fix", "name": "Fix", "description": "d", "version": "1.0.0",
  "references": [{ "id": "style", "title": "Style", "source": "STYLE.md", "purpose": "p", "authoritative": false }],
  "steps": [
    { "id": "find", "title": "Find", "prompt": "Find the cause.\nName it.", "sets": { "size": { "values": ["small", "large"] } } },
    { "id": "old", "title": "Old", "prompt": "Gone soon." },
    { "id": "rounds", "type": "loop", "title": "Rounds", "loop": { "type": "for", "count": 2, "maxIterations": 2 },
      "body": [{ "id": "work", "title": "Work", "prompt": "Work." }] },
    { "id": "verify", "title": "Verify", "prompt": "Verify." },
    { "id": "report", "title": "Report", "prompt": "Report." }
  ] }"#;

const AFTER: &str = r#"{ "id": "team.fix", "name": "Fix", "description": "d", "version": "1.1.0",
  "steps": [
    { "id": "find", "title": "Find", "prompt": "Find the cause.\nProve it.\nName it.",
      "sets": { "size": { "values": ["small", "medium", "large"] }, "risky": { "type": "boolean" } } },
    { "id": "report", "title": "Report it", "prompt": "Report.", "runCondition": { "var": "size", "not_equals": "small" } },
    { "id": "rounds", "type": "loop", "title": "Rounds", "loop": { "type": "for", "count": 3, "maxIterations": 3 },
      "body": [{ "id": "work", "title": "Work", "prompt": "Work.", "notesOptional": true },
               { "id": "check", "title": "Check", "prompt": "Check.", "outputContract": { "contractRef": "wr.contracts.loop_control" } }] },
    { "id": "verify", "title": "Verify", "prompt": "Verify.", "requireConfirmation": { "kind": "human_approval" },
      "outputContract": { "contractRef": "wr.contracts.review_verdict" } }
  ] }"#;

fn compared(a: &str, b: &str) -> WorkflowDiff {
    let (a, b) = (compiled(a), compiled(b));
    diff((&a, a.hash().unwrap()), (&b, b.hash().unwrap()))
}

#[test]
fn a_difference_is_described_step_by_step() {
    let found = compared(BEFORE, AFTER);
    let whole = found.workflow.iter().map(|change| change.words.clone());
    let steps = found.steps.iter().flat_map(|step| step.changes.iter().map(|change| change.words.clone()));
    insta::assert_snapshot!(whole.chain(steps).collect::<Vec<_>>().join("\n"));
    assert!(!found.is_same);
}

#[test]
fn workflows_that_run_the_same_do_not_differ() {
    let found = compared(BEFORE, &formatted(BEFORE).unwrap());
    assert!(found.is_same && found.workflow.is_empty() && found.steps.is_empty(), "{found:?}");
}

/// A difference in the hash is always explained: the comparison misses no field.
#[test]
fn every_pair_of_bundled_workflows_differs_in_words() {
    let all = bundled();
    for (name, text) in &all {
        for (other_name, other) in &all {
            let found = compared(text, other);
            let is_silent = found.workflow.is_empty() && found.steps.is_empty();
            assert_eq!(found.is_same, is_silent, "{name} {other_name}");
        }
    }
}

#[test]
fn the_inputs_of_a_hash_name_what_is_embedded() {
    let inputs = hash_inputs(&compiled(AFTER)).unwrap();
    assert_eq!(inputs.hash.to_string(), hash(AFTER));
    let kinds: Vec<(&str, &str)> = inputs.embedded.iter().map(|part| (part.kind, part.id.as_str())).collect();
    assert_eq!(
        kinds,
        [("contract", "wr.contracts.loop_control"), ("contract", "wr.contracts.review_verdict")]
    );
}
