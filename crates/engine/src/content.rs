//! A process's cache of content it has read: pinned workflows and recent snapshots.
//!
//! Content never changes under its name, so a cached value is as good as a read one (G17), and an
//! advance does not parse the same workflow again.

use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, PoisonError};

use lru::LruCache;
use workrail_core::project::NodeState;
use workrail_core::reply::recovery::Snapshots;
use workrail_model::compiled::CompiledWorkflow;
use workrail_model::digest::{SnapshotRef, WorkflowHash};
use workrail_model::error::ErrorEnvelope;
use workrail_model::snapshot::{EngineState, ExecutionSnapshot};
use workrail_ports::content::ContentStore;

use crate::error;

const WORKFLOWS_MAX: NonZeroUsize = NonZeroUsize::new(32).expect("a literal above zero");
const SNAPSHOTS_MAX: NonZeroUsize = NonZeroUsize::new(64).expect("a literal above zero");

#[derive(Debug)]
pub(crate) struct ContentCache {
    workflows: Mutex<LruCache<WorkflowHash, Arc<CompiledWorkflow>>>,
    snapshots: Mutex<LruCache<SnapshotRef, Arc<ExecutionSnapshot>>>,
}

impl Default for ContentCache {
    fn default() -> Self {
        Self {
            workflows: Mutex::new(LruCache::new(WORKFLOWS_MAX)),
            snapshots: Mutex::new(LruCache::new(SNAPSHOTS_MAX)),
        }
    }
}

/// Content read through the process's cache.
#[derive(Clone, Copy)]
pub(crate) struct CachedContent<'a> {
    pub store: &'a dyn ContentStore,
    pub cache: &'a ContentCache,
}

impl std::fmt::Debug for CachedContent<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CachedContent").finish_non_exhaustive()
    }
}

impl CachedContent<'_> {
    pub(crate) fn workflow(&self, hash: WorkflowHash) -> Result<Arc<CompiledWorkflow>, Box<ErrorEnvelope>> {
        let known = self.cache.workflows.lock().unwrap_or_else(PoisonError::into_inner).get(&hash).cloned();
        if let Some(known) = known {
            return Ok(known);
        }
        let read = Arc::new(self.store.workflow(hash).map_err(error::content)?);
        self.cache.keep_workflow(hash, Arc::clone(&read));
        Ok(read)
    }

    pub(crate) fn snapshot(&self, of: SnapshotRef) -> Result<Arc<ExecutionSnapshot>, Box<ErrorEnvelope>> {
        let known = self.cache.snapshots.lock().unwrap_or_else(PoisonError::into_inner).get(&of).cloned();
        if let Some(known) = known {
            return Ok(known);
        }
        let read = Arc::new(self.store.snapshot(of).map_err(error::content)?);
        self.cache.keep_snapshot(of, Arc::clone(&read));
        Ok(read)
    }
}

impl ContentCache {
    pub(crate) fn keep_workflow(&self, hash: WorkflowHash, workflow: Arc<CompiledWorkflow>) {
        let mut cache = self.workflows.lock().unwrap_or_else(PoisonError::into_inner);
        cache.put(hash, workflow);
    }

    pub(crate) fn keep_snapshot(&self, of: SnapshotRef, snapshot: Arc<ExecutionSnapshot>) {
        let mut cache = self.snapshots.lock().unwrap_or_else(PoisonError::into_inner);
        cache.put(of, snapshot);
    }
}

impl Snapshots for CachedContent<'_> {
    /// A step whose content is damaged is shown without its title; its notes are in the log.
    fn state_at(&self, node: &NodeState) -> Option<EngineState> {
        self.snapshot(node.snapshot_ref).ok().map(|snapshot| snapshot.state().clone())
    }
}
