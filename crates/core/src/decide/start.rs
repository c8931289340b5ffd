//! Starting a run: pin the workflow, record the root, its context and its preferences.

use workrail_model::compiled::CompiledWorkflow;
use workrail_model::digest::{Sha256, WorkflowHash};
use workrail_model::event::{
    Context, ContextSet, ContextSource, DecisionTraceAppended, EventData, EventIndex, GapRecorded,
    KeyedStart, NodeCreated, NodeKind, ParentLink, PreferencesChanged, RunStarted, Scope, SessionCreated,
    WorkflowSourceKind,
};
use workrail_model::evidence::TreeInspection;
use workrail_model::gap::Resolution;
use workrail_model::id::{AttemptId, NodeId, RunId};
use workrail_model::plan::{AppendPlan, Attachment};
use workrail_model::preferences::{PreferenceChange, PreferenceSource, Preferences};
use workrail_model::reason::{Advisory, Reason};
use workrail_model::reply::{OtherRun, ReferenceInfo, StoredReply, Warning};
use workrail_model::snapshot::{EngineState, ExecutionSnapshot};
use workrail_model::text::BoundedText;
use workrail_model::tool::ToolSet;

use super::draft::PlanDraft;
use super::evidence::{AvailableEvidence, CurrentWorkspace, EvidenceSubject};
use super::observe::{self, ObservedFact};
use super::{DecideError, Minting, disclose, outputs};
use crate::agent_site::{AgentSite, RunRights};
use crate::project::SessionState;
use crate::reason::advisory_severity;
use crate::reply::{LongText, ReplyInput, ReplyMoment, StepExtras};
use crate::{derive, interpret, reply};

/// A run to be started.
#[derive(Debug)]
pub struct Start<'a> {
    /// The current session; if empty, this start creates it.
    pub facts: &'a SessionState,
    pub run: RunId,
    pub workflow: &'a CompiledWorkflow,
    pub source_kind: WorkflowSourceKind,
    pub source_ref: &'a str,
    /// Digest of the source file; absent if there is none.
    pub source_digest: Option<Sha256>,
    pub context: Context,
    pub preferences: Preferences,
    /// Who chose them: a person, or the system.
    pub preference_source: PreferenceSource,
    pub parent: Option<ParentLink>,
    /// The workflow's references, and whether each exists.
    pub references: &'a [ReferenceInfo],
    /// The current workspace.
    pub observed: &'a [ObservedFact],
    /// Its working tree, compared when the first step ends.
    pub tree: TreeInspection,
    /// Unfinished runs of the session, which the reply names.
    pub other_runs: Vec<OtherRun>,
    /// Notices for the reply about the id that the caller used.
    pub notices: Vec<Warning>,
    /// Identifies the request if the caller may repeat the start: then the reply is recorded with it (G30).
    pub repeatable: Option<RepeatableStart>,
    /// The tools that the server offers.
    pub tools: ToolSet,
    /// Where the agent works.
    pub site: &'a AgentSite,
    pub minting: Minting,
}

/// What identifies a start that its caller may repeat.
#[derive(Clone, Copy, Debug)]
pub struct RepeatableStart {
    /// Of its arguments.
    pub request_digest: Sha256,
    /// Of its idempotency key.
    pub key_digest: Sha256,
}

/// A start that is ready to be appended.
#[derive(Debug)]
pub struct Started {
    pub plan: AppendPlan,
    pub run: StartedRun,
}

/// The result of a start once its plan is appended.
#[derive(Debug)]
pub struct StartedRun {
    pub root: NodeId,
    pub attempt: AttemptId,
    pub workflow_hash: WorkflowHash,
    pub reply: StoredReply,
}

pub fn start(command: Start<'_>) -> Result<Started, DecideError> {
    outputs::check_context(&command.context)?;
    let pinned = Attachment::workflow(command.workflow.to_canonical()?);
    let workflow_hash = pinned.workflow_hash();
    let selection = interpret::start(command.workflow, &command.context)?;
    let root = derive::root_node_id(command.run);
    let gaps = advisories(root, command.workflow, command.preferences, command.references);
    // Rendered before anything is recorded: a run whose first step is too long to be shown is not started.
    let reply = first_reply(&command, &selection.state, &gaps)?;
    let snapshot = ExecutionSnapshot::new(workflow_hash, selection.state)?;
    let Start { facts, run, workflow, context, preferences, .. } = command;
    let on_run = Scope::Run(run);
    let on_root = Scope::Node(run, root);
    let recorded = match command.repeatable {
        Some(repeatable) => Some((repeatable, Attachment::blob(reply.to_canonical()?))),
        None => None,
    };

    let mut draft = PlanDraft::new(facts.session_id(), facts.next_event_index(), command.minting);
    draft.attach(pinned);
    if facts.next_event_index() == EventIndex::ZERO {
        draft.push(Scope::Session, EventData::SessionCreated(SessionCreated::default()));
    }
    draft.push(
        on_run,
        EventData::RunStarted(RunStarted {
            workflow_id: workflow.workflow_id.clone(),
            workflow_hash,
            workflow_source_kind: command.source_kind,
            workflow_source_ref: BoundedText::clip(command.source_ref),
            workflow_source_digest: command.source_digest,
            parent: command.parent,
            keyed: recorded.as_ref().map(|(repeatable, stored)| KeyedStart {
                request_digest: Some(repeatable.request_digest),
                key_digest: Some(repeatable.key_digest),
                reply_ref: stored.blob_ref(),
            }),
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
    let chosen = initial_preferences(root, preferences, command.preference_source);
    draft.push(on_root, EventData::PreferencesChanged(chosen));
    for gap in gaps {
        draft.push_once(on_root, EventData::GapRecorded(gap));
    }
    if !context.is_empty() {
        let context_id = derive::context_id(root, derive::before_any_attempt());
        let source = ContextSource::Initial;
        let set = ContextSet { context_id, context, source, node_id: root, attempt_id: None, proof: None };
        draft.push(on_run, EventData::ContextSet(set));
    }
    if let Some(trace) =
        DecisionTraceAppended::bounded(derive::trace_id(root, derive::before_any_attempt()), selection.trace)
    {
        draft.push(on_root, EventData::DecisionTraceAppended(trace));
    }
    if observe::is_same_repository(facts, command.observed) {
        let available = AvailableEvidence {
            workspace: CurrentWorkspace { tree: command.tree, ..CurrentWorkspace::default() },
            ..AvailableEvidence::default()
        };
        EvidenceSubject { facts, scope: on_root, node: root, attempt: None }
            .push(&mut draft, &available, None);
    }
    observe::push_changed(&mut draft, facts, command.observed);
    if let Some((_, stored)) = recorded {
        draft.attach(stored);
    }
    let started = StartedRun { root, attempt: derive::root_attempt(root), workflow_hash, reply };
    Ok(Started { plan: draft.plan()?, run: started })
}

fn first_reply(
    command: &Start<'_>,
    state: &EngineState,
    gaps: &[GapRecorded],
) -> Result<StoredReply, DecideError> {
    let mut warnings = disclose::warnings(command.preferences.risk_policy, gaps);
    warnings.extend(command.notices.iter().cloned());
    Ok(reply::render(&ReplyInput {
        facts: command.facts,
        run: command.run,
        workflow: command.workflow,
        state,
        context: &command.context,
        preferences: command.preferences,
        moment: ReplyMoment::Started,
        long_text: LongText::Refuse,
        tools: command.tools,
        site: command.site,
        rights: RunRights::Work,
        extras: StepExtras {
            references: command.references.to_vec(),
            warnings,
            other_runs: command.other_runs.clone(),
            ..StepExtras::default()
        },
    })?)
}

/// A run's preferences are recorded on its root, so that later changes of the defaults do not affect it.
fn initial_preferences(root: NodeId, effective: Preferences, source: PreferenceSource) -> PreferencesChanged {
    PreferencesChanged {
        change_id: derive::change_id(root, derive::before_any_attempt(), effective),
        source,
        delta: vec![
            PreferenceChange::Autonomy(effective.autonomy),
            PreferenceChange::RiskPolicy(effective.risk_policy),
        ],
        effective,
        proof: None,
    }
}

/// What is disclosed at the start but never refused: a mode beyond the recommendation, missing documents.
fn advisories(
    root: NodeId,
    workflow: &CompiledWorkflow,
    effective: Preferences,
    references: &[ReferenceInfo],
) -> Vec<GapRecorded> {
    let gap = |advisory: Advisory, subject: &str, summary: &str| {
        let reason = Reason::Advisory(advisory);
        GapRecorded {
            gap_id: derive::gap_id(root, derive::before_any_attempt(), reason, subject),
            severity: advisory_severity(advisory),
            reason,
            summary: BoundedText::clip(summary),
            resolution: Resolution::Unresolved,
            cause: Some(BoundedText::clip(subject)),
            evidence_refs: Vec::new(),
        }
    };
    let mut gaps = Vec::new();
    if let Some(summary) = disclose::above_recommendation(workflow, effective) {
        let cause = disclose::preferences_cause(effective);
        gaps.push(gap(Advisory::PreferencesAboveRecommendation, &cause, &summary));
    }
    for reference in references.iter().filter(|reference| !reference.resolved) {
        let summary = format!("Reference `{}` ({}) was not found.", reference.title, reference.path);
        gaps.push(gap(Advisory::ReferenceUnresolved, &reference.id, &summary));
    }
    gaps
}
