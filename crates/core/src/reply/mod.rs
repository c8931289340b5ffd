//! Renders what an agent reads: which run, what to do now, and the exact next call (G35, G72).
//!
//! Pure and deterministic; tokens are markers here and are signed at the edge, so that the bytes can
//! be stored with the attempt and returned on every replay (G30).

pub mod answered;
pub mod children;
mod next_call;
mod recorded;
pub mod recovery;
mod references;
mod text;
pub mod tips;

use serde_json::Value;
use workrail_model::blocker::{Blocker, BlockerCode, BlockerReport};
use workrail_model::compiled::CompiledWorkflow;
use workrail_model::event::Context;
use workrail_model::id::{GapId, RunId};
use workrail_model::preferences::{Autonomy, NextIntent, Preferences, RunStatus};
use workrail_model::reply::{
    ACK_TOKEN_MARKER, Branch, CHECKPOINT_TOKEN_MARKER, ChildResult, NextCall, OpenTip, OtherRun, PendingBody,
    Recap, ReferenceInfo, ReplyBody, ReplyKind, ReturnTo, RunInfo, RunIsAt, STATE_TOKEN_MARKER, StepContext,
    StoredReply, Warning,
};
use workrail_model::snapshot::{EngineState, PendingStep};
use workrail_model::text::truncate_with_marker;
use workrail_model::tool::{ToolName, ToolSet};

use crate::agent_site::{AgentSite, RunRights};
use crate::interpret::{self, AskedConfirmation};
use crate::label::RunLabel;
use crate::progress::Progress;
use crate::project::SessionState;
use crate::reason::GapCloser;
use crate::render::prompt::{self, Lifecycle, ParentToken, RenderMode, StepTextTooLong};

/// A title may contain a variable, and a variable anything.
pub const TITLE_SHOWN_BYTES_MAX: usize = 200;

/// What the reply is about.
#[derive(Clone, Copy, Debug)]
pub enum ReplyMoment<'a> {
    Started,
    Advanced,
    Blocked {
        blockers: &'a BlockerReport,
        /// How many consecutive attempts were refused, including this one.
        in_a_row: usize,
    },
    Rehydrated,
    Checkpointed,
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
    pub long_text: LongText,
    /// The tools that the server offers; the reply names no others.
    pub tools: ToolSet,
    /// Where the agent works; the reply suggests nothing that cannot work there.
    pub site: &'a AgentSite,
    pub rights: RunRights,
    pub extras: StepExtras,
}

/// What to do if context values make the step's text too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LongText {
    /// Nothing is recorded yet: the caller can send a smaller value.
    Refuse,
    /// The value is already recorded: the step is shown with excerpts, so that the run can be continued.
    Shorten,
}

/// What is shown besides the step: only what the situation requires.
#[derive(Clone, Debug, Default)]
pub struct StepExtras {
    pub references: Vec<ReferenceInfo>,
    pub warnings: Vec<Warning>,
    pub step_context: Option<StepContext>,
    pub run_is_at: Option<RunIsAt>,
    pub recap: Option<Recap>,
    pub branches: Vec<Branch>,
    pub downstream: Option<Recap>,
    /// Functions that the recovered steps name, written out.
    pub functions: Option<String>,
    pub other_runs: Vec<OtherRun>,
    pub open_tips: Vec<OpenTip>,
    pub children: Vec<ChildResult>,
    pub return_to: Option<ReturnTo>,
    /// Whether the workflow's file differs from the one that the run was started from.
    pub workflow_changed: bool,
    /// Critical gaps of a complete run.
    pub open_gaps: Vec<OpenGap>,
    /// What else a complete run reports: loops that ended at their limit, steps that were never decided on.
    pub disclosed: Vec<String>,
    /// Why the last attempt at this point was refused, if it is shown again.
    pub refused_before: Vec<Blocker>,
    /// The failed checks, with the end of their output.
    pub failed_checks: Vec<(String, String)>,
    /// The last point where the run went well, offered after many refusals.
    pub way_out: Option<NextCall>,
}

/// A critical gap that a complete run left open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenGap {
    pub gap_id: GapId,
    pub summary: String,
    pub closer: GapCloser,
}

/// The reply, or the variable that makes the step's text too long if that is refused.
pub fn render(input: &ReplyInput<'_>) -> Result<StoredReply, StepTextTooLong> {
    let pending = input.state.pending_step();
    let run = run_info(input, pending);
    let shown = pending.map(|step| pending_body(input, step)).transpose()?;
    let asked = pending.map_or(AskedConfirmation::Nothing, |step| {
        interpret::asked_confirmation(input.workflow, step, input.context)
    });
    let (kind, blockers) = match input.moment {
        ReplyMoment::Blocked { blockers, .. } => (ReplyKind::Blocked, blockers.blockers().to_vec()),
        ReplyMoment::Started
        | ReplyMoment::Advanced
        | ReplyMoment::Rehydrated
        | ReplyMoment::Checkpointed => (ReplyKind::Ok, input.extras.refused_before.clone()),
    };
    let may_work = input.rights == RunRights::Work;
    let workable = pending.filter(|_| may_work);
    let next_call = workable.map(|step| next_call::complete(input, &run.label, step, &blockers));
    let extras = input.extras.clone();
    let saves = may_work && input.tools.offers(ToolName::CheckpointWorkflow);
    let mut body = ReplyBody {
        kind,
        text: String::new(),
        run,
        state_token: STATE_TOKEN_MARKER.to_owned(),
        ack_token: workable.map(|_| ACK_TOKEN_MARKER.to_owned()),
        checkpoint_token: saves.then(|| CHECKPOINT_TOKEN_MARKER.to_owned()),
        pending: shown,
        run_is_at: extras.run_is_at,
        is_complete: input.state.is_complete(),
        status: ended(input),
        next_intent: next_intent(input, asked),
        next_call,
        preferences: input.preferences,
        blockers,
        warnings: extras.warnings,
        step_context: extras.step_context,
        references: extras.references,
        recap: extras.recap,
        branches: extras.branches,
        downstream: extras.downstream,
        other_runs: extras.other_runs,
        open_tips: extras.open_tips,
        children: extras.children,
        return_to: extras.return_to,
        way_out: extras.way_out.filter(|_| text::offers_way_out(input.moment)),
        workflow_changed: extras.workflow_changed,
        fork_ack_token: None,
    };
    let parts = text::parts(input, &body);
    if let ReplyMoment::Checkpointed = input.moment {
        // The step was already shown; a checkpoint does not repeat it.
        body.pending = None;
    }
    Ok(StoredReply { parts, body })
}

/// The call that shows a point again and changes nothing.
pub fn rehydrate_call(state_token: &str, label: RunLabel) -> NextCall {
    let arguments = [("stateToken", Value::from(state_token)), ("run", Value::from(label.to_string()))];
    NextCall::new(ToolName::ContinueWorkflow, arguments)
}

fn next_intent(input: &ReplyInput<'_>, asked: AskedConfirmation) -> NextIntent {
    if input.state.is_complete() {
        return NextIntent::Complete;
    }
    if input.state.pending_step().is_none() || input.rights != RunRights::Work {
        return NextIntent::RehydrateOnly;
    }
    let needs_user =
        |blockers: &[Blocker]| blockers.iter().any(|blocker| blocker.code == BlockerCode::UserOnlyDependency);
    let waits_for_user = match input.moment {
        ReplyMoment::Blocked { blockers, .. } => needs_user(blockers.blockers()),
        ReplyMoment::Started
        | ReplyMoment::Advanced
        | ReplyMoment::Rehydrated
        | ReplyMoment::Checkpointed => needs_user(&input.extras.refused_before),
    };
    let confirms = match (asked, input.preferences.autonomy) {
        (AskedConfirmation::Nothing, _) | (_, Autonomy::FullAutoNeverStop) => false,
        (AskedConfirmation::Confirmation, autonomy) => autonomy == Autonomy::Guided,
        (AskedConfirmation::Approval, _) => true,
    };
    if waits_for_user || confirms {
        NextIntent::AwaitUserConfirmation
    } else {
        NextIntent::PerformPendingThenContinue
    }
}

/// How a run ended; `None` while it continues.
fn ended(input: &ReplyInput<'_>) -> Option<RunStatus> {
    match (input.state.is_complete(), input.extras.open_gaps.is_empty()) {
        (false, _) => None,
        (true, true) => Some(RunStatus::Complete),
        (true, false) => Some(RunStatus::CompleteWithGaps),
    }
}

fn run_info(input: &ReplyInput<'_>, pending: Option<&PendingStep>) -> RunInfo {
    let progress = Progress::of(input.workflow, input.state, input.context);
    RunInfo {
        label: RunLabel::of(input.run).to_string(),
        workflow_id: input.workflow.workflow_id.clone(),
        session_id: input.facts.session_id(),
        run_id: input.run,
        step_id: pending.map(|step| step.step_id.clone()),
        step_number: progress.as_ref().map(|progress| progress.number),
        about_left: progress.as_ref().map(|progress| progress.about_left),
        loops: progress.map(|progress| progress.loops).unwrap_or_default(),
    }
}

fn pending_body(input: &ReplyInput<'_>, step: &PendingStep) -> Result<PendingBody, StepTextTooLong> {
    let ReplyInput { workflow, context, .. } = *input;
    let lifecycle = match input.moment {
        ReplyMoment::Started => Lifecycle::Start,
        ReplyMoment::Advanced | ReplyMoment::Blocked { .. } => Lifecycle::Advance,
        ReplyMoment::Rehydrated => Lifecycle::Rehydrate,
        ReplyMoment::Checkpointed => return Ok(body(input, step, String::new())),
    };
    let autonomy = input.preferences.autonomy;
    let mode = RenderMode { lifecycle, autonomy, site: input.site, parent: ParentToken::Marker };
    let prompt = match input.long_text {
        LongText::Refuse => prompt::render_step(workflow, step, context, mode)?,
        LongText::Shorten => prompt::render_step_shortened(workflow, step, context, mode),
    };
    Ok(body(input, step, prompt))
}

fn body(input: &ReplyInput<'_>, step: &PendingStep, prompt: String) -> PendingBody {
    let title = prompt::render_title(input.workflow, step, input.context);
    let asked = interpret::asked_confirmation(input.workflow, step, input.context);
    PendingBody {
        step_id: step.step_id.clone(),
        title: truncate_with_marker(&title, TITLE_SHOWN_BYTES_MAX).into_owned(),
        prompt,
        require_confirmation: asked != AskedConfirmation::Nothing,
    }
}
