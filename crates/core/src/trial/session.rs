//! A session in memory: real decisions, real events, real folding; only the disk is missing.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;
use workrail_model::approval::{ApprovalChannel, ApprovalDecision, ApprovalOrigin, Descent};
use workrail_model::compiled::{CompiledWorkflow, StepKind};
use workrail_model::digest::{BlobRef, Sha256, SnapshotRef, WorkflowHash};
use workrail_model::event::{Activity, AdvanceOutcome, Context, EventData, WorkflowSourceKind};
use workrail_model::evidence::TreeInspection;
use workrail_model::id::{AttemptId, NodeId, RunId, SessionId};
use workrail_model::plan::{AppendPlan, AttachmentKind};
use workrail_model::preferences::PreferenceSource;
use workrail_model::snapshot::{EngineState, ExecutionSnapshot};
use workrail_model::step_key::StepInstanceKey;
use workrail_model::submission::{StepOutput, Submission};
use workrail_model::time::Timestamp;
use workrail_model::tool::ToolSet;

use super::script::{RunScript, StepScript};
use crate::agent_site::AgentSite;
use crate::decide::Minting;
use crate::decide::advance::{Advance, advance, delivered_digest, delivered_output};
use crate::decide::approve::{Approve, approve};
use crate::decide::attempt::AttemptState;
use crate::decide::evidence::{AvailableEvidence, EvidenceDemand};
use crate::decide::proof::ApprovalRule;
use crate::decide::start::{Start, start};
use crate::derive;
use crate::project::{NodeState, SessionState};
use crate::reply::recovery::Snapshots;
use crate::report::ContentReader;

/// The result of sending one step.
#[derive(Debug, Default)]
pub(super) struct StepResult {
    pub blocked: Vec<String>,
    pub gaps: Vec<String>,
    pub next: Option<String>,
}

/// The snapshots of the session, as a store would provide them.
#[derive(Debug, Default)]
struct MemorySnapshots(BTreeMap<SnapshotRef, ExecutionSnapshot>);

impl Snapshots for MemorySnapshots {
    fn state_at(&self, node: &NodeState) -> Option<EngineState> {
        self.0.get(&node.snapshot_ref).map(|snapshot| snapshot.state().clone())
    }
}

/// A trial has one run and needs no content besides its snapshots.
impl ContentReader for MemorySnapshots {
    fn workflow(&self, _: WorkflowHash) -> Option<Arc<CompiledWorkflow>> {
        None
    }

    fn blob(&self, _: BlobRef) -> Option<Vec<u8>> {
        None
    }
}

pub(super) struct TrialSession<'a> {
    workflow: &'a CompiledWorkflow,
    facts: SessionState,
    snapshots: MemorySnapshots,
    node: NodeId,
    attempt: AttemptId,
    plans: u64,
    /// What the preceding refused attempt delivered.
    earlier_output: StepOutput,
}

impl<'a> TrialSession<'a> {
    pub(super) fn start(workflow: &'a CompiledWorkflow, script: &RunScript) -> Result<Self, String> {
        let session = SessionId::from_bits([0; 10]);
        let context = Context::new(script.context.clone()).map_err(|error| error.to_string())?;
        let started = start(Start {
            facts: &SessionState::new(session),
            run: RunId::from_bits([0; 10]),
            workflow,
            source_kind: WorkflowSourceKind::Project,
            source_ref: "trial",
            source_digest: None,
            context,
            preferences: script.mode.preferences(),
            preference_source: PreferenceSource::User,
            parent: None,
            references: &[],
            observed: &[],
            tree: TreeInspection::NoRepository,
            other_runs: Vec::new(),
            notices: Vec::new(),
            tools: ToolSet::ALL,
            site: &AgentSite::Local,
            repeatable: None,
            minting: minting(0),
        })
        .map_err(|error| error_chain(&error))?;
        let mut this = Self {
            workflow,
            facts: SessionState::new(session),
            snapshots: MemorySnapshots::default(),
            node: started.run.root,
            attempt: started.run.attempt,
            plans: 0,
            earlier_output: StepOutput::default(),
        };
        this.record(&started.plan)?;
        Ok(this)
    }

    /// The pending step instance; `None` if the run is complete.
    pub(super) fn pending(&self) -> Option<StepInstanceKey> {
        self.snapshot()?.state().pending_step()?.key().ok()
    }

    fn snapshot(&self) -> Option<&ExecutionSnapshot> {
        self.snapshots.0.get(&self.facts.node(self.node)?.snapshot_ref)
    }

    fn minting(&self) -> Minting {
        minting(self.plans)
    }

    fn record(&mut self, plan: &AppendPlan) -> Result<(), String> {
        for attachment in plan.attachments() {
            if attachment.kind() == AttachmentKind::Snapshot {
                let snapshot =
                    ExecutionSnapshot::parse(attachment.bytes()).map_err(|error| error.to_string())?;
                self.snapshots.0.insert(attachment.snapshot_ref(), snapshot);
            }
        }
        for event in plan.events() {
            self.facts.apply(event).map_err(|error| error.to_string())?;
        }
        self.plans += 1;
        Ok(())
    }

    pub(super) fn send(&mut self, step: &StepScript) -> Result<StepResult, String> {
        let output = StepOutput { notes_markdown: Some(step.notes.clone()), artifacts: self.artifacts(step) };
        let context = Context::new(step.context.clone()).map_err(|error| error.to_string())?;
        let sent = Submission { output, context };
        if let Some(decision) = step.approval {
            let submitted = delivered_digest(self.command(&sent)?).map_err(|error| error_chain(&error))?;
            self.approve(decision, submitted)?;
        }
        let delivered = delivered_output(self.command(&sent)?).map_err(|error| error_chain(&error))?;
        let decided = advance(self.command(&sent)?).map_err(|error| error_chain(&error))?;
        let answer = self.answer(&decided.plan);
        self.record(&decided.plan)?;
        // Like a server, which keeps what the refused attempt delivered.
        self.earlier_output = match answer.blocked.is_empty() {
            true => StepOutput::default(),
            false => StepOutput {
                notes_markdown: delivered.notes_markdown.filter(|notes| !notes.trim().is_empty()),
                artifacts: delivered.artifacts,
            },
        };
        self.move_on()?;
        Ok(StepResult { next: self.pending().map(|key| key.step_id.to_string()), ..answer })
    }

    fn answer(&self, plan: &AppendPlan) -> StepResult {
        let mut answer = StepResult::default();
        for event in plan.events() {
            if let EventData::AdvanceRecorded(advance) = &event.data
                && let AdvanceOutcome::Blocked { blockers } = &advance.outcome
            {
                let codes = blockers.blockers().iter().map(|blocker| blocker.code.as_str().to_owned());
                answer.blocked = codes.collect();
            }
            if let EventData::GapRecorded(gap) = &event.data {
                answer.gaps.push(gap.reason.detail().to_owned());
            }
        }
        answer
    }

    /// Follows the outcome to the child, or to the retry of the same node.
    fn move_on(&mut self) -> Result<(), String> {
        let record = self.facts.advance(self.node, self.attempt).ok_or("an advance was not recorded")?;
        match record.outcome.clone() {
            AdvanceOutcome::Advanced { to_node_id } => {
                self.attempt = derive::next_attempt(self.attempt, to_node_id);
                self.node = to_node_id;
            }
            AdvanceOutcome::Blocked { .. } => self.attempt = derive::retry_attempt(self.attempt),
        }
        Ok(())
    }

    fn command<'c>(&'c self, sent: &'c Submission) -> Result<Advance<'c>, String> {
        let attempt = AttemptState::find(&self.facts, self.node, self.attempt, sent);
        let AttemptState::Open(attempt) = attempt.map_err(|error| error_chain(&error))? else {
            return Err("an attempt was decided twice".to_owned());
        };
        Ok(Advance {
            facts: &self.facts,
            attempt,
            snapshot: self.snapshot().ok_or("the pending snapshot is lost")?,
            workflow: self.workflow,
            earlier_output: self.earlier_output.clone(),
            pending_preferences: None,
            // A script decides in place of a person, so its gates require no proof.
            approvals: ApprovalRule::of_scripts(),
            observed: &[],
            evidence: AvailableEvidence { demand: EvidenceDemand::Assumed, ..AvailableEvidence::default() },
            notices: Vec::new(),
            workflow_changed: false,
            content: &self.snapshots,
            tools: ToolSet::ALL,
            site: &AgentSite::Local,
            minting: self.minting(),
        })
    }

    /// Decides on what the script sends next, like a person who was shown it.
    fn approve(&mut self, decision: ApprovalDecision, submitted: Sha256) -> Result<(), String> {
        let step = self.pending().ok_or("no step waits for approval")?.step_id;
        let plan = approve(Approve {
            facts: &self.facts,
            node: self.node,
            step,
            decision,
            submitted,
            reason: None,
            origin: ApprovalOrigin {
                channel: ApprovalChannel::Terminal,
                descends_from_server: Descent::Unknown,
            },
            proof: None,
            minting: self.minting(),
        })
        .map_err(|error| error_chain(&error))?;
        self.record(&plan)
    }

    /// What the script sends, with the contract's own example when it asks for it.
    fn artifacts(&self, step: &StepScript) -> Vec<Value> {
        let mut artifacts = step.artifacts.clone();
        let pending = self.pending().and_then(|key| self.workflow.step(&key.step_id));
        if let (true, Some(compiled)) = (step.example, pending)
            && let Some(output) = &compiled.output
            && let Some(contract) = self.workflow.contract(&output.contract_ref)
        {
            let mut example = contract.example.clone();
            if let StepKind::CapabilityProbe { capability, .. } = &compiled.kind {
                example["capability"] = Value::from(capability.as_str());
            }
            artifacts.push(example);
        }
        artifacts
    }
}

/// Fixed: a trial stores nothing, and equal scripts give equal reports.
fn minting(plans: u64) -> Minting {
    let mut event_seed = [0; 10];
    event_seed[2..].copy_from_slice(&plans.to_be_bytes());
    Minting {
        event_seed,
        at: Timestamp::parse("2000-01-01T00:00:00.000Z").expect("the literal is a timestamp"),
        activity: Activity::new(plans + 1).expect("the number of plans is far below 2^53"),
        actor: None,
    }
}

fn error_chain(error: &dyn std::error::Error) -> String {
    match error.source() {
        Some(source) => format!("{error}: {}", error_chain(source)),
        None => error.to_string(),
    }
}
