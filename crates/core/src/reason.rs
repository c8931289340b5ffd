//! The one table from a reason to its effect: blocked, disclosed as a gap, or stopped (G61).
//!
//! Autonomy changes control flow, never meaning: what blocks a guided run is a critical gap in a run
//! that never stops. The risk policy is not an input of the table at all; it only moves the threshold at
//! which an advisory is also shown as a warning.

use workrail_model::blocker::BlockerCode;
use workrail_model::compiled::RecommendedPreferences;
use workrail_model::gap::Severity;
use workrail_model::preferences::{Autonomy, Preferences, RiskPolicy};
use workrail_model::reason::{Advisory, CapabilityMissing, ContractViolation, Reason, Unexpected};

/// The effect of a reason in a mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Disposition {
    /// The advance is refused and recorded as blocked.
    Block { code: BlockerCode },
    /// The fact is disclosed durably and the advance continues.
    Gap { severity: Severity },
    /// Both: nothing may continue from here in any mode, and the fact is disclosed if possible.
    FailFast { code: BlockerCode, severity: Severity },
}

/// A disposition from the point of view of the advance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AdvanceEffect {
    Block,
    RecordGap(Severity),
    FailFast,
}

impl Disposition {
    fn advance_effect(self) -> AdvanceEffect {
        match self {
            Self::Block { .. } => AdvanceEffect::Block,
            Self::Gap { severity } => AdvanceEffect::RecordGap(severity),
            Self::FailFast { .. } => AdvanceEffect::FailFast,
        }
    }

    /// The severity of the gap to record, if one is.
    pub(crate) fn gap(self) -> Option<Severity> {
        match self {
            Self::Gap { severity } | Self::FailFast { severity, .. } => Some(severity),
            Self::Block { .. } => None,
        }
    }
}

/// The table.
pub(crate) fn disposition(reason: Reason, autonomy: Autonomy) -> Disposition {
    let code = match code_or_advisory(reason) {
        Ok(code) => code,
        Err(advisory) => return Disposition::Gap { severity: advisory_severity(advisory) },
    };
    if endangers_correctness(reason) {
        return Disposition::FailFast { code, severity: Severity::Critical };
    }
    match autonomy {
        Autonomy::Guided | Autonomy::FullAutoStopOnUserDeps => Disposition::Block { code },
        Autonomy::FullAutoNeverStop => Disposition::Gap { severity: Severity::Critical },
    }
}

/// Who can later declare a gap closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GapCloser {
    /// The agent, with a record that links to the gap (G41).
    Agent,
    /// What was missing was the user's to give: the agent cannot replace it (G63).
    NotTheAgent,
}

pub(crate) fn gap_closer(reason: Reason) -> GapCloser {
    match reason {
        Reason::UserOnlyDependency(_) => GapCloser::NotTheAgent,
        Reason::ContractViolation(_)
        | Reason::CapabilityMissing(_)
        | Reason::Unexpected(_)
        | Reason::Advisory(_) => GapCloser::Agent,
    }
}

/// How often never-stop asks the agent again for what it can supply itself before recording the gap.
pub(crate) const TRIES_BEFORE_GAP: usize = 2;

/// The effect of this reason on an advance after this many consecutive refusals of the same step. Never-stop waits
/// for no person, but gives the agent a few tries to correct its own mistakes (G61).
pub(crate) fn on_advance(reason: Reason, autonomy: Autonomy, refused: usize) -> AdvanceEffect {
    match disposition(reason, autonomy).advance_effect() {
        AdvanceEffect::RecordGap(Severity::Critical) if refused < tries(reason) => AdvanceEffect::Block,
        effect @ (AdvanceEffect::Block | AdvanceEffect::RecordGap(_) | AdvanceEffect::FailFast) => effect,
    }
}

/// How often the agent is asked for what it can supply itself.
fn tries(reason: Reason) -> usize {
    match reason {
        // A judgement that stays the same after a second look is not a mistake: asking again would ask for a kinder
        // one.
        Reason::ContractViolation(ContractViolation::AssessmentFollowupRequired) => 1,
        Reason::ContractViolation(
            ContractViolation::MissingRequiredOutput
            | ContractViolation::InvalidRequiredOutput
            | ContractViolation::MissingRequiredNotes
            | ContractViolation::MissingContextKey
            | ContractViolation::EditsNotAllowed
            | ContractViolation::ScopeExceeded
            | ContractViolation::CheckFailed
            | ContractViolation::EvidenceMissing,
        )
        | Reason::Unexpected(Unexpected::LoopLimitReached) => TRIES_BEFORE_GAP,
        Reason::UserOnlyDependency(_)
        | Reason::CapabilityMissing(_)
        | Reason::Unexpected(Unexpected::InvariantViolation | Unexpected::StorageCorruptionDetected)
        | Reason::Advisory(_) => 0,
    }
}

/// The code of a blocker with this reason; an advisory never blocks and has none.
fn code_or_advisory(reason: Reason) -> Result<BlockerCode, Advisory> {
    Ok(match reason {
        Reason::UserOnlyDependency(_) => BlockerCode::UserOnlyDependency,
        Reason::ContractViolation(violation) => violation_code(violation),
        Reason::CapabilityMissing(missing) => match missing {
            CapabilityMissing::RequiredCapabilityUnavailable => BlockerCode::RequiredCapabilityUnavailable,
            CapabilityMissing::RequiredCapabilityUnknown => BlockerCode::RequiredCapabilityUnknown,
        },
        Reason::Unexpected(unexpected) => match unexpected {
            Unexpected::InvariantViolation => BlockerCode::InvariantViolation,
            Unexpected::StorageCorruptionDetected => BlockerCode::StorageCorruptionDetected,
            Unexpected::LoopLimitReached => BlockerCode::LoopLimitReached,
        },
        Reason::Advisory(advisory) => return Err(advisory),
    })
}

pub(crate) fn violation_code(violation: ContractViolation) -> BlockerCode {
    match violation {
        ContractViolation::MissingRequiredOutput => BlockerCode::MissingRequiredOutput,
        ContractViolation::InvalidRequiredOutput => BlockerCode::InvalidRequiredOutput,
        ContractViolation::MissingRequiredNotes => BlockerCode::MissingRequiredNotes,
        ContractViolation::MissingContextKey => BlockerCode::MissingContextKey,
        ContractViolation::AssessmentFollowupRequired => BlockerCode::AssessmentFollowupRequired,
        ContractViolation::EditsNotAllowed => BlockerCode::EditsNotAllowed,
        ContractViolation::ScopeExceeded => BlockerCode::ScopeExceeded,
        ContractViolation::CheckFailed => BlockerCode::CheckFailed,
        ContractViolation::EvidenceMissing => BlockerCode::EvidenceMissing,
    }
}

/// A broken invariant or a damaged log: whatever came next would not be true. A loop at its limit is
/// neither: the log is intact, and the workflow's author asked for the stop (`onLimit: "block"`).
fn endangers_correctness(reason: Reason) -> bool {
    match reason {
        Reason::Unexpected(Unexpected::InvariantViolation | Unexpected::StorageCorruptionDetected) => true,
        Reason::Unexpected(Unexpected::LoopLimitReached)
        | Reason::UserOnlyDependency(_)
        | Reason::ContractViolation(_)
        | Reason::CapabilityMissing(_)
        | Reason::Advisory(_) => false,
    }
}

/// The severity of an advisory's gap; never critical, so that it never blocks a run or counts against it.
pub(crate) fn advisory_severity(advisory: Advisory) -> Severity {
    match advisory {
        Advisory::PreferencesAboveRecommendation
        | Advisory::LoopLimitReached
        | Advisory::CapabilityDegraded
        | Advisory::ContextKeyNeverSet
        | Advisory::ClaimContradicted => Severity::Warning,
        Advisory::ReferenceUnresolved => Severity::Info,
    }
}

/// Whether an advisory is also shown as a warning in the reply. Its gap is recorded either way: a risk
/// policy never suppresses a disclosure.
pub(crate) fn warns(policy: RiskPolicy, advisory: Advisory) -> bool {
    let boldest_still_warned = match advisory {
        Advisory::PreferencesAboveRecommendation
        | Advisory::LoopLimitReached
        | Advisory::ContextKeyNeverSet
        | Advisory::ClaimContradicted => RiskPolicy::Aggressive,
        Advisory::CapabilityDegraded => RiskPolicy::Balanced,
        Advisory::ReferenceUnresolved => RiskPolicy::Conservative,
    };
    policy <= boldest_still_warned
}

/// The workflow's recommendations that a run exceeds, in automation or boldness. Disclosed, never refused.
pub(crate) fn exceeded(
    effective: Preferences,
    recommended: RecommendedPreferences,
) -> RecommendedPreferences {
    RecommendedPreferences {
        autonomy: recommended.autonomy.filter(|most| effective.autonomy > *most),
        risk_policy: recommended.risk_policy.filter(|most| effective.risk_policy > *most),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use workrail_model::blocker::BlockerCode as Code;
    use workrail_model::reason::UserOnlyDependencyReason;

    use super::*;

    const AUTONOMIES: [Autonomy; 3] =
        [Autonomy::Guided, Autonomy::FullAutoStopOnUserDeps, Autonomy::FullAutoNeverStop];

    const RISK_POLICIES: [RiskPolicy; 3] =
        [RiskPolicy::Conservative, RiskPolicy::Balanced, RiskPolicy::Aggressive];

    /// All reasons.
    const REASONS: [Reason; 26] = [
        Reason::UserOnlyDependency(UserOnlyDependencyReason::NeedsUserSecretOrToken),
        Reason::UserOnlyDependency(UserOnlyDependencyReason::NeedsUserAccountAccess),
        Reason::UserOnlyDependency(UserOnlyDependencyReason::NeedsUserArtifact),
        Reason::UserOnlyDependency(UserOnlyDependencyReason::NeedsUserChoice),
        Reason::UserOnlyDependency(UserOnlyDependencyReason::NeedsUserApproval),
        Reason::UserOnlyDependency(UserOnlyDependencyReason::NeedsUserEnvironmentAction),
        Reason::ContractViolation(ContractViolation::MissingRequiredOutput),
        Reason::ContractViolation(ContractViolation::InvalidRequiredOutput),
        Reason::ContractViolation(ContractViolation::MissingRequiredNotes),
        Reason::ContractViolation(ContractViolation::MissingContextKey),
        Reason::ContractViolation(ContractViolation::EvidenceMissing),
        Reason::ContractViolation(ContractViolation::AssessmentFollowupRequired),
        Reason::CapabilityMissing(CapabilityMissing::RequiredCapabilityUnavailable),
        Reason::CapabilityMissing(CapabilityMissing::RequiredCapabilityUnknown),
        Reason::Unexpected(Unexpected::InvariantViolation),
        Reason::Unexpected(Unexpected::StorageCorruptionDetected),
        Reason::Unexpected(Unexpected::LoopLimitReached),
        Reason::Advisory(Advisory::PreferencesAboveRecommendation),
        Reason::Advisory(Advisory::LoopLimitReached),
        Reason::Advisory(Advisory::CapabilityDegraded),
        Reason::Advisory(Advisory::ReferenceUnresolved),
        Reason::Advisory(Advisory::ContextKeyNeverSet),
        Reason::ContractViolation(ContractViolation::EditsNotAllowed),
        Reason::ContractViolation(ContractViolation::ScopeExceeded),
        Reason::Advisory(Advisory::ClaimContradicted),
        Reason::ContractViolation(ContractViolation::CheckFailed),
    ];

    fn blocker_code(reason: Reason) -> Option<Code> {
        code_or_advisory(reason).ok()
    }

    const CRITICAL: Disposition = Disposition::Gap { severity: Severity::Critical };

    fn blocks(code: Code) -> [Disposition; 3] {
        [Disposition::Block { code }, Disposition::Block { code }, CRITICAL]
    }

    fn stops(code: Code) -> [Disposition; 3] {
        [Disposition::FailFast { code, severity: Severity::Critical }; 3]
    }

    fn discloses(severity: Severity) -> [Disposition; 3] {
        [Disposition::Gap { severity }; 3]
    }

    /// The specification, one row per reason, in the order of `AUTONOMIES`. A match, so that a new
    /// reason does not compile without a row.
    fn row(reason: Reason) -> (usize, [Disposition; 3]) {
        use UserOnlyDependencyReason as User;
        match reason {
            Reason::UserOnlyDependency(User::NeedsUserSecretOrToken) => (0, blocks(Code::UserOnlyDependency)),
            Reason::UserOnlyDependency(User::NeedsUserAccountAccess) => (1, blocks(Code::UserOnlyDependency)),
            Reason::UserOnlyDependency(User::NeedsUserArtifact) => (2, blocks(Code::UserOnlyDependency)),
            Reason::UserOnlyDependency(User::NeedsUserChoice) => (3, blocks(Code::UserOnlyDependency)),
            Reason::UserOnlyDependency(User::NeedsUserApproval) => (4, blocks(Code::UserOnlyDependency)),
            Reason::UserOnlyDependency(User::NeedsUserEnvironmentAction) => {
                (5, blocks(Code::UserOnlyDependency))
            }
            Reason::ContractViolation(ContractViolation::MissingRequiredOutput) => {
                (6, blocks(Code::MissingRequiredOutput))
            }
            Reason::ContractViolation(ContractViolation::InvalidRequiredOutput) => {
                (7, blocks(Code::InvalidRequiredOutput))
            }
            Reason::ContractViolation(ContractViolation::MissingRequiredNotes) => {
                (8, blocks(Code::MissingRequiredNotes))
            }
            Reason::ContractViolation(ContractViolation::MissingContextKey) => {
                (9, blocks(Code::MissingContextKey))
            }
            Reason::ContractViolation(ContractViolation::AssessmentFollowupRequired) => {
                (11, blocks(Code::AssessmentFollowupRequired))
            }
            Reason::CapabilityMissing(CapabilityMissing::RequiredCapabilityUnavailable) => {
                (12, blocks(Code::RequiredCapabilityUnavailable))
            }
            Reason::CapabilityMissing(CapabilityMissing::RequiredCapabilityUnknown) => {
                (13, blocks(Code::RequiredCapabilityUnknown))
            }
            Reason::Unexpected(Unexpected::InvariantViolation) => (14, stops(Code::InvariantViolation)),
            Reason::Unexpected(Unexpected::StorageCorruptionDetected) => {
                (15, stops(Code::StorageCorruptionDetected))
            }
            Reason::Unexpected(Unexpected::LoopLimitReached) => (16, blocks(Code::LoopLimitReached)),
            Reason::Advisory(Advisory::PreferencesAboveRecommendation) => (17, discloses(Severity::Warning)),
            Reason::Advisory(Advisory::LoopLimitReached) => (18, discloses(Severity::Warning)),
            Reason::Advisory(Advisory::CapabilityDegraded) => (19, discloses(Severity::Warning)),
            Reason::Advisory(Advisory::ReferenceUnresolved) => (20, discloses(Severity::Info)),
            Reason::Advisory(Advisory::ContextKeyNeverSet) => (21, discloses(Severity::Warning)),
            Reason::ContractViolation(ContractViolation::EditsNotAllowed) => {
                (22, blocks(Code::EditsNotAllowed))
            }
            Reason::ContractViolation(ContractViolation::ScopeExceeded) => (23, blocks(Code::ScopeExceeded)),
            Reason::Advisory(Advisory::ClaimContradicted) => (24, discloses(Severity::Warning)),
            Reason::ContractViolation(ContractViolation::CheckFailed) => (25, blocks(Code::CheckFailed)),
            Reason::ContractViolation(ContractViolation::EvidenceMissing) => {
                (10, blocks(Code::EvidenceMissing))
            }
        }
    }

    /// G61: one table gives each reason its effect in every mode.
    #[test]
    fn the_table_is_as_specified() {
        for (position, reason) in REASONS.into_iter().enumerate() {
            let (row_position, expected) = row(reason);
            assert_eq!(position, row_position, "{reason:?}");
            assert_eq!(AUTONOMIES.map(|autonomy| disposition(reason, autonomy)), expected, "{reason:?}");
            assert_eq!(
                AUTONOMIES.map(|autonomy| on_advance(reason, autonomy, TRIES_BEFORE_GAP)),
                expected.map(Disposition::advance_effect)
            );
        }
    }

    #[test]
    fn the_lists_contain_every_value_in_order() {
        assert!(AUTONOMIES.is_sorted_by(|a, b| a < b));
        for autonomy in AUTONOMIES {
            match autonomy {
                Autonomy::Guided | Autonomy::FullAutoStopOnUserDeps | Autonomy::FullAutoNeverStop => {}
            }
        }
        assert!(RISK_POLICIES.is_sorted_by(|a, b| a < b));
        for policy in RISK_POLICIES {
            match policy {
                RiskPolicy::Conservative | RiskPolicy::Balanced | RiskPolicy::Aggressive => {}
            }
        }
    }

    /// G61: a run that never stops asks for what the agent can supply, and then records the gap.
    #[test]
    fn never_stop_asks_the_agent_twice_for_what_is_missing_and_once_for_a_second_look() {
        for reason in REASONS {
            let at = |refused| on_advance(reason, Autonomy::FullAutoNeverStop, refused);
            assert_ne!(at(TRIES_BEFORE_GAP), AdvanceEffect::Block, "{reason:?}");
            let asks = at(0) == AdvanceEffect::Block;
            let is_judgement =
                reason == Reason::ContractViolation(ContractViolation::AssessmentFollowupRequired);
            assert_eq!(asks && !is_judgement, at(1) == AdvanceEffect::Block, "{reason:?}");
            let agents = matches!(
                reason,
                Reason::ContractViolation(_) | Reason::Unexpected(Unexpected::LoopLimitReached)
            );
            assert_eq!(asks, agents, "{reason:?}");
        }
    }

    #[test]
    fn every_blocker_code_has_a_reason_and_advisories_have_no_code() {
        let codes: BTreeSet<Code> = REASONS.into_iter().filter_map(blocker_code).collect();
        assert_eq!(codes, BTreeSet::from(Code::ALL));
        for reason in REASONS {
            assert_eq!(blocker_code(reason).is_none(), matches!(reason, Reason::Advisory(_)), "{reason:?}");
        }
    }

    /// G60: which warnings are shown never changes what is required.
    #[test]
    fn no_risk_policy_changes_what_blocks_or_is_disclosed() {
        for reason in REASONS {
            for autonomy in AUTONOMIES {
                let decide = |risk_policy| {
                    let preferences = Preferences { autonomy, risk_policy };
                    disposition(reason, preferences.autonomy)
                };
                let decided: Vec<Disposition> = RISK_POLICIES.into_iter().map(decide).collect();
                assert!(decided.iter().all(|disposition| *disposition == decided[0]), "{reason:?}");
            }
        }
    }

    #[test]
    fn a_bolder_policy_only_ever_warns_less_and_never_about_nothing() {
        for reason in REASONS {
            let Reason::Advisory(advisory) = reason else { continue };
            let warned = RISK_POLICIES.map(|policy| warns(policy, advisory));
            assert!(warned[0], "{advisory:?}");
            assert!(warned.is_sorted_by(|bold, bolder| bold >= bolder), "{advisory:?}");
            // Shown or not, it is recorded.
            for autonomy in AUTONOMIES {
                assert!(disposition(reason, autonomy).gap().is_some_and(|gap| gap < Severity::Critical));
            }
        }
    }

    #[test]
    fn only_more_than_recommended_exceeds() {
        for autonomy in AUTONOMIES {
            for risk_policy in RISK_POLICIES {
                let effective = Preferences { autonomy, risk_policy };
                let nothing = RecommendedPreferences::default();
                assert_eq!(exceeded(effective, nothing), nothing);
                for (most, boldest) in AUTONOMIES.into_iter().zip(RISK_POLICIES) {
                    let recommended =
                        RecommendedPreferences { autonomy: Some(most), risk_policy: Some(boldest) };
                    let exceeded = exceeded(effective, recommended);
                    assert_eq!(exceeded.autonomy, (autonomy > most).then_some(most));
                    assert_eq!(exceeded.risk_policy, (risk_policy > boldest).then_some(boldest));
                }
            }
        }
    }
}
