//! Context keys that a step declares to set: a missing or disallowed value is refused like a missing artifact (G46).

use serde_json::Value;
use workrail_model::blocker::{Blocker, BlockerCode, BlockerPointer};
use workrail_model::compiled::{CompiledStep, ContextDuty};
use workrail_model::name::ContextKey;
use workrail_model::reason::{ContractViolation, Reason};
use workrail_model::snapshot::PendingStep;
use workrail_model::text::{BoundedText, truncate_with_marker};

use super::super::Finding;
use super::Submitted;
use crate::routing;
use crate::secrets::is_secret;

/// A disallowed value may be long; its beginning is enough to recognise it.
const VALUE_SHOWN_BYTES: usize = 60;

pub(super) fn findings<'a>(
    pending: &'a PendingStep,
    step: &'a CompiledStep,
    submitted: Submitted<'a>,
) -> impl Iterator<Item = Finding> + 'a {
    step.sets.iter().filter_map(move |(key, duty)| {
        let given = submitted.given.get(key.as_str());
        let held = submitted.context.get(key.as_str());
        // In a loop, a value from an earlier pass does not count for this pass.
        let found = if pending.loop_path.is_empty() { held } else { given };
        match found.filter(|value| !value.is_null()) {
            Some(value) if routing::allows(&duty.accepts, value) => None,
            found => Some(finding(key, duty, found)),
        }
    })
}

fn finding(key: &ContextKey, duty: &ContextDuty, found: Option<&Value>) -> Finding {
    let allowed = routing::in_words(&duty.accepts);
    let message = match found {
        None => format!("This step sets `context.{key}` ({allowed}), which was not sent."),
        Some(_) if is_secret(key.as_str()) => {
            format!("`context.{key}` must be {allowed}, not what was sent.")
        }
        Some(value) => {
            let value = value.to_string();
            let shown = truncate_with_marker(&value, VALUE_SHOWN_BYTES);
            format!("`context.{key}` must be {allowed}, not {shown}.")
        }
    };
    let meaning = duty.description.as_deref().map(|text| format!(" It says: {text}")).unwrap_or_default();
    let fix = format!("Send the call below with `context.{key}` as {allowed}.{meaning}");
    let blocker = Blocker {
        code: BlockerCode::MissingContextKey,
        pointer: BlockerPointer::ContextKey { key: key.clone() },
        message: BoundedText::clip(&message),
        suggested_fix: Some(BoundedText::clip(&fix)),
        decision: None,
    };
    Finding { reason: Reason::ContractViolation(ContractViolation::MissingContextKey), blocker }
}
