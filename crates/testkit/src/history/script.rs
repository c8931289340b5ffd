//! Scripts: a history in one line, for tests that need many.

use workrail_model::id::NodeId;

use super::{AdvancePayload, History, PlanParts};

/// One call. Each continues from the newest step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    Advance,
    AdvanceWithArtifact,
    /// An advance with this load.
    AdvanceWith(AdvancePayload),
    Blocked,
    Checkpoint,
    /// A second branch from the parent of the newest step, or from the root if it has no parent.
    Fork,
}

/// The plans of a session: the start, then one per step.
pub fn plans(seed: u64, script: &[Step]) -> Vec<PlanParts> {
    let mut history = History::new(seed);
    let mut plans = vec![history.start()];
    let (mut parent, mut tip): (NodeId, NodeId) = (history.root(), history.root());
    for step in script {
        let (plan, child) = match step {
            Step::Advance => history.advance(tip, AdvancePayload::NOTES),
            Step::AdvanceWithArtifact => history.advance(tip, AdvancePayload::ARTIFACT),
            Step::AdvanceWith(load) => history.advance(tip, *load),
            Step::Blocked => (history.blocked(tip), tip),
            Step::Checkpoint => (history.checkpoint(tip).0, tip),
            Step::Fork => history.fork(parent, AdvancePayload::NOTES),
        };
        plans.push(plan);
        match step {
            Step::Advance | Step::AdvanceWithArtifact | Step::AdvanceWith(_) => (parent, tip) = (tip, child),
            Step::Fork => tip = child,
            Step::Blocked | Step::Checkpoint => {}
        }
    }
    plans
}

#[cfg(test)]
mod tests {
    use workrail_model::event::{AdvanceOutcome, EventData};

    use super::*;

    const SCRIPT: [Step; 8] = [
        Step::Advance,
        Step::Blocked,
        Step::AdvanceWithArtifact,
        Step::Checkpoint,
        Step::Fork,
        Step::AdvanceWith(AdvancePayload { artifacts: 3, artifact_bytes: 64, more_traces: 5 }),
        Step::Fork,
        Step::Advance,
    ];

    #[test]
    fn plans_are_valid_contiguous_and_reproducible() {
        let made = plans(1, &SCRIPT);
        assert_eq!(made, plans(1, &SCRIPT));
        let mut next = made[0].events[0].event_index;
        for parts in &made {
            assert_eq!(parts.plan().first_index(), next);
            next = parts.next_index();
        }
    }

    #[test]
    fn histories_of_different_seeds_share_only_their_shape() {
        let (one, other) = (plans(1, &SCRIPT), plans(2, &SCRIPT));
        for (one, other) in one.iter().zip(&other) {
            assert_eq!(one.events.len(), other.events.len());
            assert_ne!(one.events[0].session_id, other.events[0].session_id);
        }
    }

    #[test]
    fn no_dedupe_key_repeats() {
        let mut keys: Vec<_> = plans(4, &SCRIPT)
            .into_iter()
            .flat_map(|parts| parts.events)
            .map(|event| event.dedupe_key)
            .collect();
        let all = keys.len();
        keys.sort();
        keys.dedup();
        assert_eq!(keys.len(), all);
    }

    #[test]
    fn a_blocked_attempt_is_retried_with_what_it_sent() {
        let made = plans(6, &[Step::Blocked, Step::Advance]);
        let outcome = |parts: &PlanParts| {
            parts.events.iter().find_map(|event| {
                let EventData::AdvanceRecorded(recorded) = &event.data else { return None };
                Some(recorded.outcome.clone())
            })
        };
        assert!(matches!(outcome(&made[1]), Some(AdvanceOutcome::Blocked { .. })));
        assert!(matches!(outcome(&made[2]), Some(AdvanceOutcome::Advanced { .. })));
        assert_eq!(made[1].attachments.len(), 2, "an artifact and the reply");
        assert!(made[2].attachments.contains(&made[1].attachments[0]), "the artifact is kept");
    }

    #[test]
    fn an_ordinary_advance_has_six_events() {
        assert_eq!(plans(5, &[Step::Advance])[1].events.len(), 6);
    }
}
