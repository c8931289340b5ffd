//! Optional agent abilities: learned by observation, trusted by provenance (G62).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::closed_set::closed_set;
use crate::name::StepId;
use crate::text::BoundedText;

closed_set! {
    "snake_case",
    pub enum Capability {
        Delegation,
        WebBrowsing,
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CapabilityStatus {
    Unknown,
    Available,
    Unavailable,
}

/// Only `strong` observations unlock a required capability.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum EnforcementGrade {
    Strong,
    Weak,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum UseResult {
    Success,
    Failure,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum UseFailure {
    ToolMissing,
    ToolError,
    PolicyBlocked,
    Unknown,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AttemptContext {
    WorkflowStep,
    // Part of the locked set; nothing produces it. Only a step of the workflow can try what an agent has.
    SystemProbe,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Claimant {
    Agent,
    // Part of the locked set; nothing produces it. What a person decides is an approval or an answer.
    User,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Claim {
    Available,
    Unavailable,
}

/// Where an observation comes from. The grade is stored for readers, and must be the kind's own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Provenance {
    #[serde(rename_all = "camelCase")]
    ProbeStep { enforcement_grade: EnforcementGrade, detail: ProbeDetail },
    #[serde(rename_all = "camelCase")]
    AttemptedUse { enforcement_grade: EnforcementGrade, detail: UseDetail },
    #[serde(rename_all = "camelCase")]
    ManualClaim { enforcement_grade: EnforcementGrade, detail: ClaimDetail },
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProbeDetail {
    pub probe_template_id: BoundedText<128>,
    pub probe_step_id: StepId,
    pub result: UseResult,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UseDetail {
    pub attempt_context: AttemptContext,
    pub result: UseResult,
    /// Present exactly when the use failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure_code: Option<UseFailure>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClaimDetail {
    pub claimed_by: Claimant,
    pub claim: Claim,
}

impl Provenance {
    /// The stored grade.
    pub fn grade(&self) -> EnforcementGrade {
        match self {
            Self::ProbeStep { enforcement_grade, .. }
            | Self::AttemptedUse { enforcement_grade, .. }
            | Self::ManualClaim { enforcement_grade, .. } => *enforcement_grade,
        }
    }

    /// Whether the kind justifies the grade. A use may have either: it is strong only if more than the agent's word
    /// shows it.
    fn earns(&self, grade: EnforcementGrade) -> bool {
        match self {
            Self::ProbeStep { .. } => grade == EnforcementGrade::Strong,
            Self::AttemptedUse { .. } => true,
            Self::ManualClaim { .. } => grade == EnforcementGrade::Weak,
        }
    }

    /// What a stored provenance must also satisfy; the error names the broken rule.
    pub fn check(&self) -> Result<(), &'static str> {
        if !self.earns(self.grade()) {
            return Err("provenance.enforcementGrade is not the grade of provenance.kind");
        }
        match self {
            Self::AttemptedUse { detail, .. }
                if (detail.result == UseResult::Failure) != detail.failure_code.is_some() =>
            {
                Err("provenance.detail.failureCode must be present exactly when result is failure")
            }
            Self::AttemptedUse { .. } | Self::ProbeStep { .. } | Self::ManualClaim { .. } => Ok(()),
        }
    }
}
