//! Carries out forms: decisions and answers, through the same use cases as the command line (G63, G95).

use serde_json::{Map, Value};
use workrail_engine::{WaitingStep, typed_answer};
use workrail_model::approval::{ApprovalDecision, Descent};
use workrail_model::error::{ErrorCode, ErrorEnvelope};
use workrail_model::event::Context;
use workrail_model::id::{RunId, SessionId};

use crate::pages::is_shown_whole;
use crate::passkeys;
use crate::state::Console;
use crate::target::{FormOutcome, QueryPairs};
use crate::use_cases::{EngineResult, UserDecision, refusal};

/// Precedes the name of a context key in the field that answers it.
pub(crate) const ANSWER_PREFIX: &str = "answer.";

/// What a form about a run asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RunFormAction {
    Approve,
    Reject,
    Answer,
    Close,
}

impl RunFormAction {
    pub(crate) fn parse(text: &str) -> Option<Self> {
        match text {
            "approve" => Some(Self::Approve),
            "reject" => Some(Self::Reject),
            "answer" => Some(Self::Answer),
            "close" => Some(Self::Close),
            _ => None,
        }
    }
}

/// What a form about a session asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SessionAction {
    Keep,
    Unkeep,
    /// Deletes after a few seconds, unless it is undone.
    Delete,
    Undo,
    /// Deletes immediately; the user types the label.
    DeleteNow,
}

impl SessionAction {
    pub(crate) fn parse(text: &str) -> Option<Self> {
        match text {
            "keep" => Some(Self::Keep),
            "unkeep" => Some(Self::Unkeep),
            "delete" => Some(Self::Delete),
            "undo" => Some(Self::Undo),
            "delete-now" => Some(Self::DeleteNow),
            _ => None,
        }
    }
}

/// The result of a session form, and the deletion that is still pending.
#[derive(Debug)]
pub(crate) struct SessionFormResult {
    pub(crate) done: FormOutcome,
    pub(crate) held: Option<u64>,
}

/// Carries out a session form whose token was verified.
pub(crate) fn manage(
    console: &Console,
    session: SessionId,
    action: SessionAction,
    form: &QueryPairs,
) -> EngineResult<SessionFormResult> {
    let done = |done: FormOutcome| SessionFormResult { done, held: None };
    match action {
        SessionAction::Keep => console.use_cases.keep(session).map(|()| done(FormOutcome::Kept)),
        SessionAction::Unkeep => console.use_cases.unkeep(session).map(|()| done(FormOutcome::Unkept)),
        SessionAction::Delete => hold(console, session)
            .map(|ticket| SessionFormResult { done: FormOutcome::Held, held: Some(ticket) }),
        SessionAction::Undo if console.held().undo(session) => Ok(done(FormOutcome::Undone)),
        SessionAction::Undo => Err(refused(
            "Too late: this session has no pending deletion to undo.",
            "If it is still listed, it was not deleted.",
        )),
        SessionAction::DeleteNow => {
            delete(console, session, form)?;
            // A timer that is still running will find nothing to do.
            console.held().undo(session);
            Ok(done(FormOutcome::Deleted))
        }
    }
}

/// Records the current state of the session to be deleted; any later write keeps the session.
fn hold(console: &Console, session: SessionId) -> EngineResult<u64> {
    if console.is_of_team() {
        return Err(refused(
            "A team's console deletes at once, with a typed confirmation.",
            "Open the page of the session and choose \"Delete at once\".",
        ));
    }
    let seen = console.use_cases.overview(session)?;
    if seen.is_kept {
        return Err(refused(
            "The session is kept, so it is not deleted.",
            "Choose \"Stop keeping\" on its page first.",
        ));
    }
    Ok(console.held().hold(seen))
}

/// Carries out a held deletion once its time is up. A session written to since then is kept.
pub(crate) fn delete_held(console: &Console, session: SessionId, ticket: u64) {
    let Some(seen) = console.held().due(session, ticket) else { return };
    let refused = console.use_cases.delete(&seen).err().map(|error| error.message.clone());
    console.held().ended(session, ticket, refused);
}

/// As at the terminal: the user types the session's id or a run's label, and nothing was written since it was shown.
fn delete(console: &Console, session: SessionId, form: &QueryPairs) -> EngineResult<()> {
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

/// Carries out a form whose token was verified.
pub(crate) fn act(
    console: &Console,
    run: RunId,
    action: RunFormAction,
    form: &QueryPairs,
) -> EngineResult<FormOutcome> {
    match action {
        RunFormAction::Approve => {
            decide(console, run, ApprovalDecision::Approved, form).map(|()| FormOutcome::Approved)
        }
        RunFormAction::Reject => {
            decide(console, run, ApprovalDecision::Rejected, form).map(|()| FormOutcome::Rejected)
        }
        RunFormAction::Answer => answer(console, run, form).map(|()| FormOutcome::Answered),
        RunFormAction::Close => {
            console.use_cases.close(run, form.get("reason").unwrap_or_default()).map(|()| FormOutcome::Closed)
        }
    }
}

fn decide(console: &Console, run: RunId, decision: ApprovalDecision, form: &QueryPairs) -> EngineResult<()> {
    let waiting = shown(console, run, form)?;
    if !is_shown_whole(&waiting) {
        return Err(refused(
            "What was submitted is too long to be shown here in full. Nothing was recorded.",
            &format!("Decide at a terminal: `workrail approve {}`.", waiting.label),
        ));
    }
    let origin = console.environment.decision_origin();
    let reason = reason(form);
    if let Some(signed) = passkeys::signed(console, form)? {
        // A passkey's signature comes from the user, whichever process started the console.
        let descends = origin.map_or(Descent::Yes, |origin| origin.descends_from_server);
        return console.use_cases.decide_signed(run, &waiting, (decision, reason), &signed, descends);
    }
    let origin = origin
        .map_err(|reason| refused(&format!("You cannot decide here: {reason}"), "Nothing was recorded."))?;
    console.use_cases.decide(run, &waiting, UserDecision { decision, reason, origin })
}

/// The user's reason for a decision.
pub(crate) fn reason(form: &QueryPairs) -> Option<&str> {
    form.get("reason").map(str::trim).filter(|reason| !reason.is_empty())
}

/// What is waiting, if it is still what the form showed: the page may be outdated.
pub(crate) fn shown(console: &Console, run: RunId, form: &QueryPairs) -> EngineResult<WaitingStep> {
    let waiting = console.use_cases.waiting(run)?;
    if form.get("seen") == Some(waiting.fingerprint().to_string().as_str()) {
        return Ok(waiting);
    }
    Err(refused(
        "The submission has changed since the page was loaded. Nothing was recorded.",
        "Go back, read the new submission, and decide again.",
    ))
}

fn answer(console: &Console, run: RunId, form: &QueryPairs) -> EngineResult<()> {
    let waiting = shown(console, run, form)?;
    let values = answers(form)?;
    if values.is_empty() {
        return Err(refused("The answer is empty. Nothing was recorded.", "Go back and write an answer."));
    }
    let signed = passkeys::signed(console, form)?;
    console.use_cases.answer(run, &waiting, values, signed.as_ref())
}

/// The answers in the fields of a form.
pub(crate) fn answers(form: &QueryPairs) -> EngineResult<Context> {
    let given = form.iter().filter_map(|(name, value)| {
        let key = name.strip_prefix(ANSWER_PREFIX)?;
        let value = value.trim();
        (!value.is_empty()).then(|| (key.to_owned(), typed_answer(value)))
    });
    let values: Map<String, Value> = given.collect();
    Context::new(values)
        .map_err(|error| refused(&format!("The answer: {error}."), "Go back and write another answer."))
}

fn refused(message: &str, next: &str) -> Box<ErrorEnvelope> {
    refusal(ErrorCode::ValidationError, message, next)
}
