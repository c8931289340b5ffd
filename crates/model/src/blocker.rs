//! Why an advance was refused, as data: closed codes, typed pointers, bounded text, fixed order (G40).

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

use crate::capability::Capability;
use crate::closed_set::closed_set;
use crate::limits::{BLOCKER_FIX_BYTES_MAX, BLOCKER_MESSAGE_BYTES_MAX, BLOCKERS_MAX};
use crate::name::{AssessmentName, ContextKey, ContractRef, StepId};
use crate::text::BoundedText;

closed_set! {
    "SCREAMING_SNAKE_CASE",
    /// Ordered by its wire spelling, which is how reports are sorted.
    pub enum BlockerCode {
        AssessmentFollowupRequired,
        CheckFailed,
        EditsNotAllowed,
        EvidenceMissing,
        InvalidRequiredOutput,
        InvariantViolation,
        LoopLimitReached,
        MissingContextKey,
        MissingRequiredNotes,
        MissingRequiredOutput,
        RequiredCapabilityUnavailable,
        RequiredCapabilityUnknown,
        ScopeExceeded,
        // Part of the locked set, like the reason it belongs to; nothing reports it (see `Unexpected`).
        StorageCorruptionDetected,
        UserOnlyDependency,
    }
}

/// What a blocker is about. Variants are in the order of their wire spelling.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum BlockerPointer {
    #[serde(rename_all = "camelCase")]
    AssessmentDimension {
        assessment_id: AssessmentName,
        dimension_id: AssessmentName,
    },
    Capability {
        capability: Capability,
    },
    // Part of the locked set; nothing reports it. A context beyond its budget is refused with `VALIDATION_ERROR`, and
    // nothing is recorded.
    ContextBudget,
    ContextKey {
        key: ContextKey,
    },
    #[serde(rename_all = "camelCase")]
    OutputContract {
        contract_ref: ContractRef,
    },
    #[serde(rename_all = "camelCase")]
    WorkflowStep {
        step_id: StepId,
    },
}

closed_set! {
    "snake_case",
    /// A decision that only a person can make about what was submitted.
    pub enum PersonDecision {
        Awaited,
        /// Only a passkey in the console counts.
        AwaitedInConsole,
        Approved,
        Rejected,
    }
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Blocker {
    pub code: BlockerCode,
    pub pointer: BlockerPointer,
    pub message: BoundedText<BLOCKER_MESSAGE_BYTES_MAX>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suggested_fix: Option<BoundedText<BLOCKER_FIX_BYTES_MAX>>,
    /// Only where a person must decide.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decision: Option<PersonDecision>,
}

/// Why a list of blockers breaks the report's rules.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ReportError {
    #[error("a blocker report must hold at least one blocker")]
    Empty,
    #[error("a blocker report holds at most {BLOCKERS_MAX} blockers, not {found}")]
    TooMany { found: usize },
    #[error("blockers must be sorted by code, then pointer")]
    Unsorted,
}

/// One to ten blockers in their one order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct BlockerReport {
    #[schemars(length(min = 1, max = 10))]
    blockers: Vec<Blocker>,
}

impl BlockerReport {
    /// Sorts and keeps the first ten; `None` if there is nothing to report.
    pub fn new(mut blockers: Vec<Blocker>) -> Option<Self> {
        blockers.sort();
        blockers.dedup();
        blockers.truncate(BLOCKERS_MAX);
        (!blockers.is_empty()).then_some(Self { blockers })
    }

    fn checked(blockers: Vec<Blocker>) -> Result<Self, ReportError> {
        if blockers.is_empty() {
            return Err(ReportError::Empty);
        }
        if blockers.len() > BLOCKERS_MAX {
            return Err(ReportError::TooMany { found: blockers.len() });
        }
        if !blockers.is_sorted_by(|a, b| (a.code, &a.pointer) <= (b.code, &b.pointer)) {
            return Err(ReportError::Unsorted);
        }
        Ok(Self { blockers })
    }

    pub fn blockers(&self) -> &[Blocker] {
        &self.blockers
    }
}

impl<'de> Deserialize<'de> for BlockerReport {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Wire {
            blockers: Vec<Blocker>,
        }
        Self::checked(Wire::deserialize(deserializer)?.blockers).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blocker(code: BlockerCode, step: &str) -> Blocker {
        Blocker {
            code,
            pointer: BlockerPointer::WorkflowStep { step_id: StepId::parse(step).unwrap() },
            message: BoundedText::clip("m"),
            suggested_fix: None,
            decision: None,
        }
    }

    #[test]
    fn codes_are_declared_in_the_order_of_their_spelling() {
        let closed_set: Vec<String> =
            BlockerCode::ALL.iter().map(|code| serde_json::to_string(code).unwrap()).collect();
        assert!(closed_set.is_sorted());
        assert!(BlockerCode::ALL.is_sorted());
    }

    /// G40: one to ten blockers in a fixed order.
    #[test]
    fn reports_sort_and_are_bounded() {
        let many = (0..12).rev().map(|n| blocker(BlockerCode::MissingRequiredNotes, &format!("s{n:02}")));
        let report = BlockerReport::new(many.collect()).unwrap();
        assert_eq!(report.blockers().len(), 10);
        assert!(report.blockers().is_sorted());
        assert_eq!(BlockerReport::new(vec![]), None);
    }

    #[test]
    fn stored_reports_out_of_order_are_refused() {
        let value = serde_json::json!({ "blockers": [
            blocker(BlockerCode::UserOnlyDependency, "a"),
            blocker(BlockerCode::MissingRequiredNotes, "a"),
        ]});
        let error = serde_json::from_value::<BlockerReport>(value).unwrap_err();
        assert!(error.to_string().contains("sorted"), "{error}");
    }
}
