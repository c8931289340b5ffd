//! Commands about one session.

use serde_json::json;

use super::{program, tool, typed};
use crate::commands::{About, Command, Compare, Effect};
use crate::template::{Run, Template};

pub(super) fn about_one(run: &Run, template: &Template) -> Vec<Command> {
    let mut all = reading(run, template);
    all.extend(tools(run));
    all.extend(writing(run));
    all
}

fn named(name: &str, run: &Run) -> String {
    format!("{name} {}", run.word)
}

fn about(run: &Run) -> About {
    About::Session(run.session.clone())
}

fn reading(run: &Run, template: &Template) -> Vec<Command> {
    use Compare::{Diagnosis, Success, Whole};
    let session = run.session.as_str();
    let other =
        if run.label == template.apart.label { &template.finished_label } else { &template.apart.label };
    let look = |name: &str, compare, arguments: &[&str]| {
        program(&named(name, run), Effect::Looks, about(run), compare, arguments)
    };
    vec![
        look("sessions show", Whole, &["show", session]),
        look("sessions show by label", Whole, &["show", &run.label]),
        look("sessions log", Whole, &["log", session]),
        look("sessions tree", Whole, &["tree", session]),
        look("report", Whole, &["report", session]),
        look("report by label", Whole, &["report", &run.label]),
        look("compare", Whole, &["compare", &run.label, other]),
        look("export", Success, &["session", "export", session, "-o", "../out.json", "--force"]),
        look("prefs show", Whole, &["session", "prefs", "show", "--session", session]),
        look("pinned inspect", Whole, &["workflow", "inspect", "--run", &run.label]),
        look("pinned compile", Whole, &["workflow", "compile", &run.label, "--emit", "hash"]),
        look("pinned diff", Whole, &["workflow", "diff", &run.label, "team.short"]),
        look("verify one", Diagnosis, &["store", "verify", session]),
        look("repair dry run", Diagnosis, &["store", "repair", session, "--dry-run"]),
    ]
}

fn tools(run: &Run) -> Vec<Command> {
    use Compare::{PerSession, Success, Whole};
    use Effect::{Looks, Writes};
    let ask = |name: &str, effect, compare, called, arguments| {
        tool(&named(name, run), effect, about(run), compare, called, arguments)
    };
    let output = json!({ "notesMarkdown": "counted again" });
    vec![
        ask("look", Looks, Whole, "continue_workflow", json!({ "stateToken": run.state })),
        ask("replay", Looks, Whole, "continue_workflow", run.last_call.clone()),
        ask("read run", Looks, Whole, "read_run", json!({ "run": run.label })),
        // It offers other runs too, each in its own object.
        Command {
            about: About::Store,
            ..ask("resume by label", Looks, PerSession, "resume_session", json!({ "run": run.label }))
        },
        ask(
            "advance",
            Writes,
            Success,
            "continue_workflow",
            json!({ "ackToken": run.ack, "output": output }),
        ),
        ask(
            "checkpoint",
            Writes,
            Success,
            "checkpoint_workflow",
            json!({ "checkpointToken": run.checkpoint, "output": output }),
        ),
    ]
}

fn writing(run: &Run) -> Vec<Command> {
    use Compare::{Diagnosis, Success};
    use Effect::{Repairs, Writes};
    let session = run.session.as_str();
    let write = |name: &str, effect, compare, arguments: &[&str]| {
        program(&named(name, run), effect, about(run), compare, arguments)
    };
    vec![
        write("close", Writes, Success, &["close", &run.label, "--reason", "superseded"]),
        write(
            "prefs set",
            Writes,
            Success,
            &["session", "prefs", "set", "risk_policy=aggressive", "--session", session],
        ),
        write("purge", Writes, Success, &["session", "purge", session, "--text", run.word, "--yes"]),
        write("repair", Repairs, Diagnosis, &["store", "repair", session, "--yes"]),
    ]
}

/// What a person decides in the runs that were started inside the victim.
pub(super) fn decisions(template: &Template) -> Vec<Command> {
    use Effect::Writes;
    let victim = || about(&template.victim);
    let (gated, asking) = (template.gated.as_str(), template.asking.as_str());
    vec![
        typed("approve", Writes, victim(), &["approve", gated], gated),
        typed("reject", Writes, victim(), &["reject", gated, "--reason", "too early"], gated),
        program("answer", Writes, victim(), Compare::Success, &["answer", asking, "targetBranch=main"]),
    ]
}
