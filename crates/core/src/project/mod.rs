//! Folds a session's events into one state, the source of every view, decision and status.
//!
//! [`SessionState::apply`] takes events one by one, strictly in the order of their index
//! (G6). Its cost does not depend on how many events came before: nothing in it walks a run's history.
//! A state is derived, never the source of truth (G18): it goes into the projection cache under [`VERSION`], and
//! folding the log again gives an equal one, however the events were split on the way.
//!
//! An event that contradicts the log before it is refused with a [`FoldError`] and leaves the state
//! unchanged, so that the validated prefix can still be shown (G20).
//!
//! Code map: `dag` holds nodes, edges and ancestry; `tip` the preferred tip and why it is cheap; `run`,
//! `advances`, `outputs`, `context`, `gaps`, `modes` (preferences and capabilities), `facts` (what is only
//! shown: approvals, assessments, validations, traces, divergences) and `observations` one topic each;
//! `status` a run's status. Beneath them: `index` (ids to indexes), `per_node` (facts by node, parsed on
//! demand), `nearest` (which ancestor has a fact) and `saved_nodes` (the saved form of `dag`).

mod advances;
mod context;
mod dag;
mod error;
mod facts;
mod gaps;
mod index;
mod modes;
mod nearest;
mod observations;
mod outputs;
mod per_node;
mod run;
mod saved_nodes;
mod session;
mod status;
mod tip;

#[cfg(test)]
mod tests;

pub use advances::AdvanceRecord;
pub use dag::{EdgeInfo, NodeState};
pub use error::FoldError;
pub use facts::Recorded;
pub use gaps::GapState;
pub use modes::CapabilityState;
pub use observations::ObservationState;
pub use outputs::{OutputState, PathOutput, PathStep};
pub use run::{Closing, RunState};
pub use session::SessionState;

/// The version of the serialised state. A cache written under another one is discarded and rebuilt.
pub const VERSION: u32 = 12;
