//! The answer of `read_run`: the record of a run as text, a page at a time.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::reply::NextCall;

/// Selects the notes and artifacts of all steps instead of one.
pub const ALL_STEPS: &str = "all";

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReadRunBody {
    pub text: String,
    /// The run's two-word label; the id of a session that has no run, or several.
    pub run: String,
    /// Counted from 1.
    pub page: u64,
    pub pages: u64,
    /// The next page; after the last one, the call that shows the step at which the run is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_call: Option<NextCall>,
}
