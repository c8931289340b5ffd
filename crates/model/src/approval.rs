//! Approvals: a decision on a gate that is not made through the agent's tools (G63).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ApprovalDecision {
    Approved,
    Rejected,
}

/// How the decision was given. There is no entry for MCP: no tool of an agent approves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ApprovalChannel {
    /// The run's label was typed at a terminal. An agent with a shell can make a terminal and type into it, so this
    /// proves nothing against such an agent.
    Terminal,
}

/// How a decision was given, and what is known about the process that gave it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ApprovalOrigin {
    pub channel: ApprovalChannel,
    /// Whether the process descends from the program that runs a server, as an agent's shell does; `None` where
    /// that cannot be found out.
    pub descends_from_server: Option<bool>,
}
