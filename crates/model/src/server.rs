//! A running server as seen by people and `doctor`; never the source of truth.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::config::Settings;
use crate::digest::Sha256;
use crate::id::ServerId;
use crate::time::Timestamp;
use crate::tool::ToolName;

/// How agents reach a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Transport {
    Stdio,
    Http,
}

/// A process of this machine, distinguished from a later one with the same number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProcessRef {
    pub process_id: u32,
    /// When it started, in the kernel's ticks since boot.
    pub started_ticks: u64,
}

/// What a server says about itself while it runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ServerRecord {
    pub v: u32,
    pub server_id: ServerId,
    pub version: String,
    pub process_id: u32,
    /// The program that started it; absent where that cannot be found out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<ProcessRef>,
    pub transport: Transport,
    pub started_at: Timestamp,
    /// The digest of `settings`.
    pub applied_config_hash: Sha256,
    pub settings: Settings,
}

impl ServerRecord {
    pub const VERSION: u32 = 1;
}

/// One tool call, as the log of a server keeps it: without arguments and replies.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LoggedCall {
    pub at: Timestamp,
    #[schemars(with = "String")]
    pub tool: ToolName,
    pub duration_us: u64,
    /// `ok`, `blocked`, or the error's code.
    pub outcome: String,
    /// The label of the run, where the call was about one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
}
