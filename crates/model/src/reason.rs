//! One closed set of reasons behind both blockers and gaps (G61).
//!
//! Blocking and never-stop modes differ in control flow, never in meaning; the table that turns a
//! reason into a blocker or a gap is `workrail_core::reason`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::closed_set::closed_set;

closed_set! {
    "snake_case",
    /// What only a person can give.
    pub enum UserOnlyDependencyReason {
        NeedsUserSecretOrToken,
        NeedsUserAccountAccess,
        NeedsUserArtifact,
        NeedsUserChoice,
        NeedsUserApproval,
        NeedsUserEnvironmentAction,
    }
}

closed_set! {
    "snake_case",
    /// Why a choice may not be assumed.
    pub enum NonAssumableChoiceKind {
        PreferenceTradeoff,
        ScopeBoundary,
        IrreversibleAction,
        ExternalSideEffect,
        PolicyOrCompliance,
    }
}

closed_set! {
    "snake_case",
    /// What a step owed and did not deliver.
    pub enum ContractViolation {
        MissingRequiredOutput,
        InvalidRequiredOutput,
        MissingRequiredNotes,
        MissingContextKey,
        AssessmentFollowupRequired,
        /// Files changed that the step does not allow to change.
        EditsNotAllowed,
        /// Files changed that are outside the scope that the run declared.
        ScopeExceeded,
        /// A check of the step did not end as the step expects.
        CheckFailed,
        /// The result is not known as well as the step asks.
        EvidenceMissing,
    }
}

closed_set! {
    "snake_case",
    pub enum CapabilityMissing {
        RequiredCapabilityUnavailable,
        RequiredCapabilityUnknown,
    }
}

closed_set! {
    "snake_case",
    pub enum Unexpected {
        InvariantViolation,
        // Part of the locked set. A damaged session is not written to, so nothing records it; the call fails with
        // `SESSION_CORRUPT` instead.
        StorageCorruptionDetected,
        LoopLimitReached,
    }
}

closed_set! {
    "snake_case",
    /// Disclosures that never block.
    pub enum Advisory {
        PreferencesAboveRecommendation,
        LoopLimitReached,
        CapabilityDegraded,
        ReferenceUnresolved,
        /// Steps were skipped because the context key that their conditions read was never set.
        ContextKeyNeverSet,
        /// What was sent contradicts what was observed or checked.
        ClaimContradicted,
    }
}

/// Category and detail, as a gap records them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "category", content = "detail", rename_all = "snake_case")]
pub enum Reason {
    UserOnlyDependency(UserOnlyDependencyReason),
    ContractViolation(ContractViolation),
    CapabilityMissing(CapabilityMissing),
    Unexpected(Unexpected),
    Advisory(Advisory),
}

impl Reason {
    /// The word for it within its category.
    pub fn detail(self) -> &'static str {
        match self {
            Self::UserOnlyDependency(reason) => reason.as_str(),
            Self::ContractViolation(reason) => reason.as_str(),
            Self::CapabilityMissing(reason) => reason.as_str(),
            Self::Unexpected(reason) => reason.as_str(),
            Self::Advisory(reason) => reason.as_str(),
        }
    }
}
