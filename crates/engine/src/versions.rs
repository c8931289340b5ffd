//! A workflow's file, its compiled form, and what runs are pinned to; and a copy of the file under another id.
//!
//! For people who look at a workflow. Reads the catalog and the store, and writes nothing (G36).

use std::collections::BTreeMap;
use std::sync::Arc;

use workrail_core::label::RunLabel;
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
    /// The file's current text.
    pub source: String,
    pub source_digest: Sha256,
    pub compiled: Arc<CompiledWorkflow>,
    pub hash: WorkflowHash,
    pub steps: Vec<StepPreview>,
    /// What runs in this store are pinned to, the most used first.
    pub pinned: Vec<PinnedVersion>,
}

/// A step's prompt: line by line with its origin, and as an agent would first read it.
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
        let known = self.reading().summaries()?;
        for position in known.runs().filter_map(|card| card.at.as_ref()).filter(|at| at.workflow_id == *id) {
            *pinned.entry(position.workflow_hash).or_default() += 1;
        }
        drop(known);
        let mut pinned: Vec<PinnedVersion> =
            pinned.into_iter().map(|(hash, runs)| PinnedVersion { hash, runs }).collect();
        pinned.sort_by_key(|version| (std::cmp::Reverse(version.runs), version.hash));
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

    /// The file of a workflow under another id, to be written to one of the user's folders. Writes nothing.
    pub fn workflow_copy(&self, id: &WorkflowId, copy: &WorkflowId) -> Result<Vec<u8>, Box<ErrorEnvelope>> {
        let source = self.catalog.source_text(id, self.environment.workspace.as_ref())?;
        workrail_core::discover::with_id(&source, copy).ok_or_else(|| error::workflow_copy(id, copy))
    }
}

/// What a run is pinned to, and what the workflow's id refers to now.
#[derive(Clone, Debug)]
pub struct PinnedRun {
    pub label: String,
    pub workflow_id: WorkflowId,
    pub hash: WorkflowHash,
    pub compiled: Arc<CompiledWorkflow>,
    /// Absent if no usable file has the id.
    pub now: Option<CurrentForm>,
}

/// The file of a workflow and what it compiles to at this moment.
#[derive(Clone, Debug)]
pub struct CurrentForm {
    /// Where its source found it.
    pub reference: String,
    pub source: String,
    pub source_digest: Sha256,
    pub compiled: Arc<CompiledWorkflow>,
    pub hash: WorkflowHash,
}

impl<S: Store> Engine<S> {
    /// The workflow that a run executes, found by the run's label or id.
    pub fn pinned_run(&self, text: &str) -> Result<PinnedRun, Box<ErrorEnvelope>> {
        let (session, run, _) = self.find_run(text)?;
        let read = self.reading().salvage(session)?.or_refuse()?;
        let state = read.state.run(run).ok_or_else(|| error::unknown_reference(text))?;
        let (id, hash) = (state.workflow_id.clone(), state.workflow_hash);
        Ok(PinnedRun {
            label: RunLabel::of(run).to_string(),
            compiled: self.pinned_workflow(hash)?,
            hash,
            now: self.current_form(&id).ok(),
            workflow_id: id,
        })
    }

    /// The file that an id refers to, and its compiled form.
    pub fn current_form(&self, id: &WorkflowId) -> Result<CurrentForm, Box<ErrorEnvelope>> {
        let workspace = self.environment.workspace.as_ref();
        let entry = self.catalog.compiled(id, workspace)?;
        let source = self.catalog.source_text(id, workspace)?;
        Ok(CurrentForm {
            reference: entry.source.reference.clone(),
            source: String::from_utf8_lossy(&source).into_owned(),
            source_digest: entry.source_digest,
            compiled: entry.workflow,
            hash: entry.hash,
        })
    }

    /// The workflow that runs in this store are pinned to, by this hash or its beginning.
    pub fn pinned_by_hash(
        &self,
        text: &str,
    ) -> Result<(WorkflowHash, Arc<CompiledWorkflow>), Box<ErrorEnvelope>> {
        let known = self.reading().summaries()?;
        let mut hashes: Vec<WorkflowHash> = known
            .runs()
            .filter_map(|card| Some(card.at.as_ref()?.workflow_hash))
            .filter(|hash| hash.to_string().starts_with(text))
            .collect();
        drop(known);
        hashes.sort();
        hashes.dedup();
        match hashes.as_slice() {
            [hash] => Ok((*hash, self.pinned_workflow(*hash)?)),
            [] | [..] => Err(error::unknown_hash(text, hashes.len())),
        }
    }
}
