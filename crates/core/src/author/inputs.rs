//! What a workflow's hash is made of: the versions, the author's file as compiled, and everything embedded.

use schemars::JsonSchema;
use serde::Serialize;
use workrail_model::canonical::CanonicalError;
use workrail_model::compiled::{BindingSource, CompiledWorkflow};
use workrail_model::digest::{Sha256, WorkflowHash};
use workrail_model::name::WorkflowId;

/// The inputs of a hash. Equal inputs give an equal hash on every machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HashInputs {
    pub workflow_id: WorkflowId,
    /// The digest of the canonical bytes of the compiled form.
    pub hash: WorkflowHash,
    pub canonical_bytes: usize,
    /// The version of the compiled format.
    pub schema_version: u32,
    /// The version of the text layout.
    pub render_version: u32,
    pub steps: usize,
    /// Built-in parts that are embedded with their content.
    pub embedded: Vec<EmbeddedPart>,
    /// Values of extension points, from the workspace or by default.
    pub bindings: Vec<BoundValue>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EmbeddedPart {
    /// `contract`, `feature` or `snippet`.
    pub kind: &'static str,
    pub id: String,
    /// Of what is embedded.
    pub digest: Sha256,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BoundValue {
    pub slot_id: String,
    pub value: String,
    pub source: BindingSource,
}

pub fn hash_inputs(workflow: &CompiledWorkflow) -> Result<HashInputs, CanonicalError> {
    let bytes = workflow.to_canonical()?;
    let mut embedded = Vec::new();
    for feature in &workflow.features {
        let digest = Sha256::of(&workrail_model::canonical::to_canonical(feature)?);
        embedded.push(EmbeddedPart { kind: "feature", id: feature.feature_id.clone(), digest });
    }
    for contract in &workflow.contracts {
        let digest = Sha256::of(&workrail_model::canonical::to_canonical(contract)?);
        embedded.push(EmbeddedPart { kind: "contract", id: contract.contract_ref.to_string(), digest });
    }
    for snippet in &workflow.refs {
        embedded.push(EmbeddedPart {
            kind: "snippet",
            id: snippet.ref_id.clone(),
            digest: snippet.content_hash,
        });
    }
    let bindings = workflow.bindings.iter().map(|binding| BoundValue {
        slot_id: binding.slot_id.clone(),
        value: binding.value.clone(),
        source: binding.source,
    });
    Ok(HashInputs {
        workflow_id: workflow.workflow_id.clone(),
        hash: WorkflowHash::of(&bytes),
        canonical_bytes: bytes.len(),
        schema_version: workflow.schema_version,
        render_version: workflow.render_version,
        steps: workflow.steps.len(),
        embedded,
        bindings: bindings.collect(),
    })
}
