//! Decisions: from facts and a command to one append plan, without side effects.
//!
//! Ids, time and the activity number are arguments, so that the same call gives the same plan.

pub mod advance;
pub mod approve;
pub mod attempt;
mod attempt_reply;
mod check_events;
pub mod checkpoint;
pub mod checks;
pub mod close;
pub mod disclose;
mod draft;
pub mod evidence;
pub mod fit;
mod gaps;
mod judge;
pub mod observe;
mod outputs;
pub mod proof;
pub mod retry;
pub mod start;

use workrail_model::canonical::CanonicalError;
use workrail_model::event::{Activity, ContextError};
use workrail_model::id::{GapId, RunId};
use workrail_model::plan::PlanError;
use workrail_model::snapshot::SnapshotError;
use workrail_model::step_key::StepKeyError;
use workrail_model::team::Actor;
use workrail_model::time::Timestamp;

use crate::interpret::InterpretError;
use crate::render::prompt::StepTextTooLong;

/// What a decision cannot generate itself.
#[derive(Clone, Debug)]
pub struct Minting {
    /// Random bits from which the plan's event ids are derived.
    pub event_seed: [u8; 10],
    pub at: Timestamp,
    pub activity: Activity,
    /// The actor of the plan, if records name one.
    pub actor: Option<Actor>,
}

/// Why a command cannot be decided.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum DecideError {
    #[error("the context is refused")]
    Context(#[from] ContextError),
    #[error("the notes have {bytes} bytes, at most {max} are allowed")]
    NotesTooLong { bytes: usize, max: usize },
    #[error("artifact {position} has {bytes} bytes as canonical JSON, at most {max} are allowed")]
    ArtifactTooLong { position: usize, bytes: usize, max: u64 },
    #[error("`{location}` holds a placeholder of WorkRail's")]
    Placeholder { location: String },
    #[error("gap {gap} is about what only the user can give: {summary}")]
    NotTheAgentsGap { run: RunId, position: usize, gap: GapId, summary: String },
    #[error("artifact {position} closes a gap that is not open in this run")]
    NoSuchGap { position: usize, open: Vec<String> },
    #[error(transparent)]
    TextTooLong(#[from] StepTextTooLong),
    #[error("the workflow cannot continue from here")]
    Interpret(#[from] InterpretError),
    #[error("the run is complete: no step is pending")]
    NothingPending,
    #[error("the checkpoint holds neither notes nor artifacts")]
    EmptyCheckpoint,
    #[error("the plan breaks a rule")]
    Plan(#[from] PlanError),
    #[error("the snapshot breaks a rule")]
    Snapshot(#[from] SnapshotError),
    #[error("a value has no canonical form")]
    Canonical(#[from] CanonicalError),
    #[error("the step has no valid key")]
    StepKey(#[from] StepKeyError),
    #[error("the log does not hold what it must: {0}")]
    Invariant(&'static str),
}
