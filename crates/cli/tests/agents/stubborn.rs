//! Agent 7 never sends notes: a never-stop run ends with its gaps disclosed, a guided one stays blocked, gets help
//! each time and is never stuck.

use serde_json::{Value, json};
use workrail_testkit::mcp_client::{ToolReply, with_own_words};

use crate::support::{Agent, events_of_kind, home_with, plain_workflow};

const REFUSALS: usize = 12;
const REFUSALS_BEFORE_WAY_OUT: usize = 5;

fn without_notes(reply: &ToolReply) -> Value {
    let mut call = reply.data["nextCall"]["arguments"].clone();
    call.as_object_mut().unwrap().remove("output");
    call
}

fn start(agent: &mut Agent, mode: &str) -> ToolReply {
    agent.done(
        "start_workflow",
        json!({ "workflowId": "wr.small_change", "mode": mode, "goal": format!("in {mode}") }),
    )
}

fn status(agent: &mut Agent, run: &ToolReply) -> Value {
    let label = run.data["run"]["label"].clone();
    let found = agent.done("resume_session", json!({ "run": label }));
    found.data["candidates"][0]["status"].clone()
}

#[test]
fn figure_agent_7_never_sends_notes() {
    let home = home_with(&[]);
    let mut agent = Agent::of(&home);
    let mut reply = start(&mut agent, "full_auto_never_stop");
    let mut gaps = 0;
    while reply.data["isComplete"] != true {
        for expected in ["blocked", "blocked", "ok"] {
            let call = without_notes(&reply);
            reply = agent.done("continue_workflow", call);
            assert_eq!(reply.data["kind"], expected, "asked twice, then passed over: {}", reply.text);
        }
        gaps += 1;
    }
    assert_eq!(status(&mut agent, &reply), "complete_with_gaps");
    let recorded = events_of_kind(&home, "gap_recorded");
    assert_eq!(recorded.iter().filter(|gap| gap["data"]["severity"] == "critical").count(), gaps);

    let mut refusals = 0;
    for mode in ["guided", "full_auto_stop_on_user_deps"] {
        let first = start(&mut agent, mode);
        let mut reply = agent.complete(&first, "one good step, so that there is a point to go back to");
        let step = reply.step().clone();
        for n in 1..=REFUSALS {
            let call = without_notes(&reply);
            reply = agent.done("continue_workflow", call);
            refusals += 1;
            assert_eq!((reply.data["kind"].as_str(), reply.step()), (Some("blocked"), &step));
            let blocker = &reply.data["blockers"][0];
            assert_eq!(blocker["code"], "MISSING_REQUIRED_NOTES");
            for help in ["message", "suggestedFix"] {
                assert!(reply.text.contains(blocker[help].as_str().unwrap()), "{}", reply.text);
            }
            assert_eq!(status(&mut agent, &reply), "blocked");
            let offered = reply.data.get("wayOut");
            assert_eq!(offered.is_some(), n >= REFUSALS_BEFORE_WAY_OUT, "after {n} refusals: {}", reply.text);
            if let Some(call) = offered {
                assert!(reply.text.contains(&call["arguments"].to_string()), "{}", reply.text);
                let earlier = agent.follow_call(call);
                assert_eq!(earlier.step(), first.step(), "the point before this one");
            }
        }
        while reply.data["isComplete"] != true {
            reply = agent.complete(&reply, "good notes at last");
            assert_eq!(reply.data["kind"], "ok", "{}", reply.text);
        }
        assert_eq!(status(&mut agent, &reply), "complete");
    }
    let found = format!("{gaps} gaps disclosed, {refusals} refusals with help, 0 wedged");
    println!("{}", agent.close().figure(7, &found));
}

/// Every template in a blocker is accepted once it is filled in.
#[test]
fn the_template_in_a_blocker_is_accepted_once_filled_in() {
    for capability in ["web_browsing", "delegation"] {
        let mut workflow = plain_workflow("project.probing", 1);
        workflow["capabilities"] = json!({ "required": [capability] });
        let home = home_with(&[workflow]);
        let mut agent = Agent::of(&home);
        let first = agent.start("project.probing", "probe");
        let blocked = agent.complete(&first, "did not look");
        assert_eq!(blocked.data["kind"], "blocked", "{}", blocked.text);
        let template = &blocked.data["nextCall"]["arguments"]["output"];
        let fix = blocked.data["blockers"][0]["suggestedFix"].as_str().unwrap();
        assert!(fix.contains(&template["artifacts"].to_string()), "{fix}, and the call: {template}");
        let mut call = without_notes(&blocked);
        call["output"] = with_own_words(template);
        call["output"]["artifacts"][0]["status"] = json!("available");
        let passed = agent.done("continue_workflow", call);
        assert_eq!((passed.data["kind"].as_str(), passed.step()), (Some("ok"), &json!("step-0")));
        agent.close();
    }
}
