//! Compiles a step's checks and its evidence requirement.

use std::collections::BTreeSet;

use workrail_model::compiled::{CheckExpectation, CheckRequest, EvidenceRule, RequiredGrade};

use super::super::diagnostic::Code;
use super::super::report::DraftDiagnostic;
use super::super::source::StandardStep;
use super::Builder;

impl Builder<'_> {
    pub(super) fn checks(&mut self, step: &StandardStep) -> Vec<CheckRequest> {
        let at = step.at.key("checks");
        let mut named = BTreeSet::new();
        let mut checks = Vec::new();
        for (index, source) in step.checks.iter().enumerate() {
            if !named.insert(&source.command) {
                self.report.push(
                    DraftDiagnostic::on(Code::DuplicateId, &at.index(index).key("command"))
                        .message(format!("the check `{}` is named twice in this step", source.command))
                        .why("it would run twice for one result")
                        .fix("remove one of them"),
                );
            }
            let exit_code = source.expect.as_ref().map_or(0, |expect| expect.exit_code);
            checks.push(CheckRequest {
                command: source.command.clone(),
                timeout_ms: source.timeout_ms.map(u64::from),
                // A number out of range has already been reported.
                expect: CheckExpectation { exit_code: u8::try_from(exit_code).unwrap_or(u8::MAX) },
            });
        }
        checks
    }

    /// A look at the repository is free, so that it would prove every claim: a rule needs checks of the step.
    pub(super) fn check_rule_evidence(&mut self, evidence: Option<EvidenceRule>, step: &StandardStep) {
        if evidence.is_some_and(|rule| rule.min == RequiredGrade::Checked) && step.checks.is_empty() {
            self.report.push(
                DraftDiagnostic::on(Code::MissingField, &step.at)
                    .message("a validation rule needs `checked` evidence, and the step has no `checks`")
                    .why("nothing that WorkRail runs could show whether the claim is true")
                    .fix("add \"checks\": [{ \"command\": \"test\" }], or ask for `observed`"),
            );
        }
    }
}

/// How well the result must be known.
pub(super) fn evidence(step: &StandardStep) -> Option<EvidenceRule> {
    step.evidence.as_ref().map(|source| EvidenceRule { min: source.min })
}
