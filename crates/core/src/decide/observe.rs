//! Where the work happens, recorded when it changes: branch, commit, repository.

use workrail_model::event::{
    Confidence, EventData, ObservationKey, ObservationRecorded, ObservationValue, Scope,
};

use super::draft::PlanDraft;
use crate::project::SessionState;

/// One fact about the current workspace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObservedFact {
    pub key: ObservationKey,
    pub value: ObservationValue,
}

/// Whether the observation is of the repository in which the session's work happens, as far as that is known.
pub fn is_same_repository(facts: &SessionState, observed: &[ObservedFact]) -> bool {
    let root = ObservationKey::RepoRootHash;
    let seen = observed.iter().find(|fact| fact.key == root).map(|fact| &fact.value);
    let known = facts.observation(root).map(|state| &state.value);
    known.is_none() || known == seen
}

/// Appends what differs from the session's latest observation of the same key.
///
/// A workspace in another repository is ignored: a server started elsewhere knows nothing about where this session's
/// work happens.
pub(super) fn push_changed(draft: &mut PlanDraft, facts: &SessionState, observed: &[ObservedFact]) {
    if !is_same_repository(facts, observed) {
        return;
    }
    for fact in observed {
        let known = facts.observation(fact.key);
        if known.is_some_and(|known| known.value == fact.value) {
            continue;
        }
        let event = ObservationRecorded {
            key: fact.key,
            value: fact.value.clone(),
            confidence: Confidence::High,
            // A value may come back (branch a, b, a): the count keeps its key from looking like a repeat.
            occurrence: known.map(|known| known.occurrences),
        };
        draft.push(Scope::Session, EventData::ObservationRecorded(event));
    }
}
