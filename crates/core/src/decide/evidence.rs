//! What is known of the step's work besides what the agent sent, recorded with its attempt (G104).

use std::collections::BTreeSet;

use workrail_model::canonical::to_canonical;
use workrail_model::compiled::EditRule;
use workrail_model::event::{EventData, EvidenceRecorded, Scope};
use workrail_model::evidence::{
    DirtyFiles, Evidence, HookObservation, PathList, RecordedFiles, TreeInspection, WorkingTree,
    WorkspaceState,
};
use workrail_model::id::{AttemptId, NodeId};
use workrail_model::limits::{EVIDENCE_PATHS_MAX, OBSERVATIONS_PER_ADVANCE_MAX};
use workrail_model::plan::Attachment;
use workrail_model::text::BoundedText;
use workrail_model::time::Timestamp;

use super::checks::CheckStatus;
use super::draft::PlanDraft;
use crate::derive;
use crate::project::SessionState;
use crate::report::ContentReader;

/// What an advance can record as evidence.
#[derive(Clone, Debug, Default)]
pub struct AvailableEvidence {
    /// What hooks saw since the last advance, oldest first.
    pub observations: Vec<HookObservation>,
    pub workspace: CurrentWorkspace,
    /// The checks of the step, in its order.
    pub checks: Vec<CheckStatus>,
    pub demand: EvidenceDemand,
}

/// Whether a step's required evidence is enforced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EvidenceDemand {
    #[default]
    Enforced,
    /// The same, on a server that the agent's repository and hooks cannot reach.
    EnforcedFromAfar,
    /// A trial has no workspace and runs nothing: checks pass there.
    Assumed,
}

/// The repository at this moment.
#[derive(Clone, Debug, Default)]
pub struct CurrentWorkspace {
    pub tree: TreeInspection,
    /// Every file that changed since the step began; `None` if unknown.
    pub changed: Option<Vec<String>>,
    /// Every file that changed since the run began; determined only for steps that make claims about it.
    pub changed_in_run: Option<Vec<String>>,
}

/// The repository as it was when a node's step began.
pub fn baseline(facts: &SessionState, node: NodeId) -> Option<&WorkspaceState> {
    let own = facts.node(node)?;
    // For the root it was recorded by the start, elsewhere by the attempt that led here.
    let (owner, attempt) = match own.parent {
        None => (node, None),
        Some(parent) => (parent, Some(own.edge.as_ref()?.attempt?)),
    };
    let of_attempt = facts.evidence(owner).iter().filter(|recorded| recorded.data.attempt_id == attempt);
    of_attempt.rev().find_map(|recorded| match &recorded.data.evidence {
        Evidence::WorkspaceState(state) => Some(state),
        Evidence::WorkspaceNotSeen { .. }
        | Evidence::CheckRun(_)
        | Evidence::CommandRun { .. }
        | Evidence::FilesEdited { .. }
        | Evidence::EditRefused { .. }
        | Evidence::CommandRefused { .. }
        | Evidence::SubagentStarted { .. }
        | Evidence::SubagentEnded { .. }
        | Evidence::ChatWatched => None,
    })
}

/// The files of a recorded state; `None` if their content cannot be read.
pub fn recorded_files(state: &WorkspaceState, content: &dyn ContentReader) -> Option<DirtyFiles> {
    match &state.dirty {
        RecordedFiles::Here { files } => Some(files.clone()),
        RecordedFiles::Content { blob_ref, .. } => serde_json::from_slice(&content.blob(*blob_ref)?).ok(),
    }
}

/// Every file that differs between two states, plus those changed by commits in between.
pub fn changed_files(before: &DirtyFiles, now: &DirtyFiles, committed: Vec<String>) -> Vec<String> {
    let differs = now.iter().filter(|(path, stamp)| before.get(path) != Some(stamp)).map(|(path, _)| path);
    let gone = before.keys().filter(|path| !now.contains_key(path));
    let paths: BTreeSet<String> = differs.chain(gone).map(ToString::to_string).chain(committed).collect();
    paths.into_iter().collect()
}

impl AvailableEvidence {
    /// How many of the observations one plan records; the rest is left for the next one.
    pub fn recorded_count(&self) -> usize {
        self.observations.len().min(OBSERVATIONS_PER_ADVANCE_MAX)
    }
}

/// The attempt that evidence is about.
#[derive(Clone, Copy)]
pub(super) struct EvidenceSubject<'a> {
    pub(super) facts: &'a SessionState,
    pub(super) scope: Scope,
    pub(super) node: NodeId,
    /// `None` when the run starts.
    pub(super) attempt: Option<AttemptId>,
}

/// Evidence, with the content that belongs to it.
struct FoundEvidence {
    host: Option<BoundedText<32>>,
    seen_at: Option<Timestamp>,
    evidence: Evidence,
    content: Option<Attachment>,
}

impl FoundEvidence {
    /// The repository; if it could not be seen, that matters only if the step restricts edits.
    fn workspace(current: &CurrentWorkspace, restricts_edits: bool) -> Option<Self> {
        let (evidence, content) = match &current.tree {
            TreeInspection::NoRepository => return None,
            TreeInspection::NotSeen(reason) if restricts_edits => {
                (Evidence::WorkspaceNotSeen { reason: *reason }, None)
            }
            TreeInspection::NotSeen(_) => return None,
            TreeInspection::Seen(tree) => {
                let (state, content) = state_of(tree, current.changed.as_deref());
                (Evidence::WorkspaceState(state), content)
            }
        };
        Some(Self { host: None, seen_at: None, evidence, content })
    }

    /// A hook's observation; the command's output is moved to the content store.
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

impl EvidenceSubject<'_> {
    pub(super) fn push(
        &self,
        draft: &mut PlanDraft,
        available: &AvailableEvidence,
        edits: Option<&EditRule>,
    ) {
        if let Some(found) = FoundEvidence::workspace(&available.workspace, edits.is_some()) {
            self.push_one(draft, found);
        }
        for check in &available.checks {
            match check {
                CheckStatus::Run { run, output } => self.push_one(
                    draft,
                    FoundEvidence {
                        host: None,
                        seen_at: None,
                        evidence: Evidence::CheckRun(run.clone()),
                        content: output.clone(),
                    },
                ),
                // The record of the attempt in which it passed still applies.
                CheckStatus::PassedBefore(_) => {}
            }
        }
        let observed =
            available.observations.iter().take(available.recorded_count()).map(FoundEvidence::observed);
        for found in observed.filter(|found| !self.is_recorded(found)) {
            self.push_one(draft, found);
        }
    }

    fn push_one(&self, draft: &mut PlanDraft, found: FoundEvidence) {
        let FoundEvidence { host, seen_at, evidence, content } = found;
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

    /// Whether the previous advance recorded it and was interrupted before the observation was removed.
    fn is_recorded(&self, found: &FoundEvidence) -> bool {
        let parent = self.facts.node(self.node).and_then(|node| node.parent);
        let nodes = [Some(self.node), parent].into_iter().flatten();
        let is_same = |record: &EvidenceRecorded| {
            record.seen_at == found.seen_at && record.host == found.host && record.evidence == found.evidence
        };
        nodes.flat_map(|node| self.facts.evidence(node)).any(|recorded| is_same(&recorded.data))
    }
}

/// What is recorded of a tree: its files in the event, or in the content store if there are many.
fn state_of(tree: &WorkingTree, changed: Option<&[String]>) -> (WorkspaceState, Option<Attachment>) {
    let (dirty, content) = if tree.dirty.len() <= EVIDENCE_PATHS_MAX {
        (RecordedFiles::Here { files: tree.dirty.clone() }, None)
    } else {
        let content =
            Attachment::blob(to_canonical(&tree.dirty).expect("texts always have a canonical form"));
        let count = tree.dirty.len() as u64;
        (RecordedFiles::Content { blob_ref: content.blob_ref(), count }, Some(content))
    };
    // A name over the limit is left out: truncated, it would be another one.
    let state = WorkspaceState {
        branch: tree.branch.as_ref().and_then(|name| BoundedText::new(name).ok()),
        head: tree.head.as_ref().and_then(|id| BoundedText::new(id).ok()),
        tree: tree.fingerprint(),
        dirty,
        changed: changed.map(PathList::new),
    };
    (state, content)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(of: &[(&str, &str)]) -> DirtyFiles {
        of.iter().map(|(path, stamp)| (BoundedText::clip(path), BoundedText::clip(stamp))).collect()
    }

    #[test]
    fn a_file_counts_as_changed_if_its_mark_differs_or_a_commit_contains_it() {
        let before = files(&[("same", "1"), ("edited", "1"), ("reverted", "1")]);
        let now = files(&[("same", "1"), ("edited", "2"), ("new", "1")]);
        let changed = changed_files(&before, &now, vec!["committed".to_owned(), "edited".to_owned()]);
        assert_eq!(changed, ["committed", "edited", "new", "reverted"]);
    }

    #[test]
    fn many_files_are_recorded_in_the_content_store() {
        let many =
            (0..=EVIDENCE_PATHS_MAX).map(|n| (BoundedText::clip(&format!("{n}")), BoundedText::clip("1")));
        let tree = WorkingTree { dirty: many.collect(), ..WorkingTree::default() };
        let (state, content) = state_of(&tree, None);
        let content = content.unwrap();
        let RecordedFiles::Content { blob_ref, count } = state.dirty else { panic!("in the content store") };
        assert_eq!((blob_ref, count), (content.blob_ref(), EVIDENCE_PATHS_MAX as u64 + 1));
    }
}
