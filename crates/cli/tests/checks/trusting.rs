//! Nothing runs until a user has trusted exactly that command (G121).

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};

use insta::assert_snapshot;
use serde_json::{Value, json};
use workrail_testkit::home::Home;
use workrail_testkit::mcp_client::{ToolReply, with_own_words};

use super::{PASSES, PROGRAM, Project, blockers};

/// G121: an untrusted check is reported as untrusted, recorded as not run, and does not block on its own.
#[test]
fn an_untrusted_check_is_recorded_as_not_run_and_does_not_block() {
    let project = Project::new(&json!({}), PASSES);
    let mut client = project.home.client();
    let first = project.start(&mut client, "guided");
    let next = client.next(&first);
    assert_eq!(next.step(), "report", "{}", next.data);
    assert_eq!(next.warnings(), ["CHECK_NOT_RUN"]);
    let told = next.data["warnings"][0]["message"].as_str().unwrap().replace(&first.label(), "LABEL");
    assert_snapshot!(told);
    assert_eq!(project.outcomes(&first.label()), ["not_run: untrusted"]);
    assert_eq!(project.runs(), 0);
}

/// G121: trusting needs a terminal and the typed name, like approving, and is not available over MCP.
#[test]
fn only_a_person_at_a_terminal_can_trust() {
    let project = Project::new(&json!({}), PASSES);
    assert_eq!(project.home.run(&["trust"]).code, 2, "trusting needs a terminal");
    assert_ne!(project.home.typed(&["trust"], "yes").code, 0, "the folder's name is typed");
    let trusted = project.home.done(&["trust", "list", "--json"]).json();
    assert_eq!(trusted["trusted"], json!([]));
    let mut client = project.home.client();
    let tools = client.request("tools/list", json!({}));
    let names: Vec<&str> = tools["result"]["tools"]
        .as_array()
        .unwrap()
        .iter()
        .map(|tool| tool["name"].as_str().unwrap())
        .collect();
    assert!(names.iter().all(|name| !name.contains("trust")), "{names:?}");
}

#[test]
fn what_is_trusted_is_shown_and_can_be_taken_back() {
    let project = Project::new(&json!({}), PASSES);
    let shown = project.home.typed(&["trust"], "project");
    assert_eq!(shown.code, 0);
    let root = project.home.project().canonicalize().unwrap();
    let words = shown.out.replace('\r', "").replace(root.to_str().unwrap(), "PROJECT");
    let words = words.replace(project.home.root().to_str().unwrap(), "ROOT");
    let hash = words.find("sha256:").map(|at| words[at..at + 71].to_owned()).unwrap();
    assert_snapshot!(words.replace(&hash, "HASH"));
    let file = project.home.home().join(".config/workrail/trusted-checks.json");
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(project.home.run(&["trust"]).code, 0, "nothing is left to ask");
    let again = project.home.done(&["trust", "--json"]).json();
    assert_eq!((&again["changed"], &again["trusted"][0]["check"]), (&json!(false), &json!("test")));

    let revoked = project.home.done(&["trust", "revoke", "test"]);
    assert_snapshot!(revoked.out);
    let mut client = project.home.client();
    let first = project.start(&mut client, "guided");
    client.next(&first);
    assert_eq!(project.outcomes(&first.label()), ["not_run: untrusted"]);
}

/// G121: any change makes it another command, which is not trusted.
#[test]
fn a_changed_command_workflow_or_program_loses_its_trust() {
    let outcome = |change: &dyn Fn(&Project)| {
        let project = Project::trusted(&json!({}), PASSES);
        change(&project);
        let mut client = project.home.client();
        let first = project.start(&mut client, "guided");
        client.next(&first);
        project.outcomes(&first.label()).remove(0)
    };
    let checks = |text: &'static str| {
        move |project: &Project| project.home.write(&project.path(".workrail/checks.toml"), text)
    };
    assert_eq!(outcome(&|_| {}), "passed");
    assert_eq!(outcome(&checks("[test]\nargv = [\"sh\", \"check.sh\", \"-v\"]\n")), "not_run: untrusted");
    assert_eq!(
        outcome(&checks("[test]\nargv = [\"sh\", \"check.sh\"]\ndirectory = \"scratch\"\n")),
        "not_run: untrusted"
    );
    assert_eq!(outcome(&|project| project.workflow("1.0.1", &json!({}))), "not_run: untrusted");
    assert_eq!(outcome(&checks("[lint]\nargv = [\"sh\", \"check.sh\"]\n")), "not_run: undefined");
    assert_eq!(outcome(&checks("[test]\nargv = \"sh check.sh\"\n")), "not_run: invalid_file");
    assert_eq!(outcome(&checks("[test]\nargv = [\"no-such-program\"]\n")), "not_run: program_missing");
    assert_eq!(
        outcome(&|project| fs::remove_file(project.path(".workrail/checks.toml")).unwrap()),
        "not_run: undefined"
    );
}

/// G121: another program of the same name earlier on the path is not trusted.
#[test]
fn another_program_of_the_same_name_is_not_trusted() {
    let project = Project::trusted(&json!({}), PASSES);
    let folder = project.home.root().join("bin");
    project.home.write(&folder.join("sh"), "#!/bin/sh\nexit 0\n");
    fs::set_permissions(folder.join("sh"), fs::Permissions::from_mode(0o755)).unwrap();
    let mut path = folder.into_os_string();
    path.push(":/usr/bin:/bin");
    let mut client = project.home.with("PATH", path).client();
    let first = project.start(&mut client, "guided");
    client.next(&first);
    assert_eq!(project.outcomes(&first.label()), ["not_run: untrusted"]);
}

/// G121: a directory that leads out of the workspace through a link is refused, when trusting and when running.
#[test]
fn a_directory_outside_the_workspace_is_refused() {
    let project = Project::new(&json!({}), PASSES);
    project
        .home
        .write(&project.path(".workrail/checks.toml"), "[test]\nargv = [\"true\"]\ndirectory = \"sub\"\n");
    fs::create_dir(project.path("sub")).unwrap();
    project.trust();
    fs::remove_dir(project.path("sub")).unwrap();
    symlink(project.home.home(), project.path("sub")).unwrap();
    let mut client = project.home.client();
    let first = project.start(&mut client, "guided");
    client.next(&first);
    assert_eq!(project.outcomes(&first.label()), ["not_run: outside_workspace"]);
    project.home.done(&["trust", "revoke", "--all"]);
    assert_eq!(project.home.typed(&["trust"], "project").code, 2);
}

/// G121: a settings file in a repository cannot move the trust file into the repository.
#[test]
fn a_trust_file_in_the_repository_trusts_nothing() {
    let project = Project::trusted(&json!({}), PASSES);
    let file = project.home.home().join(".config/workrail/trusted-checks.json");
    let inside = project.path("config/workrail/trusted-checks.json");
    project.home.write(&inside, &fs::read_to_string(&file).unwrap());
    fs::set_permissions(&inside, fs::Permissions::from_mode(0o600)).unwrap();
    fs::remove_file(&file).unwrap();
    let named = project.home.with("WORKRAIL_CONFIG", project.path("config/workrail/config.toml"));
    project.home.write(&project.path("config/workrail/config.toml"), "");
    let elsewhere = project.home.with("XDG_CONFIG_HOME", project.path("config"));
    for home in [named, elsewhere] {
        let mut client = home.client();
        let first = project.start(&mut client, "guided");
        client.next(&first);
        assert_eq!(project.outcomes(&first.label()), ["not_run: untrusted"]);
    }
}

/// A run that started before its workflow's file changed is trusted by its label.
#[test]
fn a_run_is_trusted_by_its_label() {
    let project = Project::new(&json!({}), PASSES);
    let mut client = project.home.client();
    let first = project.start(&mut client, "guided");
    project.workflow("2.0.0", &json!({}));
    assert_eq!(project.home.typed(&["trust", "--run", &first.label()], "project").code, 0);
    let next = client.next(&first);
    assert_eq!(next.step(), "report");
    assert_eq!(project.outcomes(&first.label()), ["passed"]);
}

#[test]
fn a_checks_file_is_proposed_from_what_the_repository_has() {
    let home = Home::new(PROGRAM);
    home.write(&home.project().join("Makefile"), "test:\n\ttrue\n");
    let shown = home.done(&["trust", "propose", "--print"]).out;
    assert_snapshot!(shown);
    home.done(&["trust", "propose"]);
    let written = fs::read_to_string(home.project().join(".workrail/checks.toml")).unwrap();
    assert_eq!(written.trim_end(), shown.trim_end());
    assert_eq!(home.run(&["trust", "propose"]).code, 2, "a file that exists is not changed");
}

/// G107: a claim alone blocks if the step requires more, and only a user can allow the check.
#[test]
fn a_step_that_asks_for_checked_evidence_waits_for_the_check() {
    let project = Project::new(&json!({ "evidence": { "min": "checked" } }), PASSES);
    let mut client = project.home.client();
    let first = project.start(&mut client, "guided");
    let blocked = client.next(&first);
    assert_eq!(blockers(&blocked), ["EVIDENCE_MISSING"], "{}", blocked.data);
    let blocker = &blocked.data["blockers"][0];
    let words =
        format!("{}\n{}", blocker["message"].as_str().unwrap(), blocker["suggestedFix"].as_str().unwrap());
    assert_snapshot!(words.replace(&first.label(), "LABEL"));
    project.trust();
    let next = client.next(&blocked);
    assert_eq!(next.step(), "report", "{}", next.data);
    assert_eq!(project.outcomes(&first.label()), ["not_run: untrusted", "passed"]);
}

/// Never-stop waits for no one: what only a user can allow is recorded as a gap at once.
#[test]
fn never_stop_does_not_ask_the_agent_for_trust() {
    let project = Project::new(&json!({ "evidence": { "min": "checked" } }), PASSES);
    let mut client = project.home.client();
    let first = project.start(&mut client, "full_auto_never_stop");
    let next = client.next(&first);
    assert_eq!(next.step(), "report", "{}", next.data);
    let log = project.home.done(&["log", &first.label(), "--json"]).json();
    let gap = log["events"].as_array().unwrap().iter().find(|event| event["kind"] == "gap_recorded").unwrap();
    assert_eq!(gap["data"]["reason"]["detail"], "evidence_missing");
}

/// G107: an observation by a hook, or a change that the engine saw, counts for more than a claim.
#[test]
fn a_step_that_requires_observed_evidence_accepts_what_the_engine_saw() {
    let project = Project::new(&json!({ "checks": [], "evidence": { "min": "observed" } }), PASSES);
    let mut client = project.home.client();
    let first = project.start(&mut client, "guided");
    let blocked = client.next(&first);
    assert_eq!(blockers(&blocked), ["EVIDENCE_MISSING"], "{}", blocked.data);
    project.home.write(&project.path("new.txt"), "work\n");
    assert_eq!(client.next(&blocked).step(), "report");
}

/// G107: a criterion asks for evidence of what the notes claim; notes that claim something else pass without it.
#[test]
fn a_criterion_asks_for_evidence_of_what_the_notes_claim() {
    let criteria = json!({ "or": [
        { "type": "contains", "value": "Tests: passed", "message": "Say that the tests pass.", "evidence": { "min": "checked" } },
        { "type": "contains", "value": "Tests: none", "message": "Say that there are no tests." },
    ] });
    let project = Project::new(&json!({ "validationCriteria": criteria }), PASSES);
    let mut client = project.home.client();
    let submitted = |reply: &ToolReply, notes: &str| {
        let mut arguments = with_own_words(&reply.data["nextCall"]["arguments"]);
        arguments["output"] = json!({ "notesMarkdown": notes });
        arguments
    };
    let first = project.start(&mut client, "guided");
    let neither = client.call("continue_workflow", submitted(&first, "Changed the parser."));
    assert_eq!(blockers(&neither), ["INVALID_REQUIRED_OUTPUT"], "{}", neither.data);
    let claimed = client.call("continue_workflow", submitted(&neither, "Tests: passed"));
    assert_eq!(blockers(&claimed), ["EVIDENCE_MISSING"], "{}", claimed.data);
    let blocker = &claimed.data["blockers"][0];
    let words =
        format!("{}\n{}", blocker["message"].as_str().unwrap(), blocker["suggestedFix"].as_str().unwrap());
    assert_snapshot!(words.replace(&first.label(), "LABEL"));
    project.trust();
    let next = client.next(&claimed);
    assert_eq!(next.step(), "report", "the notes were kept: {}", next.data);
    assert_eq!(project.outcomes(&first.label()).last().unwrap(), "passed");
    project.home.done(&["trust", "revoke", "--all"]);
    let other = project.start(&mut client, "guided");
    let other = client.call("continue_workflow", submitted(&other, "Tests: none"));
    assert_eq!(other.step(), "report", "{}", other.data);
}

/// G107: a claim that was refused can be withdrawn, and the record then has only what replaced it.
#[test]
fn a_claim_without_evidence_can_be_withdrawn() {
    let claim =
        json!({ "type": "contains", "value": "Tests: passed", "message": "Say that the tests pass." });
    let mut proven = claim.clone();
    proven["evidence"] = json!({ "min": "checked" });
    let criteria = json!({ "or": [proven, { "not": claim }] });
    let project = Project::new(&json!({ "validationCriteria": criteria }), PASSES);
    let mut client = project.home.client();
    let first = project.start(&mut client, "guided");
    let submitted = |reply: &ToolReply, notes: &str| {
        let mut arguments = with_own_words(&reply.data["nextCall"]["arguments"]);
        arguments["output"] = json!({ "notesMarkdown": notes });
        arguments
    };
    let claimed = client.call("continue_workflow", submitted(&first, "Tests: passed"));
    assert_eq!(blockers(&claimed), ["EVIDENCE_MISSING"], "{}", claimed.data);
    let next = client.call("continue_workflow", submitted(&claimed, "Not tested: the runner is offline."));
    assert_eq!(next.step(), "report", "{}", next.data);
    let log = project.home.done(&["log", &first.label(), "--json"]).json();
    let outputs =
        log["events"].as_array().unwrap().iter().filter(|event| event["kind"] == "node_output_appended");
    let notes: Vec<&Value> = outputs.map(|event| &event["data"]["payload"]["notesMarkdown"]).collect();
    assert_eq!(notes, ["Tests: passed", "Not tested: the runner is offline."], "each attempt has its own");
}

/// G107: in a step with an output contract, leaving the notes out is no way around the evidence.
#[test]
fn notes_that_need_evidence_cannot_be_left_out() {
    let rule = json!({ "type": "contains", "value": "Tests: passed", "message": "Say that the tests pass.",
        "evidence": { "min": "checked" } });
    let step = json!({ "validationCriteria": [rule],
        "outputContract": { "contractRef": "wr.contracts.verification_report" } });
    let project = Project::new(&step, PASSES);
    let mut client = project.home.client();
    let first = project.start(&mut client, "guided");
    let mut arguments = with_own_words(&first.data["nextCall"]["arguments"]);
    arguments["output"] = json!({ "artifacts": [{ "kind": "wr.verification_report", "result": "passed",
        "checks": [{ "name": "unit", "result": "passed" }] }] });
    let blocked = client.call("continue_workflow", arguments);
    assert_eq!(blockers(&blocked), ["MISSING_REQUIRED_OUTPUT"], "{}", blocked.data);
}
