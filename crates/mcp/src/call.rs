//! One tool call: parsed, handed to the engine, shown in both channels.

use rmcp::model::{CallToolResult, ContentBlock};
use serde_json::{Map, Value};
use workrail_engine::Reply;
use workrail_engine::request::{ContinueWorkflow, StartWorkflow};
use workrail_model::error::{ErrorCode, ErrorEnvelope, Retry};

use crate::arguments::{self, ContinueArguments, StartArguments};
use crate::catalogue::ToolName;

/// What the server needs of the engine; implemented by the engine over any store.
pub trait Execution: Send + Sync + 'static {
    fn start_workflow(&self, request: StartWorkflow) -> Result<Reply, Box<ErrorEnvelope>>;
    fn continue_workflow(&self, request: ContinueWorkflow) -> Result<Reply, Box<ErrorEnvelope>>;
}

/// Answers a call; whatever goes wrong is an answer too (G70).
pub(crate) fn run(
    execution: &dyn Execution,
    tool: ToolName,
    arguments: Option<Map<String, Value>>,
) -> CallToolResult {
    match answer(execution, tool, arguments) {
        Ok(reply) => shown(reply.into_value(), false),
        Err(error) => failed(&error),
    }
}

fn answer(
    execution: &dyn Execution,
    tool: ToolName,
    arguments: Option<Map<String, Value>>,
) -> Result<Reply, Box<ErrorEnvelope>> {
    match tool {
        ToolName::StartWorkflow => {
            let StartArguments { workflow_id, goal, context } = arguments::parse(arguments)?;
            let context = context.unwrap_or_default();
            execution.start_workflow(StartWorkflow { workflow_id, goal, context })
        }
        ToolName::ContinueWorkflow => {
            let ContinueArguments { state_token, ack_token, context, output } = arguments::parse(arguments)?;
            let output = output.unwrap_or_default();
            execution.continue_workflow(ContinueWorkflow {
                state_token,
                ack_token,
                context: context.unwrap_or_default(),
                notes_markdown: output.notes_markdown,
                artifacts: output.artifacts,
            })
        }
    }
}

/// Text and data, each complete: some clients show only one of them.
fn shown(value: Value, is_error: bool) -> CallToolResult {
    let text = value.get("text").and_then(Value::as_str).unwrap_or_default().to_owned();
    let mut result = match is_error {
        true => CallToolResult::error(vec![ContentBlock::text(text)]),
        false => CallToolResult::success(vec![ContentBlock::text(text)]),
    };
    result.structured_content = Some(value);
    result
}

fn failed(error: &ErrorEnvelope) -> CallToolResult {
    let text = format!("{}: {}\n\n{}", error.code.as_str(), error.message, error.suggestion);
    // The envelope is strings, numbers and plain JSON: it always serialises.
    let mut value = serde_json::to_value(error).unwrap_or_default();
    if let Value::Object(members) = &mut value {
        members.insert("text".to_owned(), Value::from(text));
    }
    shown(value, true)
}

/// A panic inside a call.
pub(crate) fn crashed() -> CallToolResult {
    failed(&ErrorEnvelope {
        code: ErrorCode::InternalInvariant,
        message: "The call failed inside WorkRail; the server goes on and the store is intact.".to_owned(),
        retry: Retry::RetryableImmediate,
        suggestion: "Repeat the same call once with the same tokens.".to_owned(),
        details: None,
    })
}
