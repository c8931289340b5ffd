//! What a form changes: a decision or an answer, through the use cases that the command line has (G63, G95).

use serde_json::{Map, Value};
use workrail_engine::typed_answer;
use workrail_model::approval::ApprovalDecision;
use workrail_model::error::{ErrorCode, ErrorEnvelope};
use workrail_model::event::Context;
use workrail_model::id::{RunId, SessionId};

use crate::state::Console;
use crate::target::{Done, Query, run_address};
use crate::use_cases::{Answer, refusal};

/// Before the name of a context key, in the field that answers it.
pub(crate) const ANSWER_PREFIX: &str = "answer.";

/// The page that a form was on, which is shown again after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum From {
    Now,
    Run,
}

impl From {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Now => "now",
            Self::Run => "run",
        }
    }

    pub(crate) fn parse(text: Option<&str>) -> Self {
        if text == Some(Self::Now.as_str()) { Self::Now } else { Self::Run }
    }

    pub(crate) fn address(self, run: RunId) -> String {
        match self {
            Self::Now => "/".to_owned(),
            Self::Run => run_address(run),
        }
    }
}

/// What a form about a run asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Approve,
    Reject,
    Answer,
}

impl Action {
    pub(crate) fn parse(text: &str) -> Option<Self> {
        match text {
            "approve" => Some(Self::Approve),
            "reject" => Some(Self::Reject),
            "answer" => Some(Self::Answer),
            _ => None,
        }
    }
}

/// What a form about a session asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SessionAction {
    Keep,
    Unkeep,
    Delete,
}

impl SessionAction {
    pub(crate) fn parse(text: &str) -> Option<Self> {
        match text {
            "keep" => Some(Self::Keep),
            "unkeep" => Some(Self::Unkeep),
            "delete" => Some(Self::Delete),
            _ => None,
        }
    }
}

/// Carries out a form about a session whose token was checked.
pub(crate) fn manage(
    console: &Console,
    session: SessionId,
    action: SessionAction,
    form: &Query,
) -> Answer<Done> {
    match action {
        SessionAction::Keep => console.use_cases.keep(session).map(|()| Done::Kept),
        SessionAction::Unkeep => console.use_cases.unkeep(session).map(|()| Done::Unkept),
        SessionAction::Delete => delete(console, session, form).map(|()| Done::Deleted),
    }
}

/// As at the terminal: the session's id or a run's label is typed, and nothing was written since it was shown.
fn delete(console: &Console, session: SessionId, form: &Query) -> Answer<()> {
    let seen = console.use_cases.overview(session)?;
    let typed = form.get("typed").unwrap_or_default().trim();
    let is_named = typed == session.to_string() || seen.runs.iter().any(|run| run.label == typed);
    if !is_named {
        return Err(refused(
            "The confirmation did not match. Nothing was deleted.",
            "Go back and type the session's id or the label of one of its runs.",
        ));
    }
    if form.get("events") != Some(seen.events.to_string().as_str()) {
        return Err(refused(
            "The session was written to since the page was loaded. Nothing was deleted.",
            "Go back, look at what is new, and decide again.",
        ));
    }
    console.use_cases.delete(&seen)
}

/// Carries out a form whose token was checked.
pub(crate) fn act(console: &Console, run: RunId, action: Action, form: &Query) -> Answer<Done> {
    match action {
        Action::Approve => decide(console, run, ApprovalDecision::Approved, form).map(|()| Done::Approved),
        Action::Reject => decide(console, run, ApprovalDecision::Rejected, form).map(|()| Done::Rejected),
        Action::Answer => answer(console, run, form).map(|()| Done::Answered),
    }
}

fn decide(console: &Console, run: RunId, decision: ApprovalDecision, form: &Query) -> Answer<()> {
    let waiting = console.use_cases.waiting(run)?;
    // The page may be old: what was shown there must be what waits now.
    if form.get("seen") != Some(waiting.fingerprint().to_string().as_str()) {
        return Err(refused(
            "What waits has changed since the page was loaded. Nothing was recorded.",
            "Go back, read what the agent submitted now, and decide again.",
        ));
    }
    let origin = console.environment.decision_origin().map_err(|reason| {
        refused(&reason, "Start the console from a terminal of your own. Nothing was recorded.")
    })?;
    let reason = form.get("reason").map(str::trim).filter(|reason| !reason.is_empty());
    console.use_cases.decide(run, &waiting, (decision, reason), origin)
}

fn answer(console: &Console, run: RunId, form: &Query) -> Answer<()> {
    let given = form.iter().filter_map(|(name, value)| {
        let key = name.strip_prefix(ANSWER_PREFIX)?;
        let value = value.trim();
        (!value.is_empty()).then(|| (key.to_owned(), typed_answer(value)))
    });
    let values: Map<String, Value> = given.collect();
    if values.is_empty() {
        return Err(refused("The answer is empty. Nothing was recorded.", "Go back and write an answer."));
    }
    let context = Context::new(values)
        .map_err(|error| refused(&format!("The answer: {error}."), "Go back and write another answer."))?;
    console.use_cases.answer(run, context)
}

fn refused(message: &str, next: &str) -> Box<ErrorEnvelope> {
    refusal(ErrorCode::ValidationError, message, next)
}
