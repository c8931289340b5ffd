//! Renders what an agent reads: which run, what to do now, and the exact next call (G35, G72).
//!
//! Pure and deterministic; tokens are marks here and are signed in at the edge, so that the bytes can
//! be stored with the attempt and returned on every replay (G30).

use serde_json::{Map, Value, json};
use workrail_model::blocker::{Blocker, BlockerReport};
use workrail_model::compiled::CompiledWorkflow;
use workrail_model::event::Context;
use workrail_model::id::RunId;
use workrail_model::preferences::{NextIntent, Preferences};
use workrail_model::reply::{
    ACK_TOKEN_MARK, NextCall, PendingBody, ReplyBody, ReplyKind, RunInfo, STATE_TOKEN_MARK, without_marks,
};
use workrail_model::snapshot::{EngineState, PendingStep};

use crate::interpret::{self, AskedConfirmation};
use crate::label::RunLabel;
use crate::project::SessionState;
use crate::render::prompt::{self, Lifecycle};

/// What the reply is about.
#[derive(Clone, Copy, Debug)]
pub enum ReplyMoment<'a> {
    Started,
    Advanced,
    Blocked { blockers: &'a BlockerReport },
    Rehydrated,
}

/// Everything a reply is made of.
#[derive(Debug)]
pub struct ReplyInput<'a> {
    pub facts: &'a SessionState,
    pub run: RunId,
    pub workflow: &'a CompiledWorkflow,
    pub state: &'a EngineState,
    pub context: &'a Context,
    pub preferences: Preferences,
    pub moment: ReplyMoment<'a>,
}

pub fn render(input: &ReplyInput<'_>) -> ReplyBody {
    let pending = input.state.pending_step();
    let run = run_info(input, pending);
    let body = pending.map(|step| pending_body(input, step));
    let next_intent = match (&body, input.state.is_complete()) {
        (_, true) => NextIntent::Complete,
        (Some(body), false) if body.require_confirmation => NextIntent::AwaitUserConfirmation,
        (Some(_), false) => NextIntent::PerformPendingThenContinue,
        (None, false) => NextIntent::RehydrateOnly,
    };
    let next_call = body.as_ref().map(|_| next_call());
    let blockers = match input.moment {
        ReplyMoment::Blocked { blockers } => blockers.blockers().to_vec(),
        ReplyMoment::Started | ReplyMoment::Advanced | ReplyMoment::Rehydrated => Vec::new(),
    };
    let text = text(input, &run, body.as_ref(), &blockers, next_call.as_ref());
    ReplyBody {
        kind: if blockers.is_empty() { ReplyKind::Ok } else { ReplyKind::Blocked },
        text,
        run,
        state_token: STATE_TOKEN_MARK.to_owned(),
        ack_token: body.as_ref().map(|_| ACK_TOKEN_MARK.to_owned()),
        pending: body,
        is_complete: input.state.is_complete(),
        next_intent,
        next_call,
        preferences: input.preferences,
        blockers,
        warnings: Vec::new(),
    }
}

fn run_info(input: &ReplyInput<'_>, pending: Option<&PendingStep>) -> RunInfo {
    let done = input.state.completed().map_or(0, |completed| completed.len() as u64);
    RunInfo {
        label: RunLabel::of(input.run).to_string(),
        workflow_id: input.workflow.workflow_id.clone(),
        session_id: input.facts.session_id(),
        run_id: input.run,
        step_id: pending.map(|step| step.step_id.clone()),
        step_number: pending.map(|_| done + 1),
    }
}

fn pending_body(input: &ReplyInput<'_>, step: &PendingStep) -> PendingBody {
    let lifecycle = match input.moment {
        ReplyMoment::Started => Lifecycle::Start,
        ReplyMoment::Advanced | ReplyMoment::Blocked { .. } => Lifecycle::Advance,
        ReplyMoment::Rehydrated => Lifecycle::Rehydrate,
    };
    let title = prompt::render_title(input.workflow, step, input.context);
    let asked = interpret::asked_confirmation(input.workflow, step, input.context);
    PendingBody {
        step_id: step.step_id.clone(),
        title: without_marks(&title),
        prompt: without_marks(&prompt::render_step(input.workflow, step, input.context, lifecycle)),
        require_confirmation: asked != AskedConfirmation::Nothing,
    }
}

fn next_call() -> NextCall {
    let mut arguments = Map::new();
    arguments.insert("ackToken".to_owned(), Value::from(ACK_TOKEN_MARK));
    arguments.insert("output".to_owned(), json!({ "notesMarkdown": "<what you did in this step>" }));
    NextCall { tool: "continue_workflow".to_owned(), arguments }
}

/// Run and step first, instruction next, the exact call last: clients cut the middle.
fn text(
    input: &ReplyInput<'_>,
    run: &RunInfo,
    pending: Option<&PendingBody>,
    blockers: &[Blocker],
    next_call: Option<&NextCall>,
) -> String {
    let mut parts = vec![heading(input, run, pending)];
    if !blockers.is_empty() {
        parts.push(blocked_text(blockers));
    }
    if let Some(pending) = pending {
        parts.push(pending.prompt.clone());
    }
    parts.push(match (next_call, input.state.is_complete()) {
        (_, true) => "The workflow is complete. There is nothing more to call for this run.".to_owned(),
        (Some(call), false) => footer(call),
        (None, false) => format!("Nothing is pending. Bookmark: stateToken {STATE_TOKEN_MARK}"),
    });
    parts.join("\n\n")
}

fn heading(input: &ReplyInput<'_>, run: &RunInfo, pending: Option<&PendingBody>) -> String {
    let name = without_marks(&input.workflow.name);
    match pending {
        Some(pending) => format!(
            "Run {} · {name} · step {}: {}",
            run.label,
            run.step_number.unwrap_or_default(),
            pending.title
        ),
        None => format!("Run {} · {name}", run.label),
    }
}

fn blocked_text(blockers: &[Blocker]) -> String {
    let mut text = String::from("BLOCKED: the step is not complete yet. What you sent is kept.");
    for blocker in blockers {
        text.push_str("\n- ");
        text.push_str(&without_marks(blocker.message.as_str()));
        if let Some(fix) = &blocker.suggested_fix {
            text.push_str("\n  Fix: ");
            text.push_str(&without_marks(fix.as_str()));
        }
    }
    text
}

fn footer(call: &NextCall) -> String {
    let arguments = Value::Object(call.arguments.clone());
    // The marks are NUL characters; written as JSON they would be escaped and never be found again.
    let arguments = arguments.to_string().replace("\\u0000", "\u{0}");
    format!(
        "Do only this step. Later steps are unknown until WorkRail returns them.\n\
         Bookmark: stateToken {STATE_TOKEN_MARK}\n\
         When the step is done, call {} with:\n{arguments}",
        call.tool
    )
}
