//! Every command has a transcript among the snapshots, as text and, if it can print JSON, as JSON.

use std::path::Path;

use crate::command_tree::{help, inner};

/// The calls in all transcripts, word by word, without those that only print help.
fn calls() -> Vec<Vec<String>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/texts/snapshots");
    let mut calls = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let text = std::fs::read_to_string(entry.unwrap().path()).unwrap();
        let lines = text.lines().filter_map(|line| line.strip_prefix("$ workrail "));
        calls.extend(lines.map(|line| line.split(' ').map(str::to_owned).collect::<Vec<_>>()));
    }
    calls.retain(|words| !words.iter().any(|word| word == "--help"));
    calls
}

#[test]
fn every_command_has_a_transcript() {
    let calls = calls();
    let mut missing = Vec::new();
    let mut open: Vec<Vec<String>> = vec![Vec::new()];
    while let Some(command) = open.pop() {
        let text = help(&command);
        let deeper = inner(&command, &text);
        let prints_json = text.lines().any(|line| line.trim_start().starts_with("--json"));
        // A command that only holds others does nothing itself.
        if deeper.is_empty() || prints_json {
            let own: Vec<&Vec<String>> = calls
                .iter()
                .filter(|words| words.starts_with(&command))
                .filter(|words| !deeper.iter().any(|inner| words.starts_with(inner)))
                .collect();
            let is_json = |words: &&&Vec<String>| words.iter().any(|word| word == "--json");
            let as_json = own.iter().filter(is_json).count();
            if own.len() == as_json {
                missing.push(command.join(" "));
            }
            if prints_json && as_json == 0 {
                missing.push(format!("{} --json", command.join(" ")));
            }
        }
        open.extend(deeper);
    }
    missing.sort();
    assert_eq!(missing, Vec::<String>::new(), "no transcript in tests/texts has these commands");
}
