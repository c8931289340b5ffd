//! `preferences_changed`: a delta, and the whole effective set after it, attached to a node.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::id::ChangeId;
use crate::passkey::PreferenceProof;
use crate::preferences::{PreferenceChange, PreferenceSource, Preferences};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PreferencesChanged {
    pub change_id: ChangeId,
    pub source: PreferenceSource,
    #[schemars(length(min = 1, max = 2))]
    pub delta: Vec<PreferenceChange>,
    pub effective: Preferences,
    /// What a passkey signed of it; present exactly when the source is `passkey` (G97).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proof: Option<PreferenceProof>,
}

impl PreferencesChanged {
    pub(super) fn check(&self) -> Result<(), &'static str> {
        match (&self.proof, self.source) {
            (None, PreferenceSource::Passkey) => return Err("source passkey needs a proof"),
            (Some(proof), PreferenceSource::Passkey) if self.delta != proof.changes => {
                return Err("delta is not what was signed");
            }
            (Some(_), PreferenceSource::Passkey) => {}
            (
                proof,
                PreferenceSource::User
                | PreferenceSource::CommandLine
                | PreferenceSource::WorkflowRecommendation
                | PreferenceSource::System,
            ) => {
                if proof.is_some() {
                    return Err("a proof belongs to source passkey");
                }
            }
        }
        let keys = |change: &PreferenceChange| std::mem::discriminant(change);
        match self.delta.as_slice() {
            [] => Err("delta must hold at least one change"),
            [one, other] if keys(one) == keys(other) => Err("delta names a key twice"),
            [_] | [_, _] if self.delta.iter().fold(self.effective, |p, c| p.with(*c)) != self.effective => {
                Err("effective does not contain delta")
            }
            [_] | [_, _] => Ok(()),
            _ => Err("delta names a key twice"),
        }
    }
}
