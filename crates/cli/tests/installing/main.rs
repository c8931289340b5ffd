//! `install`, `uninstall` and `plugin render` through the real binary, in an isolated home (G84, G111, G112).

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod hooks;
#[path = "../snapshot/mod.rs"]
mod snapshot;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde_json::{Value, json};
use workrail_testkit::folder;
use workrail_testkit::home::Home;
use workrail_testkit::volatile;

const CLIENTS: [&str; 18] = [
    "claude-code",
    "claude-desktop",
    "cursor",
    "vscode",
    "codex",
    "gemini",
    "copilot",
    "opencode",
    "windsurf",
    "zed",
    "junie",
    "cline",
    "roo",
    "amp",
    "kiro",
    "continue",
    "warp",
    "antigravity",
];

fn home() -> Home {
    Home::new(env!("CARGO_BIN_EXE_workrail"))
}

/// A home with the folders in which editors keep their extensions' settings.
fn home_with_editors() -> Home {
    let home = home();
    for extension in ["saoudrizwan.claude-dev", "rooveterinaryinc.roo-cline"] {
        let folder = format!(".config/Code/User/globalStorage/{extension}/settings");
        fs::create_dir_all(home.home().join(folder)).unwrap();
    }
    home
}

/// Every file beneath a folder with its text.
fn files(folder: &Path) -> BTreeMap<String, String> {
    let text = |bytes| String::from_utf8(bytes).unwrap_or_else(|_| "(not a text)".to_owned());
    let named = |(path, bytes): (PathBuf, Vec<u8>)| (path.to_str().unwrap().to_owned(), text(bytes));
    folder::files(folder).into_iter().map(named).collect()
}

/// Also the folders beneath a folder, to check that created ones are removed again.
fn tree(folder: &Path) -> Vec<String> {
    folder::entries(folder).iter().map(|path| path.to_str().unwrap().to_owned()).collect()
}

fn shown(files: &BTreeMap<String, String>) -> String {
    files.iter().map(|(name, text)| format!("== {name}\n{text}")).collect()
}

fn compare(name: &str, text: &str, home: &Home) {
    let text = volatile::replaced(text, home);
    snapshot::settings().bind(|| insta::assert_snapshot!(name, text));
}

/// The scopes that a client has files for.
fn scopes(home: &Home, client: &str) -> Vec<&'static str> {
    let is_there =
        |scope: &&str| home.run(&["install", "--client", client, "--scope", scope, "--dry-run"]).code == 0;
    ["user", "project"].into_iter().filter(is_there).collect()
}

#[test]
fn claude_code_gets_every_part_and_the_diff_shows_them() {
    let home = home();
    let dry = home.done(&["install", "--client", "claude-code", "--dry-run"]);
    assert!(files(&home.home()).is_empty(), "a dry run writes nothing");
    compare("claude_code_diff", &dry.out, &home);
    home.done(&["install", "--client", "claude-code"]);
    compare("claude_code_files", &shown(&files(&home.home())), &home);
}

#[test]
fn every_client_gets_its_own_files() {
    for client in CLIENTS {
        let mut text = String::new();
        for scope in ["user", "project"] {
            let home = home_with_editors();
            if !scopes(&home, client).contains(&scope) {
                continue;
            }
            home.done(&["install", "--client", client, "--scope", scope]);
            let folder = if scope == "user" { home.home() } else { home.project() };
            let written = files(&folder);
            text.push_str(&volatile::replaced(&format!("# {scope}\n{}", shown(&written)), &home));
        }
        snapshot::settings().bind(|| insta::assert_snapshot!(format!("files_of_{client}"), text));
    }
}

#[test]
fn installing_twice_changes_nothing_and_uninstalling_leaves_nothing() {
    for client in CLIENTS {
        let home = home_with_editors();
        for scope in scopes(&home, client) {
            let folder = if scope == "user" { home.home() } else { home.project() };
            let before = tree(&folder);
            home.done(&["install", "--client", client, "--scope", scope]);
            let written = files(&folder);
            assert!(!written.is_empty(), "{client} {scope}");
            let again = home.done(&["install", "--client", client, "--scope", scope, "--json"]).json();
            for file in again["files"].as_array().unwrap() {
                assert_eq!(
                    (&file["changed"], &file["diff"]),
                    (&json!(false), &json!([])),
                    "{client} {scope}"
                );
            }
            assert_eq!(files(&folder), written, "{client} {scope}");
            home.done(&["uninstall", "--client", client, "--scope", scope]);
            assert_eq!(tree(&folder), before, "{client} {scope}");
        }
    }
}

/// Existing files, with comments, odd spacing, other servers and other hooks.
const IN_USE: [(&str, &str); 9] = [
    (".claude.json", "{\"numStartups\":3,\"mcpServers\":{\"files\":{\"command\":\"npx\"}}}"),
    (
        ".claude/settings.json",
        "{\n    // mine\n    \"permissions\": { \"allow\": [\"Bash(ls:*)\"], \"deny\": [] },\n    \"hooks\": {\n        \"Stop\": [\n            \
         { \"hooks\": [ { \"type\": \"command\", \"command\": \"say done\" } ] }\n        ]\n    }\n}\n",
    ),
    (".claude/CLAUDE.md", "# Mine\r\n\r\nNo final newline"),
    (
        ".codex/config.toml",
        "model = \"x\" # mine\n\n[mcp_servers.files]\ncommand = \"npx\"\n\n[tui]\ntheme = \"dark\"\n",
    ),
    (
        ".codex/hooks.json",
        "{\"hooks\":{\"Stop\":[{\"hooks\":[{\"type\":\"command\",\"command\":\"say done\"}]}],},}\n",
    ),
    (".codex/AGENTS.md", "Be brief.\n"),
    (".gemini/settings.json", "{ \"ui\": { \"theme\": \"Default\" } }\n"),
    (
        ".cursor/hooks.json",
        "{\n\t\"version\": 1,\n\t\"hooks\": { \"stop\": [ { \"command\": \"say done\" } ] }\n}\n",
    ),
    (
        ".config/opencode/opencode.jsonc",
        "{\n  \"$schema\": \"https://opencode.ai/config.json\", // keep\n  \"mcp\": {},\n}\n",
    ),
];

fn in_use(home: &Home) {
    for (name, text) in IN_USE {
        home.write(&home.home().join(name), text);
    }
}

const HOSTS: [&str; 10] = [
    "--client",
    "claude-code",
    "--client",
    "codex",
    "--client",
    "gemini",
    "--client",
    "cursor",
    "--client",
    "opencode",
];

#[test]
fn foreign_content_is_kept_and_uninstalling_restores_the_bytes() {
    let home = home();
    in_use(&home);
    let before = files(&home.home());
    home.done(&[&["install"], &HOSTS[..]].concat());
    let with = files(&home.home());
    for (name, text) in IN_USE {
        assert_ne!(with[name], text, "{name}");
    }
    let edited: BTreeMap<String, String> =
        IN_USE.iter().map(|(name, _)| ((*name).to_owned(), with[*name].clone())).collect();
    compare("files_in_use", &shown(&edited), &home);
    home.done(&[&["uninstall"], &HOSTS[..]].concat());
    assert_eq!(files(&home.home()), before);
}

#[test]
fn what_was_added_after_installing_survives_uninstalling() {
    let home = home();
    in_use(&home);
    home.done(&["install", "--client", "claude-code", "--client", "cursor"]);
    let append = |name: &str, text: &str| {
        let path = home.home().join(name);
        let now = fs::read_to_string(&path).unwrap();
        fs::write(&path, format!("{now}{text}")).unwrap();
    };
    append(".claude/CLAUDE.md", "\r\nAdded later\r\n");
    append(".claude/settings.json", "// added later\n");
    append(".cursor/hooks.json", "// added later\n");
    home.done(&["uninstall", "--client", "claude-code", "--client", "cursor"]);
    let left = files(&home.home());
    assert_eq!(left[".claude/CLAUDE.md"], "# Mine\r\n\r\nNo final newline\r\n\r\nAdded later\r\n");
    let settings = &left[".claude/settings.json"];
    assert!(
        !settings.contains("workrail") && settings.contains("say done") && settings.contains("Bash(ls:*)"),
        "{settings}"
    );
    assert!(settings.ends_with("// added later\n"), "{settings}");
    assert!(!left[".cursor/hooks.json"].contains("workrail"), "{left:?}");
    assert!(!left.keys().any(|name| name.contains("workrail")), "{left:?}");
}

#[test]
fn parts_can_be_chosen_and_left_out() {
    let home = home();
    let names = |ran: Value| -> Vec<String> {
        let files = ran["files"].as_array().unwrap().clone();
        files
            .iter()
            .flat_map(|file| file["parts"].as_array().unwrap().clone())
            .map(|part| part.as_str().unwrap().to_owned())
            .collect()
    };
    let only = ["install", "--client", "claude-code", "--only", "hooks", "--only", "permissions", "--json"];
    assert_eq!(names(home.done(&only).json()), ["hooks", "permissions"]);
    assert_eq!(files(&home.home()).keys().collect::<Vec<_>>(), [".claude/settings.json"]);
    let without = [
        "install",
        "--client",
        "claude-code",
        "--without",
        "hooks",
        "--without",
        "agents",
        "--dry-run",
        "--json",
    ];
    let planned = names(home.done(&without).json());
    assert!(!planned.iter().any(|part| part == "hooks" || part == "agents"), "{planned:?}");
    home.done(&["uninstall", "--client", "claude-code", "--only", "permissions"]);
    let settings = &files(&home.home())[".claude/settings.json"];
    assert!(settings.contains("hook claude-code Stop") && !settings.contains("mcp__workrail"), "{settings}");
    let both = home.run(&["install", "--client", "codex", "--only", "hooks", "--without", "server"]);
    assert_eq!(both.code, 2, "{both:?}");
}

#[test]
fn bare_install_finds_the_clients_and_asks_once() {
    let home = home();
    let none = home.run(&["install"]);
    assert_eq!((none.code, none.out.as_str()), (2, ""), "{none:?}");
    for folder in [".cursor", ".codex"] {
        fs::create_dir_all(home.home().join(folder)).unwrap();
    }
    let silent = home.run(&["install"]);
    assert_eq!(silent.code, 2, "without a terminal nobody can be asked: {silent:?}");
    assert!(files(&home.home()).is_empty());
    assert_eq!(home.typed(&["install"], "no").code, 2);
    assert!(files(&home.home()).is_empty());
    assert_eq!(home.typed(&["install"], "yes").code, 0);
    let written = files(&home.home());
    assert!(
        written.contains_key(".cursor/mcp.json") && written.contains_key(".codex/hooks.json"),
        "{written:?}"
    );
    assert!(!written.contains_key(".claude.json"), "{written:?}");
    assert_eq!(home.run(&["uninstall"]).code, 2);
    home.done(&["uninstall", "--yes"]);
    assert!(files(&home.home()).is_empty());
}

#[test]
fn one_uneditable_file_stops_everything() {
    let home = home();
    for (name, text) in [
        (".claude/settings.json", "{ \"hooks\": "),
        (".claude/settings.json", "{ \"hooks\": [] }"),
        (".claude/settings.json", "{ \"hooks\": { \"Stop\": {} } }"),
        (".claude/settings.json", "{ \"permissions\": { \"allow\": \"all\" } }"),
        (".claude/CLAUDE.md", "<!-- workrail:begin -->\nno end\n"),
        (".claude/commands/workrail.md", "My own command\n"),
    ] {
        home.write(&home.home().join(name), text);
        let refused = home.run(&["install", "--client", "claude-code"]);
        assert_eq!(refused.code, 1, "{name}: {refused:?}");
        assert!(refused.err.contains(name), "{refused:?}");
        assert_eq!(files(&home.home()), BTreeMap::from([(name.to_owned(), text.to_owned())]));
        fs::remove_file(home.home().join(name)).unwrap();
    }
    home.write(&home.home().join(".claude/commands/workrail.md"), "My own command\n");
    home.done(&["install", "--client", "claude-code", "--without", "commands"]);
    home.done(&["uninstall", "--client", "claude-code"]);
    assert_eq!(files(&home.home()).len(), 1, "a file of somebody else's stays");
}

#[test]
fn backups_are_outside_the_project() {
    let home = home();
    home.write(&home.project().join("CLAUDE.md"), "Mine.\n");
    let ran = home.done(&["install", "--client", "claude-code", "--scope", "project", "--json"]).json();
    let backups: Vec<&str> =
        ran["files"].as_array().unwrap().iter().filter_map(|file| file["backup"].as_str()).collect();
    let [backup] = backups.as_slice() else { panic!("{backups:?}") };
    assert!(Path::new(backup).starts_with(home.data()), "{backup}");
    assert_eq!(fs::read_to_string(backup).unwrap(), "Mine.\n");
    assert!(!tree(&home.project()).iter().any(|name| name.contains("backup")));
    home.done(&["store", "verify"]);
}

#[test]
fn instructions_that_another_client_reads_are_kept() {
    let home = home();
    home.done(&["install", "--client", "codex", "--client", "opencode", "--scope", "project"]);
    home.done(&["uninstall", "--client", "codex", "--scope", "project"]);
    assert!(files(&home.project())["AGENTS.md"].contains("workrail:begin"));
    home.done(&["uninstall", "--client", "opencode", "--scope", "project"]);
    assert!(files(&home.project()).is_empty());
}

/// Broke: the advice left out the server, and clients without a file for servers got only a title.
#[test]
fn what_to_paste_for_a_teams_server_is_always_printed() {
    let home = home();
    let url = "https://workrail.example.com";
    let refused = home.run(&["install", "--client", "goose", "--remote", url]);
    assert_ne!(refused.code, 0, "{refused:?}");
    assert!(refused.err.contains(&format!("--client goose --remote {url} --print")), "{}", refused.err);
    for client in ["goose", "claude-desktop", "roo"] {
        let printed = home.done(&["install", "--client", client, "--remote", url, "--print"]).out;
        assert!(printed.contains(&format!("{url}/mcp")), "{client}: {printed}");
    }
}

/// Broke: a reader that closed the pipe, such as `head`, ended the command before it wrote a file, with exit code 0.
#[test]
fn a_closed_pipe_does_not_stop_the_work() {
    let home = home();
    let file = home.home().join(".claude.json");
    home.write(&file, "{}");
    let mut install = home.command(&["install", "--client", "claude-code"]);
    let mut running =
        install.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    drop(running.stdout.take());
    assert!(running.wait().unwrap().success());
    assert!(fs::read_to_string(&file).unwrap().contains("workrail"), "the entry is written");
}

#[test]
fn clients_with_uneditable_files_are_printed() {
    let home = home();
    let absent = home.run(&["install", "--client", "roo", "--scope", "user"]);
    assert_eq!(
        (absent.code, absent.out.as_str()),
        (2, ""),
        "a folder that the client makes itself: {absent:?}"
    );
    assert_eq!(home.run(&["install", "--client", "goose"]).code, 2);
    let goose = home.done(&["install", "--client", "goose", "--print"]);
    let kiro = home.done(&["install", "--client", "kiro", "--print", "--without", "instructions"]);
    compare("printed", &format!("{}{}", goose.out, kiro.out), &home);
    assert!(files(&home.home()).is_empty());
}

#[test]
fn a_plugin_has_the_parts_that_install_writes() {
    let home = home();
    let mut text = String::new();
    for host in ["claude-code", "agent-plugin", "codex", "gemini", "cursor", "mcpb"] {
        let folder = home.root().join(format!("plugin-{host}"));
        home.done(&["plugin", "render", host, folder.to_str().unwrap()]);
        text.push_str(&format!("# {host}\n{}", shown(&files(&folder))));
        let taken = home.run(&["plugin", "render", host, folder.to_str().unwrap()]);
        assert_eq!(taken.code, 2, "a folder in use is not written to: {taken:?}");
    }
    compare("plugins", &text, &home);
}
