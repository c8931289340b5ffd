//! What an attempt at a step recorded: its outcome, its outputs and how they are shown.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use workrail_model::assessment::AssessedDimension;
use workrail_model::blocker::Blocker;
use workrail_model::compiled::CompiledWorkflow;
use workrail_model::digest::BlobRef;
use workrail_model::evidence::EvidenceGrade;
use workrail_model::id::{AttemptId, NodeId};
use workrail_model::time::Timestamp;

use super::{ActorKind, PointName, table};
use crate::contract::artifact_kind;

/// One thing that is known of an attempt, and how.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EvidenceReport {
    pub grade: EvidenceGrade,
    /// The host whose hook saw it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    pub summary: String,
}

/// One try to complete the step.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Attempt {
    pub attempt_id: AttemptId,
    pub by: ActorKind,
    /// The member of the team, where the record names one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub who: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<Timestamp>,
    /// Since the point was reached.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub elapsed_ms: Option<u64>,
    pub outcome: Outcome,
    pub outputs: Vec<ReportedOutput>,
    pub problems: Vec<String>,
    /// What is known of the attempt besides what was sent, which is claimed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub evidence: Vec<EvidenceReport>,
    pub assessments: Vec<Assessment>,
    /// What the assessments asked for in addition.
    pub consequences: Vec<String>,
    /// Keys that a refused attempt sent; its retry sees them.
    pub context_keys: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Outcome {
    #[serde(rename_all = "camelCase")]
    Advanced {
        to_node_id: NodeId,
        /// The name of that point; absent when it is beyond the damage.
        #[serde(skip_serializing_if = "Option::is_none")]
        to_point: Option<PointName>,
    },
    Blocked {
        blockers: Vec<Blocker>,
    },
}

#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Output")]
pub struct ReportedOutput {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<Timestamp>,
    /// A later output corrects this one.
    pub superseded: bool,
    /// How it is known. Reported checks inside an artifact have a grade of their own.
    pub grade: EvidenceGrade,
    pub body: Body,
}

#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Body {
    Notes { markdown: String },
    Artifact { artifact: Artifact },
}

#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Artifact {
    /// What it calls itself.
    pub artifact_kind: String,
    pub sha256: BlobRef,
    pub bytes: u64,
    pub shown: ArtifactView,
}

/// How an artifact is shown.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(tag = "as", rename_all = "snake_case")]
pub enum ArtifactView {
    /// Its contract has lists of rows.
    Tables {
        tables: Vec<Table>,
        fields: Vec<Field>,
    },
    Json {
        value: Value,
    },
    /// Too long to be shown; the beginning.
    Text {
        text: String,
    },
    /// The content cannot be read.
    Unreadable,
}

/// A submitted artifact, under the contract of its kind.
#[derive(Clone, Debug, PartialEq)]
pub struct SubmittedArtifact {
    pub artifact_kind: String,
    pub shown: ArtifactView,
}

impl SubmittedArtifact {
    pub fn of(workflow: &CompiledWorkflow, value: &Value) -> Self {
        let artifact_kind = artifact_kind(value).to_owned();
        let shown = table::shown(Some(workflow), &artifact_kind, value.clone());
        Self { artifact_kind, shown }
    }
}

/// Rows under named columns.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Table {
    pub title: String,
    pub columns: Vec<String>,
    pub rows: Vec<Vec<String>>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Field {
    pub name: String,
    pub text: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Assessment {
    pub assessment_id: String,
    /// How it is known.
    pub grade: EvidenceGrade,
    pub dimensions: Vec<AssessedDimension>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub summary: Option<String>,
}
