//! The answers of calls about a session without a run.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::id::SessionId;
use crate::reply::NextCall;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SessionBody {
    /// All of the answer in words.
    pub text: String,
    pub session_id: SessionId,
    /// The right to add notes to the session and to start runs in it.
    pub session_token: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_call: Option<NextCall>,
}
