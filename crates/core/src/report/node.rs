//! One point of a run: what it required, every attempt at it, and what was decided there.

use workrail_model::approval::{ApprovalChannel, ApprovalDecision};
use workrail_model::assessment::ConsequenceEffect;
use workrail_model::compiled::CompiledWorkflow;
use workrail_model::event::{AdvanceOutcome, EvidenceRecorded, NodeKind, OutputPayload, ValidationResult};
use workrail_model::evidence::{Evidence, EvidenceGrade};
use workrail_model::id::{AttemptId, NodeId};
use workrail_model::limits::TRUNCATION_MARKER;
use workrail_model::preferences::PreferenceSource;
use workrail_model::strict_json;
use workrail_model::text::truncate_with_marker;

use super::budget::{ARTIFACT_BYTES_MAX, TextBudget};
use super::build::{Detail, ReportInput, RunBuilder};
use super::timing::elapsed;
use super::{
    ActorKind, Approval, Artifact, ArtifactView, Assessment, Attempt, Body, BranchPosition, Decision,
    EvidenceReport, NodeReport, Outcome, ReportedOutput, SkippedStep, table,
};
use crate::claims::{self, KnownFact};
use crate::contract::artifact_kind;
use crate::discover::condition_text;
use crate::interpret::{ConditionalPart, skipped};
use crate::link::NodeLink;
use crate::project::{AdvanceRecord, NodeState, OutputState};
use crate::{derive, evidence};

const SUMMARY_BYTES_MAX: usize = 160;

impl RunBuilder<'_> {
    pub(super) fn node(&self, node: &NodeState, budget: &mut TextBudget) -> NodeReport {
        let (subject, facts) = (self.subject, self.subject.facts);
        let id = node.node_id;
        let extent = self.extent(id);
        let attempts =
            facts.advances(id).iter().map(|record| self.attempt((node, extent), record, budget)).collect();
        let saved = facts
            .outputs(id)
            .iter()
            .filter(|output| output.attempt.is_none_or(|attempt| facts.advance(id, attempt).is_none()));
        let saved: Vec<ReportedOutput> = saved
            .map(|output| subject.output(self.workflow.as_deref(), (output, extent), &[], budget))
            .collect();
        let (step, rounds) = self.step(node);
        let decisions = facts.trace(id).iter().flat_map(|record| &record.data.entries);
        NodeReport {
            point: self.name(id),
            step_number: node.step_number,
            node_id: id,
            link: NodeLink { session: facts.session_id(), node: id }.to_string(),
            kind: node.kind,
            parent: node.parent,
            branch: self.branches.get(&id).copied().unwrap_or_default(),
            reached_by: node.edge.map(|edge| edge.cause.kind),
            at: subject.at(node.created_index).cloned(),
            step,
            branch_position: self.branch_position(node),
            attempts,
            saved,
            decisions: decisions
                .map(|entry| Decision { kind: entry.kind, summary: entry.summary.to_string() })
                .collect(),
            approvals: self.approvals(id),
            context_keys: self.context_keys.get(&(id, None)).cloned().unwrap_or_default(),
            rounds,
            skipped: self.skipped(node),
        }
    }

    /// What the walk that led to a node skipped, according to its decision trace.
    fn skipped(&self, node: &NodeState) -> Vec<SkippedStep> {
        let Some(workflow) = self.workflow.as_deref() else { return Vec::new() };
        let (from, attempt) = match (node.parent, node.edge.and_then(|edge| edge.attempt)) {
            (None, _) => (node.node_id, derive::before_any_attempt()),
            (Some(parent), Some(attempt)) => (parent, attempt),
            // A checkpoint is at its parent's step.
            (Some(_), None) => return Vec::new(),
        };
        let wanted = derive::trace_id(from, attempt);
        let walks = self.subject.facts.trace(from).iter().filter(|record| record.data.trace_id == wanted);
        let skipped = walks.flat_map(|record| &record.data.entries).filter_map(skipped);
        let reported = skipped.map(|(part, condition)| {
            let (id, title) = match part {
                ConditionalPart::Step(id) => (id.as_str(), workflow.step(id).map(|step| &step.title)),
                ConditionalPart::Loop(id) => {
                    (id.as_str(), workflow.loop_by_id(id).map(|looped| &looped.title))
                }
            };
            SkippedStep {
                title: title.map_or(id, String::as_str).to_owned(),
                condition: condition_text(workflow, condition),
            }
        });
        reported.collect()
    }

    fn branch_position(&self, node: &NodeState) -> BranchPosition {
        let is_step = node.kind == NodeKind::Step || node.parent.is_none();
        match () {
            () if self.tip == Some(node.node_id) => BranchPosition::Tip,
            () if is_step && self.subject.facts.is_tip(node.node_id) => BranchPosition::BranchEnd,
            () => BranchPosition::Passed,
        }
    }

    /// How much of a point's outputs is read.
    fn extent(&self, node: NodeId) -> OutputExtent {
        match self.subject.detail {
            Detail::Everything => OutputExtent::Whole,
            Detail::Point(chosen) if chosen.or(self.tip) == Some(node) => OutputExtent::Whole,
            Detail::Point(_) => OutputExtent::Excerpt,
        }
    }

    fn attempt(
        &self,
        (node, extent): (&NodeState, OutputExtent),
        record: &AdvanceRecord,
        budget: &mut TextBudget,
    ) -> Attempt {
        let (subject, facts) = (self.subject, self.subject.facts);
        let (id, attempt) = (node.node_id, record.attempt);
        let at = subject.at(record.event_index);
        let own = facts.outputs(id).iter().filter(|output| output.attempt == Some(attempt));
        let known = facts.evidence(id).iter().filter(|evidence| evidence.index <= record.event_index);
        let known: Vec<KnownFact<'_>> = known.map(|evidence| KnownFact::recorded(&evidence.data)).collect();
        let outputs = own
            .map(|output| subject.output(self.workflow.as_deref(), (output, extent), &known, budget))
            .collect();
        let validations = facts.validations(id).iter().filter(|record| record.data.attempt_id == attempt);
        let problems = validations.flat_map(|record| match &record.data.result {
            ValidationResult::Valid => Vec::new(),
            ValidationResult::Invalid { issues } => issues.iter().map(ToString::to_string).collect(),
        });
        // Do not repeat what a blocker already says.
        let blockers = match &record.outcome {
            AdvanceOutcome::Blocked { blockers } => blockers.blockers(),
            AdvanceOutcome::Advanced { .. } => &[],
        };
        let is_reported =
            |problem: &String| blockers.iter().any(|blocker| blocker.message.as_str() == problem);
        let problems: Vec<String> = problems.filter(|problem| !is_reported(problem)).collect();
        let assessments = facts.assessments(id, attempt).map(|record| Assessment {
            assessment_id: record.data.assessment_id.to_string(),
            grade: EvidenceGrade::Claimed,
            dimensions: record.data.dimensions.clone(),
            summary: record.data.summary.as_ref().map(ToString::to_string),
        });
        let consequences = facts.consequences(id, attempt).map(|record| {
            let ConsequenceEffect::RequireFollowup { guidance } = &record.data.effect;
            format!("{} at {}: {guidance}", record.data.dimension_id, record.data.level)
        });
        Attempt {
            attempt_id: attempt,
            by: ActorKind::Agent,
            who: subject.caused_by(record.event_index),
            at: at.cloned(),
            elapsed_ms: elapsed(subject.at(node.created_index), at),
            outcome: match &record.outcome {
                AdvanceOutcome::Advanced { to_node_id } => Outcome::Advanced {
                    to_node_id: *to_node_id,
                    to_point: self.names.get(to_node_id).cloned(),
                },
                AdvanceOutcome::Blocked { blockers } => {
                    Outcome::Blocked { blockers: blockers.blockers().to_vec() }
                }
            },
            outputs,
            problems,
            evidence: self.evidence(id, attempt),
            assessments: assessments.collect(),
            consequences: consequences.collect(),
            context_keys: self.context_keys.get(&(id, Some(attempt))).cloned().unwrap_or_default(),
        }
    }

    /// What is known of an attempt besides what was sent (G104).
    fn evidence(&self, node: NodeId, attempt: AttemptId) -> Vec<EvidenceReport> {
        let own = self.subject.facts.evidence(node).iter().map(|record| &record.data);
        let own: Vec<&EvidenceRecorded> =
            own.filter(|recorded| recorded.attempt_id == Some(attempt)).collect();
        // That a chat was watched is worth a line only if nothing was seen in it.
        let is_watch = |recorded: &EvidenceRecorded| recorded.evidence == Evidence::ChatWatched;
        let saw_work = own.iter().any(|recorded| recorded.host.is_some() && !is_watch(recorded));
        let shown = own.iter().filter(|recorded| !(saw_work && is_watch(recorded)));
        shown
            .map(|recorded| EvidenceReport {
                grade: recorded.grade,
                host: recorded.host.as_ref().map(ToString::to_string),
                summary: evidence::line(&recorded.evidence),
            })
            .collect()
    }

    fn approvals(&self, node: NodeId) -> Vec<Approval> {
        let reported = self.subject.facts.approvals(node).iter().map(|record| Approval {
            by: match record.data.channel {
                ApprovalChannel::Terminal => ActorKind::Terminal,
                ApprovalChannel::Chat => ActorKind::Chat,
                ApprovalChannel::Console => ActorKind::Console,
                ApprovalChannel::Passkey => ActorKind::Passkey,
            },
            who: self.subject.caused_by(record.index),
            with_token: self.subject.has_token(record.index),
            key: record.data.proof.as_ref().map(|proof| proof.key.name.to_string()),
            signature: self.subject.signatures.get(&record.index).cloned(),
            resets: record.data.proof.as_ref().map(|proof| proof.key.resets).filter(|resets| *resets > 0),
            descends_from_server: record.data.descends_from_server,
            approved: record.data.decision == ApprovalDecision::Approved,
            step_id: record.data.step_id.clone(),
            at: self.subject.at(record.index).cloned(),
            note: record.data.note.as_ref().map(ToString::to_string),
        });
        reported.collect()
    }
}

/// How much of an output is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OutputExtent {
    Whole,
    /// What the events contain, and small artifacts.
    Excerpt,
}

impl ReportInput<'_> {
    pub(super) fn output(
        &self,
        workflow: Option<&CompiledWorkflow>,
        (output, extent): (&OutputState, OutputExtent),
        known: &[KnownFact<'_>],
        budget: &mut TextBudget,
    ) -> ReportedOutput {
        let body = match &output.payload {
            OutputPayload::Notes { notes_markdown, .. } if extent == OutputExtent::Excerpt => {
                Body::Notes { markdown: notes_markdown.as_str().to_owned() }
            }
            OutputPayload::Notes { .. } => {
                Body::Notes { markdown: budget.notes(&output.payload, self.content).unwrap_or_default() }
            }
            OutputPayload::ArtifactRef { sha256, byte_length, .. } => {
                let is_left_out =
                    extent == OutputExtent::Excerpt && !budget.take_hidden_artifact(*byte_length);
                let blob = (!is_left_out).then(|| self.content.blob(*sha256)).flatten();
                let (artifact_kind, shown) = match blob {
                    _ if is_left_out => ("(not read)".to_owned(), ArtifactView::Unreadable),
                    Some(bytes) => artifact(workflow, &bytes, known, budget),
                    None => {
                        budget.remark(format!("The artifact {} cannot be read.", sha256.digest()));
                        ("(unreadable)".to_owned(), ArtifactView::Unreadable)
                    }
                };
                Body::Artifact {
                    artifact: Artifact { artifact_kind, sha256: *sha256, bytes: *byte_length, shown },
                }
            }
        };
        ReportedOutput {
            at: self.at(output.index).cloned(),
            superseded: output.superseded,
            grade: EvidenceGrade::Claimed,
            body,
        }
    }
}

fn artifact(
    workflow: Option<&CompiledWorkflow>,
    bytes: &[u8],
    known: &[KnownFact<'_>],
    budget: &mut TextBudget,
) -> (String, ArtifactView) {
    let Ok(value) = strict_json::parse(bytes) else {
        let text = String::from_utf8_lossy(bytes);
        return ("(not JSON)".to_owned(), ArtifactView::Text { text: cut(&text) });
    };
    let kind = artifact_kind(&value).to_owned();
    if !budget.take(bytes.len().min(ARTIFACT_BYTES_MAX)) {
        budget.remark("The session holds more text than one report takes in; long texts are cut.".to_owned());
        return (kind, ArtifactView::Text { text: TRUNCATION_MARKER.trim().to_owned() });
    }
    let grades = claims::grades(&value, known);
    match table::graded(table::shown(workflow, &kind, value), grades) {
        ArtifactView::Json { value } if bytes.len() > ARTIFACT_BYTES_MAX => {
            (kind, ArtifactView::Text { text: cut(&value.to_string()) })
        }
        shown @ (ArtifactView::Tables { .. }
        | ArtifactView::Json { .. }
        | ArtifactView::Text { .. }
        | ArtifactView::Unreadable) => (kind, shown),
    }
}

fn cut(text: &str) -> String {
    truncate_with_marker(text, ARTIFACT_BYTES_MAX).into_owned()
}

pub(super) fn actor_of(source: PreferenceSource) -> ActorKind {
    match source {
        PreferenceSource::User => ActorKind::User,
        PreferenceSource::CommandLine => ActorKind::CommandLine,
        PreferenceSource::Passkey => ActorKind::Passkey,
        PreferenceSource::WorkflowRecommendation => ActorKind::Workflow,
        PreferenceSource::System => ActorKind::System,
    }
}

/// The beginning of notes on one line.
pub(super) fn first_words(payload: &OutputPayload) -> Option<String> {
    let OutputPayload::Notes { notes_markdown, .. } = payload else { return None };
    let text = notes_markdown.as_str().replace(TRUNCATION_MARKER, " ");
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let keep = line.floor_char_boundary(SUMMARY_BYTES_MAX);
    let more = if keep < line.len() { "…" } else { "" };
    Some(format!("{}{more}", &line[..keep]))
}
