//! What hooks report is kept until an advance has recorded it (G105).

use workrail_model::evidence::{Evidence, HookObservation};
use workrail_model::id::{RunId, SessionId};
use workrail_model::text::BoundedText;
use workrail_ports::observations::ObservationSpool;

use crate::fixed;

/// A command that a hook observed.
pub fn observation(command: &str) -> HookObservation {
    let evidence = Evidence::CommandRun {
        command: BoundedText::clip(command),
        exit_code: Some(0),
        duration_ms: None,
        output_ref: None,
    };
    HookObservation::new(fixed::epoch(), BoundedText::clip("claude-code"), evidence)
        .unwrap_or_else(|error| panic!("a hook can see a command: {error}"))
}

pub fn observations_wait_until_they_are_recorded(store: &impl ObservationSpool) {
    let (session, run) = (SessionId::from_bits([1; 10]), RunId::from_bits([2; 10]));
    let leave = |command: &str| {
        store
            .leave_observation(session, run, &observation(command))
            .unwrap_or_else(|error| panic!("an observation is left: {error}"));
    };
    let forget = |recorded| {
        store
            .forget_observations(session, run, recorded)
            .unwrap_or_else(|error| panic!("recorded observations are forgotten: {error}"));
    };
    assert_eq!(store.take_observations(session, run), []);
    forget(0);
    leave("a");
    leave("b");
    let [a, b, c] = ["a", "b", "c"].map(observation);
    assert_eq!(store.take_observations(session, RunId::from_bits([3; 10])), [], "each run has its own");
    assert_eq!(store.take_observations(session, run), [a.clone(), b.clone()]);
    // An advance interrupted here takes the same observations again; later ones follow them.
    leave("c");
    assert!(store.take_observations(session, run).starts_with(&[a, b.clone()]));
    forget(1);
    assert!(store.take_observations(session, run).starts_with(&[b]));
    forget(1);
    assert_eq!(store.take_observations(session, run), [c]);
    forget(1);
    assert_eq!(store.take_observations(session, run), []);
}
