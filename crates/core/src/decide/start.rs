//! Starting a run: pin the workflow, record the root, its context and its preferences.

use workrail_model::compiled::CompiledWorkflow;
use workrail_model::digest::{Sha256, WorkflowHash};
use workrail_model::event::{
    Context, ContextSet, ContextSource, DecisionTraceAppended, EventData, EventIndex, GapRecorded,
    KeyedStart, NodeCreated, NodeKind, ParentLink, PreferencesChanged, RunStarted, Scope, SessionCreated,
    WorkflowSourceKind,
};
use workrail_model::gap::Resolution;
use workrail_model::id::{AttemptId, NodeId, RunId, SessionId};
use workrail_model::plan::{AppendPlan, Attachment};
use workrail_model::preferences::{PreferenceChange, PreferenceSource, Preferences};
use workrail_model::reason::{Advisory, Reason};
use workrail_model::reply::{ReferenceInfo, StoredReply, Warning};
use workrail_model::snapshot::{EngineState, ExecutionSnapshot};
use workrail_model::text::BoundedText;

use super::draft::Draft;
use super::observe::{self, Observed};
use super::{DecideError, Minting, disclose, outputs};
use crate::project::SessionState;
use crate::reason::advisory_severity;
use crate::render::prompt::{Lifecycle, render_step};
use crate::{derive, interpret};

/// A run to be started.
#[derive(Debug)]
pub struct Start<'a> {
    pub session: SessionId,
    pub run: RunId,
    /// Where the session's log ends; 0 makes the session too.
    pub next_event_index: EventIndex,
    pub workflow: &'a CompiledWorkflow,
    pub source_kind: WorkflowSourceKind,
    pub source_ref: &'a str,
    pub context: Context,
    pub preferences: Preferences,
    /// Who chose them: a person, or nobody.
    pub preference_source: PreferenceSource,
    pub parent: Option<ParentLink>,
    /// What the workflow points at, and whether it is there.
    pub references: &'a [ReferenceInfo],
    /// The workspace as it is now.
    pub observed: &'a [Observed],
    /// The session's facts when it exists already, so that only news is observed.
    pub facts: &'a SessionState,
    pub minting: Minting,
}

/// A start that is ready to be appended.
#[derive(Debug)]
pub struct Started {
    pub plan: AppendPlan,
    pub begun: Begun,
}

/// What a start leads to, once its plan is appended.
#[derive(Debug)]
pub struct Begun {
    pub root: NodeId,
    pub attempt: AttemptId,
    pub workflow_hash: WorkflowHash,
    pub state: EngineState,
    /// What the person should know about this start.
    pub warnings: Vec<Warning>,
}

impl Started {
    /// Records the reply with the start, so that a repeated start is answered from the record (G30).
    pub fn with_reply(self, request_digest: Sha256, reply: &StoredReply) -> Result<Self, DecideError> {
        let stored = Attachment::blob(reply.to_canonical()?);
        let keyed = KeyedStart { request_digest: Some(request_digest), reply_ref: stored.blob_ref() };
        let mut attachments = self.plan.attachments().to_vec();
        attachments.push(stored);
        let mut events = self.plan.into_events();
        for event in &mut events {
            if let EventData::RunStarted(run) = &mut event.data {
                run.keyed = Some(keyed);
            }
        }
        Ok(Self { plan: AppendPlan::new(events, attachments)?, begun: self.begun })
    }
}

pub fn start(command: Start<'_>) -> Result<Started, DecideError> {
    let Start { session, run, next_event_index, workflow, context, preferences, .. } = command;
    outputs::check_context(&context)?;
    let workflow_bytes = workflow.to_canonical()?;
    let pinned = Attachment::workflow(workflow_bytes);
    let workflow_hash = pinned.workflow_hash();
    let selection = interpret::start(workflow, &context)?;
    if let Some(pending) = selection.state.pending_step() {
        // Asked now, while nothing is recorded: the reply is rendered after the append.
        render_step(workflow, pending, &context, Lifecycle::Start)?;
    }
    let snapshot = ExecutionSnapshot::new(workflow_hash, selection.state)?;
    let root = derive::root_node_id(run);
    let attempt = derive::root_attempt(root);
    let on_run = Scope::Run(run);
    let on_root = Scope::Node(run, root);

    let mut draft = Draft::new(session, next_event_index, command.minting);
    draft.attach(pinned);
    if next_event_index == EventIndex::ZERO {
        draft.push(Scope::Session, EventData::SessionCreated(SessionCreated::default()));
    }
    draft.push(
        on_run,
        EventData::RunStarted(RunStarted {
            workflow_id: workflow.workflow_id.clone(),
            workflow_hash,
            workflow_source_kind: command.source_kind,
            workflow_source_ref: BoundedText::clip(command.source_ref),
            parent: command.parent,
            keyed: None,
        }),
    );
    let snapshot_ref = draft.attach_snapshot(&snapshot)?;
    let node = NodeCreated {
        node_kind: NodeKind::Step,
        parent_node_id: None,
        workflow_hash,
        snapshot_ref,
        checkpoint: None,
    };
    draft.push(on_root, EventData::NodeCreated(node));
    let chosen = baseline(root, preferences, command.preference_source);
    draft.push(on_root, EventData::PreferencesChanged(chosen));
    let gaps = advisories(root, workflow, preferences, command.references);
    let warnings = disclose::warnings(preferences.risk_policy, &gaps);
    for gap in gaps {
        draft.push_once(on_root, EventData::GapRecorded(gap));
    }
    if !context.is_empty() {
        let context_id = derive::context_id(root, before_any_attempt());
        let source = ContextSource::Initial;
        let set = ContextSet { context_id, context, source, node_id: root, attempt_id: None };
        draft.push(on_run, EventData::ContextSet(set));
    }
    if let Some(trace) =
        DecisionTraceAppended::bounded(derive::trace_id(root, before_any_attempt()), selection.trace)
    {
        draft.push(on_root, EventData::DecisionTraceAppended(trace));
    }
    observe::push_changed(&mut draft, command.facts, command.observed);
    let plan = draft.plan()?;
    let state = snapshot.state().clone();
    Ok(Started { plan, begun: Begun { root, attempt, workflow_hash, state, warnings } })
}

/// What a start records belongs to no attempt: the first ack on the root must not collide with it.
fn before_any_attempt() -> AttemptId {
    AttemptId::from_bits(0)
}

/// A run's baseline is recorded on its root, so that later changes of the defaults do not reach it.
fn baseline(root: NodeId, effective: Preferences, source: PreferenceSource) -> PreferencesChanged {
    PreferencesChanged {
        change_id: derive::change_id(root, before_any_attempt(), effective),
        source,
        delta: vec![
            PreferenceChange::Autonomy(effective.autonomy),
            PreferenceChange::RiskPolicy(effective.risk_policy),
        ],
        effective,
    }
}

/// What is disclosed at the start and never refused: a mode beyond the recommendation, missing documents.
fn advisories(
    root: NodeId,
    workflow: &CompiledWorkflow,
    effective: Preferences,
    references: &[ReferenceInfo],
) -> Vec<GapRecorded> {
    let gap = |advisory: Advisory, subject: &str, summary: &str| {
        let reason = Reason::Advisory(advisory);
        GapRecorded {
            gap_id: derive::gap_id(root, before_any_attempt(), reason, subject),
            severity: advisory_severity(advisory),
            reason,
            summary: BoundedText::clip(summary),
            resolution: Resolution::Unresolved,
            evidence_refs: Vec::new(),
        }
    };
    let mut gaps = Vec::new();
    if let Some(summary) = disclose::above_recommendation(workflow, effective) {
        gaps.push(gap(Advisory::PreferencesAboveRecommendation, "preferences", &summary));
    }
    for reference in references.iter().filter(|reference| !reference.resolved) {
        let summary = format!("Reference `{}` ({}) was not found.", reference.title, reference.path);
        gaps.push(gap(Advisory::ReferenceUnresolved, &reference.id, &summary));
    }
    gaps
}
