//! Nothing runs until a person has trusted exactly it (G121).

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};

use insta::assert_snapshot;
use serde_json::json;
use workrail_testkit::home::Home;

use super::{PASSES, PROGRAM, Project, blockers, warnings};

/// G121: an untrusted check is said to be untrusted, recorded as not run, and does not block by itself.
#[test]
fn an_untrusted_check_is_recorded_as_not_run_and_does_not_block() {
    let project = Project::new(&json!({}), PASSES);
    let mut client = project.home.client();
    let first = project.start(&mut client, "guided");
    let next = client.next(&first);
    assert_eq!(next.step(), "report", "{}", next.structured);
    assert_eq!(warnings(&next), ["CHECK_NOT_RUN"]);
    let told = next.structured["warnings"][0]["message"].as_str().unwrap().replace(&first.label(), "LABEL");
    assert_snapshot!(told);
    assert_eq!(project.outcomes(&first.label()), ["not_run: untrusted"]);
    assert_eq!(project.runs(), 0);
}

/// G121: the command needs a terminal and the typed name, as approving does, and MCP has no way to it.
#[test]
fn only_a_person_at_a_terminal_can_trust() {
    let project = Project::new(&json!({}), PASSES);
    assert_eq!(project.home.run(&["trust"]).code, 1, "trusting needs a terminal");
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

    let revoked = project.home.done(&["trust", "revoke", "test"]);
    assert_snapshot!(revoked.out);
    let mut client = project.home.client();
    let first = project.start(&mut client, "guided");
    client.next(&first);
    assert_eq!(project.outcomes(&first.label()), ["not_run: untrusted"]);
}

/// G121: whatever changes is another command, which nobody has trusted.
#[test]
fn a_change_of_command_workflow_or_program_takes_the_trust_away() {
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

/// G121: another program of the same name earlier on the path is another program.
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

/// G121: a directory that a link leads out of the workspace is refused, at trusting and at running.
#[test]
fn a_directory_that_leads_out_of_the_workspace_is_refused() {
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

/// G121: a settings file that a repository brings does not move what is trusted into it.
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

/// A run that started before the workflow's file changed is trusted by its label.
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

/// G107: a claim alone blocks where the step asks for more, and only a person can allow the check.
#[test]
fn a_step_that_asks_for_checked_evidence_waits_for_the_check() {
    let project = Project::new(&json!({ "evidence": { "min": "checked" } }), PASSES);
    let mut client = project.home.client();
    let first = project.start(&mut client, "guided");
    let blocked = client.next(&first);
    assert_eq!(blockers(&blocked), ["EVIDENCE_MISSING"], "{}", blocked.structured);
    let blocker = &blocked.structured["blockers"][0];
    let words =
        format!("{}\n{}", blocker["message"].as_str().unwrap(), blocker["suggestedFix"].as_str().unwrap());
    assert_snapshot!(words.replace(&first.label(), "LABEL"));
    project.trust();
    let next = client.next(&blocked);
    assert_eq!(next.step(), "report", "{}", next.structured);
    assert_eq!(project.outcomes(&first.label()), ["not_run: untrusted", "passed"]);
}

/// Never-stop waits for nobody: what only a person can allow is a gap at once.
#[test]
fn never_stop_does_not_ask_the_agent_for_trust() {
    let project = Project::new(&json!({ "evidence": { "min": "checked" } }), PASSES);
    let mut client = project.home.client();
    let first = project.start(&mut client, "full_auto_never_stop");
    let next = client.next(&first);
    assert_eq!(next.step(), "report", "{}", next.structured);
    let log = project.home.done(&["log", &first.label(), "--json"]).json();
    let gap = log["events"].as_array().unwrap().iter().find(|event| event["kind"] == "gap_recorded").unwrap();
    assert_eq!(gap["data"]["reason"]["detail"], "evidence_missing");
}

/// G107: what a hook saw, or a change that the engine saw, is more than a claim.
#[test]
fn a_step_that_asks_for_observed_evidence_takes_what_the_engine_saw() {
    let project = Project::new(&json!({ "checks": [], "evidence": { "min": "observed" } }), PASSES);
    let mut client = project.home.client();
    let first = project.start(&mut client, "guided");
    let blocked = client.next(&first);
    assert_eq!(blockers(&blocked), ["EVIDENCE_MISSING"], "{}", blocked.structured);
    project.home.write(&project.path("new.txt"), "work\n");
    assert_eq!(client.next(&blocked).step(), "report");
}
