//! `run_started`: introduces a run and pins it to one compiled workflow.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::digest::{BlobRef, Sha256, WorkflowHash};
use crate::id::{NodeId, RunId};
use crate::name::WorkflowId;
use crate::text::BoundedText;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum WorkflowSourceKind {
    Bundled,
    User,
    Project,
    Remote,
    Plugin,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunStarted {
    pub workflow_id: WorkflowId,
    /// What the run executes. The source reference only says where it came from.
    pub workflow_hash: WorkflowHash,
    pub workflow_source_kind: WorkflowSourceKind,
    pub workflow_source_ref: BoundedText<512>,
    /// The digest of the source file, to detect a later change of the file; another compiler is not a change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workflow_source_digest: Option<Sha256>,
    /// The step of another run of this session inside which this run was started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<ParentLink>,
    /// The request and the reply of a start with an idempotency key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keyed: Option<KeyedStart>,
}

/// The record from which a repeated start with the same key is answered (G30).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct KeyedStart {
    /// Identifies the arguments, so that the same key with others is refused. A redacted export drops it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_digest: Option<Sha256>,
    /// Identifies the key, so that a start with it in another session is refused. Missing in records of older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_digest: Option<Sha256>,
    pub reply_ref: BlobRef,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ParentLink {
    pub run_id: RunId,
    pub node_id: NodeId,
}
