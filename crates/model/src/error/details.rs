//! The structured facts of an error: closed, so that the program reads them by type and clients by name.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use crate::health::SessionHealth;
use crate::id::{GapId, RunId};
use crate::name::StepId;
use crate::team::{Act, Role};

/// The arguments that a refusal names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum RefusedArgument {
    Context,
    IdempotencyKey,
    Output,
    SessionToken,
    WorkspacePath,
}

/// How the size of a value was measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub enum SizeMethod {
    #[serde(rename = "UTF-8 bytes")]
    Bytes,
    #[serde(rename = "UTF-8 bytes as a JSON string")]
    JsonString,
    #[serde(rename = "UTF-8 bytes of RFC 8785 canonical JSON")]
    CanonicalJson,
    #[serde(rename = "UTF-8 bytes of RFC 8785 canonical JSON, after the merge")]
    MergedCanonicalJson,
}

/// A value that is larger than its limit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Oversize {
    /// Where it was sent, if nothing else of the call tells it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub argument: Option<RefusedArgument>,
    pub measured_bytes: usize,
    pub max_bytes: usize,
    pub method: SizeMethod,
}

/// A context value that a call has to send with another value; `empty_value` has the shape that is needed.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WantedValue {
    pub argument: RefusedArgument,
    pub context_key: String,
    pub empty_value: Value,
}

/// An artifact that may not be sent at all, by its position in `output`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RefusedArtifact {
    pub argument: RefusedArgument,
    pub refused_artifact: usize,
}

/// What is known of a call whose write was not confirmed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum WriteOutcome {
    /// It may have been recorded.
    Unknown,
}

/// Something that makes WorkRail keep all content.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Doubt {
    pub subject: String,
    pub why: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(untagged, rename_all_fields = "camelCase")]
pub enum ErrorDetails {
    /// This argument cannot be used as it is.
    Argument {
        argument: RefusedArgument,
    },
    Oversize(Oversize),
    /// The loop at the very start needs this key.
    MissingContext(WantedValue),
    /// The value makes the text of a step too long.
    StepTextTooLong {
        #[serde(flatten)]
        wanted: WantedValue,
        step_id: StepId,
        variable: String,
        variable_bytes: usize,
        max_bytes: usize,
        method: SizeMethod,
    },
    /// A text that a reply showed as an example came back as if it were the caller's.
    Placeholder {
        argument: String,
        location: String,
    },
    /// The artifact closes a gap that only the user can close.
    NotTheAgentsGap {
        #[serde(flatten)]
        refused: RefusedArtifact,
        gap_id: GapId,
    },
    /// The artifact closes a gap that is not open.
    NoSuchGap {
        #[serde(flatten)]
        refused: RefusedArtifact,
        open_gaps: Vec<String>,
    },
    /// The key of a start belongs to another run.
    KeyUsed {
        argument: RefusedArgument,
        run_id: RunId,
        run: String,
    },
    /// A token and the caller's words name different runs.
    MixedUp {
        token_run: String,
        echoed_run: Option<String>,
    },
    UnknownWorkflow {
        nearest: Option<String>,
        known: Vec<String>,
    },
    Candidates {
        candidates: Vec<String>,
    },
    /// Sessions that could not be searched.
    Unsearched {
        unhealthy_sessions: usize,
    },
    Session(SessionHealth),
    AffectedRuns {
        runs: Vec<String>,
        run_count: usize,
    },
    Access {
        role: Role,
        act: Act,
        roles: Vec<Role>,
    },
    /// Where a bundle is wrong.
    Bundle {
        at: String,
        line: Option<usize>,
        column: Option<usize>,
    },
    Doubts(Vec<Doubt>),
    Outcome {
        outcome: WriteOutcome,
        fix: String,
    },
}
