//! From recorded facts to a report: the session, its runs, and what a report says about a run as a whole.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::sync::Arc;

use workrail_model::compiled::CompiledWorkflow;
use workrail_model::digest::{BlobRef, WorkflowHash};
use workrail_model::event::{CloseChannel, Event, EventData, EventIndex, NodeKind, ObservationValue};
use workrail_model::health::SessionHealth;
use workrail_model::id::{AttemptId, NodeId};
use workrail_model::limits::GOAL_BYTES_MAX;
use workrail_model::text::truncate_with_marker;
use workrail_model::time::Timestamp;

use super::budget::TextBudget;
use super::context::{ContextValues, entries};
use super::node::{OutputExtent, actor_of, first_words};
use super::table::merged;
use super::{
    ActorKind, ArtifactView, Body, BranchPosition, BranchReport, CapabilityReport, ClosedRun, ContextEntry,
    Covers, DivergenceReport, GapReport, GapReportState, NodeReport, Observed, Outcome, ParentRun, PointName,
    PreferenceReport, Report, ReportedOutput, Round, RunCounts, RunReport, Signatures, StepReport, Table,
    TimeSpan, VERSION, WorkflowFacts, point,
};
use crate::label::RunLabel;
use crate::progress::{Progress, loops};
use crate::project::{NodeState, RunState, SessionState};
use crate::render::prompt::title_without_secrets;
use crate::reply::recovery::Snapshots;

const TITLE_SHOWN_BYTES_MAX: usize = 200;

/// Provides the content that events refer to; `None` if it cannot be read.
pub trait ContentReader: Snapshots {
    fn workflow(&self, hash: WorkflowHash) -> Option<Arc<CompiledWorkflow>>;
    fn blob(&self, reference: BlobRef) -> Option<Vec<u8>>;
}

/// The input of a report. The events are those that the state was folded from.
#[derive(Clone, Copy, Debug)]
pub struct ReportInput<'a> {
    pub facts: &'a SessionState,
    pub events: &'a [Event],
    pub health: &'a SessionHealth,
    pub covers: Covers,
    pub content: &'a dyn ContentReader,
    pub context_values: ContextValues,
    /// The validity of the events' passkey signatures.
    pub signatures: &'a Signatures,
    pub detail: Detail,
}

/// Whose notes and artifacts are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detail {
    Everything,
    /// Those of one point, or of where each run continues. For other points the report has what the events contain, and
    /// artifacts while they are few: a page that shows one point must not cost as much as the whole run.
    Point(Option<NodeId>),
}

pub fn build(subject: &ReportInput<'_>) -> Report {
    let facts = subject.facts;
    let mut budget = TextBudget::new();
    let mut runs = Vec::new();
    for run in facts.runs() {
        match subject.covers {
            Covers::Run { run_id } if run_id != run.run_id => continue,
            Covers::Run { .. } | Covers::Session => {}
        }
        runs.push(RunBuilder::new(subject, run).run(&mut budget));
    }
    let notes = match subject.covers {
        Covers::Session => facts
            .session_outputs()
            .iter()
            .map(|output| subject.output(None, (output, OutputExtent::Whole), &[], &mut budget))
            .collect(),
        Covers::Run { .. } => Vec::new(),
    };
    Report {
        version: VERSION,
        session_id: facts.session_id(),
        covers: subject.covers,
        health: subject.health.clone(),
        events: subject.events.len() as u64,
        span: span(subject.events.iter()),
        workspace: workspace(facts),
        notes,
        runs,
        remarks: budget.remarks,
    }
}

fn span<'a>(events: impl DoubleEndedIterator<Item = &'a Event> + Clone) -> TimeSpan {
    let first = events.clone().find_map(|event| event.at.as_ref());
    TimeSpan::between(first, events.rev().find_map(|event| event.at.as_ref()))
}

fn workspace(facts: &SessionState) -> Vec<Observed> {
    let observed = facts.observations().filter_map(|(key, state)| {
        let value = match &state.value {
            ObservationValue::ShortString(text) => text.as_str().to_owned(),
            ObservationValue::GitSha1(text) => text.as_str().to_owned(),
            // It distinguishes repositories and means nothing to a reader.
            ObservationValue::Sha256(_) => return None,
        };
        Some(Observed { key: key.as_str().to_owned(), value })
    });
    observed.collect()
}

impl ReportInput<'_> {
    /// The actor of an event, if it names one.
    pub(super) fn caused_by(&self, index: EventIndex) -> Option<String> {
        let position = usize::try_from(index.get()).ok()?;
        let event = self.events.get(position).filter(|event| event.event_index == index)?;
        event.actor.as_ref().map(ToString::to_string)
    }

    /// Whether a member's token caused an event.
    pub(super) fn has_token(&self, index: EventIndex) -> bool {
        let position = usize::try_from(index.get()).ok();
        let event = position.and_then(|position| self.events.get(position));
        let event = event.filter(|event| event.event_index == index);
        event.and_then(|event| event.actor.as_ref()).is_some_and(|actor| actor.token_id.is_some())
    }

    /// The clock time of an event.
    pub(super) fn at(&self, index: EventIndex) -> Option<&Timestamp> {
        let position = usize::try_from(index.get()).ok()?;
        self.events.get(position).filter(|event| event.event_index == index)?.at.as_ref()
    }
}

/// One run while its report is built.
#[derive(Debug)]
pub(super) struct RunBuilder<'a> {
    pub(super) subject: &'a ReportInput<'a>,
    pub(super) run: &'a RunState,
    pub(super) workflow: Option<Arc<CompiledWorkflow>>,
    pub(super) tip: Option<NodeId>,
    pub(super) names: BTreeMap<NodeId, PointName>,
    pub(super) branches: BTreeMap<NodeId, u64>,
    /// Keys of the context sets, by node and by the refused attempt that sent them.
    pub(super) context_keys: BTreeMap<(NodeId, Option<AttemptId>), Vec<String>>,
}

impl<'a> RunBuilder<'a> {
    fn new(subject: &'a ReportInput<'a>, run: &'a RunState) -> Self {
        let facts = subject.facts;
        let tip = facts.preferred_tip(run.run_id);
        let branches = branch_numbers(facts, run, tip);
        let mut context_keys: BTreeMap<_, Vec<String>> = BTreeMap::new();
        for event in subject.events.iter().filter(|event| event.scope.run() == Some(run.run_id)) {
            if let EventData::ContextSet(set) = &event.data {
                let keys = context_keys.entry((set.node_id, set.attempt_id)).or_default();
                keys.extend(set.context.as_map().keys().cloned());
            }
        }
        Self {
            subject,
            run,
            workflow: subject.content.workflow(run.workflow_hash),
            tip,
            names: point::names(facts, run.run_id, &branches),
            branches,
            context_keys,
        }
    }

    fn run(&self, budget: &mut TextBudget) -> RunReport {
        let Self { subject, run, tip, .. } = self;
        let facts = subject.facts;
        if self.workflow.is_none() {
            budget.remark(format!("The pinned workflow {} cannot be read.", run.workflow_hash.digest()));
        }
        let nodes: Vec<NodeReport> = facts.nodes(run.run_id).map(|node| self.node(node, budget)).collect();
        let at_tip = tip.and_then(|tip| facts.node(tip));
        let state = at_tip.and_then(|node| subject.content.state_at(node));
        let context = tip.and_then(|tip| facts.context_at(tip).ok()).unwrap_or_default();
        let workflow = self.workflow.as_deref();
        let progress = workflow
            .zip(state.as_ref())
            .and_then(|(workflow, state)| Progress::of(workflow, state, &context));
        let of_run = subject.events.iter().filter(|event| event.scope.run() == Some(run.run_id));
        let context: Vec<ContextEntry> = entries(&context, subject.context_values);
        RunReport {
            run_id: run.run_id,
            label: RunLabel::of(run.run_id).to_string(),
            workflow: WorkflowFacts {
                workflow_id: run.workflow_id.clone(),
                name: workflow.map(|workflow| workflow.name.clone()),
                version: workflow.map(|workflow| workflow.version.clone()),
                workflow_hash: run.workflow_hash,
                source_kind: run.source_kind,
            },
            goal: tip.and_then(|tip| goal(facts, tip)),
            status: state.and_then(|state| facts.run_status(run.run_id, state.is_complete())),
            is_damaged: !self.subject.health.is_healthy(),
            started_by: subject.caused_by(run.started_at_index),
            last_actor: run.last_actor.clone(),
            waits_for_person: tip.is_some_and(|tip| facts.waits_for_person(tip)),
            closed: run.closed.as_ref().map(|closed| ClosedRun {
                reason: closed.reason.as_str().to_owned(),
                by: match closed.channel {
                    CloseChannel::CommandLine => ActorKind::CommandLine,
                    CloseChannel::Console => ActorKind::Console,
                },
                at: closed.at.clone(),
            }),
            parent: run.parent.map(|parent| ParentRun {
                label: RunLabel::of(parent.run_id).to_string(),
                run_id: parent.run_id,
                node_id: parent.node_id,
            }),
            tip: *tip,
            progress,
            span: span(of_run.collect::<Vec<_>>().into_iter()),
            counts: self.counts(&nodes),
            branches: self.branches(&nodes),
            gaps: self.gaps(),
            divergences: self.divergences(),
            preferences: self.preferences(),
            capabilities: self.capabilities(),
            context,
            tables: self.tables(&nodes),
            nodes,
        }
    }

    pub(super) fn name(&self, node: NodeId) -> PointName {
        self.names.get(&node).cloned().unwrap_or_default()
    }

    /// What a point requires, its title as shown there, and the loops it is in.
    pub(super) fn step(&self, node: &NodeState) -> (StepReport, Vec<Round>) {
        let nothing = |step: StepReport| (step, Vec::new());
        let Some(state) = self.subject.content.state_at(node) else {
            return nothing(StepReport::Unreadable);
        };
        let Some(pending) = state.pending_step() else {
            let step = if state.is_complete() { StepReport::Complete } else { StepReport::Unreadable };
            return nothing(step);
        };
        let workflow = self.workflow.as_deref();
        let rounds = pending.loop_path.iter().map(|frame| {
            let owner = workflow.and_then(|workflow| workflow.loop_by_id(&frame.loop_id));
            let title = owner.map_or_else(|| frame.loop_id.to_string(), |owner| owner.title.clone());
            Round { loop_id: frame.loop_id.clone(), title, iteration: frame.iteration }
        });
        let rounds = rounds.collect();
        let shown = self.workflow.as_deref().and_then(|workflow| {
            let authored = &workflow.step(&pending.step_id)?.title;
            // Folding a context is costly, and most steps use none of it.
            let needs_context = authored.contains("{{") || !pending.loop_path.is_empty();
            let own = needs_context.then(|| self.subject.facts.context_at(node.node_id).ok()).flatten();
            let own = own.unwrap_or_default();
            Some((title_without_secrets(workflow, pending, &own), loops(workflow, pending, &own)))
        });
        let (title, loops) = shown.unwrap_or_else(|| (pending.step_id.to_string(), Vec::new()));
        let step = StepReport::Pending {
            step_id: pending.step_id.clone(),
            title: truncate_with_marker(&title, TITLE_SHOWN_BYTES_MAX).into_owned(),
            loops: loops.iter().map(ToString::to_string).collect(),
        };
        (step, rounds)
    }

    fn counts(&self, nodes: &[NodeReport]) -> RunCounts {
        let attempts = || nodes.iter().flat_map(|node| &node.attempts);
        let blocked = attempts().filter(|attempt| matches!(attempt.outcome, Outcome::Blocked { .. })).count();
        let outputs =
            attempts().flat_map(|attempt| &attempt.outputs).chain(nodes.iter().flat_map(|node| &node.saved));
        let artifacts = outputs.filter(|output| matches!(output.body, Body::Artifact { .. })).count();
        let checkpoints = nodes.iter().filter(|node| node.kind == NodeKind::Checkpoint).count();
        let open = self.subject.facts.gaps(self.run.run_id).filter(|gap| gap.is_open()).count();
        RunCounts {
            nodes: nodes.len() as u64,
            advances: (attempts().count() - blocked) as u64,
            blocked_attempts: blocked as u64,
            checkpoints: checkpoints as u64,
            branches: self.branches.values().copied().max().map_or(0, |last| last + 1),
            open_gaps: open as u64,
            artifacts: artifacts as u64,
        }
    }

    fn branches(&self, nodes: &[NodeReport]) -> Vec<BranchReport> {
        let facts = self.subject.facts;
        let mut reports: Vec<BranchReport> = Vec::new();
        let mut started: BTreeMap<u64, usize> = BTreeMap::new();
        for node in nodes.iter().filter(|node| node.kind == NodeKind::Step || node.parent.is_none()) {
            let position = *started.entry(node.branch).or_insert_with(|| {
                let from = node.parent.map(|parent| self.name(parent));
                let edge = facts.node(node.node_id).and_then(|state| state.edge);
                reports.push(BranchReport {
                    number: node.branch,
                    preferred: node.branch == 0,
                    from,
                    first: node.point.clone(),
                    last: node.point.clone(),
                    steps: 0,
                    cause: node.reached_by,
                    summary: self.summary(node, edge.and_then(|edge| edge.attempt)),
                    current_step: node.step.clone(),
                });
                reports.len() - 1
            });
            let report = &mut reports[position];
            report.last = node.point.clone();
            report.current_step = node.step.clone();
            report.steps += u64::from(node.parent.is_some());
        }
        reports.sort_by_key(|report| report.number);
        reports
    }

    /// What the branch that begins with this point did first.
    fn summary(&self, first: &NodeReport, attempt: Option<AttemptId>) -> String {
        let facts = self.subject.facts;
        let (node, attempt) = match first.parent {
            Some(parent) => (parent, attempt),
            // What the root's branch did first is what led on from the root.
            None => (first.node_id, self.led_on(first.node_id)),
        };
        let mut outputs = facts.current_outputs(node, attempt).filter(|output| output.attempt == attempt);
        let words = outputs.find_map(|output| first_words(&output.payload)).filter(|_| attempt.is_some());
        words.unwrap_or_else(|| "(no notes)".to_owned())
    }

    /// The attempt that led on from a point toward the tip.
    fn led_on(&self, node: NodeId) -> Option<AttemptId> {
        let facts = self.subject.facts;
        let tip = self.tip.filter(|tip| *tip != node)?;
        let mut children = facts.acked_children(node);
        children.find(|child| facts.is_ancestor_or_self(child.node_id, tip))?.edge?.attempt
    }

    fn gaps(&self) -> Vec<GapReport> {
        let facts = self.subject.facts;
        let reported =
            facts.gaps(self.run.run_id).filter(|gap| gap.resolves.is_none()).map(|gap| GapReport {
                gap_id: gap.gap_id,
                point: self.name(gap.node_id),
                at: self.subject.at(gap.index).cloned(),
                severity: gap.severity,
                reason: gap.reason,
                summary: gap.summary.to_string(),
                state: match gap.resolved_by.and_then(|by| facts.gap(by)) {
                    None => GapReportState::Open,
                    Some(by) => GapReportState::Resolved {
                        by: by.gap_id,
                        summary: by.summary.to_string(),
                        point: self.name(by.node_id),
                    },
                },
            });
        reported.collect()
    }

    fn divergences(&self) -> Vec<DivergenceReport> {
        let reported =
            self.subject.facts.divergences(self.run.run_id).iter().map(|record| DivergenceReport {
                point: self.name(record.node_id),
                at: self.subject.at(record.index).cloned(),
                reason: record.data.reason,
                summary: record.data.summary.to_string(),
                related_step_id: record.data.related_step_id.clone(),
            });
        reported.collect()
    }

    fn preferences(&self) -> Vec<PreferenceReport> {
        let facts = self.subject.facts;
        let changes = facts.nodes(self.run.run_id).flat_map(|node| facts.preference_changes(node.node_id));
        let mut changes: Vec<_> = changes.collect();
        changes.sort_by_key(|record| record.index);
        let reported = changes.into_iter().map(|record| PreferenceReport {
            point: self.name(record.node_id),
            at: self.subject.at(record.index).cloned(),
            by: actor_of(record.data.source),
            signature: self.subject.signatures.get(&record.index).cloned(),
            effective: record.data.effective,
        });
        reported.collect()
    }

    fn capabilities(&self) -> Vec<CapabilityReport> {
        let of_run = self.subject.events.iter().filter(|event| event.scope.run() == Some(self.run.run_id));
        let reported = of_run.filter_map(|event| {
            let EventData::CapabilityObserved(observed) = &event.data else { return None };
            Some(CapabilityReport {
                point: event.scope.node().map(|node| self.name(node)).unwrap_or_default(),
                at: event.at.clone(),
                capability: observed.capability,
                status: observed.status,
                provenance: observed.provenance.clone(),
            })
        });
        reported.collect()
    }

    /// Keyed tables of the attempts that led to the point where the run continues.
    fn tables(&self, nodes: &[NodeReport]) -> Vec<Table> {
        let mut tables = Vec::new();
        for node in
            nodes.iter().filter(|node| node.branch == 0 && node.branch_position == BranchPosition::Passed)
        {
            let led_on = self.led_on(node.node_id);
            let attempts = node.attempts.iter().filter(|attempt| Some(attempt.attempt_id) == led_on);
            for output in attempts.flat_map(|attempt| &attempt.outputs).filter(|output| !output.superseded) {
                if let ReportedOutput { body: Body::Artifact { artifact }, .. } = output
                    && let ArtifactView::Tables { tables: found, .. } = &artifact.shown
                {
                    found.iter().for_each(|table| merged(&mut tables, table));
                }
            }
        }
        tables
    }
}

fn goal(facts: &SessionState, node: NodeId) -> Option<String> {
    let context = facts.context_at(node).ok()?;
    let goal = context.get("goal").and_then(serde_json::Value::as_str)?;
    Some(truncate_with_marker(goal, GOAL_BYTES_MAX).into_owned())
}

/// The name of every point of a session, in each of its runs.
pub fn point_names(facts: &SessionState) -> BTreeMap<NodeId, PointName> {
    let of_run = |run: &RunState| {
        let branches = branch_numbers(facts, run, facts.preferred_tip(run.run_id));
        point::names(facts, run.run_id, &branches)
    };
    facts.runs().flat_map(of_run).collect()
}

/// The branch of every node: 0 for the path to the tip, the others from 1 in the order in which they began. A
/// checkpoint belongs to the branch of the step it was taken on.
fn branch_numbers(facts: &SessionState, run: &RunState, tip: Option<NodeId>) -> BTreeMap<NodeId, u64> {
    let path: BTreeSet<NodeId> =
        tip.into_iter().flat_map(|tip| facts.ancestors(tip)).map(|node| node.node_id).collect();
    let mut branches: BTreeMap<NodeId, u64> = BTreeMap::new();
    let mut next = 1;
    for node in facts.nodes(run.run_id) {
        let parent = node.parent.and_then(|parent| facts.node(parent));
        let of_parent = parent.and_then(|parent| branches.get(&parent.node_id).copied());
        let branch = match (parent, of_parent) {
            _ if path.contains(&node.node_id) => 0,
            (Some(_), Some(own)) if node.kind == NodeKind::Checkpoint => own,
            // Off the path to the tip, the first continuation of a step stays on its branch.
            (Some(parent), Some(own))
                if own != 0
                    && parent.kind == NodeKind::Step
                    && facts
                        .acked_children(parent.node_id)
                        .next()
                        .is_some_and(|first| first.node_id == node.node_id) =>
            {
                own
            }
            (Some(_) | None, _) => {
                next += 1;
                next - 1
            }
        };
        branches.insert(node.node_id, branch);
    }
    branches
}
