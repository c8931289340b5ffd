//! `run_closed`: a person decided that a run will not be finished (G65).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::id::ClosureId;
use crate::limits::SUMMARY_BYTES_MAX;
use crate::text::BoundedText;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunClosed {
    pub closure_id: ClosureId,
    /// Why, in the person's words.
    pub reason: BoundedText<SUMMARY_BYTES_MAX>,
    pub channel: CloseChannel,
}

/// How a run was closed. None of these is a tool of an agent: no tool closes a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CloseChannel {
    /// `workrail close`.
    CommandLine,
    /// A form of the console.
    Console,
}
