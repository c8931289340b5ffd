//! The compiled workflow: everything a run needs, self-contained, named by its hash (G21).
//!
//! Long-lived runs execute from this value alone: prompts, contracts and provenance are inside, so a
//! newer server or a changed file on disk cannot change a run that has started.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::canonical::{CanonicalError, to_canonical};
use crate::digest::WorkflowHash;
use crate::name::{ContractRef, StepId, WorkflowId};
use crate::preferences::{Autonomy, RiskPolicy};
use crate::strict_json;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CompiledWorkflow {
    #[schemars(range(min = 1, max = 1))]
    pub schema_version: u32,
    /// The version of the text layout that the prompts were rendered with.
    pub render_version: u32,
    pub workflow_id: WorkflowId,
    pub name: String,
    pub description: String,
    pub version: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recommended_autonomy: Option<Autonomy>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recommended_risk_policy: Option<RiskPolicy>,
    pub steps: Vec<CompiledStep>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CompiledStep {
    pub step_id: StepId,
    pub title: String,
    pub prompt: String,
    pub require_confirmation: bool,
    pub notes: NotesRule,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub contract_ref: Option<ContractRef>,
    pub provenance: StepProvenance,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum NotesRule {
    Required,
    Optional,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "source", rename_all = "snake_case")]
pub enum StepProvenance {
    Authored,
    #[serde(rename_all = "camelCase")]
    TemplateInjected {
        origin_id: String,
    },
    #[serde(rename_all = "camelCase")]
    FeatureInjected {
        origin_id: String,
    },
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CompiledError {
    #[error("not JSON: {0}")]
    Json(#[from] strict_json::JsonError),
    #[error("`schemaVersion` is {version}, this build reads version 1")]
    UnknownVersion { version: u64 },
    #[error("`{field}`: {problem}")]
    Field { field: String, problem: String },
}

impl CompiledWorkflow {
    pub fn to_canonical(&self) -> Result<Vec<u8>, CanonicalError> {
        to_canonical(self)
    }

    /// The identity of the workflow: the digest of its canonical bytes, on every machine the same.
    pub fn hash(&self) -> Result<WorkflowHash, CanonicalError> {
        self.to_canonical().map(|bytes| WorkflowHash::of(&bytes))
    }

    pub fn parse(bytes: &[u8]) -> Result<Self, CompiledError> {
        let value = strict_json::parse(bytes)?;
        match value.get("schemaVersion").and_then(serde_json::Value::as_u64) {
            Some(1) => {}
            Some(version) => return Err(CompiledError::UnknownVersion { version }),
            None => {
                return Err(CompiledError::Field {
                    field: "schemaVersion".to_owned(),
                    problem: "must be a version number".to_owned(),
                });
            }
        }
        serde_path_to_error::deserialize(value).map_err(|error| CompiledError::Field {
            field: error.path().to_string(),
            problem: error.into_inner().to_string(),
        })
    }

    /// The position of a step, counted from 0.
    pub fn position(&self, step_id: &StepId) -> Option<usize> {
        self.steps.iter().position(|step| step.step_id == *step_id)
    }
}
