//! Why a token is refused: a closed set, each with its code and what the caller can show.

use workrail_model::digest::WorkflowHash;
use workrail_model::error::ErrorCode;
use workrail_model::event::EventIndex;
use workrail_model::id::{NodeId, SessionId};

use super::TOKEN_CHARS_MAX;
use super::v2::BODY_CHARS;
use crate::label::RunLabel;

/// What is wrong with a text that should be a token. Repeats at most a field name from the text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenProblem {
    #[error("has {found} bytes, no token has more than {TOKEN_CHARS_MAX}")]
    TooLong { found: usize },
    #[error("must have 4 parts separated by dots, not {found}")]
    Parts { found: usize },
    #[error("does not start with `st`, `ack`, `chk` or `ses`")]
    Prefix,
    #[error("has no version like `v2` after the first dot")]
    Version,
    #[error("has no run label of two known words after the second dot")]
    Label,
    #[error("has {found} characters after the last dot instead of {BODY_CHARS}; copy the whole token")]
    BodyLength { found: usize },
    #[error("holds a character after the last dot that no token has (digits and a-z without i, l, o, u)")]
    BodyCharacter,
    #[error("has bits set that its kind leaves empty")]
    UnusedBits,
    #[error("has a payload that is not base64url")]
    Payload,
    #[error("has a payload that is not the JSON of a token: {detail}")]
    PayloadFields { detail: String },
    #[error("has a payload that is not in canonical form")]
    NotCanonical,
    #[error("has a payload of another kind than its prefix says")]
    KindDiffers,
    #[error("has a signature that is not 32 bytes of base64url")]
    SignatureForm,
}

/// How a token refers to its node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeRef {
    Id(NodeId),
    Event(EventIndex),
}

impl std::fmt::Display for NodeRef {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Id(node) => node.fmt(f),
            Self::Event(index) => write!(f, "node of event {}", index.get()),
        }
    }
}

/// What two tokens, or a token and the log, disagree on; the widest difference is named.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ScopePart {
    Session,
    Run,
    Node,
}

impl std::fmt::Display for ScopePart {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Session => "session",
            Self::Run => "run",
            Self::Node => "node",
        })
    }
}

/// Why a token is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    /// `label` is present if it can still be read, so that the caller can offer a way back.
    #[error("the token {problem}")]
    InvalidFormat { problem: TokenProblem, label: Option<RunLabel> },
    #[error("the token has version {version}; this build reads v1 and v2")]
    UnsupportedVersion { version: String, label: Option<RunLabel> },
    /// `label` as written in the token, which is unverified.
    #[error("the token was changed after it was issued, or its signing key is no longer accepted")]
    BadSignature { label: Option<RunLabel> },
    /// `found` is what the token (of two: the state token) belongs to, `expected` what the log (of
    /// two: the ack token) says.
    #[error("the token belongs to another {part}: `{found}` instead of `{expected}`")]
    ScopeMismatch { part: ScopePart, found: RunLabel, expected: RunLabel },
    #[error("session {session} has no {node}")]
    UnknownNode { session: SessionId, node: NodeRef },
    #[error("the token is for workflow {token}, but its run uses {run}")]
    WorkflowHashMismatch { token: WorkflowHash, run: WorkflowHash },
    #[error("another process is writing to the session")]
    SessionLocked,
}

impl TokenError {
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::InvalidFormat { .. } => ErrorCode::TokenInvalidFormat,
            Self::UnsupportedVersion { .. } => ErrorCode::TokenUnsupportedVersion,
            Self::BadSignature { .. } => ErrorCode::TokenBadSignature,
            Self::ScopeMismatch { .. } => ErrorCode::TokenScopeMismatch,
            Self::UnknownNode { .. } => ErrorCode::TokenUnknownNode,
            Self::WorkflowHashMismatch { .. } => ErrorCode::TokenWorkflowHashMismatch,
            Self::SessionLocked => ErrorCode::TokenSessionLocked,
        }
    }
}
