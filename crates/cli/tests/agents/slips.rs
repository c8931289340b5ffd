//! Agent 11 makes mistakes: it sends placeholders back, mistypes values that nothing checks, uses stale tokens, and
//! changes what was approved. Nothing wrong advances, and nothing it wrote is lost.

use serde_json::{Value, json};
use workrail_testkit::home::Home;
use workrail_testkit::mcp_client::{ToolReply, with_own_words};

use crate::support::{Agent, home_with, label, plain_workflow};

/// Every contract of ours with a closed set of words, each in its own step.
fn closed_words() -> Value {
    let contracts = [
        "capability_observation",
        "changed_files",
        "coordinator_signal",
        "discovery_handoff",
        "gate_verdict",
        "review_findings",
        "review_verdict",
        "verification_report",
        "workflow_divergence",
    ];
    let steps: Vec<Value> = contracts
        .iter()
        .map(|name| {
            json!({ "id": name, "title": name, "prompt": "Deliver it.",
                    "outputContract": { "contractRef": format!("wr.contracts.{name}") } })
        })
        .collect();
    json!({ "id": "project.words", "name": "Words", "description": "Closed words.", "version": "1.0.0", "steps": steps })
}

/// JSON pointers to the words to choose from.
fn choices(value: &Value, at: &str, found: &mut Vec<String>) {
    match value {
        Value::String(text) if text.starts_with("<one of: ") => found.push(at.to_owned()),
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(n, item)| choices(item, &format!("{at}/{n}"), found));
        }
        Value::Object(members) => {
            members.iter().for_each(|(name, member)| choices(member, &format!("{at}/{name}"), found));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[test]
fn figure_agent_11_mistypes_every_word_where_nobody_stops_it() {
    let home = home_with(&[closed_words()]);
    let mut agent = Agent::of(&home);
    let mode = "full_auto_never_stop";
    let mut at =
        agent.done("start_workflow", json!({ "workflowId": "project.words", "goal": "words", "mode": mode }));
    let (mut slips, mut corrected) = (0, 0);
    while at.data["isComplete"] != true {
        let shown = at.data["nextCall"]["arguments"].clone();
        let mut places = Vec::new();
        choices(&shown["output"], "/output", &mut places);
        assert!(!places.is_empty(), "the words are in the call: {shown}");
        let step = at.step().clone();
        let mut typo = with_own_words(&shown);
        for place in places.iter().take(2) {
            let wrong = typo.pointer(place).unwrap().as_str().unwrap().to_owned() + "x";
            *typo.pointer_mut(place).unwrap() = json!(wrong);
            let blocked = agent.done("continue_workflow", typo.clone());
            slips += 1;
            assert_eq!(
                (&blocked.data["kind"], blocked.step()),
                (&json!("blocked"), &step),
                "{}",
                blocked.text
            );
            assert!(
                blocked.text.contains(&format!("not \"{wrong}\"")),
                "the word is named: {}",
                blocked.text
            );
            typo = with_own_words(&blocked.data["nextCall"]["arguments"]);
            at = blocked;
        }
        at = agent.follow(&at);
        corrected += 1;
        assert_eq!(at.data["kind"], "ok", "{}", at.text);
    }
    assert_eq!(at.data["status"], "complete", "a slip that was corrected leaves no gap: {}", at.text);
    println!(
        "{}",
        agent
            .close()
            .figure(11, &format!("{slips} mistyped words, all named, {corrected} steps corrected, 0 gaps"))
    );
}

#[test]
fn placeholders_sent_back_unchanged_are_refused() {
    let home = home_with(&[closed_words(), plain_workflow("project.plain", 1)]);
    let mut agent = Agent::of(&home);
    for workflow in ["project.words", "project.plain"] {
        let at = agent.start(workflow, "send it back");
        let back = agent.call("continue_workflow", at.data["nextCall"]["arguments"].clone());
        assert!(back.is_error || back.data["kind"] == "blocked", "{}", back.text);
        let next = if back.is_error { at } else { back };
        let next = agent.follow(&next);
        assert_eq!(next.data["kind"], "ok", "{}", next.text);
    }
    agent.close();
}

#[test]
fn an_old_token_leads_to_the_current_step_at_every_depth() {
    let home = home_with(&[plain_workflow("project.deep", 8)]);
    let mut agent = Agent::of(&home);
    let mut at = agent.start("project.deep", "go deep");
    let mut old = vec![at.string("stateToken")];
    for n in 0..6 {
        at = agent.complete(&at, &format!("Did part {n}."));
        old.push(at.string("stateToken"));
    }
    let newest = old.pop().unwrap();
    for (depth, token) in old.iter().enumerate() {
        let shown = agent.look(token);
        let now = &shown.data["runIsAt"];
        assert_eq!(now["stepNumber"], 7, "{}", shown.text);
        let lead = shown.text.find(&now["nextCall"]["arguments"].to_string()).unwrap();
        assert!(lead < shown.text.find(&format!("Do part {depth}")).unwrap(), "{}", shown.text);
        let led = agent.follow_call(&now["nextCall"]);
        assert_eq!(led.step(), &json!("step-6"));
    }
    assert_eq!(agent.look(&newest).step(), &json!("step-6"));
    agent.close();
}

fn gated() -> Value {
    let mut workflow = plain_workflow("project.gated", 2);
    workflow["steps"][0]["requireConfirmation"] = json!({ "kind": "human_approval" });
    workflow
}

fn approve(home: &Home, reply: &ToolReply) {
    let label = label(reply);
    let ran = home.typed(&["approve", &label], &label);
    assert_eq!(ran.code, 0, "{ran:?}");
}

#[test]
fn an_approved_submission_cannot_be_swapped() {
    let home = home_with(&[gated()]);
    let mut agent = Agent::of(&home);
    let at = agent.start("project.gated", "remove a branch");
    let blocked = agent.complete(&at, "Will run: git branch -d perf");
    approve(&home, &at);
    let swapped = agent.complete(&blocked, "Will run: dropdb production");
    assert_eq!(swapped.data["kind"], "blocked", "{}", swapped.text);
    // Only with a new decision on the new text; the old approval applies only to the old text.
    let back = agent.complete(&swapped, "Will run: git branch -d perf");
    assert_eq!((&back.data["kind"], back.step()), (&json!("ok"), &json!("step-1")), "{}", back.text);
    agent.close();
}
