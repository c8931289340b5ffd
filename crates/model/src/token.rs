//! Token payloads: signed references into the log, and nothing else (G32).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use strum::{EnumCount, VariantArray};

use crate::closed_set::{all_values, closed_set};
use crate::digest::WorkflowHash;
use crate::event::EventIndex;
use crate::id::{AttemptId, NodeId, RunId, SessionId};

/// What a token gives the right to do.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Serialize,
    Deserialize,
    JsonSchema,
    EnumCount,
    VariantArray,
)]
#[serde(rename_all = "snake_case")]
pub enum TokenKind {
    /// A bookmark: rehydrate.
    State,
    /// Complete this step once.
    Ack,
    /// Checkpoint once.
    Checkpoint,
    /// Work in this session.
    Session,
}

all_values!(TokenKind);

impl TokenKind {
    /// The prefix of the token string.
    pub fn prefix(self) -> &'static str {
        match self {
            Self::State => "st",
            Self::Ack => "ack",
            Self::Checkpoint => "chk",
            Self::Session => "ses",
        }
    }
}

/// Where a token points, in full: the content of the long encoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenTarget {
    State { session: SessionId, run: RunId, node: NodeId, workflow: WorkflowHash },
    Ack { session: SessionId, run: RunId, node: NodeId, attempt: AttemptId },
    Checkpoint { session: SessionId, run: RunId, node: NodeId, attempt: AttemptId },
    Session { session: SessionId },
}

impl TokenTarget {
    pub fn kind(&self) -> TokenKind {
        match self {
            Self::State { .. } => TokenKind::State,
            Self::Ack { .. } => TokenKind::Ack,
            Self::Checkpoint { .. } => TokenKind::Checkpoint,
            Self::Session { .. } => TokenKind::Session,
        }
    }

    pub fn session(&self) -> SessionId {
        match self {
            Self::State { session, .. }
            | Self::Ack { session, .. }
            | Self::Checkpoint { session, .. }
            | Self::Session { session } => *session,
        }
    }
}

/// The content of the short encoding: the node by the index of its event; the rest is in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShortTarget {
    pub kind: TokenKind,
    pub session: SessionId,
    pub node_event: EventIndex,
    /// Present exactly for `Ack` and `Checkpoint`.
    pub attempt: Option<AttemptId>,
}

closed_set! {
    "snake_case",
    /// Which encoding is minted; both are always accepted.
    #[derive(Default)]
    pub enum TokenEncoding {
        V1,
        #[default]
        V2,
    }
}
