//! Commands that only read create no data directory and no keys (G16).

use std::collections::BTreeSet;

use workrail_testkit::home::Home;

const PROGRAM: &str = env!("CARGO_BIN_EXE_workrail");

/// Commands that only read, as they are called. They may find nothing, and must create nothing.
const LOOKING: [&str; 36] = [
    "status",
    "show amber-falcon",
    "log amber-falcon",
    "tree amber-falcon",
    "compare amber-falcon @b",
    "search retry",
    "resume",
    "report amber-falcon",
    "workflow list",
    "workflow inspect wr.small_change",
    "workflow validate missing.json",
    "workflow compile missing.json",
    "workflow preview wr.small_change",
    "workflow diff wr.small_change wr.code_review",
    "workflow schema",
    "workflow migrate missing.json",
    "workflow test missing.json",
    "workflow sources list",
    "workflow sources health",
    "session list",
    "session export amber-falcon",
    "session prefs show",
    "store verify",
    "store gc --dry-run",
    "store repair --all --dry-run",
    "store keys show",
    "store passkeys show",
    "team token list",
    "install --list",
    "trust list",
    "setup completions bash",
    "config list",
    "config get retention.ttl_days",
    "config path",
    "doctor",
    "explain --list",
];

/// Commands that change something, need something that does not exist, or run until they are ended.
const CHANGING: [&str; 42] = [
    "watch",
    "approve",
    "reject",
    "answer",
    "close",
    "console",
    "workflow new",
    "workflow copy",
    "workflow fmt",
    "workflow sources add folder",
    "workflow sources add plugin",
    "workflow sources add git",
    "workflow sources remove",
    "workflow sources sync",
    "session keep",
    "session unkeep",
    "session delete",
    "session purge",
    "session import",
    "session prefs set",
    "store backup",
    "store copy",
    "store restore",
    "store gc",
    "store repair",
    "store keys http-secret",
    "store keys new",
    "store keys rotate",
    "store passkeys reset",
    "team token create",
    "team token revoke",
    "uninstall",
    "trust revoke",
    "trust propose",
    "plugin render",
    "setup man",
    "config set",
    "config edit",
    "demo",
    "mcp",
    "serve",
    "hook",
];

/// The names of the commands in a help text.
fn inner(help: &str) -> Vec<String> {
    let listed = help.lines().skip_while(|line| !line.starts_with("Usage:")).skip(1);
    let listed = listed.take_while(|line| !matches!(*line, "Options:" | "Arguments:"));
    let names = listed
        .filter(|line| line.starts_with("  ") && !line.starts_with("   "))
        .filter_map(|line| line.split_whitespace().next());
    names.filter(|name| *name != "help").map(str::to_owned).collect()
}

fn commands(home: &Home) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut open: Vec<Vec<String>> = vec![Vec::new()];
    while let Some(path) = open.pop() {
        let words: Vec<&str> = path.iter().map(String::as_str).chain(["--help"]).collect();
        let names = inner(&home.done(&words).out);
        if names.is_empty() {
            found.insert(path.join(" "));
        }
        open.extend(names.into_iter().map(|name| [path.clone(), vec![name]].concat()));
    }
    found
}

#[test]
fn every_command_is_classified_as_reading_or_changing() {
    let known = |command: &String| {
        let with_arguments = format!("{command} ");
        LOOKING.iter().any(|own| own == command || own.starts_with(&with_arguments))
            || CHANGING.contains(&command.as_str())
    };
    let unknown: Vec<String> =
        commands(&Home::new(PROGRAM)).into_iter().filter(|command| !known(command)).collect();
    assert_eq!(unknown, Vec::<String>::new(), "say whether it looks or changes");
}

#[test]
fn reading_creates_no_data_directory_and_no_keys() {
    let home = Home::new(PROGRAM);
    let nowhere = home.root().join("nowhere");
    let looking = home.with_data(&nowhere);
    for command in LOOKING.iter().chain(&[""]) {
        let words: Vec<&str> = command.split_whitespace().collect();
        for more in [&[][..], &["--json"]] {
            let ran = looking.run(&[&words[..], more].concat());
            assert!([0, 1, 2].contains(&ran.code), "{command}: {ran:?}");
            assert!(!ran.err.contains("Usage:"), "{command} did not run: {ran:?}");
            assert!(!nowhere.exists(), "`workrail {command}` made a data directory");
        }
    }
    // An empty data directory stays empty as well: no keys, no folders.
    for command in LOOKING {
        home.run(&command.split_whitespace().collect::<Vec<_>>());
        let made: Vec<_> =
            std::fs::read_dir(home.data()).unwrap().map(|own| own.unwrap().file_name()).collect();
        assert!(made.is_empty(), "`workrail {command}` made {made:?}");
    }
}
