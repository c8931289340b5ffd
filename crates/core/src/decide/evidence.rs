//! What is known of the step's work beside what the agent sent, recorded with the attempt that it is about (G104).

use workrail_model::event::{EventData, EvidenceRecorded, Scope};
use workrail_model::evidence::{Evidence, HookObservation};
use workrail_model::id::{AttemptId, NodeId};
use workrail_model::limits::OBSERVATIONS_PER_ADVANCE_MAX;
use workrail_model::plan::Attachment;
use workrail_model::text::BoundedText;
use workrail_model::time::Timestamp;

use super::draft::Draft;
use crate::derive;
use crate::project::SessionState;

/// What an advance can record as evidence.
#[derive(Clone, Debug, Default)]
pub struct EvidenceAtHand {
    /// What hooks saw since the last advance, oldest first.
    pub observations: Vec<HookObservation>,
}

impl EvidenceAtHand {
    /// How many of the observations one plan records; the rest waits for the next one.
    pub fn recorded(&self) -> usize {
        self.observations.len().min(OBSERVATIONS_PER_ADVANCE_MAX)
    }
}

/// The attempt that evidence is about.
#[derive(Clone, Copy)]
pub(super) struct About<'a> {
    pub(super) facts: &'a SessionState,
    pub(super) scope: Scope,
    pub(super) node: NodeId,
    /// None when the run starts.
    pub(super) attempt: Option<AttemptId>,
}

/// Evidence, with the content that belongs to it.
struct Found {
    host: Option<BoundedText<32>>,
    seen_at: Option<Timestamp>,
    evidence: Evidence,
    content: Option<Attachment>,
}

impl Found {
    /// A hook's observation; what the command wrote moves to the content store.
    fn observed(seen: &HookObservation) -> Self {
        let content = seen.output().map(|output| Attachment::blob(output.as_bytes().to_vec()));
        let mut evidence = seen.evidence().clone();
        if let (Evidence::CommandRun { output_ref, .. }, Some(content)) = (&mut evidence, &content) {
            *output_ref = Some(content.blob_ref());
        }
        let content = content.filter(|_| !evidence.blob_refs().is_empty());
        Self { host: Some(seen.host().clone()), seen_at: Some(seen.seen_at().clone()), evidence, content }
    }
}

impl About<'_> {
    pub(super) fn push(&self, draft: &mut Draft, at_hand: &EvidenceAtHand) {
        let observed = at_hand.observations.iter().take(at_hand.recorded()).map(Found::observed);
        for found in observed.filter(|found| !self.is_recorded(found)) {
            self.push_one(draft, found);
        }
    }

    fn push_one(&self, draft: &mut Draft, found: Found) {
        let Found { host, seen_at, evidence, content } = found;
        draft.push_once(
            self.scope,
            EventData::EvidenceRecorded(EvidenceRecorded {
                evidence_id: derive::evidence_id(self.node, self.attempt, seen_at.as_ref(), &evidence),
                attempt_id: self.attempt,
                grade: evidence.grade(),
                host,
                seen_at,
                evidence,
            }),
        );
        if let Some(content) = content {
            draft.attach_once(content);
        }
    }

    /// Whether the advance before recorded it and was stopped before it could say so.
    fn is_recorded(&self, found: &Found) -> bool {
        let parent = self.facts.node(self.node).and_then(|node| node.parent);
        let nodes = [Some(self.node), parent].into_iter().flatten();
        let is_same = |own: &EvidenceRecorded| {
            own.seen_at == found.seen_at && own.host == found.host && own.evidence == found.evidence
        };
        nodes.flat_map(|node| self.facts.evidence(node)).any(|recorded| is_same(&recorded.data))
    }
}
