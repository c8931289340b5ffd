//! What an execution call answers: text that stands alone, and the same as data (G72).
//!
//! A reply is stored with its attempt so that a replay returns the same bytes (G30). Tokens are not
//! stored: the body holds a mark where each stands, and signing puts it in.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::blocker::Blocker;
use crate::canonical::{CanonicalError, to_canonical};
use crate::id::{RunId, SessionId};
use crate::name::{StepId, WorkflowId};
use crate::preferences::{NextIntent, Preferences};

/// Stands for a token in a stored reply. Authored text cannot contain one: NUL is replaced there.
pub const STATE_TOKEN_MARK: &str = "\u{0}state\u{0}";
pub const ACK_TOKEN_MARK: &str = "\u{0}ack\u{0}";

/// Replaces what could be taken for a token mark.
pub fn without_marks(text: &str) -> String {
    text.replace('\u{0}', "\u{fffd}")
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ReplyKind {
    Ok,
    Blocked,
}

/// Which run this is about; shown first, so that several runs in one chat are not mixed up (G35).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunInfo {
    /// The run's two-word name.
    pub label: String,
    pub workflow_id: WorkflowId,
    pub session_id: SessionId,
    pub run_id: RunId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step_id: Option<StepId>,
    /// Counted from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step_number: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PendingBody {
    pub step_id: StepId,
    pub title: String,
    /// The whole instruction for this step.
    pub prompt: String,
    pub require_confirmation: bool,
}

/// The exact next call: tool and arguments.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NextCall {
    pub tool: String,
    pub arguments: Map<String, Value>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum WarningCode {
    /// This step was completed before with another payload; the recorded result is returned.
    #[serde(rename = "REPLAY_INPUT_DIFFERS")]
    ReplayInputDiffers,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Warning {
    pub code: WarningCode,
    pub message: String,
}

/// The body of a reply of `start_workflow` and `continue_workflow`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReplyBody {
    pub kind: ReplyKind,
    /// All of the reply in words; nothing the agent needs is only elsewhere.
    pub text: String,
    pub run: RunInfo,
    /// Bookmark of this point: send it alone to get the step again.
    pub state_token: String,
    /// The right to complete the pending step once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ack_token: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pending: Option<PendingBody>,
    pub is_complete: bool,
    pub next_intent: NextIntent,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_call: Option<NextCall>,
    pub preferences: Preferences,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub blockers: Vec<Blocker>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<Warning>,
}

impl ReplyBody {
    /// The bytes that are stored: canonical, with marks instead of tokens.
    pub fn to_canonical(&self) -> Result<Vec<u8>, CanonicalError> {
        to_canonical(self)
    }
}
