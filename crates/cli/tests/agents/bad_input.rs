//! Agent 5 gets every argument wrong: every refusal comes with a call that works unchanged (G70).

use serde_json::{Value, json};
use workrail_testkit::mcp_client::ToolReply;

use crate::mangle::renew;
use crate::support::{Agent, ack, home_with};

const CONTINUE: &str = "continue_workflow";
const START: &str = "start_workflow";
const CHECKPOINT: &str = "checkpoint_workflow";
const RESUME: &str = "resume_session";

/// A tool and its arguments, made for a run that has just started.
struct Slip {
    tool: &'static str,
    what: String,
    arguments: Value,
}

/// Wrong values for one argument of an otherwise good call.
fn slips(tool: &'static str, good: &Value, at: &str, wrong: Vec<Value>) -> Vec<Slip> {
    let slip = |value: Value| {
        let mut arguments = good.clone();
        *pointed(&mut arguments, at) = value.clone();
        let shown: String = value.to_string().chars().take(60).collect();
        Slip { tool, what: format!("{tool} {at} = {shown}"), arguments }
    };
    wrong.into_iter().map(slip).collect()
}

/// The member at a path, created if missing.
fn pointed<'a>(value: &'a mut Value, path: &str) -> &'a mut Value {
    path.split('.').fold(value, |inner, name| &mut inner[name])
}

pub(crate) fn nested(depth: usize) -> Value {
    (0..depth).fold(json!(1), |inner, _| json!({ "in": inner }))
}

fn long(bytes: usize) -> Value {
    json!("x".repeat(bytes))
}

fn many_keys() -> Value {
    Value::Object((0..12_000).map(|n| (format!("key-number-{n}"), json!("a value"))).collect())
}

fn not_text() -> Vec<Value> {
    vec![json!(7), json!(true), json!(["a"]), json!({ "a": 1 }), json!([1]), json!("")]
}

fn of_contexts(tool: &'static str, good: &Value) -> Vec<Slip> {
    let wrong = vec![
        json!("words"),
        json!("{\"a\":1}"),
        json!([1]),
        json!(7),
        json!({ "__proto__": 1 }),
        json!({ "constructor": 1, "kept": 2 }),
        json!({ "prototype": null }),
        json!({ "is_autonomous": true }),
        json!({ "n": 9_007_199_254_740_993_u64 }),
        json!({ "n": [{ "deep": -9_007_199_254_740_993_i64 }] }),
        json!({ "n": u64::MAX }),
        json!({ "blob": long(300_000) }),
        many_keys(),
        nested(70),
        nested(100),
    ];
    slips(tool, good, "context", wrong)
}

fn of_outputs(tool: &'static str, good: &Value) -> Vec<Slip> {
    let mut all = slips(
        tool,
        good,
        "output",
        vec![
            json!("words"),
            json!("{\"notesMarkdown\":\"n\"}"),
            json!([1]),
            json!(7),
            json!({ "notes": "n" }),
            json!({ "notesMarkdown": "n", "extra": 1 }),
        ],
    );
    let notes =
        vec![json!(7), json!(["a", "b"]), json!({ "a": 1 }), json!(true), long(1_000_000), long(300_000)];
    all.extend(slips(tool, good, "output.notesMarkdown", notes));
    let artifacts = vec![
        json!({ "kind": "x" }),
        json!("{\"kind\":\"x\"}"),
        json!(["{\"kind\":\"x\"}"]),
        json!(["words"]),
        json!([7]),
        json!([[1]]),
        json!([{ "kind": "x", "n": 9_007_199_254_740_993_u64 }]),
        json!([{ "kind": "x", "text": long(1_000_000) }]),
        json!([{ "kind": "x", "deep": nested(70) }]),
        json!("words"),
    ];
    all.extend(slips(tool, good, "output.artifacts", artifacts));
    all
}

fn of_continue(first: &ToolReply) -> Vec<Slip> {
    let good = ack(first, "Did the work.");
    let mut all = of_contexts(CONTINUE, &good);
    all.extend(of_outputs(CONTINUE, &good));
    for token in ["ackToken", "stateToken", "continueToken"] {
        let mut wrong = not_text();
        wrong.extend([json!("words"), json!("\u{0}"), long(100_000)]);
        all.extend(slips(CONTINUE, &good, token, wrong.clone()));
        all.extend(slips(CONTINUE, &json!({}), token, wrong));
    }
    for echo in ["run", "stepId"] {
        let mut wrong = not_text();
        wrong.extend([json!("words"), json!("\u{0}\u{7}"), long(100_000)]);
        all.extend(slips(CONTINUE, &good, echo, wrong));
    }
    for (known, unknown) in [("ackToken", "ack_token"), ("output", "outptu"), ("context", "contxt")] {
        let mut renamed = good.clone();
        let value = renamed.as_object_mut().unwrap().remove(known).unwrap_or_else(|| json!({}));
        all.extend(slips(CONTINUE, &renamed, unknown, vec![value]));
    }
    all.extend(slips(CONTINUE, &good, "entirelyUnknown", vec![json!(1), json!({ "a": [nested(20)] })]));
    all.extend(slips(CONTINUE, &json!({}), "notes", vec![json!("n")]));
    all.extend(slips(CONTINUE, &good, "workspacePath", not_text()));
    all.extend(slips(
        CONTINUE,
        &good,
        "workspacePath",
        vec![json!("relative"), json!("/a\u{0}b"), json!("~")],
    ));
    all
}

fn of_start(first: &ToolReply) -> Vec<Slip> {
    let good = json!({ "workflowId": "wr.small_change" });
    let mut all = of_contexts(START, &good);
    let mut ids = not_text();
    ids.extend([json!("../x"), json!("wr.small_chang"), json!("nothing.like_it"), json!("WR.SMALL_CHANGE")]);
    ids.extend([json!("a\u{0}b"), json!("small change"), long(5_000), Value::Null]);
    all.extend(slips(START, &good, "workflowId", ids));
    all.extend(slips(START, &good, "mode", not_text()));
    let modes = ["GUIDED", "full_auto", "full_auto_neverstop", "turbo"];
    all.extend(slips(START, &good, "mode", modes.map(Value::from).to_vec()));
    let mut goals = not_text();
    goals.extend([long(10_000), long(1_000_000), json!("a\u{0}b\u{7}"), json!("\u{e9}".repeat(300))]);
    all.extend(slips(START, &good, "goal", goals));
    for home in ["parent", "sessionToken"] {
        let mut wrong = not_text();
        wrong.extend([json!("words"), json!(first.string("checkpointToken")), json!("\u{0}")]);
        all.extend(slips(START, &good, home, wrong));
    }
    let two = json!({ "workflowId": "wr.small_change", "parent": first.string("stateToken") });
    all.extend(slips(START, &two, "sessionToken", vec![json!(first.string("stateToken"))]));
    all.extend(slips(START, &good, "workspacePath", vec![json!("relative"), json!(7), json!("")]));
    all.extend(slips(START, &json!({}), "workflow_id", vec![json!("wr.small_change")]));
    all.extend(slips(START, &json!({}), "id", vec![json!("wr.small_change")]));
    all
}

fn of_others(first: &ToolReply) -> Vec<Slip> {
    let token = json!({ "checkpointToken": first.string("checkpointToken") });
    let mut good = token.clone();
    good["output"] = json!({ "notesMarkdown": "half" });
    let mut all = of_outputs(CHECKPOINT, &good);
    all.extend(slips(
        CHECKPOINT,
        &token,
        "output",
        vec![Value::Null, json!({}), json!({ "notesMarkdown": " " })],
    ));
    for name in ["checkpointToken", "sessionToken", "stateToken", "run", "stepId"] {
        let mut wrong = not_text();
        wrong.extend([json!("words"), json!(first.string("ackToken"))]);
        all.extend(slips(CHECKPOINT, &good, name, wrong));
    }
    all.extend(slips(CHECKPOINT, &json!({}), "output", vec![json!({ "notesMarkdown": "half" })]));
    all.extend(slips(CHECKPOINT, &good, "context", vec![json!({ "a": 1 })]));
    for name in ["query", "run", "runId", "sessionId", "gitBranch", "gitHeadSha", "workspacePath"] {
        let mut wrong = not_text();
        wrong.extend([json!("sess_nothing"), json!("\u{0}"), long(100_000), json!("no-such")]);
        all.extend(slips(RESUME, &json!({}), name, wrong));
    }
    all.extend(slips(RESUME, &json!({}), "goal", vec![json!("try")]));
    for name in ["tags", "query", "workspacePath", "tag"] {
        let mut wrong = not_text();
        wrong.extend([json!("words"), long(100_000), json!([[1], "\u{0}"])]);
        all.extend(slips("list_workflows", &json!({}), name, wrong));
    }
    let good = json!({ "workflowId": "wr.small_change" });
    for name in ["workflowId", "mode", "workspacePath"] {
        let mut wrong = not_text();
        wrong.extend([json!("Preview"), json!("wr.small_chang"), long(5_000), Value::Null]);
        all.extend(slips("inspect_workflow", &good, name, wrong));
    }
    all
}

fn all_slips(first: &ToolReply) -> Vec<Slip> {
    let mut all = of_continue(first);
    all.extend(of_start(first));
    all.extend(of_others(first));
    all
}

#[test]
fn figure_agent_5_gets_every_argument_wrong() {
    let home = home_with(&[]);
    let mut agent = Agent::of(&home);
    let (mut refused, mut taken, mut stuck) = (0, 0, Vec::new());
    let model = agent.start("wr.small_change", "try it");
    let slips = all_slips(&model);
    let count = slips.len();
    for mut slip in slips {
        let first = agent.start("wr.small_change", "try it");
        renew(&mut slip.arguments, &model, &first);
        let reply = agent.call(slip.tool, slip.arguments);
        if reply.is_error {
            refused += 1;
            if !reply.data["nextCall"].is_object() {
                stuck.push(format!("{}: no next call: {}", slip.what, reply.text));
            } else {
                let back = agent.follow(&reply);
                if back.is_error {
                    stuck.push(format!("{}:\n{}\n--> {}", slip.what, reply.text, back.text));
                }
            }
        } else {
            taken += 1;
        }
    }
    assert!(stuck.is_empty(), "{} of {count} stuck:\n\n{}", stuck.len(), stuck.join("\n\n"));
    let found = format!("{refused} refused and put right in one call, {taken} harmless and taken");
    println!("{}", agent.close().figure(5, &found));
}
