//! Every command has a transcript among the snapshots, as text and, if it can print JSON, as JSON.

use std::path::Path;

use workrail_testkit::home::Home;

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

fn can_print_json(help: &str) -> bool {
    help.lines().any(|line| line.trim_start().starts_with("--json"))
}

/// The required arguments of a command, each with a value that names nothing.
fn required(help: &str) -> impl Iterator<Item = &str> {
    let usage = help.lines().find(|line| line.starts_with("Usage:")).unwrap_or_default();
    usage.split(' ').filter(|word| word.starts_with('<')).map(|_| "nowhere")
}

/// Where there is nothing to show and nothing to find, `--json` still prints one JSON document and no prose.
#[test]
fn every_command_that_can_print_json_prints_json_in_an_empty_store() {
    let mut open: Vec<Vec<String>> = vec![Vec::new()];
    let mut tried = 0;
    while let Some(command) = open.pop() {
        let text = help(&command);
        open.extend(inner(&command, &text));
        // It runs until it is stopped.
        if !can_print_json(&text) || command == ["watch"] {
            continue;
        }
        let words: Vec<&str> =
            command.iter().map(String::as_str).chain(required(&text)).chain(["--json"]).collect();
        let ended = Home::new(env!("CARGO_BIN_EXE_workrail")).run(&words);
        // Wrong usage is reported before anything runs.
        let is_usage = ended.code == 2 && ended.out.is_empty() && ended.err.starts_with("error: ");
        let is_document = serde_json::from_str::<serde_json::Value>(&ended.out).is_ok();
        assert!(is_usage || is_document, "{words:?} ended with {}: {}{}", ended.code, ended.out, ended.err);
        tried += usize::from(is_document);
    }
    assert!(tried > 50, "only {tried} commands printed JSON");
}

#[test]
fn every_command_has_a_transcript() {
    let calls = calls();
    let mut missing = Vec::new();
    let mut open: Vec<Vec<String>> = vec![Vec::new()];
    while let Some(command) = open.pop() {
        let text = help(&command);
        let deeper = inner(&command, &text);
        let prints_json = can_print_json(&text);
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
