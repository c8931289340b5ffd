//! The servers running on this store; shown to people, never the source of truth.

use workrail_model::error::ErrorEnvelope;
use workrail_model::server::{LoggedCall, ServerRecord};

use crate::{Engine, Store, error};

impl<S: Store> Engine<S> {
    /// Every server running now, and the settings it started with.
    pub fn servers(&self) -> Result<Vec<ServerRecord>, Box<ErrorEnvelope>> {
        self.store.servers().map_err(|cause| error::io(&cause))
    }

    /// The newest calls that servers logged, newest first.
    pub fn calls(&self, limit: usize) -> Result<Vec<LoggedCall>, Box<ErrorEnvelope>> {
        self.store.calls(limit).map_err(|cause| error::io(&cause))
    }
}
