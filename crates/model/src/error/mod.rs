//! The one error envelope of all edges: closed codes, explicit retry, and what to do next (G70).

mod details;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::id::RunId;
use crate::reply::NextCall;

pub use details::{
    Doubt, ErrorDetails, Oversize, RefusedArgument, RefusedArtifact, SizeMethod, WantedValue, WriteOutcome,
};

macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident = $spelled:literal),+ $(,)?) => {
        /// Every error an edge can give. Each has a page `codes/CODE.md` and a test that produces it.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
        pub enum ErrorCode {
            $($(#[$doc])* #[serde(rename = $spelled)] $name,)+
        }

        impl ErrorCode {
            pub const ALL: &'static [Self] = &[$(Self::$name),+];

            pub fn as_str(self) -> &'static str {
                match self { $(Self::$name => $spelled),+ }
            }

            /// What went wrong, why it matters and what to do, as markdown.
            pub fn page(self) -> &'static str {
                match self { $(Self::$name => include_str!(concat!("../../codes/", $spelled, ".md"))),+ }
            }
        }
    };
}

codes! {
    /// The token is not a token: cut, re-cased, or not ours.
    TokenInvalidFormat = "TOKEN_INVALID_FORMAT",
    /// The token names an encoding that this build does not read.
    TokenUnsupportedVersion = "TOKEN_UNSUPPORTED_VERSION",
    /// The token was changed after it was minted, or signed by a key that is no longer accepted.
    TokenBadSignature = "TOKEN_BAD_SIGNATURE",
    /// The tokens or echoes of one call belong to different things.
    TokenScopeMismatch = "TOKEN_SCOPE_MISMATCH",
    /// The token is genuine, but its node is not in this store.
    TokenUnknownNode = "TOKEN_UNKNOWN_NODE",
    /// The token's workflow is not the one that its run is pinned to.
    TokenWorkflowHashMismatch = "TOKEN_WORKFLOW_HASH_MISMATCH",
    /// Another process is writing to the session.
    TokenSessionLocked = "TOKEN_SESSION_LOCKED",
    /// An argument is missing, unknown, of the wrong type or over its budget.
    ValidationError = "VALIDATION_ERROR",
    /// No workflow has this id.
    WorkflowNotFound = "WORKFLOW_NOT_FOUND",
    /// The workflow's file has errors.
    WorkflowInvalid = "WORKFLOW_INVALID",
    /// No session, run or label of this store is meant, or several are.
    SessionNotFound = "SESSION_NOT_FOUND",
    /// The session's log is damaged; nothing may advance from it.
    SessionCorrupt = "SESSION_CORRUPT",
    /// The session was written by a newer version.
    SessionUnknownVersion = "SESSION_UNKNOWN_VERSION",
    /// The file is not a bundle, or a part of it is not what it must be.
    BundleInvalidFormat = "BUNDLE_INVALID_FORMAT",
    /// The bundle, or a record in it, was written by a newer version.
    BundleUnsupportedVersion = "BUNDLE_UNSUPPORTED_VERSION",
    /// A part of the bundle does not have its digest, or is not attested.
    BundleIntegrityFailed = "BUNDLE_INTEGRITY_FAILED",
    /// The bundle lacks a snapshot that one of its nodes needs.
    BundleMissingSnapshot = "BUNDLE_MISSING_SNAPSHOT",
    /// The bundle lacks the compiled workflow of one of its runs.
    BundleMissingPinnedWorkflow = "BUNDLE_MISSING_PINNED_WORKFLOW",
    /// The events of the bundle are not one valid history.
    BundleEventOrderInvalid = "BUNDLE_EVENT_ORDER_INVALID",
    /// The manifest of the bundle does not match its events.
    BundleManifestOrderInvalid = "BUNDLE_MANIFEST_ORDER_INVALID",
    /// Another process is writing to the session that a person wants to change.
    SessionLocked = "SESSION_LOCKED",
    /// Other processes are writing; the store could not be had for a moment without them.
    StoreBusy = "STORE_BUSY",
    /// Something in the store is in doubt, so nothing of it is removed.
    StoreSafeMode = "STORE_SAFE_MODE",
    /// The disk did not do what was asked; nothing was acknowledged.
    StoreIo = "STORE_IO",
    /// Stored content is missing or does not have its digest.
    StoreContentDamaged = "STORE_CONTENT_DAMAGED",
    /// The signing keys cannot be used as they are.
    StoreKeyringUnusable = "STORE_KEYRING_UNUSABLE",
    /// The access tokens of a team's members cannot be read.
    StoreAccessTokensUnusable = "STORE_ACCESS_TOKENS_UNUSABLE",
    /// The caller's role does not allow it.
    StoreAccessDenied = "STORE_ACCESS_DENIED",
    /// A rule that must always hold did not; nothing was recorded.
    InternalInvariant = "INTERNAL_INVARIANT",
}

/// What a client may do without reading prose.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Retry {
    NotRetryable,
    RetryableImmediate,
    #[serde(rename_all = "camelCase")]
    RetryableAfterMs {
        after_ms: u64,
    },
}

/// An error as every edge shows it.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ErrorEnvelope {
    pub code: ErrorCode,
    /// What is wrong, where, and why it matters.
    pub message: String,
    pub retry: Retry,
    /// Exactly what to do next.
    pub suggestion: String,
    /// The same for a person at a terminal, who runs commands and has neither calls nor tokens; where it differs.
    #[serde(skip)]
    pub suggestion_for_people: Option<String>,
    /// The same for members of a team, who have no shell on the machine of the store; where it differs.
    #[serde(skip)]
    pub in_team: Option<TeamSuggestion>,
    /// The call that leads on, ready to be sent as it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_call: Option<NextCall>,
    /// Structured facts; never needed to act.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub details: Option<ErrorDetails>,
}

/// What members of a team should do next: their agents, and people in the team's console.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TeamSuggestion {
    pub suggestion: String,
    /// The same for people; where it differs.
    pub for_people: Option<String>,
    /// The run whose page in the team's console agents are to name.
    pub run: Option<RunId>,
}

impl ErrorEnvelope {
    /// What a person at a terminal should do next.
    pub fn suggestion_for_a_person(&self) -> &str {
        self.suggestion_for_people.as_deref().unwrap_or(&self.suggestion)
    }

    /// What a person in a team's console should do next.
    pub fn suggestion_for_a_member(&self) -> &str {
        match &self.in_team {
            Some(team) => team.for_people.as_deref().unwrap_or(&team.suggestion),
            None => self.suggestion_for_a_person(),
        }
    }
}
