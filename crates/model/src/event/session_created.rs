//! `session_created`: marks that a session exists; everything about it is a projection.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::id::{BundleId, SessionId};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SessionCreated {
    /// Present when the session came out of a bundle (G80).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub imported_from: Option<ImportedFrom>,
}

/// Where an imported session comes from; nothing is decided by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ImportedFrom {
    /// The session's id where it was exported.
    pub session_id: SessionId,
    pub bundle_id: BundleId,
    /// Present when the bundle held only the sound beginning of a damaged log.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub salvaged: Option<bool>,
}
