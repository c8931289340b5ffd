//! What a trusted check may do, and what is recorded about it (G120, G122).

use std::fs::{self, File, OpenOptions};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::channel;
use std::time::Duration;

use insta::assert_snapshot;
use serde_json::{Value, json};
use workrail_testkit::mcp_client::{reply_data, with_own_words};
use workrail_testkit::skipped::skip;
use workrail_testkit::wire::Http;

use super::{FAILS, PASSES, Project, blockers};

/// Far longer than anything here takes.
const PATIENCE: Duration = Duration::from_secs(60);

fn fifo(path: &Path) {
    assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
}

/// G120: a passing check is recorded with its details, and the run continues.
#[test]
fn a_passing_check_is_recorded_and_the_run_continues() {
    let project = Project::trusted(&json!({}), PASSES);
    let mut client = project.home.client();
    let first = project.start(&mut client, "guided");
    let next = client.next(&first);
    assert_eq!((next.step(), next.warnings()), (&json!("report"), vec![]), "{}", next.data);
    let recorded = project.recorded(&first.label());
    let [check] = recorded.as_slice() else { panic!("one check: {recorded:?}") };
    let (evidence, outcome) = (&check["evidence"], &check["evidence"]["outcome"]);
    assert_eq!((&evidence["name"], &evidence["argv"]), (&json!("test"), &json!(["sh", "check.sh"])));
    assert_eq!((&outcome["result"], &outcome["exitCode"]), (&json!("passed"), &json!(0)));
    assert_eq!((&outcome["tail"], &outcome["outputBytes"]), (&json!("all good\n"), &json!(9)));
    assert_eq!(outcome["treeBefore"], outcome["treeAfter"]);
    assert!(outcome["treeBefore"].is_string());
    let report = project.home.done(&["report", &first.label(), "--format", "json"]).json();
    let evidence =
        report["runs"][0]["nodes"][0]["attempts"][0]["evidence"].as_array().cloned().unwrap_or_default();
    assert_eq!(evidence.len(), 2, "the repository and the check: {evidence:?}");
    assert!(evidence.iter().all(|own| own["grade"] == "checked"), "{evidence:?}");
    project.home.done(&["store", "verify"]);
}

/// G120: a failing check blocks with the end of its output; the next attempt runs it again.
#[test]
fn a_check_that_fails_blocks_with_its_output() {
    let project = Project::trusted(&json!({}), FAILS);
    let mut client = project.home.client();
    let first = project.start(&mut client, "guided");
    let blocked = client.next(&first);
    assert_eq!(blockers(&blocked), ["CHECK_FAILED"], "{}", blocked.data);
    let text = blocked.text.split("The step's text").next().unwrap().replace(&first.label(), "LABEL");
    let (before, rest) = text.split_once("(exit code 101, ").unwrap();
    let after = rest.split_once(')').unwrap().1;
    assert_snapshot!(format!("{before}(exit code 101, TIME){after}"));
    project.home.write(&project.path("check.sh"), PASSES);
    let next = client.next(&blocked);
    assert_eq!(next.step(), "report", "{}", next.data);
    assert_eq!(project.outcomes(&first.label()), ["failed", "passed"]);
    assert_eq!(project.runs(), 2);
}

#[test]
fn the_exit_code_that_the_step_expects_counts_as_a_pass() {
    let step = json!({ "checks": [{ "command": "test", "expect": { "exitCode": 101 } }] });
    let project = Project::trusted(&step, FAILS);
    let mut client = project.home.client();
    let first = project.start(&mut client, "guided");
    assert_eq!(client.next(&first).step(), "report");
    assert_eq!(project.outcomes(&first.label()), ["passed"]);
}

/// Never-stop gives the agent two tries, then records the failure as a gap.
#[test]
fn never_stop_records_a_failing_check_as_a_gap() {
    let project = Project::trusted(&json!({}), FAILS);
    let mut client = project.home.client();
    let mut at = project.start(&mut client, "full_auto_never_stop");
    let run = at.label();
    for _ in 0..2 {
        at = client.next(&at);
        assert_eq!(blockers(&at), ["CHECK_FAILED"], "{}", at.data);
    }
    assert_eq!(client.next(&at).step(), "report");
    let log = project.home.done(&["log", &run, "--json"]).json();
    let gap = log["events"].as_array().unwrap().iter().find(|event| event["kind"] == "gap_recorded").unwrap();
    assert_eq!(gap["data"]["reason"], json!({ "category": "contract_violation", "detail": "check_failed" }));
    assert_eq!(gap["data"]["severity"], "critical");
}

/// G122: when its time is up, the check is killed with every process it started, even those in other process groups.
#[test]
fn a_check_that_takes_too_long_is_killed_with_its_descendants() {
    let script = "exec 3> scratch/held\necho ready >&3\nsleep 1000 &\nsetsid sleep 1000 &\n(setsid sh -c 'sleep 1000 & wait' &)\nwait\n";
    let step = json!({ "checks": [{ "command": "test", "timeoutMs": 4000 }] });
    let project = Project::trusted(&step, script);
    fifo(&project.path("scratch/held"));
    let mut client = project.home.client();
    let first = project.start(&mut client, "guided");
    let held = until_released(&project.path("scratch/held"));
    let blocked = client.next(&first);
    assert_eq!(blockers(&blocked), ["CHECK_FAILED"], "{}", blocked.data);
    assert_eq!(project.outcomes(&first.label()), ["timed_out"]);
    held.recv_timeout(PATIENCE).expect("nothing that the check started holds the pipe any more");
}

/// G122: a killed server leaves no check running.
#[test]
fn a_check_ends_with_its_server() {
    let script = "exec 3> scratch/held\necho ready >&3\nsetsid sleep 1000 &\nsleep 1000\n";
    let project = Project::trusted(&json!({}), script);
    fifo(&project.path("scratch/held"));
    for is_killed in [true, false] {
        let mut client = project.home.client();
        let first = project.start(&mut client, "guided");
        client.send_call("continue_workflow", with_own_words(&first.data["nextCall"]["arguments"]));
        let mut held = BufReader::new(File::open(project.path("scratch/held")).unwrap());
        let mut line = String::new();
        held.read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
        match is_killed {
            true => client.kill(),
            false => assert!(client.close().success()),
        }
        let (said, released) = channel();
        std::thread::spawn(move || {
            let _ = held.read_to_end(&mut Vec::new());
            let _ = said.send(());
        });
        released.recv_timeout(PATIENCE).expect("nothing that the check started holds the pipe any more");
        assert_eq!(project.recorded(&first.label()), Vec::<Value>::new(), "nothing was recorded");
    }
}

/// Signals once the last writer has closed the pipe.
fn until_released(path: &Path) -> std::sync::mpsc::Receiver<()> {
    let (path, (said, released)) = (path.to_owned(), channel());
    std::thread::spawn(move || {
        let mut all = String::new();
        File::open(path).unwrap().read_to_string(&mut all).unwrap();
        assert_eq!(all, "ready\n");
        said.send(()).unwrap();
    });
    released
}

/// G122: a check gets three variables, no standard input, and the project's folder.
#[test]
fn a_check_sees_three_variables_and_no_input() {
    let project = Project::trusted(&json!({}), "env | sort | cut -d= -f1; cat; pwd\n");
    let mut client = project.home.with("LANG", "C.UTF-8").with("SECRET", "hidden").client();
    let first = project.start(&mut client, "guided");
    client.next(&first);
    let recorded = project.recorded(&first.label());
    let tail = recorded[0]["evidence"]["outcome"]["tail"].as_str().unwrap();
    let root = project.home.project().canonicalize().unwrap();
    // The shell sets `PWD` itself.
    assert_eq!(tail, format!("HOME\nLANG\nPATH\nPWD\n{}\n", root.display()));
}

/// G122: nothing is interpreted: a command's words reach the program unchanged.
#[test]
fn arguments_are_not_interpreted() {
    let project = Project::new(&json!({}), PASSES);
    let checks = "[test]\nargv = [\"printf\", \"%s|\", \"$HOME\", \"a b\", \"`id`\", \";\", \"*\"]\n";
    project.home.write(&project.path(".workrail/checks.toml"), checks);
    project.trust();
    let mut client = project.home.client();
    let first = project.start(&mut client, "guided");
    client.next(&first);
    let recorded = project.recorded(&first.label());
    assert_eq!(recorded[0]["evidence"]["outcome"]["tail"], "$HOME|a b|`id`|;|*|");
}

/// G122: only the beginning and the end of a long output are kept, in the content store.
#[test]
fn a_long_output_is_bounded() {
    let script = "echo the beginning\nhead -c 3000000 /dev/zero | tr '\\0' 'x'\necho the end\nexit 1\n";
    let project = Project::trusted(&json!({}), script);
    let mut client = project.home.client();
    let first = project.start(&mut client, "guided");
    let blocked = client.next(&first);
    assert_eq!(blockers(&blocked), ["CHECK_FAILED"]);
    assert!(blocked.text.len() < 9 * 1024, "{}", blocked.text.len());
    let recorded = project.recorded(&first.label());
    let outcome = &recorded[0]["evidence"]["outcome"];
    assert_eq!(outcome["outputBytes"], 3_000_022);
    let digest = outcome["outputRef"].as_str().unwrap().strip_prefix("sha256:").unwrap().to_owned();
    let path = stored(&project.home.data(), &digest).expect("the output is in the content store");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    let stored = fs::read_to_string(&path).unwrap();
    assert!(stored.starts_with("the beginning\n") && stored.ends_with("the end\n"));
    assert!(stored.len() < 200 * 1024, "{}", stored.len());
    project.home.done(&["store", "verify"]);
    fs::write(&path, stored.replacen("the end", "the END", 1)).unwrap();
    assert_eq!(project.home.run(&["store", "verify"]).code, 1, "an altered output is found");
}

/// Where the data directory stores the content of a digest.
fn stored(folder: &Path, digest: &str) -> Option<PathBuf> {
    fs::read_dir(folder).unwrap().flatten().find_map(|entry| {
        let path = entry.path();
        if path.is_dir() {
            return stored(&path, digest);
        }
        let joined = path.to_str().unwrap().replace('/', "");
        joined.contains(digest).then_some(path)
    })
}

/// G120: the same ack returns the recorded answer; nothing runs again.
#[test]
fn a_repeated_call_does_not_run_the_check_again() {
    for script in [PASSES, FAILS] {
        let project = Project::trusted(&json!({}), script);
        let mut client = project.home.client();
        let first = project.start(&mut client, "guided");
        let arguments = with_own_words(&first.data["nextCall"]["arguments"]);
        let once = client.call("continue_workflow", arguments.clone());
        let twice = client.call("continue_workflow", arguments.clone());
        let mut other = project.home.client();
        let elsewhere = other.call("continue_workflow", arguments);
        assert_eq!((&twice.data, &elsewhere.data), (&once.data, &once.data));
        assert_eq!(project.runs(), 1);
        assert_eq!(project.recorded(&first.label()).len(), 1);
    }
}

/// A pass in a refused attempt still counts for its retry if nothing has changed.
#[test]
fn a_retry_on_the_same_files_does_not_run_the_check_again() {
    let project = Project::trusted(&json!({}), PASSES);
    let mut client = project.home.client();
    let first = project.start(&mut client, "guided");
    let mut arguments = with_own_words(&first.data["nextCall"]["arguments"]);
    arguments.as_object_mut().unwrap().remove("output");
    let blocked = client.call("continue_workflow", arguments);
    assert_eq!(blockers(&blocked), ["MISSING_REQUIRED_NOTES"], "{}", blocked.data);
    assert_eq!(client.next(&blocked).step(), "report");
    assert_eq!(project.runs(), 1);
    assert_eq!(project.outcomes(&first.label()), ["passed"]);
}

/// A script that waits until the test writes to the gate.
const GATED: &str = "echo run >> scratch/runs\nread _ < scratch/gate\n";

/// G120: one attempt runs its checks once, however often its ack is sent meanwhile, and a client that gave up gets
/// the result with the same ack.
#[test]
fn the_same_ack_sent_while_a_check_runs_joins_it() {
    let project = Project::trusted(&json!({}), GATED);
    fifo(&project.path("scratch/gate"));
    let mut client = project.home.client();
    let first = project.start(&mut client, "guided");
    let arguments = with_own_words(&first.data["nextCall"]["arguments"]);
    client.send_call("continue_workflow", arguments.clone());
    // Opening blocks until the check reads.
    let mut gate = OpenOptions::new().write(true).open(project.path("scratch/gate")).unwrap();
    client.cancel_last();
    client.send_call("continue_workflow", arguments.clone());
    client.send_call("continue_workflow", arguments.clone());
    gate.write_all(b"go\n").unwrap();
    drop(gate);
    let (one, other) = (client.answer(), client.answer());
    assert_eq!((one.step(), &other.data), (&json!("report"), &one.data));
    let again = client.call("continue_workflow", arguments);
    assert_eq!(again.data, one.data);
    assert_eq!(project.runs(), 1);
    assert_eq!(project.outcomes(&first.label()), ["passed"]);
}

/// The session is not locked while a check runs.
#[test]
fn others_can_work_on_the_session_while_a_check_runs() {
    let project = Project::trusted(&json!({}), GATED);
    fifo(&project.path("scratch/gate"));
    let mut client = project.home.client();
    let first = project.start(&mut client, "guided");
    let arguments = with_own_words(&first.data["nextCall"]["arguments"]);
    client.send_call("continue_workflow", arguments);
    let mut gate = OpenOptions::new().write(true).open(project.path("scratch/gate")).unwrap();
    let mut other = project.home.client();
    let saved = other.call(
        "checkpoint_workflow",
        json!({ "checkpointToken": first.string("checkpointToken"), "output": { "notesMarkdown": "meanwhile" } }),
    );
    assert!(!saved.is_error, "{}", saved.data);
    gate.write_all(b"go\n").unwrap();
    drop(gate);
    assert_eq!(client.answer().step(), "report");
}

/// A client that asks for progress gets reports while the check runs.
#[test]
fn progress_is_reported_to_a_client_that_asks_for_it() {
    let project = Project::trusted(&json!({}), PASSES);
    let mut client = project.home.client();
    let first = project.start(&mut client, "guided");
    let arguments = with_own_words(&first.data["nextCall"]["arguments"]);
    client.request(
        "tools/call",
        json!({ "name": "continue_workflow", "arguments": arguments, "_meta": { "progressToken": "p1" } }),
    );
    let [told] = client.notifications() else { panic!("one report: {:?}", client.notifications()) };
    assert_eq!(told["method"], "notifications/progress");
    assert_eq!(told["params"]["progressToken"], "p1");
    assert_snapshot!(told["params"]["message"].as_str().unwrap());
}

/// Broke: over HTTP, the answer of a call in a batch was lost if the call reported progress.
#[test]
fn a_call_in_a_batch_that_asks_for_progress_is_answered() {
    let project = Project::trusted(&json!({}), PASSES);
    let mut client = project.home.client();
    let first = project.start(&mut client, "guided");
    let arguments = with_own_words(&first.data["nextCall"]["arguments"]);
    let meta = json!({ "progressToken": "p1" });
    let call = |id: u64, tool: &str, arguments: Value| {
        json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call",
                "params": { "name": tool, "arguments": arguments, "_meta": meta } })
    };
    let batch = json!([call(1, "continue_workflow", arguments), call(2, "list_workflows", json!({}))]);
    let http = Http::start(&project.home);
    let answer = http.post("MCP-Protocol-Version: 2025-03-26\r\n", &batch.to_string());
    let answers = answer.json();
    let [continued, listed] = answers.as_array().unwrap().as_slice() else {
        panic!("two answers: {answers}")
    };
    assert_eq!((&continued["id"], &listed["id"]), (&json!(1), &json!(2)), "{answers}");
    assert_eq!(reply_data(&continued["result"])["run"]["stepId"], "report", "{answers}");
    assert_eq!(project.runs(), 1, "its check reported progress");
    assert!(http.end("TERM").success());
}

/// File changes during a check are reported and recorded.
#[test]
fn a_check_that_changes_files_is_reported() {
    let project = Project::trusted(&json!({}), "echo new > written.txt\n");
    let mut client = project.home.client();
    let first = project.start(&mut client, "guided");
    let next = client.next(&first);
    assert_eq!(next.warnings(), ["CHECK_CHANGED_TREE"], "{}", next.data);
    let outcome = &project.recorded(&first.label())[0]["evidence"]["outcome"];
    assert_ne!(outcome["treeBefore"], outcome["treeAfter"]);
}

/// A folder that no check may write to. A checkout may itself be below a folder for temporary files.
fn outside_of_what_a_check_writes() -> tempfile::TempDir {
    let is_temporary = |folder: &&str| ["/tmp", "/var/tmp"].iter().any(|own| folder.starts_with(own));
    let folders = [env!("CARGO_TARGET_TMPDIR"), "/srv", "/opt"].into_iter().filter(|own| !is_temporary(own));
    folders
        .filter_map(|folder| tempfile::tempdir_in(folder).ok())
        .next()
        .expect("the checkout is outside of /tmp, or the tests run as root")
}

/// If the kernel has Landlock, a check can write only to its workspace; otherwise the record says so.
#[test]
fn a_check_is_confined_if_the_kernel_supports_it() {
    let outside = outside_of_what_a_check_writes();
    let file = outside.path().join("escaped");
    let script = format!("echo inside > scratch/inside\necho outside > {}\ntrue\n", file.display());
    let project = Project::trusted(&json!({}), &script);
    let mut client = project.home.client();
    let first = project.start(&mut client, "guided");
    assert_eq!(client.next(&first).step(), "report");
    assert!(project.path("scratch/inside").exists());
    let recorded = project.recorded(&first.label());
    match recorded[0]["evidence"]["outcome"]["confinement"].as_str().unwrap() {
        "none" => {
            assert!(file.exists(), "nothing confines it");
            skip("checks that the kernel confines", "the kernel has no Landlock");
        }
        "full" | "partial" => assert!(!file.exists(), "the kernel refuses it"),
        other => panic!("{other}"),
    }
}

/// G124: what the engine has just checked counts, also in a chat whose hooks saw no command.
#[test]
fn a_claim_that_this_attempts_check_confirms_is_not_contradicted() {
    let contract = json!({ "outputContract": { "contractRef": "wr.contracts.verification_report" } });
    let project = Project::trusted(&contract, PASSES);
    let mut client = project.home.client();
    let first = project.start(&mut client, "guided");
    // The host tells its hook what our tool returned, so the chat is known to be watched.
    let response = json!([{ "type": "text", "text": first.data["text"] }]);
    let input = json!({
        "session_id": "chat", "cwd": project.home.project(), "hook_event_name": "PostToolUse",
        "tool_name": "mcp__workrail__start_workflow", "tool_response": response,
    });
    let mut hook = project.home.command(&["hook", "claude-code", "PostToolUse"]);
    let mut child = hook.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.to_string().as_bytes()).unwrap();
    assert!(child.wait().unwrap().success());
    let report = json!({
        "kind": "wr.verification_report", "result": "passed",
        "checks": [{ "name": "test", "result": "passed", "command": "sh check.sh" }],
    });
    let output = json!({ "notesMarkdown": "All tests pass.", "artifacts": [report] });
    let call = json!({ "ackToken": first.string("ackToken"), "output": output });
    let next = client.call("continue_workflow", call);
    assert_eq!(next.step(), "report", "{}", next.data);
    assert_eq!(project.runs(), 1);
    assert_eq!(next.warnings(), [] as [&str; 0], "{}", next.data);
}
