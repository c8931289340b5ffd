//! `continue_workflow` without an ack: the pending step again, from facts, without any write (G36).

use workrail_core::agent_site::RunRights;
use workrail_core::decide::close::closed_warning;
use workrail_core::decide::disclose;
use workrail_core::derive;
use workrail_core::label::RunLabel;
use workrail_core::project::SessionState;
use workrail_core::reply::children::finished_inside;
use workrail_core::reply::recovery::{Audience, RecoveryInput, Snapshots as _};
use workrail_core::reply::{LongText, ReplyInput, ReplyMoment, StepExtras, render};
use workrail_core::token::NodeFacts;
use workrail_model::compiled::CompiledWorkflow;
use workrail_model::error::ErrorEnvelope;
use workrail_model::event::{AdvanceOutcome, Context};
use workrail_model::id::RunId;
use workrail_model::preferences::RunStatus;
use workrail_model::reply::{OtherRun, Warning, WarningCode};
use workrail_model::snapshot::EngineState;
use workrail_model::token::TokenKind;
use workrail_ports::workspace::WorkspacePath;

use crate::catalog::SourceDigests;
use crate::drift::drift_from;
use crate::mint::fresh_attempt;
use crate::request::{ContinueWorkflow, Echo};
use crate::session_access::Reading;
use crate::token::Attempts;
use crate::{ReplyResult, error, next_call, reply, token};

/// How many of the newest other runs are examined: each costs a snapshot.
const OTHER_RUNS_EXAMINED_MAX: usize = 12;

impl Reading<'_> {
    pub(crate) fn rehydrate(
        &self,
        state_token: &str,
        request: &ContinueWorkflow,
        workspace: Option<&WorkspacePath>,
    ) -> ReplyResult {
        let refused = |cause| self.refused(cause, request.echo());
        let verified = self.signer.verify(state_token, TokenKind::State).map_err(refused)?;
        let session = verified.session();
        self.look(session, |facts| {
            let resolved = token::resolve(facts, &verified).map_err(|cause| refused(cause.into()))?;
            let at = *resolved.at().ok_or_else(|| error::broken_invariant("a state token names a node"))?;
            self.check_echo(facts, at, request.echo())?;
            // Checked only after the token: the call that is suggested instead must be valid.
            if !request.output.is_empty() || !request.context.is_empty() {
                return Err(error::output_without_ack(state_token, request));
            }
            let node =
                facts.node(at.node).ok_or_else(|| error::broken_invariant("a resolved node is folded"))?;
            let snapshot = self.content.snapshot(node.snapshot_ref)?;
            let workflow = self.content.workflow(at.workflow)?;
            let context = facts.context_of_retry(at.node).map_err(|cause| error::context(&cause))?;
            let state = snapshot.state();
            let body = render(&ReplyInput {
                facts,
                run: at.run,
                workflow: &workflow,
                state,
                context: &context,
                preferences: facts.preferences(at.node),
                moment: ReplyMoment::Rehydrated,
                long_text: LongText::Shorten,
                tools: self.environment.tools,
                site: self.site,
                rights: self.rights,
                extras: self.step_extras(facts, at, &workflow, &context, workspace),
            })
            .map_err(|cause| error::step_text(&cause))?;
            // A fresh attempt: two chats that resume one node fork, so neither loses its work. A refused attempt is
            // retried instead, because what it sent is kept for its retry (G47).
            let attempt = match facts.latest_advance(at.node) {
                Some(last) if matches!(last.outcome, AdvanceOutcome::Blocked { .. }) => {
                    derive::retry_attempt(last.attempt)
                }
                Some(_) | None => fresh_attempt(self.entropy)?,
            };
            let attempts = match self.rights {
                RunRights::Work => Attempts::both(attempt, state.pending_step().is_some()),
                RunRights::ReadOnly { .. } => Attempts { ack: None, checkpoint: None },
            };
            reply::sign(&body, &self.signer.tokens(session, at, attempts), self.signer.state_signer(facts))
        })
    }

    /// What an agent that lost the chat needs besides the step.
    fn step_extras(
        &self,
        facts: &SessionState,
        at: NodeFacts,
        workflow: &CompiledWorkflow,
        context: &Context,
        workspace: Option<&WorkspacePath>,
    ) -> StepExtras {
        let audience = Audience::RunAgent;
        let recovery = RecoveryInput { facts, workflow, context, snapshots: &self.content, audience };
        let sources = self.catalog.sources(workspace);
        // The file may be missing or broken by now: the run does not need it.
        let now = self.catalog.compiled_from(&sources, &workflow.workflow_id).ok();
        let state = facts.node(at.node).and_then(|node| self.content.state_at(node));
        let complete = state.as_ref().is_some_and(EngineState::is_complete);
        StepExtras {
            return_to: state.as_ref().and_then(|state| disclose::return_to(facts, at.run, state)),
            open_gaps: if complete { disclose::open_gaps(facts, at.run) } else { Vec::new() },
            disclosed: match complete {
                true => disclose::disclosed(facts, at.run).map(str::to_owned).collect(),
                false => Vec::new(),
            },
            refused_before: disclose::refused_before(facts, at.node),
            references: self.references(workflow, now.as_ref().map(|entry| &entry.source), workspace),
            warnings: self.current_warnings(facts, at, &sources),
            run_is_at: recovery.run_is_at(at.node),
            open_tips: recovery.open_tips(at.node),
            children: finished_inside(facts, at.node, &self.content),
            recap: recovery.recap(at.node),
            branches: recovery.branches(at.node),
            downstream: recovery.downstream(at.node),
            functions: recovery.functions(at.node),
            other_runs: self.other_runs(facts, at.run),
            ..StepExtras::default()
        }
    }

    /// Warnings about the run as a whole, repeated whenever it is picked up again.
    fn current_warnings(&self, facts: &SessionState, at: NodeFacts, sources: &SourceDigests) -> Vec<Warning> {
        let mut warnings = Vec::new();
        // Unreadable pending preferences are ignored here: a read must not fail because of them.
        let pending = self
            .pending_preferences
            .pending_preferences(facts.session_id(), at.run)
            .unwrap_or_default()
            .map(|pending| pending.preferences);
        if let Some(pending) = pending.filter(|pending| *pending != facts.preferences(at.node)) {
            let message = format!(
                "New preferences are pending (mode {}); they apply when this step is completed.",
                pending.autonomy.as_str()
            );
            warnings.push(Warning { code: WarningCode::PreferencesPending, message });
        }
        warnings.extend(facts.run(at.run).and_then(closed_warning));
        warnings.extend(facts.run(at.run).and_then(|run| drift_from(run, sources)));
        warnings
    }

    /// The session's other unfinished runs, so that their tokens are not mixed up (G37).
    pub(crate) fn other_runs(&self, facts: &SessionState, run: RunId) -> Vec<OtherRun> {
        let others = facts.runs().rev().filter(|other| other.run_id != run).take(OTHER_RUNS_EXAMINED_MAX);
        let unfinished = others.filter_map(|other| {
            let tip = facts.node(facts.preferred_tip(other.run_id)?)?;
            let snapshot = self.content.snapshot(tip.snapshot_ref).ok()?;
            let state = snapshot.state();
            let status = facts.run_status(other.run_id, state.is_complete())?;
            match status {
                RunStatus::Complete | RunStatus::CompleteWithGaps | RunStatus::Closed => None,
                RunStatus::InProgress | RunStatus::Blocked => Some(OtherRun {
                    label: RunLabel::of(other.run_id).to_string(),
                    workflow_id: other.workflow_id.clone(),
                    step_id: state.pending_step().map(|step| step.step_id.clone()),
                    status,
                }),
            }
        });
        unfinished.collect()
    }

    /// Checks what the caller believes about run and step against the token's node (G35).
    pub(crate) fn check_echo(
        &self,
        facts: &SessionState,
        at: NodeFacts,
        echo: Echo<'_>,
    ) -> Result<(), Box<ErrorEnvelope>> {
        if echo.run.is_none() && echo.step_id.is_none() {
            return Ok(());
        }
        let node = facts.node(at.node).ok_or_else(|| error::broken_invariant("a resolved node is folded"))?;
        let snapshot = self.content.snapshot(node.snapshot_ref)?;
        let step = snapshot.state().pending_step().map(|step| &step.step_id);
        if next_call::fits(echo, at, step) { Ok(()) } else { Err(self.mixed_up(facts, at, step, echo)) }
    }
}
