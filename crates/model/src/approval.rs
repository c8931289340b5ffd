//! Approvals: a decision on a gate that is not made through the agent's tools (G63).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::closed_set::closed_set;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ApprovalDecision {
    Approved,
    Rejected,
}

/// How the decision was given, and what that proves. None of these is a tool of an agent: no tool approves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ApprovalChannel {
    /// The run's label was typed at a terminal. An agent with a shell can make a terminal and type into it, so this
    /// proves nothing against such an agent.
    Terminal,
    /// The program that runs the agent was asked to show the user a form, and sent this back. A hook or a setting of that
    /// program can answer without showing it to anyone, so this does not prove that a person decided.
    Chat,
    /// A form of the console was sent. The console answers only a browser that was opened with the code it printed,
    /// but an agent with a shell can read that code, so this proves no more than a typed label.
    Console,
    /// A person confirmed exactly this with a passkey in the console, and the record holds the assertion. An agent with a
    /// shell cannot make one for a key that is enrolled (G97).
    Passkey,
}

closed_set! {
    "snake_case",
    /// What a decision needs to count, weakest first.
    #[derive(Default)]
    pub enum RequiredProof {
        /// A typed label is enough.
        #[default]
        Terminal,
        /// Only a passkey that is enrolled in this store counts (G97).
        Passkey,
    }
}

/// Whether the process that gave a decision descends from the program that runs a server, as an agent's shell does.
///
/// On the wire it is `true` or `false`, and absent when it is not known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(from = "Option<bool>", into = "Option<bool>")]
#[schemars(with = "Option<bool>")]
pub enum Descent {
    Yes,
    No,
    /// No server to compare with, one on HTTP, or one that cannot be seen from here.
    #[default]
    Unknown,
}

impl Descent {
    pub fn is_unknown(&self) -> bool {
        *self == Self::Unknown
    }
}

impl From<Option<bool>> for Descent {
    fn from(recorded: Option<bool>) -> Self {
        match recorded {
            Some(true) => Self::Yes,
            Some(false) => Self::No,
            None => Self::Unknown,
        }
    }
}

impl From<Descent> for Option<bool> {
    fn from(descent: Descent) -> Self {
        match descent {
            Descent::Yes => Some(true),
            Descent::No => Some(false),
            Descent::Unknown => None,
        }
    }
}

/// How a decision was given, and what is known about the process that gave it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ApprovalOrigin {
    pub channel: ApprovalChannel,
    pub descends_from_server: Descent,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_three_descents_round_trip() {
        #[derive(Debug, PartialEq, Serialize, Deserialize)]
        struct DescentRecord {
            #[serde(default, skip_serializing_if = "Descent::is_unknown")]
            descent: Descent,
        }
        for (descent, text) in [
            (Descent::Yes, r#"{"descent":true}"#),
            (Descent::No, r#"{"descent":false}"#),
            (Descent::Unknown, "{}"),
        ] {
            assert_eq!(serde_json::to_string(&DescentRecord { descent }).ok().as_deref(), Some(text));
            assert_eq!(serde_json::from_str::<DescentRecord>(text).ok(), Some(DescentRecord { descent }));
        }
    }
}
