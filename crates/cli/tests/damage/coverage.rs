//! The matrix is complete: every command of the program and every kind of file in a data directory is part of it, or is
//! left out for a reason.

use std::collections::BTreeSet;

use workrail_testkit::home::User;

use crate::command_tree::{help, inner};
use crate::commands::{Call, Command};
use crate::files::{OF_LONG_SESSIONS, targets};
use crate::matrix::scratch;
use crate::rows::commands;
use crate::template::Template;

const LAYOUT: &str = include_str!("../../../store-fs/src/layout.rs");
const FORMAT: &str = include_str!("../../../store-fs/FORMAT.md");

const SERVES: &str = "runs until it is stopped; what it reads and writes, `status` and the tools do";
const OWN_FILES: &str = "reads and writes only the workflow files that it is given";
const OWN_TEXTS: &str = "prints what is inside the program, or writes it into a new folder";

const COMMANDS_LEFT_OUT: [(&str, &str); 18] = [
    ("watch", SERVES),
    ("console", SERVES),
    ("serve", SERVES),
    ("demo", "works in a temporary directory of its own"),
    ("config edit", "opens an editor; `config set` changes the same file"),
    ("workflow sources", "the same as `workflow sources list`"),
    ("workflow validate", OWN_FILES),
    ("workflow preview", OWN_FILES),
    ("workflow new", OWN_FILES),
    ("workflow copy", OWN_FILES),
    ("workflow fmt", OWN_FILES),
    ("workflow migrate", OWN_FILES),
    ("workflow schema", OWN_FILES),
    ("workflow test", OWN_FILES),
    ("plugin render", OWN_TEXTS),
    ("setup completions", OWN_TEXTS),
    ("setup man", OWN_TEXTS),
    ("explain", OWN_TEXTS),
];

const TEMPORARY: &str = "left by an interrupted write and overwritten by the next: `figure_crash_states` and `figure_io_error_loops` try that; what is in its place, `figure_obstacles_at_temporary_names`";

/// How a kind of file takes part.
enum Part {
    /// The names of its targets.
    Tried(&'static [&'static str]),
    /// The reason why not.
    LeftOut(&'static str),
}

use Part::{LeftOut, Tried};

/// Every path of the tree in `FORMAT.md`.
const FILES: &[(&str, Part)] = &[
    ("sessions/", Tried(&["sessions folder"])),
    ("sessions/sess_<16>/", Tried(&["session folder"])),
    ("sessions/sess_<16>/.lock", Tried(&["session lock"])),
    ("sessions/sess_<16>/manifest.jsonl", Tried(&["manifest"])),
    ("sessions/sess_<16>/manifest.torn", Tried(&["torn manifest"])),
    ("sessions/sess_<16>/.tmp-manifest", LeftOut(TEMPORARY)),
    ("sessions/sess_<16>/.suspect", Tried(&["failed sync mark"])),
    ("sessions/sess_<16>/control.json", Tried(&["control"])),
    ("sessions/sess_<16>/.tmp-control", LeftOut(TEMPORARY)),
    ("sessions/sess_<16>/keep", Tried(&["keep"])),
    ("sessions/sess_<16>/.tmp-keep", LeftOut(TEMPORARY)),
    ("sessions/sess_<16>/events/", Tried(&["events folder"])),
    (
        "sessions/sess_<16>/events/<first>-<last>.jsonl",
        Tried(&["first segment", "middle segment", "last segment"]),
    ),
    ("sessions/sess_<16>/events/.tmp-segment", LeftOut(TEMPORARY)),
    ("sessions/sess_<16>/cache/", Tried(&["session cache"])),
    ("sessions/sess_<16>/cache/projection", Tried(&["cached projection"])),
    ("sessions/sess_<16>/cache/.tmp-projection", LeftOut(TEMPORARY)),
    ("sessions/sess_<16>/cache/keys", Tried(&["cached keys"])),
    ("sessions/sess_<16>/cache/.tmp-keys", LeftOut(TEMPORARY)),
    ("sessions/.tmp-import/", LeftOut(TEMPORARY)),
    ("sessions/.tmp-deleted-sess_<16>/", LeftOut(TEMPORARY)),
    ("backups/", LeftOut("a folder of backups, each of which is tried")),
    ("backups/sess_<16>-<number>/", Tried(&["backup", "backup manifest"])),
    ("backups/.tmp-sess_<16>/", LeftOut(TEMPORARY)),
    ("backups/content/", Tried(&["replaced content folder"])),
    ("backups/content/<kind>-<64 hex>-<number>", Tried(&["replaced content"])),
    ("backups/content/segment-sess_<16>-<name>-<number>", LeftOut("never read, like other replaced content")),
    ("snapshots/<64 hex>.json", Tried(&["snapshots folder", "shared snapshot", "own snapshot"])),
    ("blobs/<64 hex>", Tried(&["blobs folder", "stored reply", "notes blob", "artifact blob"])),
    ("workflows/", LeftOut("has only the folder of pinned workflows")),
    ("workflows/pinned/<64 hex>.json", Tried(&["workflows folder", "pinned workflow"])),
    ("keys/", Tried(&["keys folder"])),
    ("keys/keyring.json", Tried(&["keyring"])),
    ("keys/.tmp-keyring", LeftOut(TEMPORARY)),
    ("keys/keyring.unusable-1", Tried(&["replaced keyring"])),
    ("keys/keyring.replaced-1", LeftOut("only in a backup, where nothing reads it")),
    ("keys/.tmp-http-secret", LeftOut(TEMPORARY)),
    ("keys/.tmp-passkeys", LeftOut(TEMPORARY)),
    ("keys/.tmp-passkeys-head", LeftOut(TEMPORARY)),
    ("keys/passkeys.jsonl", Tried(&["passkey log"])),
    ("keys/passkeys.head", Tried(&["passkey head"])),
    ("keys/passkeys.damaged-<16 hex>", Tried(&["replaced passkey log"])),
    ("keys/http-secret", Tried(&["http secret"])),
    ("keys/access-tokens.json", Tried(&["access tokens"])),
    ("keys/.tmp-access-tokens", LeftOut(TEMPORARY)),
    ("keys/http-secret.unusable-1", Tried(&["replaced http secret"])),
    ("keys/.suspect", LeftOut("the same mark as that of a session")),
    ("keys/.lock", Tried(&["keys lock"])),
    ("observed/", Tried(&["observed folder"])),
    ("observed/sess_<16>-run_<16>.jsonl", Tried(&["observations"])),
    ("observed/sess_<16>-run_<16>.taken", Tried(&["taken observations"])),
    ("observed/.tmp-<16>-<16>", LeftOut(TEMPORARY)),
    ("servers/", LeftOut("never truth; its records are tried")),
    ("servers/srv_<16>.json", Tried(&["server record"])),
    ("servers/srv_<16>.lock", Tried(&["server lock"])),
    ("servers/.tmp-<16>", LeftOut(TEMPORARY)),
    ("chats/", Tried(&["chats folder"])),
    ("chats/<64 hex>.json", Tried(&["chat"])),
    ("chats/.tmp-<64 hex>-<process>", LeftOut(TEMPORARY)),
    ("logs/", LeftOut("never truth; its files are tried")),
    ("logs/<start>-srv_<16>.jsonl", Tried(&["log"])),
    ("logs/<start>-srv_<16>.old.jsonl", LeftOut("the predecessor of a log, read by the same code")),
    ("cache/", Tried(&["cache folder"])),
    ("cache/sessions-<version>.idx", Tried(&["store cache"])),
    ("cache/.tmp-index", LeftOut(TEMPORARY)),
    ("cache/index.lock", Tried(&["index lock"])),
    ("clients/", Tried(&["clients folder", "made folders", "client receipt", "client backup"])),
    (
        "sources/git/",
        Tried(&["sources folder", "source record", "source lock", "source repository", "source contents"]),
    ),
    ("activity", Tried(&["activity"])),
    (".tmp-activity", LeftOut(TEMPORARY)),
    ("activity.lock", Tried(&["activity lock"])),
    ("activity.reserved", Tried(&["activity reservation"])),
    (".tmp-activity.reserved", LeftOut(TEMPORARY)),
    ("activity.spare", LeftOut("used if the ordinary name cannot be, which the damage to that name tries")),
    ("backup.json", Tried(&["backup marker"])),
    (".tmp-backup", LeftOut(TEMPORARY)),
    ("backup.lock", Tried(&["backup lock"])),
    ("config.toml", Tried(&["stored settings"])),
    (".tmp-settings", LeftOut(TEMPORARY)),
    ("store.lock", Tried(&["store lock"])),
    ("import.lock", Tried(&["import lock"])),
];

/// Files outside the data directory.
const OUTSIDE: [&str; 2] = ["settings", "trusted checks"];

/// The temporary files whose whole names are known beforehand, of this session and of the store.
pub(crate) fn temporary_files(session: &str) -> Vec<String> {
    let temporary = FILES.iter().filter(|(_, part)| matches!(part, LeftOut(reason) if *reason == TEMPORARY));
    let names =
        temporary.map(|(path, _)| path.replace("sess_<16>", session).trim_end_matches('/').to_owned());
    names.filter(|name| !name.contains('<')).collect()
}

/// Every command that does something of its own, by its words.
fn all_commands() -> BTreeSet<String> {
    let (mut open, mut found) = (vec![Vec::new()], BTreeSet::new());
    while let Some(command) = open.pop() {
        let text = help(&command);
        let usage = text.lines().find(|line| line.starts_with("Usage:")).unwrap();
        if !command.is_empty() && !usage.contains("<COMMAND>") {
            found.insert(command.join(" "));
        }
        open.extend(inner(&command, &text));
    }
    found
}

/// The command of the program that a row runs.
fn of_row(command: &Command, all: &BTreeSet<String>) -> String {
    match &command.call {
        Call::Tool(..) => "mcp".to_owned(),
        Call::Hook(..) => "hook".to_owned(),
        Call::Program(words) | Call::Typed(words, _) => {
            let named = (1..=words.len()).rev().map(|count| words[..count].join(" "));
            named.into_iter().find(|name| all.contains(name)).unwrap()
        }
    }
}

/// The paths of the tree in `FORMAT.md`.
fn documented() -> BTreeSet<String> {
    let tree = FORMAT.split("```text layout\n").nth(1).unwrap().split("```").next().unwrap();
    let (mut folders, mut found): (Vec<String>, _) = (Vec::new(), BTreeSet::new());
    for line in tree.lines() {
        let depth = line.len() - line.trim_start().len();
        let name = line.trim_start().split("  ").next().unwrap();
        folders.truncate(depth / 2);
        let path = format!("{}{name}", folders.concat());
        folders.push(name.to_owned());
        found.insert(path);
    }
    found
}

/// The texts from which the store makes paths, without their placeholders.
fn literals() -> BTreeSet<&'static str> {
    let code = LAYOUT.lines().filter(|line| !line.trim_start().starts_with("//"));
    let texts = code.flat_map(|line| line.split('"').skip(1).step_by(2));
    let names = texts.filter(|text| !text.contains(' ')).flat_map(|text| text.split('/'));
    names
        .flat_map(|name| name.split(['{', '}']))
        .filter(|part| part.contains(['.', '-']) && part.len() > 3)
        .collect()
}

#[test]
fn every_command_and_every_kind_of_file_is_in_the_matrix() {
    let place = scratch();
    let template = Template::build(&place.path().join("template"), User::find(), 1);
    let all = all_commands();
    let rows: BTreeSet<String> = commands(&template).iter().map(|command| of_row(command, &all)).collect();
    let left_out: BTreeSet<String> = COMMANDS_LEFT_OUT.iter().map(|(name, _)| (*name).to_owned()).collect();
    let missing: Vec<&String> =
        all.iter().filter(|name| !rows.contains(*name) && !left_out.contains(*name)).collect();
    assert!(missing.is_empty(), "neither a row nor left out for a reason: {missing:?}");
    let needless: Vec<&String> =
        left_out.iter().filter(|name| rows.contains(*name) || !all.contains(*name)).collect();
    assert!(needless.is_empty(), "left out, and a row or no command: {needless:?}");

    let listed: BTreeSet<String> = FILES.iter().map(|(path, _)| (*path).to_owned()).collect();
    assert_eq!(listed, documented(), "the kinds of files here and in FORMAT.md");
    let undocumented: Vec<&str> = literals().into_iter().filter(|part| !FORMAT.contains(part)).collect();
    assert!(undocumented.is_empty(), "the layout has files that FORMAT.md does not list: {undocumented:?}");
    let made: BTreeSet<&str> = targets(&template).iter().map(|target| target.name).collect();
    let made: BTreeSet<&str> = made.into_iter().chain(OF_LONG_SESSIONS).collect();
    let tried = FILES.iter().filter_map(|(_, part)| match part {
        Tried(names) => Some(*names),
        LeftOut(reason) => {
            assert!(!reason.is_empty());
            None
        }
    });
    let tried: BTreeSet<&str> = tried.flatten().copied().chain(OUTSIDE).collect();
    assert_eq!(made, tried, "the targets that the template has, and those listed here");
}
