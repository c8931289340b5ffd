//! A reply for every warning code.

use serde_json::{Value, json};
use workrail_model::reply::WarningCode;
use workrail_testkit::home::Home;
use workrail_testkit::mcp_client::{ToolReply, reply_data};
use workrail_testkit::wire::{Piped, stateless};

use crate::forms;
use crate::scene::{Answer, Scene, another_round, browsing, one_round, step};

pub(crate) fn case(code: WarningCode) -> Answer {
    match code {
        WarningCode::AliasUsed => started(json!({ "workflowId": "bug-investigation" })),
        WarningCode::ApprovedHow => approved_how(),
        WarningCode::ArgumentsAdjusted => started(json!({ "workflow": "wr.small_change" })),
        WarningCode::CapabilityDegraded => {
            completed(json!({ "capabilities": { "preferred": ["web_browsing"] } }), browsing("unavailable"))
        }
        WarningCode::CheckChangedTree => check("echo new > written.txt\n", Trust::Given),
        WarningCode::CheckNotRun => check("true\n", Trust::Missing),
        WarningCode::ClaimContradicted => claim_contradicted(),
        WarningCode::ContextKeyNeverSet => context_key_never_set(),
        WarningCode::GapRecorded => gap_recorded(),
        WarningCode::LegacyWorkflowId => legacy_workflow_id(),
        WarningCode::LoopLimitReached => completed(one_round("advance"), another_round()),
        WarningCode::PinnedWorkflowDiffers => pinned_workflow_differs(),
        WarningCode::PreferencesAboveRecommendation => preferences_above_recommendation(),
        WarningCode::PreferencesPending => preferences_pending(),
        WarningCode::ReferenceUnresolved => reference_unresolved(),
        WarningCode::ReplayInputDiffers => replay_input_differs(),
        WarningCode::RunClosed => run_closed(),
        WarningCode::RunReopened => run_reopened(),
        WarningCode::SourceUnreadable => source_unreadable(),
        WarningCode::UnknownArtifactKind => completed(
            json!({}),
            json!({ "artifacts": [{ "kind": "wr.verification_reprot", "result": "passed" }] }),
        ),
        WarningCode::UserAnswered => forms::user_answered(),
        WarningCode::UserAnswerNotRecorded => forms::user_answer_not_recorded(),
        WarningCode::WorkspaceAssumed => workspace_assumed(),
    }
}

/// A started run.
fn started(arguments: Value) -> Answer {
    let mut scene = Scene::new();
    let reply = scene.client.call("start_workflow", arguments);
    scene.answer(reply)
}

/// The reply to the first step of a workflow with these members.
fn completed(members: Value, more: Value) -> Answer {
    let mut scene = Scene::new();
    let first = scene.start(members);
    let reply = scene.send(&first, more);
    scene.answer(reply)
}

fn gate() -> Value {
    step(json!({ "requireConfirmation": { "kind": "human_approval" } }))
}

fn approved_how() -> Answer {
    let mut scene = Scene::new();
    let first = scene.start(gate());
    let blocked = scene.send(&first, json!({}));
    let approved = scene.home.typed(&["approve", &first.label()], &first.label());
    assert_eq!(approved.code, 0, "{approved:?}");
    let reply = scene.client.next(&blocked);
    scene.answer(reply)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Trust {
    Given,
    Missing,
}

fn check(script: &str, trust: Trust) -> Answer {
    let mut scene = Scene::in_repository(script);
    let members = step(json!({ "checks": [{ "command": "test" }] }));
    scene.workflow(members.clone());
    if trust == Trust::Given {
        let trusted = scene.home.typed(&["trust"], "project");
        assert_eq!(trusted.code, 0, "{trusted:?}");
    }
    let first = scene.start(members);
    let reply = scene.send(&first, json!({}));
    scene.answer(reply)
}

fn claim_contradicted() -> Answer {
    let mut scene = Scene::in_repository("");
    let first =
        scene.start(step(json!({ "outputContract": { "contractRef": "wr.contracts.coding_handoff" } })));
    scene.edit("src/tool.rs", "fn main() {}\n");
    let handoff = json!({
        "kind": "wr.coding_handoff", "version": 1, "keyDecisions": [], "knownLimitations": [], "testsAdded": [],
        "filesChanged": ["src/other.rs"],
    });
    let reply = scene.send(&first, json!({ "artifacts": [handoff] }));
    scene.answer(reply)
}

fn context_key_never_set() -> Answer {
    let mut scene = Scene::new();
    let mut members = step(json!({}));
    members["steps"][1]["runCondition"] = json!({ "var": "path", "equals": "long" });
    let first = scene.start(members);
    let reply = scene.send(&first, json!({}));
    scene.answer(reply)
}

fn gap_recorded() -> Answer {
    let mut scene = Scene::new();
    let first = scene.start_in("full_auto_never_stop", gate());
    let reply = scene.send(&first, json!({}));
    scene.answer(reply)
}

fn legacy_workflow_id() -> Answer {
    let mut scene = Scene::new();
    scene.workflow(json!({ "id": "old-name" }));
    let reply = scene.client.call("start_workflow", json!({ "workflowId": "old-name" }));
    scene.answer(reply)
}

fn pinned_workflow_differs() -> Answer {
    let mut scene = Scene::new();
    let first = scene.start(json!({}));
    scene.workflow(json!({ "version": "1.0.1" }));
    let reply = scene.look(&first);
    scene.answer(reply)
}

fn preferences_above_recommendation() -> Answer {
    let mut scene = Scene::new();
    let members = json!({ "recommendedPreferences": { "recommendedAutonomy": "guided" } });
    let reply = scene.start_in("full_auto_never_stop", members);
    scene.answer(reply)
}

fn preferences_pending() -> Answer {
    let mut scene = Scene::new();
    let first = scene.start(json!({}));
    scene.home.done(&["session", "prefs", "set", "risk_policy=balanced", "--run", &first.label()]);
    let reply = scene.look(&first);
    scene.answer(reply)
}

fn reference_unresolved() -> Answer {
    let mut scene = Scene::new();
    let reply = scene.start(json!({ "references": [
        { "id": "guide", "title": "The guide", "source": "docs/guide.md", "purpose": "How it is done.",
          "authoritative": true }] }));
    scene.answer(reply)
}

fn replay_input_differs() -> Answer {
    let mut scene = Scene::new();
    let first = scene.start(json!({}));
    scene.send(&first, json!({}));
    let reply = scene.client.call(
        "continue_workflow",
        json!({ "ackToken": first.string("ackToken"), "output": { "notesMarkdown": "Did something else." } }),
    );
    scene.answer(reply)
}

/// A run that a person closed, and the reply that started it.
fn closed() -> (Scene, ToolReply) {
    let mut scene = Scene::new();
    let first = scene.start(json!({}));
    scene.home.done(&["close", &first.label(), "--reason", "the importer replaces it"]);
    (scene, first)
}

fn run_closed() -> Answer {
    let (mut scene, first) = closed();
    let reply = scene.look(&first);
    scene.answer(reply)
}

fn run_reopened() -> Answer {
    let (mut scene, first) = closed();
    let reply = scene.send(&first, json!({}));
    scene.answer(reply)
}

/// A client without a session cannot be asked for its folder, and neither the call nor the environment names one.
/// A registered folder that cannot be read: a part of its path is a file.
fn source_unreadable() -> Answer {
    let home = Home::new(env!("CARGO_BIN_EXE_workrail"));
    let folders = format!("{0}:{0}/flow.json/more", home.workflows().display());
    let mut scene = Scene::of(home.with("WORKFLOW_STORAGE_PATH", folders));
    scene.workflow(json!({}));
    scene.home.write(&scene.home.workflows().join("flow.json"), "{}");
    let reply = scene.client.call("start_workflow", json!({ "workflowId": "team.flow" }));
    scene.answer(reply)
}

fn workspace_assumed() -> Answer {
    let scene = Scene::new();
    scene.workflow(json!({}));
    let home = scene.home.without("CLAUDE_PROJECT_DIR");
    let arguments = json!({ "workflowId": "team.flow" });
    let call = stateless(1, "tools/call", json!({ "name": "start_workflow", "arguments": arguments }));
    let answer = Piped::start(&home).ask(&call);
    Answer { home, data: reply_data(&answer["result"]).clone() }
}
