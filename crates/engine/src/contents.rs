//! What a process remembers of content it has read: pinned workflows and recent snapshots.
//!
//! Content never changes under its name, so a remembered value is as good as a read one (G17), and an
//! advance does not parse the same workflow again.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use workrail_core::project::NodeState;
use workrail_core::reply::recovery::Snapshots;
use workrail_model::compiled::CompiledWorkflow;
use workrail_model::digest::{SnapshotRef, WorkflowHash};
use workrail_model::error::ErrorEnvelope;
use workrail_model::snapshot::{EngineState, ExecutionSnapshot};
use workrail_ports::content::ContentStore;

use crate::error;

const WORKFLOWS_MAX: usize = 32;
const SNAPSHOTS_MAX: usize = 64;

#[derive(Debug, Default)]
pub(crate) struct Contents {
    workflows: Mutex<Recent<WorkflowHash, CompiledWorkflow>>,
    snapshots: Mutex<Recent<SnapshotRef, ExecutionSnapshot>>,
}

/// The values used last, by name.
#[derive(Debug)]
struct Recent<K, V> {
    clock: u64,
    kept: BTreeMap<K, (u64, Arc<V>)>,
}

impl<K, V> Default for Recent<K, V> {
    fn default() -> Self {
        Self { clock: 0, kept: BTreeMap::new() }
    }
}

impl<K: Ord + Copy, V> Recent<K, V> {
    fn get(&mut self, key: K) -> Option<Arc<V>> {
        self.clock += 1;
        let now = self.clock;
        self.kept.get_mut(&key).map(|(used, value)| {
            *used = now;
            Arc::clone(value)
        })
    }

    fn put(&mut self, key: K, value: Arc<V>, max: usize) {
        self.clock += 1;
        if self.kept.len() >= max && !self.kept.contains_key(&key) {
            let oldest = self.kept.iter().min_by_key(|(_, (used, _))| *used).map(|(key, _)| *key);
            if let Some(oldest) = oldest {
                self.kept.remove(&oldest);
            }
        }
        self.kept.insert(key, (self.clock, value));
    }
}

/// Content through the memory of the process.
#[derive(Clone, Copy)]
pub(crate) struct Content<'a> {
    pub store: &'a dyn ContentStore,
    pub contents: &'a Contents,
}

impl std::fmt::Debug for Content<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Content").finish_non_exhaustive()
    }
}

impl Content<'_> {
    pub(crate) fn workflow(&self, hash: WorkflowHash) -> Result<Arc<CompiledWorkflow>, Box<ErrorEnvelope>> {
        let known = self.contents.workflows.lock().unwrap_or_else(PoisonError::into_inner).get(hash);
        if let Some(known) = known {
            return Ok(known);
        }
        let read = Arc::new(self.store.workflow(hash).map_err(error::content)?);
        self.contents.keep_workflow(hash, Arc::clone(&read));
        Ok(read)
    }

    pub(crate) fn snapshot(&self, of: SnapshotRef) -> Result<Arc<ExecutionSnapshot>, Box<ErrorEnvelope>> {
        let known = self.contents.snapshots.lock().unwrap_or_else(PoisonError::into_inner).get(of);
        if let Some(known) = known {
            return Ok(known);
        }
        let read = Arc::new(self.store.snapshot(of).map_err(error::content)?);
        self.contents.keep_snapshot(of, Arc::clone(&read));
        Ok(read)
    }
}

impl Contents {
    pub(crate) fn keep_workflow(&self, hash: WorkflowHash, workflow: Arc<CompiledWorkflow>) {
        let mut kept = self.workflows.lock().unwrap_or_else(PoisonError::into_inner);
        kept.put(hash, workflow, WORKFLOWS_MAX);
    }

    pub(crate) fn keep_snapshot(&self, of: SnapshotRef, snapshot: Arc<ExecutionSnapshot>) {
        let mut kept = self.snapshots.lock().unwrap_or_else(PoisonError::into_inner);
        kept.put(of, snapshot, SNAPSHOTS_MAX);
    }
}

impl Snapshots for Content<'_> {
    /// A step whose content is damaged is told of without its title; its notes are in the log.
    fn state_at(&self, node: &NodeState) -> Option<EngineState> {
        self.snapshot(node.snapshot_ref).ok().map(|snapshot| snapshot.state().clone())
    }
}
