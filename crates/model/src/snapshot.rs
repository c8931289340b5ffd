//! Execution snapshots: the least typed state that rehydrates a node, content-addressed (G9).
//!
//! Impossible states are refused when read: a pending step that is already completed, a loop twice on
//! the stack, a pending path that is not the stack, completed keys out of order.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::canonical::{CanonicalError, to_canonical};
use crate::digest::WorkflowHash;
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

/// A set of step instances, sorted by the bytes of their keys. The keys are shared: every advance copies the
/// set, and a run may have completed a thousand steps.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(tag = "kind", rename = "set")]
pub struct CompletedSteps {
    #[serde(serialize_with = "as_strings")]
    #[schemars(with = "Vec<String>")]
    values: Vec<Arc<str>>,
}

fn as_strings<S: Serializer>(values: &[Arc<str>], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(values.iter().map(|value| &**value))
}

impl CompletedSteps {
    pub fn contains(&self, key: &StepInstanceKey) -> bool {
        self.position(&key.to_string()).is_ok()
    }

    pub fn insert(&mut self, key: &StepInstanceKey) {
        let text = key.to_string();
        if let Err(position) = self.position(&text) {
            self.values.insert(position, text.into());
        }
    }

    fn position(&self, key: &str) -> Result<usize, usize> {
        self.values.binary_search_by(|value| (**value).cmp(key))
    }

    pub fn len(&self) -> usize {
        self.values.len()
    }

    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.values.iter().map(|value| &**value)
    }
}

impl<'de> Deserialize<'de> for CompletedSteps {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Wire {
            kind: String,
            values: Vec<String>,
        }
        let wire = Wire::deserialize(deserializer)?;
        let error = |text: &str| Err(serde::de::Error::custom(text));
        if wire.kind != "set" {
            return error("completed.kind must be `set`");
        }
        if !wire.values.is_sorted_by(|a, b| a < b) {
            return error("completed.values must be sorted and without duplicates");
        }
        if let Some(bad) = wire.values.iter().find(|key| StepInstanceKey::parse(key).is_err()) {
            return Err(serde::de::Error::custom(format!("completed.values holds {bad:?}, no step key")));
        }
        Ok(Self { values: wire.values.into_iter().map(Arc::from).collect() })
    }
}

/// What the interpreter needs to go on.
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

    fn check(&self) -> Result<(), SnapshotError> {
        let Self::Running { completed, loop_stack, pending } = self else { return Ok(()) };
        for (position, active) in loop_stack.iter().enumerate() {
            if loop_stack[..position].iter().any(|outer| outer.loop_id == active.loop_id) {
                return Err(SnapshotError::State("a loop stands twice on the stack"));
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
        if completed.contains(&key) {
            return Err(SnapshotError::State("the pending step is already completed"));
        }
        Ok(())
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct EnginePayload {
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
        let snapshot: Self = serde_path_to_error::deserialize(value).map_err(|error| {
            SnapshotError::Field { field: error.path().to_string(), problem: error.into_inner().to_string() }
        })?;
        snapshot.state().check()?;
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
