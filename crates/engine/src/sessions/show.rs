//! One session or run: what it contains, and how to continue it.

use serde::Serialize;
use workrail_core::label::RunLabel;
use workrail_core::reply::recovery::{Audience, RecoveryInput};
use workrail_core::reply::rehydrate_call;
use workrail_core::report::{ContextValues, Covers, Detail, Report, ReportInput, build};
use workrail_core::token::NodeFacts;
use workrail_model::error::ErrorEnvelope;
use workrail_model::id::{NodeId, RunId};
use workrail_model::preferences::{Preferences, RunStatus};
use workrail_model::reply::{NextCall, Recap};

use super::Need;
use crate::find::SessionOrRun;
use crate::salvage::Salvaged;
use crate::session_access::Reading;
use crate::token::KeyUse;
use crate::{Engine, Store, error};

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SessionView {
    pub report: Report,
    pub continuations: Vec<RunContinuation>,
}

/// How a run continues.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RunContinuation {
    pub run_id: RunId,
    pub label: String,
    /// What was recorded on the way to the current point.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recap: Option<Recap>,
    /// Why it is stuck, and what to do.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub need: Option<Need>,
    /// Requested; applied by the next completed step.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pending_preferences: Option<Preferences>,
    /// The call that shows the step to an agent; absent for a damaged session, or without signing keys.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_call: Option<NextCall>,
}

impl<S: Store> Engine<S> {
    pub fn show_session(&self, about: SessionOrRun) -> Result<SessionView, Box<ErrorEnvelope>> {
        self.show_in(about, Detail::Everything)
    }

    /// The same with the notes and artifacts of one point only, or of the point where each run continues.
    pub fn show_point(
        &self,
        about: SessionOrRun,
        point: Option<NodeId>,
    ) -> Result<SessionView, Box<ErrorEnvelope>> {
        self.show_in(about, Detail::Point(point))
    }

    fn show_in(&self, about: SessionOrRun, detail: Detail) -> Result<SessionView, Box<ErrorEnvelope>> {
        let mut view = self.reading().show(about, detail)?;
        let healthy = view.report.health.is_healthy();
        for (run, continuation) in view.report.runs.iter().zip(&mut view.continuations) {
            if healthy && matches!(run.status, Some(RunStatus::Blocked) | None) {
                continuation.need = self.need(about.session, run.run_id);
            }
        }
        Ok(view)
    }
}

impl Reading<'_> {
    fn show(&self, about: SessionOrRun, detail: Detail) -> Result<SessionView, Box<ErrorEnvelope>> {
        // Without keys the session is still shown, with no call to continue; `keys_problem` says why.
        let _ = self.signer.refresh(KeyUse::ReadOnly);
        let read = self.salvage(about.session)?.or_refuse()?;
        let covers = match about.run {
            Some(run_id) => Covers::Run { run_id },
            None => Covers::Session,
        };
        let signatures = self.signatures(&read.state, &read.events);
        let mut report = build(&ReportInput {
            facts: &read.state,
            events: &read.events,
            health: &read.health,
            covers,
            content: &self.content,
            context_values: ContextValues::NotShown,
            signatures: &signatures,
            detail,
        });
        self.remark_drift(&mut report, &read.state);
        let mut continuations = Vec::new();
        for run in &report.runs {
            let tip = run.tip.ok_or_else(|| error::broken_invariant("a run has a first point"))?;
            continuations.push(self.continuation(&read, run.run_id, tip)?);
        }
        Ok(SessionView { report, continuations })
    }

    fn continuation(
        &self,
        read: &Salvaged,
        run: RunId,
        tip: NodeId,
    ) -> Result<RunContinuation, Box<ErrorEnvelope>> {
        let facts = &read.state;
        let state = facts.run(run).ok_or_else(|| error::broken_invariant("a reported run is folded"))?;
        let context = facts.context_at(tip).unwrap_or_default();
        let recap = self.content.workflow(state.workflow_hash).ok().and_then(|workflow| {
            let recovery = RecoveryInput {
                facts,
                workflow: &workflow,
                context: &context,
                snapshots: &self.content,
                audience: Audience::AnyReader,
            };
            recovery.recap(tip)
        });
        // Only reported here: unreadable pending preferences must not make showing fail.
        let pending = self
            .pending_preferences
            .pending_preferences(facts.session_id(), run)
            .unwrap_or_default()
            .map(|pending| pending.preferences);
        Ok(RunContinuation {
            run_id: run,
            label: RunLabel::of(run).to_string(),
            recap,
            need: None,
            pending_preferences: pending.filter(|pending| *pending != facts.preferences(tip)),
            next_call: self.rehydrate_call_at(read, run, tip),
        })
    }

    /// The call that shows a step of a healthy session to an agent; `None` without signing keys.
    pub(crate) fn rehydrate_call_at(&self, read: &Salvaged, run: RunId, node: NodeId) -> Option<NextCall> {
        if !read.health.is_healthy() || !self.signer.has_keys() {
            return None;
        }
        let (facts, found) = (&read.state, read.state.node(node)?);
        let at = NodeFacts {
            node,
            run,
            node_event: found.created_index,
            created_by: found.created_by,
            workflow: facts.run(run)?.workflow_hash,
        };
        Some(rehydrate_call(&self.signer.state(facts.session_id(), at), RunLabel::of(run)))
    }
}
