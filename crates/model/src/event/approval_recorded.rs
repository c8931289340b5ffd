//! `approval_recorded`: a gate was opened or closed, not through the agent's tools.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::approval::{ApprovalChannel, ApprovalDecision, Descent};
use crate::digest::Sha256;
use crate::id::ApprovalId;
use crate::limits::SUMMARY_BYTES_MAX;
use crate::name::StepId;
use crate::passkey::PasskeyProof;
use crate::text::BoundedText;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ApprovalRecorded {
    pub approval_id: ApprovalId,
    pub step_id: StepId,
    pub decision: ApprovalDecision,
    pub channel: ApprovalChannel,
    /// Whether the approving process descended from the parent of a running server, as an agent's shell does. Absent
    /// when that is not known: no server was running, one was on HTTP, or one could not be seen from the terminal.
    #[serde(default, skip_serializing_if = "Descent::is_unknown")]
    pub descends_from_server: Descent,
    /// Names what was submitted and shown. An approval opens the gate for exactly this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub submitted: Option<Sha256>,
    /// Why, in the person's words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<BoundedText<SUMMARY_BYTES_MAX>>,
    /// What the passkey signed, when the channel is `passkey`. Absent, together with `submitted`, in a copy from which
    /// something that the digest covers was removed; such an approval opens nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proof: Option<PasskeyProof>,
}

impl ApprovalRecorded {
    pub(super) fn check(&self) -> Result<(), &'static str> {
        match (self.channel, &self.proof) {
            (ApprovalChannel::Passkey, Some(_)) => Ok(()),
            (ApprovalChannel::Passkey, None) if self.submitted.is_none() => Ok(()),
            (ApprovalChannel::Passkey, None) => Err("channel passkey needs a proof"),
            (ApprovalChannel::Terminal | ApprovalChannel::Chat | ApprovalChannel::Console, None) => Ok(()),
            (ApprovalChannel::Terminal | ApprovalChannel::Chat | ApprovalChannel::Console, Some(_)) => {
                Err("a proof belongs to channel passkey")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Only a copy from which the digest was removed lacks what the passkey signed.
    #[test]
    fn an_approval_with_a_passkey_has_a_proof_or_no_digest() {
        let mut approval: ApprovalRecorded = serde_json::from_value(json!({
            "approvalId": ApprovalId::from_bits([0; 10]), "stepId": "gate", "decision": "approved", "channel": "passkey",
        }))
        .unwrap();
        assert_eq!(approval.check(), Ok(()));
        approval.submitted = Some(Sha256::of(b"the plan"));
        assert_eq!(approval.check(), Err("channel passkey needs a proof"));
    }
}
