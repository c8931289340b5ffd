//! Every host's hooks by snapshot: what each event means to us, and the answer to the host.
//!
//! The formats of Claude Code, Codex and Gemini CLI are recorded from the programs. Those of Copilot CLI, VS Code and
//! Cursor follow their documentation. Those of opencode are what our own plugin sends.

#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test stops at the first surprise and reads its fixtures"
)]

use std::collections::BTreeSet;
use std::fmt::Write as _;

use serde_json::Value;
use workrail_core::hook::hosts::{events, opencode_plugin, read, write};
use workrail_core::hook::{HookReply, refused_command, without_run};
use workrail_model::chat::HostName;

fn shapes(host: HostName) -> Vec<(String, Value)> {
    let path = format!("{}/tests/hook_shapes/{}.json", env!("CARGO_MANIFEST_DIR"), host.as_str());
    let all: Vec<Value> = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    all.into_iter().map(|own| (own["event"].as_str().unwrap().to_owned(), own["input"].clone())).collect()
}

#[test]
fn every_event_of_every_host_is_understood() {
    for host in HostName::ALL {
        let mut shown = String::new();
        for (event, input) in shapes(host) {
            match read(host, &event, &input) {
                None => writeln!(shown, "{event}: nothing").unwrap(),
                Some(read) => {
                    let by = read.agent.as_ref().map(|agent| format!(", agent {agent}")).unwrap_or_default();
                    let folder = read.workspace.as_deref().unwrap_or("no folder");
                    writeln!(shown, "{event}: chat {}{by}, {folder}\n  {:?}", read.chat, read.kind).unwrap();
                }
            }
        }
        insta::assert_snapshot!(format!("read_{}", host.as_str()), shown);
    }
}

#[test]
fn every_host_gets_its_own_reply_format() {
    let replies = [
        ("silent", HookReply::Silent),
        ("hold", HookReply::Hold { reason: "a step is pending".to_owned() }),
        ("context", HookReply::Context { text: "the step".to_owned() }),
        ("deny", HookReply::Deny { reason: "not in this step".to_owned() }),
    ];
    for host in HostName::ALL {
        let mut shown = String::new();
        for event in events(host) {
            for (name, reply) in &replies {
                writeln!(shown, "{event} {name}: {}", write(host, event, reply)).unwrap();
            }
        }
        insta::assert_snapshot!(format!("write_{}", host.as_str()), shown);
    }
}

#[test]
fn every_event_that_is_installed_has_a_shape() {
    for host in HostName::ALL {
        let seen: BTreeSet<String> = shapes(host).into_iter().map(|(event, _)| event).collect();
        let missing: Vec<_> = events(host).iter().filter(|event| !seen.contains(**event)).collect();
        // Codex offers no subagents to a scripted model, and Copilot's failure form is the same as its success.
        let excused: &[&str] = match host {
            HostName::Codex => &["SubagentStart", "SubagentStop"],
            HostName::Copilot => &["postToolUseFailure"],
            HostName::Gemini
            | HostName::ClaudeCode
            | HostName::Vscode
            | HostName::Cursor
            | HostName::Opencode => &[],
        };
        assert_eq!(missing, excused.iter().collect::<Vec<_>>(), "{host:?}");
    }
}

/// Cursor and VS Code also run the entries in Claude's settings; only their own entries are answered.
#[test]
fn entries_of_claude_code_are_silent_in_other_hosts() {
    for host in [HostName::Cursor, HostName::Vscode, HostName::Copilot] {
        for (event, input) in shapes(host) {
            let claude = format!("{}{}", event[..1].to_uppercase(), &event[1..]);
            assert_eq!(read(HostName::ClaudeCode, &claude, &input), None, "{host:?} {claude}");
        }
    }
}

#[test]
fn input_in_no_hosts_format_is_no_event() {
    for host in HostName::ALL {
        for event in events(host) {
            for input in [Value::Null, Value::from(3), serde_json::json!([]), serde_json::json!({})] {
                assert_eq!(read(host, event, &input), None, "{host:?} {event} {input}");
            }
        }
        assert_eq!(
            read(host, "NoSuchEvent", &serde_json::json!({ "session_id": "a", "sessionId": "a" })),
            None
        );
    }
}

#[test]
fn commands_for_people_are_refused_however_they_are_written() {
    let refused = [
        "workrail approve amber-falcon",
        "/usr/local/bin/workrail approve amber-falcon",
        "./target/debug/workrail --no-pager --config x.toml reject amber-falcon",
        "cd src && workrail answer amber-falcon branch=main",
        "A=1 B='two words' workrail approve amber-falcon",
        "env -i PATH=/bin workrail approve amber-falcon",
        "sudo -u ann -- workrail approve amber-falcon",
        "nohup setsid workrail trust &",
        "timeout 5 workrail store passkeys reset",
        "echo amber-falcon | workrail approve amber-falcon",
        "script -qec \"workrail approve amber-falcon\" /dev/null <<< amber-falcon",
        "bash -lc 'workrail approve amber-falcon'",
        "sh -c \"sh -c 'workrail approve amber-falcon'\"",
        "eval workrail approve amber-falcon",
        "work\"rail\" app'rove' amber-falcon",
        "w\\orkrail approve amber-falcon",
        "$'\\x77orkrail' approve amber-falcon",
        "$(which workrail) approve amber-falcon",
        "`command -v workrail` approve amber-falcon",
        "WR=workrail; $WR approve amber-falcon",
        "CMD='workrail approve amber-falcon'\n$CMD",
        "x=$(workrail approve amber-falcon)",
        "diff <(workrail approve amber-falcon) /dev/null",
        "(workrail approve amber-falcon)",
        "if true; then workrail approve amber-falcon; fi",
        "workrail \\\n  approve amber-falcon",
        "bash <<'EOF'\nworkrail approve amber-falcon\nEOF",
        "echo 'workrail approve amber-falcon' | sh",
        "printf amber-falcon | xargs workrail approve",
        "find . -exec workrail approve {} \\;",
        "expect -c 'spawn workrail approve amber-falcon; send amber-falcon'",
        "tmux send-keys 'workrail approve amber-falcon' Enter",
        "workrail config set approvals.require terminal",
        "workrail session prefs set full_auto_never_stop --session amber-falcon",
        "workrail console --no-open",
        "echo \"$( (true); workrail approve amber )\"",
        "echo \"$( (true; (true)); workrail approve amber )\"",
        "echo \"$((true); workrail approve amber)\"",
        "echo \"$(case a in a) workrail approve amber;; esac)\"",
        "echo \"$(case a in b) ;; (c|a) true;; esac; workrail approve amber)\"",
        "echo \"$(if true; then case a in\n a) true;; esac; fi; workrail approve amber)\"",
        "echo \"$(f() { true; }; workrail approve amber)\"",
        "echo \"$(echo $((1+(2))); workrail approve amber)\"",
        "echo \"$(case a in a) case b in b) true;; esac esac)\"; workrail approve amber",
        "echo \"$(( 1 << 2 ))\"\nworkrail approve amber",
        "echo $[1 << 2]\nworkrail approve amber",
        "a[1<<2]=3\nworkrail approve amber",
        "(( 1 << 2 ))\nworkrail approve amber",
        "echo $(( 8 #1 )); workrail approve amber",
        "echo \"$(case x in esac)\"; workrail approve amber; echo \"\"",
        "echo \"$(echo case x)\"; workrail approve amber; echo \"\"",
        "$\"workrail\" approve amber",
        "bash -c $\"workrail approve amber\"",
        "echo ${x:-$(workrail approve amber)}",
        "echo \"${x:-$(workrail approve amber)}\"",
        "echo \"${x:-`workrail approve amber`}\"",
        "echo \"${x:-${y:-$(workrail approve amber)}}\"",
        "echo \"${x:-'$(workrail approve amber)'}\"",
        "echo ${x:-'}'}$(workrail approve amber)",
        "echo ${x:-\\}$(workrail approve amber)}",
        "echo ${x:-<(workrail approve amber)}",
        "echo \"${x:-it's}\"; workrail approve amber; echo '",
        "${x:-workrail approve amber}",
        "${x-workrail} approve amber",
        ": ${C:=workrail}; $C approve amber",
        "${HOME:+workrail} approve amber",
        "coproc workrail approve amber",
        "coproc W { workrail approve amber; }",
        "function f { workrail approve amber; }; f",
        "function f() { workrail approve amber; }; f",
        "time -p workrail approve amber",
        "if true; then bash <<'EOF'\nworkrail approve amber\nEOF\nfi",
        "echo \"$(case a in a) if true; then x; fi esac)\"; workrail approve amber; echo \"\"",
        "echo \"$(case a in a) while x; do y; done esac)\"; workrail approve amber; echo \"\"",
        "echo \"$(case a in a) if x; then case b in b) y;; esac fi esac)\"; workrail approve amber; echo \"\"",
    ];
    for line in refused {
        assert!(refused_command(line).is_some(), "{line}");
    }
    let harmless = [
        "",
        "workrail show amber-falcon",
        "workrail approve --help",
        "workrail explain approve",
        "workrail config get approvals.require",
        "workrail session prefs show",
        "grep -rn 'workrail approve' docs",
        "git commit -m 'docs: workrail approve asks for the label'",
        "echo workrail approve",
        "cat <<EOF > notes.md\nworkrail approve amber-falcon\nEOF",
        "cat workrail approve",
        "cargo test # workrail approve amber-falcon",
        "approve amber-falcon",
        "./workrail-approve x",
        "ls 'workrail' approve",
        "echo 'unfinished",
        "a=$(b",
        "echo \"$( (true) ; true ) workrail approve amber\"",
        "echo \"$(case a in a) true;; esac) workrail approve amber\"",
        "echo \"$((1+(2))); workrail approve amber\"",
        "echo \"costs 5$\" workrail approve amber",
        "case a in a) echo workrail approve;; esac",
        "cat [a<<END\nworkrail approve amber\nEND",
        "echo ${x:-'$(workrail approve amber)'}",
        "echo ${x:-workrail approve amber}",
        "echo ${x:+a} ${x#*/} ${#x} ${x::-3} ${x//\\//_} workrail approve amber",
        "x=a; ${x:-workrail} approve amber",
        "echo \"$(case a in a) if true; then x; fi esac) workrail approve amber\"",
        "echo function workrail approve amber",
        "function workrail { approve amber; }",
    ];
    for line in harmless {
        assert_eq!(refused_command(line), None, "{line}");
    }
}

/// Recorded so that the guide stays true: these are not detected.
#[test]
fn hidden_commands_are_not_detected() {
    let unseen = [
        "python3 -c 'import os; os.system(\"workrail approve amber-falcon\")'",
        "ln -s $(which workrail) x; ./x approve amber-falcon",
        "./approve.sh",
        "echo d29ya3JhaWwgYXBwcm92ZQ== | base64 -d | sh",
    ];
    for line in unseen {
        assert_eq!(refused_command(line), None, "{line}");
    }
}

#[test]
fn any_line_is_parsed_to_its_end() {
    let deep = "$(".repeat(10_000);
    let quotes = "\"`'$(<<<".repeat(5_000);
    let wrapped = "sudo ".repeat(20_000);
    let shells = "sh -c '".repeat(2_000);
    let parentheses = "(".repeat(200_000);
    let cases = "$(case a in a)".repeat(20_000);
    let braces = "${x:-".repeat(20_000);
    let quoted_braces = "\"${x:-".repeat(20_000);
    // Each value has the one before it twice.
    let doubled: String = (0..5_000).map(|n| format!("v{}=\"$v{n}$v{n}\"; ", n + 1)).collect();
    let doubled = format!("v0=x; {doubled}");
    for line in [deep, quotes, wrapped, shells, parentheses, cases, braces, quoted_braces, doubled] {
        assert_eq!(refused_command(&line), None);
    }
}

#[test]
fn a_refusal_says_why_and_needs_no_run() {
    let input = serde_json::json!({ "session_id": "a", "tool_name": "Bash", "tool_input": { "command": "workrail approve x" } });
    let event = read(HostName::ClaudeCode, "PreToolUse", &input).unwrap();
    insta::assert_debug_snapshot!(without_run(&event).unwrap());
}

#[test]
fn the_plugin_of_opencode_names_the_program() {
    let plugin = opencode_plugin("/opt/my \"own\"/workrail");
    insta::assert_snapshot!(plugin.lines().find(|line| line.starts_with("const program")).unwrap());
}
