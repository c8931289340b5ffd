//! Every diagnostic as an author reads it: `workrail workflow validate` prints it with its part of the file.
//!
//! Each code has a snapshot named after it, from the input that `crates/core/tests/diagnostics/cases.rs` lists for it.

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

#[path = "../../../core/tests/diagnostics/cases.rs"]
mod cases;

use std::collections::BTreeSet;
use std::path::Path;

use workrail_core::compile::{Code, DiagnosticSeverity};
use workrail_testkit::home::Home;

/// Prints every problem of the file; the one with this code must be among them.
fn rendered(home: &Home, code: Code, source: &[u8]) -> String {
    std::fs::write(home.project().join("workflow.json"), source).unwrap();
    let ran = home.run(&["workflow", "validate", "workflow.json"]);
    let is_error = code.severity() == DiagnosticSeverity::Error;
    assert_eq!((ran.code, ran.err.as_str()), (i32::from(is_error), ""), "{code}: {ran:?}");
    assert!(ran.out.contains(&format!("[{code}]")), "{code} was not found: {}", ran.out);
    ran.out
}

#[test]
fn every_diagnostic_is_printed_with_its_part_of_the_file() {
    let home = Home::new(env!("CARGO_BIN_EXE_workrail"));
    let cases = cases::cases();
    for &code in Code::ALL {
        let (_, source) = cases.iter().find(|(of, _)| *of == code).unwrap_or_else(|| {
            panic!("no case for {code}: add one to crates/core/tests/diagnostics/cases.rs")
        });
        let text = rendered(&home, code, source);
        // Nothing in it differs from run to run, so that columns and limits are compared, too.
        insta::with_settings!({ prepend_module_to_snapshot => false, omit_expression => true }, {
            insta::assert_snapshot!(code.to_string(), text);
        });
    }
}

#[test]
fn every_snapshot_belongs_to_a_code() {
    let codes: BTreeSet<String> = Code::ALL.iter().map(Code::to_string).collect();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/diagnostics/snapshots");
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap();
        let is_snapshot = path.extension().is_some_and(|extension| extension == "snap");
        assert!(!is_snapshot || codes.contains(name), "no code is named {name}: remove {}", path.display());
    }
}
