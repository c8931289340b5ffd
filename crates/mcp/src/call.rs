//! One tool call: checked, parsed, handed to the engine, shown in both channels.

use rmcp::model::{CallToolResult, ContentBlock};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use workrail_engine::next_call;
use workrail_engine::request::Request;
use workrail_engine::{Answer, Reply};
use workrail_model::error::{ErrorCode, ErrorEnvelope, Retry};
use workrail_model::reply::{NextCall, Warning, WarningCode};
use workrail_model::tool::ToolName;

use crate::repair;

/// What the server needs of the engine; implemented by the engine over any store.
pub trait Execution: Send + Sync + 'static {
    /// Whether a tool is switched on.
    fn offers(&self, tool: ToolName) -> bool;
    fn answer(&self, request: Request) -> Answer;
}

/// Answers a call; whatever goes wrong is an answer too (G70). `folder` is the workspace of a call that names none.
pub(crate) fn run(
    execution: &dyn Execution,
    tool: ToolName,
    arguments: Option<Map<String, Value>>,
    folder: Option<String>,
) -> CallToolResult {
    let answered = repair::checked(tool, arguments.unwrap_or_default()).and_then(|fitted| {
        let mut arguments = fitted.arguments;
        if let Some(folder) = folder
            && !arguments.contains_key("workspacePath")
        {
            arguments.insert("workspacePath".to_owned(), Value::from(folder));
        }
        let mut reply = answer(execution, tool, arguments)?;
        if let Some(message) = fitted.note {
            reply.warn(&Warning { code: WarningCode::ArgumentsAdjusted, message });
        }
        Ok(reply)
    });
    match answered {
        Ok(reply) => shown(reply),
        Err(error) => failed(&error),
    }
}

fn answer(execution: &dyn Execution, tool: ToolName, arguments: Map<String, Value>) -> Answer {
    let again = arguments.clone();
    let answered = request(tool, arguments).and_then(|request| execution.answer(request));
    answered.map_err(|mut error| {
        if error.next_call.is_none() {
            error.next_call = next_call::after(&error, tool, again);
        }
        error
    })
}

fn request(tool: ToolName, arguments: Map<String, Value>) -> Result<Request, Box<ErrorEnvelope>> {
    Ok(match tool {
        ToolName::ListWorkflows => Request::ListWorkflows(parse(arguments)?),
        ToolName::InspectWorkflow => Request::InspectWorkflow(parse(arguments)?),
        ToolName::StartWorkflow => Request::StartWorkflow(parse(arguments)?),
        ToolName::ContinueWorkflow => Request::ContinueWorkflow(parse(arguments)?),
        ToolName::CheckpointWorkflow => Request::CheckpointWorkflow(parse(arguments)?),
        ToolName::ResumeSession => Request::ResumeSession(parse(arguments)?),
        ToolName::ReadRun => Request::ReadRun(parse(arguments)?),
        ToolName::StartSession => Request::StartSession(parse(arguments)?),
    })
}

/// Reads arguments that fit the schema; what is left to fail is named by its place.
fn parse<T: DeserializeOwned>(arguments: Map<String, Value>) -> Result<T, Box<ErrorEnvelope>> {
    serde_path_to_error::deserialize(Value::Object(arguments)).map_err(|error| {
        let path = error.path().to_string();
        let place = if path == "." { "the arguments".to_owned() } else { format!("`{path}`") };
        Box::new(ErrorEnvelope {
            code: ErrorCode::ValidationError,
            message: format!("In {place}: {}. Nothing was recorded.", error.into_inner()),
            retry: Retry::RetryableImmediate,
            suggestion: format!("Correct {place} as the tool's input schema says and call again."),
            suggestion_for_people: None,
            next_call: None,
            details: None,
        })
    })
}

/// Text and data, each complete: some clients show only one of them (G72).
fn shown(reply: Reply) -> CallToolResult {
    let content = reply.parts().iter().map(ContentBlock::text).collect();
    let mut result = CallToolResult::success(content);
    result.structured_content = Some(reply.into_structured());
    result
}

fn failed(error: &ErrorEnvelope) -> CallToolResult {
    let mut text = format!("{}: {}\n\n{}", error.code.as_str(), error.message, error.suggestion);
    if let Some(call) = &error.next_call {
        // The structured call is whole; the words name what is too long to be read.
        let shown = NextCall { tool: call.tool, arguments: next_call::shortened(call.arguments.clone()) };
        text.push_str(&format!("\n\nCall {} with:\n{}", shown.tool, shown.arguments_text()));
    }
    // The envelope is strings, numbers and plain JSON: it always serialises.
    let mut value = serde_json::to_value(error).unwrap_or_default();
    if let Value::Object(members) = &mut value {
        members.insert("text".to_owned(), Value::from(text.clone()));
    }
    let mut result = CallToolResult::error(vec![ContentBlock::text(text)]);
    result.structured_content = Some(value);
    result
}

/// A call whose JSON says two things at once, or something that cannot be kept; shown as it would pass.
pub(crate) fn refused(tool: ToolName, arguments: Map<String, Value>, reason: &str) -> CallToolResult {
    failed(&ErrorEnvelope {
        code: ErrorCode::ValidationError,
        message: format!("The arguments of {} are not accepted: {reason}. Nothing was recorded.", tool),
        retry: Retry::RetryableImmediate,
        suggestion: "Send each key once, integers beyond 2^53-1 as strings, and flatter values; as below."
            .to_owned(),
        suggestion_for_people: None,
        next_call: Some(next_call::acceptable(tool, arguments, None)),
        details: None,
    })
}

/// A panic inside a call.
pub(crate) fn crashed() -> CallToolResult {
    failed(&ErrorEnvelope {
        code: ErrorCode::InternalInvariant,
        message: "The call failed inside WorkRail. The server keeps running and the store is intact."
            .to_owned(),
        retry: Retry::RetryableImmediate,
        suggestion: "Repeat a call that has a token once, with the same tokens. After a start, call resume_session first: the run may \
                     exist."
            .to_owned(),
        suggestion_for_people: None,
        next_call: None,
        details: None,
    })
}
