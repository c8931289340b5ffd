//! Execution snapshots: the minimal typed state that rehydrates a node, content-addressed (G9).
//!
//! The size depends on the workflow, never on the number of completed steps. Impossible states are refused
//! when read: a loop twice on the stack, a pending path that is not the stack, and in the older form a pending
//! step that is already completed or completed keys out of order.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};

use crate::canonical::{CanonicalError, to_canonical};
use crate::digest::WorkflowHash;
use crate::limits::SAFE_INTEGER_MAX;
use crate::name::{LoopId, StepId};
use crate::step_key::{LoopFrame, StepInstanceKey, StepKeyError};
use crate::strict_json;

/// A loop being executed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ActiveLoop {
    pub loop_id: LoopId,
    pub iteration: u32,
    /// The position in the loop's body.
    pub body_index: u32,
    /// What the body's decision step said in this iteration, kept until the iteration ends: the loop
    /// condition is never evaluated in the middle of a body.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decision: Option<LoopDecision>,
}

/// What a decision step asks of its loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LoopDecision {
    Continue,
    Stop,
    /// None was given, however often it was asked for, and nobody is waited for.
    AssumedStop,
}

/// The step that waits to be done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PendingStep {
    pub step_id: StepId,
    pub loop_path: Vec<LoopFrame>,
}

impl PendingStep {
    pub fn key(&self) -> Result<StepInstanceKey, StepKeyError> {
        StepInstanceKey::new(self.loop_path.clone(), self.step_id.clone())
    }
}

/// Explicit, so that "nothing pending" is a statement and not an absence.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Pending {
    None,
    Some { step: PendingStep },
}

/// How many step instances the path to this point completed. Steps are selected forward only (G44),
/// so the loop stack and the pending step say where the run is; a list of completed steps would grow with
/// every step. Older snapshots list the keys (`set`): they are read, checked and counted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "CompletedForm", into = "CompletedForm")]
pub struct CompletedSteps {
    steps: u64,
    /// The keys of the older form, kept until the state they belong to is checked.
    listed: Vec<String>,
}

/// The forms of `completed` in a file.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
enum CompletedForm {
    /// The form that is written.
    Count { steps: u64 },
    /// The older form: every key, sorted by its bytes.
    Set { values: Vec<String> },
}

impl CompletedSteps {
    pub fn new(steps: u64) -> Self {
        Self { steps, listed: Vec::new() }
    }

    pub fn count(&self) -> u64 {
        self.steps
    }

    /// Counts one more completed step.
    pub fn add_one(&mut self) {
        self.steps = self.steps.saturating_add(1);
    }

    fn lists(&self, key: &StepInstanceKey) -> bool {
        !self.listed.is_empty() && self.listed.binary_search(&key.to_string()).is_ok()
    }
}

impl From<CompletedSteps> for CompletedForm {
    fn from(completed: CompletedSteps) -> Self {
        Self::Count { steps: completed.steps }
    }
}

impl TryFrom<CompletedForm> for CompletedSteps {
    type Error = String;

    fn try_from(form: CompletedForm) -> Result<Self, String> {
        match form {
            CompletedForm::Count { steps } if steps > SAFE_INTEGER_MAX => {
                Err(format!("completed.steps is beyond {SAFE_INTEGER_MAX}"))
            }
            CompletedForm::Count { steps } => Ok(Self::new(steps)),
            CompletedForm::Set { values } => {
                if !values.is_sorted_by(|a, b| a < b) {
                    return Err("completed.values must be sorted and without duplicates".to_owned());
                }
                if let Some(bad) = values.iter().find(|key| StepInstanceKey::parse(key).is_err()) {
                    return Err(format!("completed.values holds {bad:?}, which is not a step key"));
                }
                Ok(Self { steps: values.len() as u64, listed: values })
            }
        }
    }
}

impl JsonSchema for CompletedSteps {
    fn schema_name() -> Cow<'static, str> {
        "CompletedSteps".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        CompletedForm::json_schema(generator)
    }
}

/// What the interpreter needs to continue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum EngineState {
    Init,
    #[serde(rename_all = "camelCase")]
    Running {
        completed: CompletedSteps,
        loop_stack: Vec<ActiveLoop>,
        pending: Pending,
    },
    Complete {
        completed: CompletedSteps,
    },
}

impl EngineState {
    pub fn is_complete(&self) -> bool {
        matches!(self, Self::Complete { .. })
    }

    pub fn pending_step(&self) -> Option<&PendingStep> {
        match self {
            Self::Running { pending: Pending::Some { step }, .. } => Some(step),
            Self::Running { pending: Pending::None, .. } | Self::Init | Self::Complete { .. } => None,
        }
    }

    pub fn completed(&self) -> Option<&CompletedSteps> {
        match self {
            Self::Init => None,
            Self::Running { completed, .. } | Self::Complete { completed } => Some(completed),
        }
    }

    /// Drops the keys of the older form: from here on their number is written.
    fn forget_listed(&mut self) {
        match self {
            Self::Init => {}
            Self::Running { completed, .. } | Self::Complete { completed } => completed.listed = Vec::new(),
        }
    }

    fn check(&self) -> Result<(), SnapshotError> {
        let Self::Running { completed, loop_stack, pending } = self else { return Ok(()) };
        for (position, active) in loop_stack.iter().enumerate() {
            if loop_stack[..position].iter().any(|outer| outer.loop_id == active.loop_id) {
                return Err(SnapshotError::State("a loop occurs twice on the stack"));
            }
        }
        let Pending::Some { step } = pending else { return Ok(()) };
        let same_path = step.loop_path.len() == loop_stack.len()
            && step.loop_path.iter().zip(loop_stack).all(|(frame, active)| {
                frame.loop_id == active.loop_id && frame.iteration == active.iteration
            });
        if !same_path {
            return Err(SnapshotError::State("the pending step's loop path is not the loop stack"));
        }
        let key = step.key().map_err(|_| SnapshotError::State("the pending step has no valid key"))?;
        if completed.lists(&key) {
            return Err(SnapshotError::State("the pending step is already completed"));
        }
        Ok(())
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct EnginePayload {
    #[schemars(range(min = 1, max = 1))]
    pub v: u32,
    pub engine_state: EngineState,
}

/// The file in the content-addressed store.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ExecutionSnapshot {
    #[schemars(range(min = 1, max = 1))]
    v: u32,
    kind: SnapshotKind,
    pub workflow_hash: WorkflowHash,
    engine_payload: EnginePayload,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum SnapshotKind {
    ExecutionSnapshot,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SnapshotError {
    #[error("not JSON: {0}")]
    Json(#[from] strict_json::JsonError),
    #[error("`{field}` is {version}, this build reads version 1")]
    UnknownVersion { field: &'static str, version: u64 },
    #[error("`{field}`: {problem}")]
    Field { field: String, problem: String },
    #[error("impossible state: {0}")]
    State(&'static str),
}

impl ExecutionSnapshot {
    pub fn new(workflow_hash: WorkflowHash, engine_state: EngineState) -> Result<Self, SnapshotError> {
        engine_state.check()?;
        Ok(Self {
            v: 1,
            kind: SnapshotKind::ExecutionSnapshot,
            workflow_hash,
            engine_payload: EnginePayload { v: 1, engine_state },
        })
    }

    pub fn state(&self) -> &EngineState {
        &self.engine_payload.engine_state
    }

    pub fn to_canonical(&self) -> Result<Vec<u8>, CanonicalError> {
        to_canonical(self)
    }

    pub fn parse(bytes: &[u8]) -> Result<Self, SnapshotError> {
        let value = strict_json::parse(bytes)?;
        check_version("v", value.get("v"))?;
        check_version("enginePayload.v", value.pointer("/enginePayload/v"))?;
        let mut snapshot: Self = serde_path_to_error::deserialize(value).map_err(|error| {
            SnapshotError::Field { field: error.path().to_string(), problem: error.into_inner().to_string() }
        })?;
        snapshot.state().check()?;
        snapshot.engine_payload.engine_state.forget_listed();
        Ok(snapshot)
    }
}

fn check_version(field: &'static str, value: Option<&serde_json::Value>) -> Result<(), SnapshotError> {
    match value.and_then(serde_json::Value::as_u64) {
        Some(1) => Ok(()),
        Some(version) => Err(SnapshotError::UnknownVersion { field, version }),
        None => Err(SnapshotError::Field {
            field: field.to_owned(),
            problem: "must be a version number".to_owned(),
        }),
    }
}
