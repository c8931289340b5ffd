//! What is done: one file per use case over pure decisions and ports.
//!
//! The engine loads, asks the core, appends, answers. It names no file, no clock and no protocol.

mod advance;
pub mod catalog;
mod error;
mod folded;
mod gate;
mod inspect;
mod list;
mod mint;
mod rehydrate;
mod reply;
pub mod request;
mod start;
mod token;

use std::sync::Arc;

use workrail_model::error::ErrorEnvelope;
use workrail_model::token::TokenEncoding;
use workrail_ports::cache::ProjectionCache;
use workrail_ports::content::ContentStore;
use workrail_ports::environment::{ActivityCounter, Clock, Entropy};
use workrail_ports::keyring::KeyringStore;
use workrail_ports::session_store::SessionStore;
use workrail_ports::workflow_source::WorkflowSource;
use workrail_ports::workspace::{WorkspaceObserver, WorkspacePath};

use catalog::Catalog;
use folded::FoldedSessions;
use gate::Reading;
pub use reply::Reply;
use request::{ContinueWorkflow, StartWorkflow};
use token::Signer;

/// Everything the engine keeps things in.
pub trait Store:
    SessionStore + ContentStore + KeyringStore + ActivityCounter + ProjectionCache + 'static
{
}

impl<S: SessionStore + ContentStore + KeyringStore + ActivityCounter + ProjectionCache + 'static> Store
    for S
{
}

/// What is around the engine.
pub struct Surroundings {
    pub clock: Box<dyn Clock>,
    pub entropy: Box<dyn Entropy>,
    pub workflows: Arc<dyn WorkflowSource>,
    pub observer: Box<dyn WorkspaceObserver>,
    /// The workspace of calls that name none.
    pub workspace: Option<WorkspacePath>,
    /// Which token encoding agents see; both are always accepted.
    pub token_encoding: TokenEncoding,
}

impl std::fmt::Debug for Surroundings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Surroundings").field("token_encoding", &self.token_encoding).finish_non_exhaustive()
    }
}

/// An edge's result; boxed because errors carry everything a caller needs to fix the call.
pub type Answer = Result<Reply, Box<ErrorEnvelope>>;

/// The use cases over one store.
pub struct Engine<S: Store> {
    store: Arc<S>,
    around: Surroundings,
    signer: Signer,
    folded: FoldedSessions,
    catalog: Catalog,
}

impl<S: Store> std::fmt::Debug for Engine<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine").finish_non_exhaustive()
    }
}

impl<S: Store> Engine<S> {
    /// Loads the signing keys, making them on first use.
    pub fn open(store: Arc<S>, around: Surroundings) -> Result<Self, Box<ErrorEnvelope>> {
        let keyring = store.load_or_create().map_err(error::keyring)?;
        let signer = Signer { keyring, encoding: around.token_encoding };
        let catalog = Catalog::new(Arc::clone(&around.workflows));
        Ok(Self { store, around, signer, folded: FoldedSessions::default(), catalog })
    }

    /// The workspace that a call means: the one it names, else the one this process is in.
    pub(crate) fn workspace(&self, named: Option<&str>) -> Result<Option<WorkspacePath>, Box<ErrorEnvelope>> {
        match named {
            None => Ok(self.around.workspace.clone()),
            Some(text) => WorkspacePath::parse(text).map(Some).map_err(|cause| error::workspace(&cause)),
        }
    }

    /// Starts a run and returns its first step.
    pub fn start_workflow(&self, request: StartWorkflow) -> Answer {
        self.start(request)
    }

    /// Completes the pending step with an ack, or returns it again without one.
    pub fn continue_workflow(&self, request: ContinueWorkflow) -> Answer {
        match request.ack_token.clone() {
            Some(ack) => self.advance(&ack, request),
            None => self.reading().rehydrate(request),
        }
    }

    /// Everything a read-only use case gets; no way to append is among it (G36).
    fn reading(&self) -> Reading<'_> {
        Reading {
            sessions: &*self.store,
            content: &*self.store,
            entropy: &*self.around.entropy,
            signer: &self.signer,
            folded: &self.folded,
        }
    }
}
