//! What a call sends, before anything is decided about it.

use serde_json::Value;
use workrail_model::canonical::canonical_digest;
use workrail_model::digest::Sha256;
use workrail_model::event::Context;
use workrail_model::placeholder::is_placeholder;

use super::DecideError;

/// What an agent sends with an ack.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AdvanceRequest {
    pub notes: Option<String>,
    pub artifacts: Vec<Value>,
    pub context: Context,
}

impl AdvanceRequest {
    /// The notes, unless they say nothing: blank ones, and placeholders of ours that were sent back.
    pub(crate) fn own_notes(&self) -> Option<&str> {
        self.notes.as_deref().filter(|notes| !notes.trim().is_empty() && !is_placeholder(notes))
    }

    /// Names the payload, so that a replay with another one is noticed (G31).
    pub fn digest(&self) -> Result<Sha256, DecideError> {
        let parts = serde_json::json!({
            "notes": self.notes, "artifacts": self.artifacts, "context": self.context,
        });
        Ok(canonical_digest(&parts)?)
    }
}
