//! Time, randomness and the store-wide activity number: everything the pure core receives as arguments.

use workrail_model::approval::RequiredProof;
use workrail_model::event::Activity;
use workrail_model::preferences::Preferences;
use workrail_model::time::Timestamp;

use crate::session_store::StoreError;

pub trait Clock: Send + Sync {
    /// For display only; never used for ordering or decisions (G6).
    fn now(&self) -> Timestamp;
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the system gave no randomness: {detail}")]
pub struct EntropyError {
    pub detail: String,
}

pub trait Entropy: Send + Sync {
    fn fill(&self, bytes: &mut [u8]) -> Result<(), EntropyError>;
}

/// Preferences for runs whose caller chooses none; may change while a server runs.
pub trait DefaultPreferences: Send + Sync {
    fn default_preferences(&self) -> Preferences;
}

impl DefaultPreferences for Preferences {
    fn default_preferences(&self) -> Preferences {
        *self
    }
}

/// What makes a decision count; may change while a server runs.
pub trait ApprovalSettings: Send + Sync {
    fn required_proof(&self) -> RequiredProof;
    /// Folders in whose repositories only a passkey counts as proof.
    fn passkey_folders(&self) -> Vec<String>;
}

impl ApprovalSettings for RequiredProof {
    fn required_proof(&self) -> RequiredProof {
        *self
    }

    fn passkey_folders(&self) -> Vec<String> {
        Vec::new()
    }
}

pub trait ActivityCounter: Send + Sync {
    /// The next number: larger than any this store has handed out (G7).
    fn next(&self) -> Result<Activity, StoreError>;
}
