//! Sources that can be replaced while in use, for a process that registers sources itself.

use std::sync::{Arc, PoisonError, RwLock};

use workrail_model::compiled::ReferenceDeclaration;
use workrail_ports::workflow_source::{
    BindingsFile, CandidateFile, ListingId, Located, SourceError, SourceFile, SourceListing, WorkflowSource,
};
use workrail_ports::workspace::WorkspacePath;

use super::Sources;

/// The bits of a listing id that count the listings of one generation.
const SERIAL_BITS: u32 = 40;

#[derive(Debug)]
pub struct ExchangeableSources {
    current: RwLock<Generation>,
}

#[derive(Clone, Debug)]
struct Generation {
    number: u64,
    sources: Arc<Sources>,
}

impl Generation {
    /// Different sources use the same listing ids; the generation keeps them distinct.
    fn distinct_id(&self, id: ListingId) -> ListingId {
        ListingId((self.number << SERIAL_BITS) | id.0)
    }
}

impl ExchangeableSources {
    pub fn new(sources: Sources) -> Self {
        Self { current: RwLock::new(Generation { number: 0, sources: Arc::new(sources) }) }
    }

    /// Uses these sources from the next call on.
    pub fn exchange(&self, sources: Sources) {
        let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
        *current = Generation { number: current.number + 1, sources: Arc::new(sources) };
    }

    fn current(&self) -> Generation {
        self.current.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl WorkflowSource for ExchangeableSources {
    fn list(&self, workspace: Option<&WorkspacePath>) -> SourceListing {
        let current = self.current();
        let listing = current.sources.list(workspace);
        SourceListing { id: listing.id.map(|id| current.distinct_id(id)), ..listing }
    }

    fn unchanged_listing(&self, workspace: Option<&WorkspacePath>) -> Option<ListingId> {
        let current = self.current();
        current.sources.unchanged_listing(workspace).map(|id| current.distinct_id(id))
    }

    fn read(&self, file: &CandidateFile) -> Result<Vec<u8>, SourceError> {
        self.current().sources.read(file)
    }

    fn bindings(&self, workspace: Option<&WorkspacePath>) -> Result<Option<BindingsFile>, SourceError> {
        self.current().sources.bindings(workspace)
    }

    fn locate(
        &self,
        declaration: &ReferenceDeclaration,
        source: &SourceFile,
        workspace: Option<&WorkspacePath>,
    ) -> Located {
        self.current().sources.locate(declaration, source, workspace)
    }
}
