//! Every kind of problem is found, placed and explained (G45).

#![expect(clippy::unwrap_used, reason = "tests fail loudly")]

#[path = "diagnostics/cases.rs"]
mod cases;

use std::collections::BTreeSet;
use std::fmt::Write as _;

use serde_json::{Value, json};
use test_case::test_case;
use workrail_core::compile::{Checked, Code, CompileInput, DiagnosticSeverity, check};

use cases::{cases, good, looped, plain, step, top, with_steps};

fn checked(text: &[u8]) -> Checked {
    check(CompileInput::new(text, "test.json"))
}

#[test]
fn a_correct_workflow_has_no_problem() {
    let checked = checked(good().to_string().as_bytes());
    assert!(checked.diagnostics.is_empty(), "{}", checked.diagnostics);
    assert!(checked.workflow.is_some());
}

#[test]
fn every_code_is_found_placed_and_explained() {
    let mut page = String::new();
    let mut seen = BTreeSet::new();
    for (code, text) in cases() {
        let checked = checked(&text);
        let found = checked.diagnostics.problems.iter().find(|problem| problem.code == code);
        let Some(problem) = found else { panic!("{code} was not found:\n{}", checked.diagnostics) };
        writeln!(page, "{problem}").unwrap();
        seen.insert(code);
    }
    let missing: Vec<&Code> = Code::ALL.iter().filter(|code| !seen.contains(code)).collect();
    assert!(missing.is_empty(), "{missing:?}");
    insta::assert_snapshot!(page);
}

/// Broke: `C:/notes.md` was called missing, because only `:\` counted after a drive.
#[test]
fn every_spelling_of_an_absolute_path_is_refused_as_a_reference() {
    let paths =
        ["/notes.md", "\\\\server\\notes.md", "C:\\notes.md", "C:/notes.md", "file:notes.md", "~/notes.md"];
    for path in paths {
        let reference =
            json!({ "id": "r", "title": "R", "source": path, "purpose": "p", "authoritative": true });
        let checked = checked(top(json!({ "references": [reference] })).to_string().as_bytes());
        let found = checked.diagnostics.problems.iter().find(|problem| problem.code == Code::ReferenceSource);
        let told = found.map(|problem| problem.message.as_str()).unwrap_or_default();
        assert!(told.ends_with("is an absolute path"), "{path}: {told}");
    }
}

#[test]
fn only_errors_keep_a_workflow_from_compiling() {
    for (code, text) in cases() {
        let checked = checked(&text);
        let compiles = code.severity() != DiagnosticSeverity::Error;
        assert_eq!(checked.workflow.is_some(), compiles, "{code}:\n{}", checked.diagnostics);
    }
}

#[test]
fn a_value_that_cannot_be_used_is_reported_once() {
    let cases = [
        step(json!({ "runCondition": { "kind": "nothing" } })),
        step(json!({ "runCondition": 3 })),
        step(json!({ "audit": "please" })),
        step(json!({ "requireConfirmation": { "kind": "nobody" } })),
        looped(json!({ "type": "whlie", "maxIterations": 3 }), json!([plain("b")])),
        looped(json!("while"), json!([plain("b")])),
        top(json!({ "conditions": [3] })),
        top(json!({ "assessments": [{ "id": "a", "purpose": "p", "dimensions": 3 }] })),
    ];
    for source in cases {
        let checked = checked(source.to_string().as_bytes());
        let errors: Vec<Code> = checked.diagnostics.errors().map(|problem| problem.code).collect();
        assert!(
            matches!(errors[..], [Code::WrongType | Code::BadValue] | [Code::MissingField, Code::BadValue]),
            "{source}\n{}",
            checked.diagnostics
        );
    }
}

#[test]
fn all_problems_are_reported_at_once_with_their_places() {
    let text = br#"{
  "id": "project.many",
  "name": 3,
  "description": "d",
  "version": "1",
  "steps": [
    { "id": "one", "title": "One", "promt": "x" },
    { "id": "one", "title": "Two", "prompt": "y", "runCondition": { "var": "a", "equal": 1 } }
  ]
}"#;
    let checked = checked(text);
    let found: Vec<(Code, usize, usize, String)> = checked
        .diagnostics
        .errors()
        .map(|problem| (problem.code, problem.line, problem.column, problem.path.clone()))
        .collect();
    assert_eq!(
        found,
        [
            (Code::WrongType, 3, 11, "name".to_owned()),
            (Code::BadValue, 5, 14, "version".to_owned()),
            (Code::UnknownField, 7, 36, "steps[0].promt".to_owned()),
            (Code::DuplicateId, 8, 7, "steps[1].id".to_owned()),
            (Code::UnknownField, 8, 81, "steps[1].runCondition.equal".to_owned()),
        ]
    );
    let fixes: Vec<&str> = checked.diagnostics.errors().map(|problem| problem.fix.as_str()).collect();
    assert!(fixes.contains(&"did you mean `prompt`?"), "{fixes:?}");
    assert!(fixes.contains(&"did you mean `equals`?"), "{fixes:?}");
}

#[test_case("old-name", "user.old_name")]
fn legacy_ids_say_what_they_should_become(id: &str, expected: &str) {
    let text = top(json!({ "id": id })).to_string();
    let input = CompileInput {
        origin: workrail_core::compile::FileOrigin::User,
        ..CompileInput::new(text.as_bytes(), "test.json")
    };
    let checked = check(input);
    let problem = checked.diagnostics.problems.iter().find(|problem| problem.code == Code::LegacyId).unwrap();
    assert!(problem.fix.contains(expected), "{}", problem.fix);
}

#[test]
fn ten_thousand_bad_steps_are_bounded() {
    let bad: Vec<Value> = (0..10_000).map(|_| json!({ "id": "BAD", "promt": 1 })).collect();
    let checked = checked(with_steps(json!(bad)).to_string().as_bytes());
    assert_eq!(checked.diagnostics.problems.len(), 200);
    assert!(checked.diagnostics.left_out > 10_000);
}

#[test]
fn lines_are_counted_alike_with_windows_line_ends() {
    let checked = checked(b"{\r\n  \"id\": 3\r\n}");
    let problem = checked.diagnostics.errors().find(|problem| problem.code == Code::WrongType).unwrap();
    assert_eq!((problem.line, problem.column), (2, 9));
}
