//! A step that reports a verification must not say `passed` with a report that says `failed` (G46).

use serde_json::Value;
use workrail_model::blocker::{Blocker, BlockerCode, BlockerPointer};
use workrail_model::compiled::CompiledStep;
use workrail_model::name::ContextKey;
use workrail_model::reason::{ContractViolation, Reason};
use workrail_model::text::BoundedText;

use super::super::Finding;
use super::Submitted;
use crate::builtins::VERIFICATION_KIND;
use crate::contract::artifact_kind;

const PASSED: &str = "passed";
const FAILED: &str = "failed";

/// Keys that the step sets to `passed` although its report says that a check failed.
pub(super) fn findings<'a>(
    step: &'a CompiledStep,
    submitted: Submitted<'a>,
) -> impl Iterator<Item = Finding> + 'a {
    let reports = submitted.artifacts.iter().filter(|artifact| artifact_kind(artifact) == VERIFICATION_KIND);
    let mut results = reports.filter_map(|report| report.get("result")).filter_map(Value::as_str);
    // One of several reports is enough: in a retry they have no order. A partial report does not contradict: where only
    // a design is wanted, no test runs.
    let contradicted = results.find(|result| *result == FAILED);
    contradicted.into_iter().flat_map(move |result| {
        let keys = step
            .sets
            .keys()
            .filter(move |key| submitted.context.get(key.as_str()).and_then(Value::as_str) == Some(PASSED));
        keys.map(move |key| finding(key, result))
    })
}

fn finding(key: &ContextKey, result: &str) -> Finding {
    let blocker = Blocker {
        code: BlockerCode::MissingContextKey,
        pointer: BlockerPointer::ContextKey { key: key.clone() },
        message: BoundedText::clip(&format!(
            "`context.{key}` is \"passed\", but the result of the verification report is {result:?}."
        )),
        suggested_fix: Some(BoundedText::clip(&format!(
            "Send the one that is wrong again: `context.{key}` with the value that fits the report, or the report with the \
             result that its checks show."
        ))),
        decision: None,
    };
    Finding { reason: Reason::ContractViolation(ContractViolation::MissingContextKey), blocker }
}
