//! Agent 5 sends values that are allowed but odd: what is accepted is kept whole and can be read by any server.

use serde_json::{Value, json};
use workrail_model::limits::{CONTEXT_BYTES_MAX, NOTES_EVENT_BYTES_MAX, TRUNCATION_MARKER};

use crate::bad_input::nested;
use crate::support::{Agent, ack, contents, events_of_kind, home_with, plain_workflow};
use crate::wording::assert_text;

const CONTINUE: &str = "continue_workflow";

#[test]
fn an_accepted_value_is_readable_by_another_server() {
    for depth in [20, 50, 60, 63, 64, 65, 70, 100] {
        let home = home_with(&[]);
        let mut agent = Agent::of(&home);
        let mut first = agent.start("wr.small_change", "go deep");
        for part in ["context", "artifact"] {
            let mut call = ack(&first, "deep");
            match part {
                "context" => call["context"] = nested(depth),
                _ => call["output"]["artifacts"] = json!([{ "kind": "x", "deep": nested(depth) }]),
            }
            let reply = agent.call(CONTINUE, call);
            let reply = if reply.is_error { agent.follow(&reply) } else { reply };
            assert!(!reply.is_error, "{part} {depth} deep: {}", reply.text);
            agent.close();
            agent = Agent::of(&home);
            first = agent.look(&reply.string("stateToken"));
        }
        agent.close();
    }
    let numbers = [1e15, 9_007_199_254_740_992.0, 1e16, -1e16, 1e19, 1e20, 1e21, 1.5e300, 5e-324, -0.0];
    for number in numbers {
        let home = home_with(&[]);
        let mut agent = Agent::of(&home);
        let first = agent.start("wr.small_change", "count");
        let mut call = ack(&first, "counted");
        call["context"] = json!({ "n": number });
        call["output"]["artifacts"] = json!([{ "kind": "x", "n": number }]);
        let reply = agent.call(CONTINUE, call);
        let reply = if reply.is_error { agent.follow(&reply) } else { reply };
        assert!(!reply.is_error, "{number}: {}", reply.text);
        agent.close();
        Agent::of(&home).look(&reply.string("stateToken"));
    }
}

#[test]
fn figure_agent_5_writes_long_notes() {
    let home = home_with(&[]);
    let mut agent = Agent::of(&home);
    let first = agent.start("wr.small_change", "write much");
    let notes = "All that I saw, in many words. ".repeat(20 * 1024 / 31);
    agent.complete(&first, &notes);
    let recorded = events_of_kind(&home, "node_output_appended");
    let kept = recorded[0]["data"]["payload"]["notesMarkdown"].as_str().unwrap();
    assert!(kept.len() <= NOTES_EVENT_BYTES_MAX && kept.ends_with(TRUNCATION_MARKER), "{} bytes", kept.len());
    assert!(notes.starts_with(kept.strip_suffix(TRUNCATION_MARKER).unwrap()));
    let blobs = contents(&home).into_iter().filter(|(path, _)| path.starts_with("blobs"));
    let whole = blobs.filter(|(_, bytes)| *bytes == notes.as_bytes()).count();
    assert_eq!(whole, 1, "the whole text is kept once");
    println!("{}", agent.close().figure(5, &format!("{} bytes of notes kept whole", notes.len())));
}

#[test]
fn odd_characters_survive_the_round_trip() {
    let home = home_with(&[]);
    let mut agent = Agent::of(&home);
    let first = agent.start("wr.small_change", "odd \u{0} \u{1b}[31m goal");
    // What looks like a token's mark, a quotation, a control sequence or an instruction is only text.
    let words = "a\u{0}ack\u{0}b \u{0}state@3\u{0} \u{7}\u{1b}[2J\r\n> quoted\u{85}\u{2028}\u{feff}\u{10ffff} \"}]} {{goal}}";
    let next = agent.complete(&first, words);
    agent.close();
    let mut agent = Agent::of(&home);
    let again = agent.look(&next.string("stateToken"));
    let told = again.data["recap"]["entries"][0]["notes"].as_str().unwrap();
    assert_eq!(told, words.replace('\u{0}', "\u{fffd}"));
    let found = agent.done("resume_session", json!({ "query": "odd goal" }));
    let back = agent.follow(&found);
    assert_eq!(back.step(), again.step());
    agent.complete(&back, "and on");
    agent.close();
}

#[test]
fn a_full_context_stays_usable() {
    let home = home_with(&[]);
    let mut agent = Agent::of(&home);
    let full = "x".repeat(CONTEXT_BYTES_MAX - 40);
    let first =
        agent.done("start_workflow", json!({ "workflowId": "wr.small_change", "context": { "blob": full } }));
    for more in [json!({ "a": "y".repeat(100) }), json!({ "a": "y".repeat(3_000) }), many(200)] {
        let again = agent.look(&first.string("stateToken"));
        let mut call = ack(&again, "Did the work.");
        call["context"] = more;
        let refused = agent.call(CONTINUE, call);
        assert_eq!(refused.code(), "VALIDATION_ERROR", "{}", refused.text);
        let passed = agent.follow(&refused);
        assert!(!passed.is_error, "{}", passed.text);
    }
    agent.close();
}

fn many(keys: usize) -> Value {
    Value::Object((0..keys).map(|n| (format!("k{n}"), json!(n))).collect())
}

/// The same rule applies to authors: a workflow runs on every server, or the first one refuses it.
#[test]
fn an_odd_workflow_runs_everywhere_or_is_refused_at_once() {
    for odd in [json!(1e16), json!(1e20), json!(1e21), nested(40), nested(55), nested(60)] {
        let mut workflow = plain_workflow("project.odd", 3);
        workflow["steps"][1]["runCondition"] = json!({ "var": "x", "equals": odd });
        let home = home_with(&[workflow]);
        let mut agent = Agent::of(&home);
        let first = agent.call("start_workflow", json!({ "workflowId": "project.odd" }));
        if first.is_error {
            assert_eq!(first.code(), "WORKFLOW_INVALID", "{odd}: {}", first.text);
            agent.close();
            continue;
        }
        agent.close();
        let mut agent = Agent::of(&home);
        let next = agent.complete(&first, "Did the work.");
        assert_eq!(next.step(), "step-2");
        agent.close();
    }
}

#[test]
fn a_value_that_is_too_large_is_refused_when_it_is_sent_and_shortened_when_it_is_recorded() {
    let step = |id: &str, prompt: &str| json!({ "id": id, "title": id, "prompt": prompt });
    let steps = json!([step("a", "Do a."), step("show", &"{{b}}".repeat(13_000)), step("c", "Do c.")]);
    let source = json!({
        "id": "team.shows", "name": "Shows", "description": "Shows b.", "version": "1.0.0", "steps": steps,
    });
    for (name, value) in [
        ("value_too_large_as_text", json!("x".repeat(150_000))),
        ("value_too_large_as_list", json!(["x".repeat(100_000), "y".repeat(50_000)])),
    ] {
        let home = home_with(std::slice::from_ref(&source));
        let mut agent = Agent::of(&home);
        let first = agent.done("start_workflow", json!({ "workflowId": "team.shows" }));
        let mut call = ack(&first, "read the report of last week");
        call["context"] = json!({ "b": value });
        let refused = agent.call(CONTINUE, call);
        assert!(refused.is_error, "{}", refused.text);
        assert_text(&home, name, &refused.string("message"));
        let followed = agent.follow(&refused);
        assert_eq!((followed.is_error, followed.step()), (false, &json!("show")), "{}", followed.text);
        // Sent with the start, it is recorded before a step shows it.
        let recorded = json!({ "workflowId": "team.shows", "context": { "b": value } });
        let first = agent.done("start_workflow", recorded);
        let shown = agent.follow(&first);
        assert_eq!((shown.is_error, shown.step()), (false, &json!("show")), "{}", shown.text);
    }
}
