//! How far a run may go on its own: the closed set of preferences and their order (G60).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::closed_set::closed_set;

closed_set! {
    "snake_case",
    /// Who decides when something only a person can give is missing. Ordered by automation.
    pub enum Autonomy {
        Guided,
        FullAutoStopOnUserDeps,
        FullAutoNeverStop,
    }
}

closed_set! {
    "snake_case",
    /// Moves warning thresholds only; never contracts, capabilities or disclosure. Ordered by boldness.
    pub enum RiskPolicy {
        Conservative,
        Balanced,
        Aggressive,
    }
}

/// The whole effective set at a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Preferences {
    pub autonomy: Autonomy,
    pub risk_policy: RiskPolicy,
}

impl Default for Preferences {
    fn default() -> Self {
        Mode::Guided.preferences()
    }
}

impl Preferences {
    pub fn with(self, change: PreferenceChange) -> Self {
        match change {
            PreferenceChange::Autonomy(autonomy) => Self { autonomy, ..self },
            PreferenceChange::RiskPolicy(risk_policy) => Self { risk_policy, ..self },
        }
    }
}

/// One changed key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "key", content = "value", rename_all = "camelCase")]
pub enum PreferenceChange {
    Autonomy(Autonomy),
    RiskPolicy(RiskPolicy),
}

closed_set! {
    "snake_case",
    /// Presets that people pick by name.
    pub enum Mode {
        Guided,
        FullAutoStopOnUserDeps,
        FullAutoNeverStop,
    }
}

impl Mode {
    pub fn preferences(self) -> Preferences {
        match self {
            Self::Guided => Preferences { autonomy: Autonomy::Guided, risk_policy: RiskPolicy::Conservative },
            Self::FullAutoStopOnUserDeps => {
                Preferences { autonomy: Autonomy::FullAutoStopOnUserDeps, risk_policy: RiskPolicy::Balanced }
            }
            Self::FullAutoNeverStop => {
                Preferences { autonomy: Autonomy::FullAutoNeverStop, risk_policy: RiskPolicy::Conservative }
            }
        }
    }
}

/// Who changed preferences.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PreferenceSource {
    /// The call that started the run named a mode. WorkRail cannot tell whether the user or the agent chose it.
    User,
    /// Requested on the command line; it is not known who did.
    CommandLine,
    /// A person agreed with a passkey in the console, and the record holds the assertion (G97).
    Passkey,
    // Part of the locked set. A recommendation is shown and never applied automatically, so nothing writes it.
    WorkflowRecommendation,
    System,
}

/// What the only safe next action is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum NextIntent {
    PerformPendingThenContinue,
    AwaitUserConfirmation,
    RehydrateOnly,
    Complete,
}

closed_set! {
    "snake_case",
    /// Where a run is, seen from its preferred tip.
    pub enum RunStatus {
        InProgress,
        Blocked,
        Complete,
        CompleteWithGaps,
        /// A person decided that nobody will finish it; the next record of the run reopens it (G65).
        Closed,
    }
}

impl RunStatus {
    /// The status in the words of a sentence.
    pub fn in_words(self) -> &'static str {
        match self {
            Self::InProgress => "in progress",
            Self::Blocked => "blocked",
            Self::Complete => "complete",
            Self::CompleteWithGaps => "complete with gaps",
            Self::Closed => "closed",
        }
    }
}
