//! What a workspace offers, cached for as long as its source knows that nothing changed (G93).

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use workrail_core::discover::WorkflowSummary;
use workrail_model::discovery::{UnusableFile, WorkflowList};
use workrail_ports::workflow_source::{BindingsFile, ListingId, SourceError};
use workrail_ports::workspace::WorkspacePath;

use super::Listing;

/// A process serves a few workspaces; beyond that, they are listed anew each time.
const WORKSPACES_MAX: usize = 16;

pub(super) type Everything = (Vec<Arc<WorkflowSummary>>, Vec<UnusableFile>);
type BindingsFileResult = Result<Option<BindingsFile>, SourceError>;

/// One listing of a workspace, and what was derived from it so far.
#[derive(Debug)]
pub(super) struct WorkspaceListing {
    id: Option<ListingId>,
    bindings: BindingsFileResult,
    pub(super) listing: Listing,
    everything: OnceLock<Arc<Everything>>,
    plain: OnceLock<WorkflowList>,
}

impl WorkspaceListing {
    pub(super) fn everything(&self, made: impl FnOnce() -> Everything) -> Arc<Everything> {
        Arc::clone(self.everything.get_or_init(|| Arc::new(made())))
    }

    pub(super) fn plain(&self, made: impl FnOnce() -> WorkflowList) -> WorkflowList {
        self.plain.get_or_init(made).clone()
    }
}

#[derive(Debug, Default)]
pub(super) struct Listings(Mutex<BTreeMap<String, Arc<WorkspaceListing>>>);

impl Listings {
    /// A poisoned lock is fine: a panic elsewhere leaves entries whole or absent.
    fn entries(&self) -> MutexGuard<'_, BTreeMap<String, Arc<WorkspaceListing>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn get(
        &self,
        workspace: Option<&WorkspacePath>,
        id: ListingId,
        bindings: &BindingsFileResult,
    ) -> Option<Arc<WorkspaceListing>> {
        let entries = self.entries();
        let known = entries.get(key(workspace))?;
        (known.id == Some(id) && known.bindings == *bindings).then(|| Arc::clone(known))
    }

    /// Caches a listing only if a reader would notice that it is out of date.
    pub(super) fn keep(
        &self,
        workspace: Option<&WorkspacePath>,
        id: Option<ListingId>,
        bindings: BindingsFileResult,
        listing: Listing,
    ) -> Arc<WorkspaceListing> {
        let known =
            WorkspaceListing { id, bindings, listing, everything: OnceLock::new(), plain: OnceLock::new() };
        let known = Arc::new(known);
        let mut entries = self.entries();
        if id.is_none() {
            entries.remove(key(workspace));
        } else {
            if entries.len() >= WORKSPACES_MAX && !entries.contains_key(key(workspace)) {
                entries.clear();
            }
            entries.insert(key(workspace).to_owned(), Arc::clone(&known));
        }
        known
    }

    pub(super) fn forget(&self, gone: &WorkspaceListing) {
        self.entries().retain(|_, known| known.id != gone.id);
    }
}

/// The key of a workspace; an empty text for none, since no path is empty.
fn key(workspace: Option<&WorkspacePath>) -> &str {
    workspace.map_or("", WorkspacePath::as_str)
}
