//! Decisions by the user: approving or rejecting what a step submitted, and answering a question (G63).
//!
//! A decision needs a terminal and the run's label typed into it. An agent with a shell can provide both; see
//! `presence`. An answer needs neither: an agent can also send it, with the call that completes the step.

use std::io::{BufRead as _, IsTerminal as _, stdin};
use std::process::ExitCode;

use clap::Subcommand;
use serde_json::{Map, Value, json};
use workrail_engine::sessions::{NeedsYou, WaitReason};
use workrail_engine::{WaitingStep, typed_answer};
use workrail_model::approval::{ApprovalChannel, ApprovalDecision, ApprovalOrigin};
use workrail_model::event::{CloseChannel, Context};
use workrail_model::id::RunId;
use workrail_model::text::truncate_with_marker;

use crate::outcome::{self, EXIT_CODES, Failure, Format};
use crate::output::{self, Tone};
use crate::presence::OriginRecord;
use crate::wiring::{self, AnyEngine};
use crate::{name, presence};

/// How much is shown of the notes, of each artifact and of each context value. Longer notes say so at the end, and
/// `workrail report` shows all of them.
const SHOWN_BYTES_MAX: usize = 64 * 1024;
/// How much is shown of the step's own text, which never changes.
const STEP_BYTES_MAX: usize = 2 * 1024;

#[derive(Debug, Subcommand)]
pub(crate) enum SteerCommand {
    /// Approve what a run has submitted for approval. Shows it and asks you to type the run's label.
    #[command(after_help = format!("{EXIT_CODES}\n\nExample: workrail approve amber-falcon"))]
    Approve {
        /// The run's two-word label, such as amber-falcon. Default: the only run that is waiting.
        run: Option<String>,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Reject what a run has submitted for approval. Shows it and asks you to type the run's label.
    #[command(after_help = format!(
        "{EXIT_CODES}\n\nExample: workrail reject amber-falcon --reason \"Keep the old table until Monday\""
    ))]
    Reject {
        /// The run's two-word label, such as amber-falcon. Default: the only run that is waiting.
        run: Option<String>,
        /// Why, and what to do instead. The agent receives it.
        #[arg(long, value_name = "TEXT")]
        reason: Option<String>,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Close a run that nobody will finish. It is no longer listed as needing you or running.
    #[command(after_help = format!(
        "Nothing is deleted. The next record of the run (an attempt, a checkpoint, a decision or an answer) reopens it. \
         Runs that were started inside it stay open. `workrail store gc` treats a closed run like a finished one.\n\n\
         {EXIT_CODES}\n\nExample: workrail close amber-falcon --reason \"Superseded by the new importer\""
    ))]
    Close {
        /// A run's two-word label, its id, or a prefix of it.
        run: String,
        /// Why nobody will finish it.
        #[arg(long, value_name = "TEXT")]
        reason: String,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Answer a question that a run waits on.
    #[command(after_help = format!("{EXIT_CODES}\n\nExample: workrail answer amber-falcon targetBranch=main"))]
    Answer {
        /// The run's two-word label, such as amber-falcon. Default: the only run that is waiting.
        run: Option<String>,
        /// The answer. `true`, `false`, numbers and JSON are read as such, everything else as text.
        /// Without it, you are asked each question.
        #[arg(value_name = "KEY=VALUE", value_parser = key_and_value)]
        values: Vec<(String, Value)>,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
}

fn key_and_value(text: &str) -> Result<(String, Value), String> {
    let (key, value) = text.split_once('=').ok_or("write it as KEY=VALUE")?;
    if key.is_empty() {
        return Err("write it as KEY=VALUE".to_owned());
    }
    Ok((key.to_owned(), typed_answer(value)))
}

pub(crate) fn run(command: SteerCommand) -> ExitCode {
    let (done, format) = match command {
        SteerCommand::Approve { run, json } => {
            let format = Format::json_if(json);
            (decide(run.as_deref(), ApprovalDecision::Approved, None, format), format)
        }
        SteerCommand::Reject { run, reason, json } => {
            let format = Format::json_if(json);
            (decide(run.as_deref(), ApprovalDecision::Rejected, reason.as_deref(), format), format)
        }
        SteerCommand::Close { run, reason, json } => {
            let format = Format::json_if(json);
            (close(&run, &reason, format), format)
        }
        SteerCommand::Answer { run, values, json } => {
            let format = Format::json_if(json);
            (answer(run.as_deref(), values, format), format)
        }
    };
    outcome::finish(done, format)
}

/// What the user is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PromptKind {
    Decision,
    Answer,
}

/// The named run, or else the only one that waits for this.
fn resolve_run(engine: &AnyEngine, named: Option<&str>, asked: PromptKind) -> Result<RunId, Failure> {
    if let Some(named) = named {
        return Ok(name::run(engine, named)?.1);
    }
    let status = engine.status(&mut |_, _| {})?;
    let is_asked = |why: &WaitReason| match why {
        WaitReason::Approval { .. } => asked == PromptKind::Decision,
        WaitReason::Questions { .. } => asked == PromptKind::Answer,
        WaitReason::Refused { .. } | WaitReason::Gaps { .. } | WaitReason::Unreadable { .. } => false,
    };
    let waiting: Vec<&NeedsYou> =
        status.needs_you.iter().filter(|waiting| is_asked(&waiting.need.why)).collect();
    let what = match asked {
        PromptKind::Decision => "an approval",
        PromptKind::Answer => "an answer",
    };
    match waiting.as_slice() {
        [] => Err(Failure::Usage(format!("No run waits for {what}."))),
        [one] => one.run.run_id.ok_or_else(|| Failure::Usage(format!("No run waits for {what}."))),
        several => {
            let names = several.iter().filter_map(|waiting| waiting.run.label.clone()).collect::<Vec<_>>();
            Err(Failure::Usage(format!(
                "{} runs wait for {what}: {}. Name one; `workrail status` shows what they wait for.",
                names.len(),
                names.join(", ")
            )))
        }
    }
}

fn decide(
    named: Option<&str>,
    decision: ApprovalDecision,
    reason: Option<&str>,
    format: Format,
) -> Result<(), Failure> {
    let engine = wiring::open_existing_default()?;
    let run = resolve_run(&engine, named, PromptKind::Decision)?.to_string();
    let waiting = engine.waiting(&run)?;
    engine.check_label_counts(&waiting)?;
    let (verb, what) = match decision {
        ApprovalDecision::Approved => ("approve", "Approving"),
        ApprovalDecision::Rejected => ("reject", "Rejecting"),
    };
    let requester = presence::requester(&engine, what, OriginRecord::Descent)?;
    show(&engine, &waiting, decision);
    presence::require_typed(&format!("Type the run's label to {verb} exactly this:"), &waiting.label)?;
    let origin = ApprovalOrigin {
        channel: ApprovalChannel::Terminal,
        descends_from_server: requester.descends_from_server,
    };
    engine.approve(&run, &waiting, (decision, reason), origin)?;
    match format {
        Format::Text => {
            let recorded = match decision {
                ApprovalDecision::Approved => {
                    "Approved. Tell the agent to continue with the call at the end of its last reply."
                }
                ApprovalDecision::Rejected => {
                    "Rejected. Tell the agent to continue with the call at the end of its last reply; it then sees the rejection, and your reason if you gave one."
                }
            };
            output::toned(Tone::Good, recorded);
        }
        Format::Json => output::json(&json!({
            "sessionId": waiting.session, "nodeId": waiting.node, "run": waiting.label, "stepId": waiting.step,
            "decision": decision, "reason": reason, "submitted": waiting.submitted, "channel": origin.channel,
            "descendsFromServer": origin.descends_from_server,
        })),
    }
    Ok(())
}

/// Shows everything that the decision is about: the goal, the action, the submission, and how to undo it.
fn show(engine: &AnyEngine, waiting: &WaitingStep, decision: ApprovalDecision) {
    output::notice(&format!("Run {} · {}", waiting.label, waiting.workflow));
    if let Some(goal) = &waiting.goal {
        output::notice(&format!("Goal: {}", truncate_with_marker(goal, SHOWN_BYTES_MAX)));
    }
    output::notice(&format!("\nWaiting for your decision: step `{}`, {}", waiting.step, waiting.title));
    // Without the step's text the decision is still about what was submitted.
    if let Ok(Some(text)) = engine.step_text(waiting.session, waiting.node) {
        output::notice("The agent was asked to do this:");
        let text = truncate_with_marker(&text, STEP_BYTES_MAX);
        text.lines().for_each(|line| output::notice(format!("  {line}").trim_end()));
    }
    match &waiting.notes {
        Some(notes) => {
            output::notice("\nWhat the agent submitted:");
            output::notice(&truncate_with_marker(notes, SHOWN_BYTES_MAX));
        }
        None => output::notice("\nThe agent submitted no notes."),
    }
    for artifact in &waiting.artifacts {
        let text = serde_json::to_string_pretty(artifact).unwrap_or_default();
        output::notice(&format!("\n{}", truncate_with_marker(&text, SHOWN_BYTES_MAX)));
    }
    for (key, value) in &waiting.context {
        let text = value.to_string();
        output::notice(&format!("\nContext `{key}`: {}", truncate_with_marker(&text, SHOWN_BYTES_MAX)));
    }
    for question in &waiting.questions {
        output::notice(&format!("\nOpen question `{}`: {}", question.key, question.description));
    }
    if let Some(earlier) = &waiting.earlier {
        output::notice(&format!("\n{}", earlier.replaced_text()));
    }
    let send_back = match decision {
        ApprovalDecision::Approved => {
            format!("To send it back: workrail reject {} --reason TEXT. ", waiting.label)
        }
        ApprovalDecision::Rejected => String::new(),
    };
    output::notice(&format!(
        "\nFull record: workrail show {0}\n{send_back}A decision can be replaced until the agent has continued; what the \
         agent does after that is not undone.",
        waiting.label
    ));
}

fn close(name: &str, reason: &str, format: Format) -> Result<(), Failure> {
    let engine = wiring::open_existing_default()?;
    let (session, run) = name::run(&engine, name)?;
    let closed = engine.close_run(session, run, reason, CloseChannel::CommandLine)?;
    match format {
        Format::Text => {
            output::toned(Tone::Good, &format!("Closed run {}.", closed.label));
            output::line(
                "Nothing was deleted. The next record of the run, such as an attempt or an answer, reopens it.",
            );
        }
        Format::Json => output::json(&json!({
            "sessionId": closed.session, "runId": closed.run, "run": closed.label, "reason": closed.reason,
            "closed": true,
        })),
    }
    Ok(())
}

fn answer(first: Option<&str>, values: Vec<(String, Value)>, format: Format) -> Result<(), Failure> {
    let engine = wiring::open_existing_default()?;
    // In `workrail answer KEY=VALUE` no run is named.
    let (named, values) = match first.map(|first| (first, key_and_value(first))) {
        Some((_, Ok(value))) => (None, std::iter::once(value).chain(values).collect()),
        Some((named, Err(_))) => (Some(named), values),
        None => (None, values),
    };
    let run = resolve_run(&engine, named, PromptKind::Answer)?.to_string();
    let values = match values.is_empty() {
        true => ask(&engine.waiting(&run)?)?,
        false => values,
    };
    let values: Map<String, Value> = values.into_iter().collect();
    let context =
        Context::new(values.clone()).map_err(|error| Failure::Usage(format!("The answer: {error}.")))?;
    let waiting = engine.give_answer(&run, context)?;
    match format {
        Format::Text => {
            output::toned(
                Tone::Good,
                "Recorded. Tell the agent to continue with the call at the end of its last reply.",
            );
            let open =
                waiting.questions.iter().filter(|question| !values.contains_key(question.key.as_str()));
            for question in open {
                output::line(&format!("Still open: `{}` ({})", question.key, question.description));
            }
        }
        Format::Json => output::json(&json!({
            "sessionId": waiting.session, "nodeId": waiting.node, "run": waiting.label, "stepId": waiting.step,
            "answers": values,
        })),
    }
    Ok(())
}

/// Asks the open questions of a run at the terminal.
fn ask(waiting: &WaitingStep) -> Result<Vec<(String, Value)>, Failure> {
    if waiting.questions.is_empty() {
        return Err(Failure::Usage(format!("Run {} has no open question.", waiting.label)));
    }
    if !stdin().is_terminal() {
        let keys =
            waiting.questions.iter().map(|question| format!("{}=VALUE", question.key)).collect::<Vec<_>>();
        let asked =
            waiting.questions.iter().map(|question| format!("{}: {}", question.key, question.description));
        return Err(Failure::Usage(format!(
            "{}\nAnswer with: workrail answer {} {}",
            asked.collect::<Vec<_>>().join("\n"),
            waiting.label,
            keys.join(" ")
        )));
    }
    output::notice(&format!("Run {}, \"{}\":", waiting.label, waiting.title));
    let mut answers = Vec::new();
    for question in &waiting.questions {
        output::notice(&format!("{} ({})", question.description, question.key));
        let mut typed = String::new();
        stdin().lock().read_line(&mut typed).map_err(|error| Failure::Environment(error.to_string()))?;
        match typed.trim() {
            "" => return Err(Failure::Usage("No answer was typed. Nothing was recorded.".to_owned())),
            text => answers.push((question.key.to_string(), typed_answer(text))),
        }
    }
    Ok(answers)
}
