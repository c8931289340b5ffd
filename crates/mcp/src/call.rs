//! One tool call: checked, parsed, handed to the engine; answered as text for the model and data for programs.

use std::sync::Arc;

use rmcp::model::{CallToolResult, ContentBlock, MetaObject};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use workrail_engine::checks::CallProgress;
use workrail_engine::next_call;
use workrail_engine::request::Request;
use workrail_engine::{AttemptAwaitingUser, Reply, ReplyResult, UserReply, WaitingStep};
use workrail_model::error::{ErrorCode, ErrorEnvelope, Retry};
use workrail_model::reply::{META_KEY, NextCall, Warning, WarningCode};
use workrail_model::team::Caller;
use workrail_model::text::{clean, is_harmful};
use workrail_model::tool::ToolName;

use crate::arguments;
use crate::elicit::ChatQuestions;

/// What the server needs from the engine; implemented by the engine over any store.
pub trait Execution: Send + Sync + 'static {
    /// Whether a tool is enabled.
    fn offers(&self, tool: ToolName) -> bool;
    /// Whether this caller sees it: tools that a role cannot use are hidden, and a call of one returns the reason.
    fn lists(&self, tool: ToolName) -> bool;
    fn answer(&self, request: Request) -> ReplyResult;
    /// Whether a call appended something that is not in the index of sessions yet.
    fn has_unindexed(&self) -> bool;
    /// Adds it to the index. No reply waits for this.
    fn index_appended(&self);
    /// The execution on behalf of a team member, and through a program of this name; `None` if neither makes a
    /// difference.
    fn acting_for(&self, caller: Option<&Caller>, program: Option<&str>) -> Option<Arc<dyn Execution>>;
    /// The execution that reports in words how far long work is.
    fn reporting_to(&self, progress: CallProgress) -> Arc<dyn Execution>;
    /// The server is ending: stops work whose result would reach no client.
    fn stop_work(&self);
    /// Whether the server's machine has such a folder.
    fn is_folder(&self, path: &str) -> bool;
    /// The folder for a call that names none; `None` if the user configured one.
    fn assumed_folder(&self) -> Option<String>;
    /// Whether results have structured content, by the settings.
    fn structured_content(&self) -> StructuredContent;
    /// Whether the data of a reply also contains its texts.
    fn text_in_data(&self) -> TextInData;
    /// Whether the user is asked through the client, by the current settings.
    fn chat(&self) -> ChatQuestions;
    /// What to ask the user about a blocked attempt.
    fn waiting_for_user(&self, asked: &AttemptAwaitingUser) -> Option<WaitingStep>;
    /// Records an answer from the chat to what was shown there.
    fn record_from_chat(
        &self,
        asked: &AttemptAwaitingUser,
        seen: &WaitingStep,
        reply: &UserReply,
    ) -> Result<(), Box<ErrorEnvelope>>;
}

/// The result of a call, and its reply if it is blocked on the user.
#[derive(Debug)]
pub(crate) struct CallResult {
    pub(crate) result: CallToolResult,
    pub(crate) waits: Option<Box<Reply>>,
}

impl From<CallToolResult> for CallResult {
    fn from(result: CallToolResult) -> Self {
        Self { result, waits: None }
    }
}

/// Whether results have `structuredContent`, and tools an output schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StructuredContent {
    /// Some hosts show structured content to the model instead of the text, so it is omitted.
    Omitted,
    Served,
}

/// Whether the data of a reply repeats the text that the model reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextInData {
    /// The data is complete on its own.
    Repeated,
    /// For programs that show the model the whole result: it reads every text once.
    Omitted,
}

/// What is known about a call's folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Folder {
    /// The call names it, needs none, or the client starts the server where it works.
    Settled,
    /// The client's first root.
    Root(String),
    /// The call names none, and a client without roots cannot be asked.
    Unknown,
}

/// Answers a call; any failure is an answer, too (G70).
pub(crate) fn run(
    execution: &dyn Execution,
    tool: ToolName,
    arguments: Option<Map<String, Value>>,
    folder: Folder,
) -> CallResult {
    let answered = arguments::checked(tool, arguments.unwrap_or_default()).and_then(|fitted| {
        let mut arguments = fitted.arguments;
        let mut assumed = None;
        if !arguments.contains_key("workspacePath") {
            match folder {
                Folder::Root(folder) => {
                    arguments.insert("workspacePath".to_owned(), Value::from(folder));
                }
                Folder::Unknown => assumed = execution.assumed_folder(),
                Folder::Settled => {}
            }
        }
        let mut reply = answer(execution, tool, arguments)?;
        if let Some(assumed) = assumed {
            let message = format!(
                "`workspacePath` is missing and this client cannot be asked for its folder, so the server's own folder \
                 {assumed} was used. Send `workspacePath`, the absolute path of your project."
            );
            reply.remark(&Warning { code: WarningCode::WorkspaceAssumed, message });
        }
        if let Some(message) = fitted.note {
            reply.remark(&Warning { code: WarningCode::ArgumentsAdjusted, message });
        }
        Ok(reply)
    });
    match answered {
        Ok(reply) => {
            let waits = reply.asks_user().is_some().then(|| Box::new(reply.clone()));
            CallResult { result: shown(reply), waits }
        }
        Err(error) => failed(&with_offered_call(execution, error)).into(),
    }
}

/// Replaces the error's next call by the closest one that this server offers, or removes it (G70).
fn with_offered_call(execution: &dyn Execution, mut error: Box<ErrorEnvelope>) -> Box<ErrorEnvelope> {
    error.next_call =
        error.next_call.take().and_then(|call| next_call::offered(call, |tool| execution.lists(tool)));
    error
}

fn answer(execution: &dyn Execution, tool: ToolName, arguments: Map<String, Value>) -> ReplyResult {
    let again = arguments.clone();
    let answered = request(tool, arguments).and_then(|request| execution.answer(request));
    answered.map_err(|error| with_call_after(error, tool, again))
}

/// Adds to an error without a next call the one that follows from it; `sent` are the arguments that caused it.
fn with_call_after(
    mut error: Box<ErrorEnvelope>,
    tool: ToolName,
    sent: Map<String, Value>,
) -> Box<ErrorEnvelope> {
    if error.next_call.is_none() {
        error.next_call = next_call::after(&error, tool, sent);
    }
    error
}

/// Answers a request that is no tool call. Its error has the next call of a call of this tool (G70).
pub(crate) fn answered_like(
    execution: &dyn Execution,
    tool: ToolName,
    sent: Map<String, Value>,
    request: Request,
) -> ReplyResult {
    let answered = execution.answer(request);
    answered.map_err(|error| with_offered_call(execution, with_call_after(error, tool, sent)))
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

/// Reads arguments that match the schema; a remaining error names its location.
fn parse<T: DeserializeOwned>(arguments: Map<String, Value>) -> Result<T, Box<ErrorEnvelope>> {
    serde_path_to_error::deserialize(Value::Object(arguments)).map_err(|error| {
        let path = error.path().to_string();
        let location = if path == "." { "the arguments".to_owned() } else { format!("`{path}`") };
        Box::new(ErrorEnvelope {
            code: ErrorCode::ValidationError,
            message: format!("In {location}: {}. Nothing was recorded.", error.into_inner()),
            retry: Retry::RetryableImmediate,
            suggestion: format!("Correct {location} as the tool's input schema says and call again."),
            suggestion_for_people: None,
            in_team: None,
            next_call: None,
            details: None,
        })
    })
}

/// The text for the model, once, and the whole reply as data unless a host would show it to the model (G72).
pub(crate) fn shown(reply: Reply) -> CallToolResult {
    // Goals, labels and notes are untrusted: they must not control the terminal or model that shows them (G76).
    let reply = reply.rewritten(|part| *part = clean(part));
    let content = reply.parts().iter().cloned().map(ContentBlock::text).collect();
    with_data(CallToolResult::success(content), reply.into_structured())
}

fn with_data(mut result: CallToolResult, data: Value) -> CallToolResult {
    result.meta.get_or_insert_with(MetaObject::new).0.insert(META_KEY.to_owned(), data);
    result
}

/// Adds the data as structured content. The prompt is omitted, because `text` has it.
pub(crate) fn add_structured_content(result: &mut CallToolResult) {
    let data = result.meta.as_ref().and_then(|meta| meta.0.get(META_KEY));
    let Some(mut data) = data.cloned() else { return };
    if let Some(pending) = data.get_mut("pending").and_then(Value::as_object_mut) {
        pending.remove("prompt");
    }
    result.structured_content = Some(data);
}

/// Removes from the data what `content` says in words.
pub(crate) fn omit_text_in_data(result: &mut CallToolResult) {
    let data = result.meta.as_mut().and_then(|meta| meta.0.get_mut(META_KEY));
    let Some(data) = data.and_then(Value::as_object_mut) else { return };
    for name in ["text", "message", "suggestion"] {
        data.remove(name);
    }
    if let Some(pending) = data.get_mut("pending").and_then(Value::as_object_mut) {
        pending.remove("prompt");
    }
}

fn failed(error: &ErrorEnvelope) -> CallToolResult {
    let mut text = clean(&format!("{}: {}\n\n{}", error.code.as_str(), error.message, error.suggestion));
    if let Some(call) = &error.next_call {
        // The call in the data is complete; the words shorten what is too long to read.
        let shown = NextCall { tool: call.tool, arguments: next_call::shortened(call.arguments.clone()) };
        text.push_str(&format!("\n\nCall {} with:\n{}", shown.tool, escaped(&shown.arguments_text())));
    }
    // The envelope is strings, numbers and plain JSON: it always serialises.
    let mut value = serde_json::to_value(error).unwrap_or_default();
    if let Value::Object(members) = &mut value {
        members.insert("text".to_owned(), Value::from(text.clone()));
    }
    with_data(CallToolResult::error(vec![ContentBlock::text(text)]), value)
}

/// A name that a message quotes because it is unknown: harmless, and no longer than a name may sensibly be.
pub(crate) fn quoted_name(name: &str) -> String {
    const CHARS_MAX: usize = 80;
    // What is not shown needs no cleaning; a message may be 4 MB long.
    let start: String = name.chars().filter(|c| !c.is_control()).take(CHARS_MAX).collect();
    clean(&start).chars().take(CHARS_MAX).collect()
}

/// JSON that is safe to show: harmful characters become escapes, so that the call stays the same.
pub(crate) fn escaped(json: &str) -> String {
    let mut shown = String::with_capacity(json.len());
    for c in json.chars() {
        // All harmful characters are below U+10000, so each is one escape.
        match is_harmful(c) {
            true => shown.push_str(&format!("\\u{:04x}", u32::from(c))),
            false => shown.push(c),
        }
    }
    shown
}

/// Refuses a call whose JSON is ambiguous or cannot be kept; shown in a form that would pass.
pub(crate) fn refused(tool: ToolName, arguments: Map<String, Value>, reason: &str) -> CallToolResult {
    failed(&ErrorEnvelope {
        code: ErrorCode::ValidationError,
        message: format!("The arguments of {} are not accepted: {reason}. Nothing was recorded.", tool),
        retry: Retry::RetryableImmediate,
        suggestion:
            "Send each key once, integers beyond 2^53-1 as strings, and less deeply nested values, as in the \
             call below."
                .to_owned(),
        suggestion_for_people: None,
        in_team: None,
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
        suggestion: "If the call had a token, repeat it once, unchanged. If it was a start, look for the run first: it may \
                     exist."
            .to_owned(),
        suggestion_for_people: None,
        in_team: None,
        next_call: None,
        details: None,
    })
}
