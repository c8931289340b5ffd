//! A refused attempt for every blocker code.

use serde_json::{Value, json};
use workrail_model::blocker::BlockerCode;

use crate::scene::{Answer, Scene, another_round, browsing, end, one_round, step, work};

/// `None` for a code that nothing reports.
pub(crate) fn case(code: BlockerCode) -> Option<Answer> {
    Some(match code {
        BlockerCode::AssessmentFollowupRequired => assessment_followup_required(),
        BlockerCode::CheckFailed => check_failed(),
        BlockerCode::EditsNotAllowed => edits_not_allowed(),
        BlockerCode::EvidenceMissing => {
            refused(step(json!({ "checks": [{ "command": "test" }], "evidence": { "min": "checked" } })))
        }
        BlockerCode::InvalidRequiredOutput => refused(step(json!({ "validationCriteria": [
            { "type": "contains", "value": "Sources", "message": "Name the sources." }] }))),
        BlockerCode::InvariantViolation => refused(loops_that_skip_everything()),
        BlockerCode::LoopLimitReached => refused_with(one_round("block"), another_round()),
        BlockerCode::MissingContextKey => {
            refused(step(json!({ "sets": { "size": { "values": ["small", "large"] } } })))
        }
        BlockerCode::MissingRequiredNotes => missing_required_notes(),
        BlockerCode::MissingRequiredOutput => {
            refused(step(json!({ "outputContract": { "contractRef": "wr.contracts.verification_report" } })))
        }
        BlockerCode::RequiredCapabilityUnavailable => refused_with(browser(), browsing("unavailable")),
        BlockerCode::RequiredCapabilityUnknown => required_capability_unknown(),
        BlockerCode::ScopeExceeded => scope_exceeded(),
        BlockerCode::UserOnlyDependency => {
            refused(step(json!({ "requireConfirmation": { "kind": "human_approval" } })))
        }
        // Part of the locked set. A damaged session is refused with the error `SESSION_CORRUPT`.
        BlockerCode::StorageCorruptionDetected => return None,
    })
}

/// The first step of a workflow with these members, completed with notes only.
fn refused(members: Value) -> Answer {
    refused_with(members, json!({}))
}

fn refused_with(members: Value, more: Value) -> Answer {
    let mut scene = Scene::new();
    let first = scene.start(members);
    let blocked = scene.send(&first, more);
    scene.answer(blocked)
}

fn browser() -> Value {
    json!({ "capabilities": { "required": ["web_browsing"] } })
}

/// After the first step, a million rounds whose only step never runs.
fn loops_that_skip_everything() -> Value {
    let never = json!({ "var": "size", "equals": "large" });
    let counted = |id: &str, body: Value| {
        json!({ "id": id, "type": "loop", "title": "Again", "body": body,
                "loop": { "type": "for", "count": 1000, "maxIterations": 1000 } })
    };
    let skipped = json!({ "id": "skipped", "title": "Skipped", "prompt": "Do it.", "runCondition": never });
    let inner = counted("inner", json!([skipped]));
    json!({ "steps": [work(json!({})), counted("outer", json!([inner])), end()] })
}

fn assessment_followup_required() -> Answer {
    let members = json!({
        "assessments": [{ "id": "cause", "purpose": "Is the cause known?", "dimensions": [
            { "id": "control", "purpose": "How far?", "levels": ["none", "full"] }] }],
        "steps": [work(json!({
            "assessmentRefs": ["cause"],
            "assessmentConsequences": [{ "when": { "anyEqualsLevel": "none" },
                "effect": { "kind": "require_followup", "guidance": "Reproduce it first." } }],
        })), end()],
    });
    let rating =
        json!({ "kind": "wr.assessment", "assessmentId": "cause", "dimensions": { "control": "none" } });
    refused_with(members, json!({ "artifacts": [rating] }))
}

fn check_failed() -> Answer {
    let mut scene = Scene::in_repository("echo 'assertion failed: 1 == 2'\nexit 101\n");
    let members = step(json!({ "checks": [{ "command": "test" }] }));
    scene.workflow(members.clone());
    let trusted = scene.home.typed(&["trust"], "project");
    assert_eq!(trusted.code, 0, "{trusted:?}");
    let first = scene.start(members);
    let blocked = scene.send(&first, json!({}));
    scene.answer(blocked)
}

fn edits_not_allowed() -> Answer {
    let mut scene = Scene::in_repository("");
    let first = scene.start(step(json!({ "edits": { "allow": ["docs/**"] } })));
    scene.edit("docs/plan.md", "The plan.\n");
    scene.edit("src/tool.rs", "fn main() {}\n");
    let blocked = scene.send(&first, json!({}));
    scene.answer(blocked)
}

fn missing_required_notes() -> Answer {
    let mut scene = Scene::new();
    let first = scene.start(json!({}));
    let blocked = scene.client.call("continue_workflow", json!({ "ackToken": first.string("ackToken") }));
    scene.answer(blocked)
}

/// A mode that never stops skips the probe; the user then asks for another mode.
fn required_capability_unknown() -> Answer {
    let mut scene = Scene::new();
    let mut at = scene.start_in("full_auto_never_stop", browser());
    while at.step() != "work" {
        at = scene.send(&at, json!({}));
    }
    scene.home.done(&["session", "prefs", "set", "guided", "--run", &at.label()]);
    let last = scene.send(&at, json!({}));
    let blocked = scene.send(&last, json!({}));
    scene.answer(blocked)
}

fn scope_exceeded() -> Answer {
    let mut scene = Scene::in_repository("");
    let plan = scene.start(json!({ "steps": [
        { "id": "plan", "title": "Plan", "prompt": "Plan it.",
          "sets": { "changeScope": { "type": "list", "description": "The files that change." } } },
        work(json!({ "edits": { "allow": ["docs/**"], "scope": "changeScope" } })),
        end(),
    ] }));
    let first = scene.send(&plan, json!({ "context": { "changeScope": ["src"] } }));
    scene.edit("Makefile", "all:\n");
    let blocked = scene.send(&first, json!({}));
    scene.answer(blocked)
}
