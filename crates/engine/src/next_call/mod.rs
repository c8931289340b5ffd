//! The single policy for the next call after an error (G70).
//!
//! The error's code and details decide. A refused token leads back to its run (`run`). Refused arguments are offered
//! again without what was wrong (`acceptable`). An error sets its own next call only where that call needs something
//! that neither the error nor the failed call tells; a comment there says what.

mod acceptable;
mod run;

use serde_json::{Map, Value, json};
use workrail_core::label::RunLabel;
use workrail_model::error::{ErrorCode, ErrorDetails, ErrorEnvelope, Retry};
use workrail_model::placeholder;
use workrail_model::reply::NextCall;
use workrail_model::tool::ToolName;

use crate::find::spelled_label;

pub use acceptable::{acceptable, shortened};
pub(crate) use run::fits;

/// Longer than any label.
const LABEL_BYTES_MAX: usize = 64;

/// The next call after an error that has none of its own; `sent` are the arguments that caused it.
pub fn after(error: &ErrorEnvelope, tool: ToolName, sent: Map<String, Value>) -> Option<NextCall> {
    match error.code {
        ErrorCode::ValidationError => after_refused(error.details.as_ref(), tool, sent),
        // The user has to act before any call about this run can succeed.
        ErrorCode::SessionCorrupt
        | ErrorCode::SessionUnknownVersion
        | ErrorCode::StoreContentDamaged
        | ErrorCode::StoreKeyringUnusable
        | ErrorCode::StoreAccessTokensUnusable
        | ErrorCode::StoreSafeMode
        | ErrorCode::StoreAccessDenied => None,
        ErrorCode::StoreIo if error.retry == Retry::NotRetryable => None,
        // No tool reads a bundle: people import them.
        ErrorCode::BundleInvalidFormat
        | ErrorCode::BundleUnsupportedVersion
        | ErrorCode::BundleIntegrityFailed
        | ErrorCode::BundleMissingSnapshot
        | ErrorCode::BundleMissingPinnedWorkflow
        | ErrorCode::BundleEventOrderInvalid
        | ErrorCode::BundleManifestOrderInvalid => None,
        ErrorCode::WorkflowNotFound => Some(with_nearest_workflow(error, tool, sent)),
        ErrorCode::WorkflowInvalid => Some(NextCall::new(ToolName::ListWorkflows, [])),
        ErrorCode::TokenSessionLocked
        | ErrorCode::SessionLocked
        | ErrorCode::StoreBusy
        | ErrorCode::StoreIo
        | ErrorCode::InternalInvariant => Some(NextCall { tool, arguments: sent }),
        ErrorCode::TokenInvalidFormat
        | ErrorCode::TokenUnsupportedVersion
        | ErrorCode::TokenBadSignature
        | ErrorCode::TokenScopeMismatch
        | ErrorCode::TokenUnknownNode
        | ErrorCode::TokenWorkflowHashMismatch
        | ErrorCode::SessionNotFound => Some(NextCall::new(ToolName::ResumeSession, [])),
    }
}

/// The next call after arguments that were refused.
fn after_refused(
    details: Option<&ErrorDetails>,
    tool: ToolName,
    mut sent: Map<String, Value>,
) -> Option<NextCall> {
    match (details, tool) {
        (Some(ErrorDetails::KeyUsed { run, .. }), _) => {
            Some(NextCall::new(ToolName::ResumeSession, [("run", Value::from(run.as_str()))]))
        }
        // Only what these search for can be too long.
        (Some(ErrorDetails::Oversize(_)), ToolName::ListWorkflows) => {
            Some(NextCall::new(ToolName::ListWorkflows, []))
        }
        (Some(ErrorDetails::Oversize(_)), ToolName::ReadRun) => {
            sent.remove("query");
            Some(NextCall { tool, arguments: sent })
        }
        (Some(details), _) => Some(acceptable(tool, sent, Some(details))),
        (None, ToolName::CheckpointWorkflow) if is_nothing(sent.get("output")) && has_token(tool, &sent) => {
            Some(acceptable(tool, sent, None))
        }
        (None, _) => None,
    }
}

/// The call, or the closest one among the tools that a server offers.
pub fn offered(call: NextCall, offers: impl Fn(ToolName) -> bool) -> Option<NextCall> {
    if offers(call.tool) {
        return Some(call);
    }
    let named = call.arguments.get("run").or_else(|| call.arguments.get("query"));
    let label = named.and_then(Value::as_str).filter(|text| RunLabel::parse(&spelled_label(text)).is_ok());
    match (call.tool, label) {
        (ToolName::ResumeSession, Some(run)) => {
            Some(NextCall::new(ToolName::ReadRun, [("run", Value::from(run))]))
        }
        (ToolName::ResumeSession, None) => {
            Some(NextCall::new(ToolName::ReadRun, [("run", Value::from(placeholder::RUN_LABEL))]))
        }
        (
            ToolName::ListWorkflows
            | ToolName::InspectWorkflow
            | ToolName::StartWorkflow
            | ToolName::ContinueWorkflow
            | ToolName::CheckpointWorkflow
            | ToolName::ReadRun
            | ToolName::StartSession,
            _,
        ) => None,
    }
}

/// The same call with the id most similar to the one sent; if there is none, the list.
fn with_nearest_workflow(error: &ErrorEnvelope, tool: ToolName, mut sent: Map<String, Value>) -> NextCall {
    match &error.details {
        Some(ErrorDetails::UnknownWorkflow { nearest: Some(id), .. }) => {
            sent.insert("workflowId".to_owned(), Value::from(id.as_str()));
            NextCall { tool, arguments: acceptable::whole_or_shortened(sent) }
        }
        _ => NextCall::new(ToolName::ListWorkflows, []),
    }
}

/// The call with its arguments corrected to the tool's schema; if they are not enough for a call, the tool that
/// finds what is missing.
pub fn corrected(tool: ToolName, mut fitted: Map<String, Value>, has_required: bool) -> NextCall {
    if !has_required || !has_token(tool, &fitted) {
        return finding_what_is_missing(tool, &fitted);
    }
    if tool == ToolName::CheckpointWorkflow && is_nothing(fitted.get("output")) {
        fitted.insert("output".to_owned(), json!({ "notesMarkdown": placeholder::CHECKPOINT_NOTES }));
    }
    NextCall { tool, arguments: acceptable::whole_or_shortened(fitted) }
}

/// Whether a call that needs a token still has one.
fn has_token(tool: ToolName, fitted: &Map<String, Value>) -> bool {
    match tool {
        ToolName::ContinueWorkflow | ToolName::CheckpointWorkflow => {
            fitted.keys().any(|name| name.ends_with("Token"))
        }
        ToolName::ListWorkflows
        | ToolName::InspectWorkflow
        | ToolName::StartWorkflow
        | ToolName::ResumeSession
        | ToolName::ReadRun
        | ToolName::StartSession => true,
    }
}

fn finding_what_is_missing(tool: ToolName, fitted: &Map<String, Value>) -> NextCall {
    match tool {
        ToolName::ContinueWorkflow | ToolName::CheckpointWorkflow => {
            let run = fitted.get("run").and_then(Value::as_str).filter(|run| run.len() <= LABEL_BYTES_MAX);
            NextCall::new(ToolName::ResumeSession, run.map(|run| ("query", Value::from(run))))
        }
        ToolName::ListWorkflows
        | ToolName::InspectWorkflow
        | ToolName::StartWorkflow
        | ToolName::ResumeSession
        | ToolName::StartSession => NextCall::new(ToolName::ListWorkflows, []),
        ToolName::ReadRun => NextCall::new(ToolName::ResumeSession, []),
    }
}

/// Whether an output contains neither notes nor artifacts, which a checkpoint refuses.
fn is_nothing(output: Option<&Value>) -> bool {
    let member = |name: &str| output.and_then(|output| output.get(name));
    let blank = member("notesMarkdown").and_then(Value::as_str).is_none_or(|notes| notes.trim().is_empty());
    blank && member("artifacts").and_then(Value::as_array).is_none_or(Vec::is_empty)
}
