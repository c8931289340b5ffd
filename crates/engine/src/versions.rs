//! A workflow's file, what it compiles to, and what runs are pinned to; and a copy of it under another id.
//!
//! For people who look at a workflow. Reads the catalog and the store, and writes nothing (G36).

use std::collections::BTreeMap;
use std::sync::Arc;

use workrail_model::compiled::CompiledWorkflow;
use workrail_model::digest::{Sha256, WorkflowHash};
use workrail_model::error::ErrorEnvelope;
use workrail_model::name::WorkflowId;

pub use workrail_core::discover::PromptLine;

use crate::edit::previews;
use crate::{Engine, Store, error};

/// Everything about one workflow at this moment.
#[derive(Clone, Debug)]
pub struct WorkflowVersions {
    /// The file as it is now.
    pub source: String,
    pub source_digest: Sha256,
    pub compiled: Arc<CompiledWorkflow>,
    pub hash: WorkflowHash,
    pub steps: Vec<StepPreview>,
    /// What runs of this store are pinned to, the most used first.
    pub pinned: Vec<PinnedVersion>,
}

/// A step's prompt: line by line with where it comes from, and as an agent would first read it.
#[derive(Clone, Debug)]
pub struct StepPreview {
    pub step_id: String,
    pub lines: Vec<PromptLine>,
    pub rendered: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PinnedVersion {
    pub hash: WorkflowHash,
    pub runs: usize,
}

impl<S: Store> Engine<S> {
    pub fn workflow_versions(&self, id: &WorkflowId) -> Result<WorkflowVersions, Box<ErrorEnvelope>> {
        let workspace = self.environment.workspace.as_ref();
        let entry = self.catalog.compiled(id, workspace)?;
        let source = self.catalog.source_text(id, workspace)?;
        let mut pinned: BTreeMap<WorkflowHash, usize> = BTreeMap::new();
        let known = self.reading().cards()?;
        for place in known.runs().filter_map(|card| card.at.as_ref()).filter(|at| at.workflow_id == *id) {
            *pinned.entry(place.workflow_hash).or_default() += 1;
        }
        drop(known);
        let mut pinned: Vec<PinnedVersion> =
            pinned.into_iter().map(|(hash, runs)| PinnedVersion { hash, runs }).collect();
        pinned.sort_by_key(|own| (std::cmp::Reverse(own.runs), own.hash));
        let steps = previews(&entry.workflow);
        Ok(WorkflowVersions {
            source: String::from_utf8_lossy(&source).into_owned(),
            source_digest: entry.source_digest,
            compiled: entry.workflow,
            hash: entry.hash,
            steps,
            pinned,
        })
    }

    /// A workflow that runs are pinned to.
    pub fn pinned_workflow(&self, hash: WorkflowHash) -> Result<Arc<CompiledWorkflow>, Box<ErrorEnvelope>> {
        self.content().workflow(hash)
    }

    /// The file of a workflow under another id, to be written to a folder of the user's. Nothing is written here.
    pub fn workflow_copy(&self, id: &WorkflowId, copy: &WorkflowId) -> Result<Vec<u8>, Box<ErrorEnvelope>> {
        let source = self.catalog.source_text(id, self.environment.workspace.as_ref())?;
        workrail_core::discover::with_id(&source, copy).ok_or_else(|| error::workflow_copy(id, copy))
    }
}
