//! The MCP server: lists the catalogue and hands each call to the engine on a blocking thread.

use std::sync::Arc;

use rmcp::ErrorData;
use rmcp::ServerHandler;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, Implementation, ListToolsResult,
    PaginatedRequestParams, ServerCapabilities, ServerConfig,
};
use rmcp::service::{RequestContext, RoleServer};
use serde_json::{Map, Value};
use workrail_engine::Reply;
use workrail_engine::request::{ContinueWorkflow, StartWorkflow};
use workrail_model::error::{ErrorCode, ErrorEnvelope, Retry};

use crate::arguments::{self, ContinueArguments, StartArguments};
use crate::catalogue::{self, ToolName};

/// What the server needs of the engine; implemented by the engine over any store.
pub trait Execution: Send + Sync + 'static {
    fn start_workflow(&self, request: StartWorkflow) -> Result<Reply, Box<ErrorEnvelope>>;
    fn continue_workflow(&self, request: ContinueWorkflow) -> Result<Reply, Box<ErrorEnvelope>>;
}

const INSTRUCTIONS: &str = "WorkRail gives you a workflow one step at a time and keeps everything you do. \
Call start_workflow, do exactly the step you are shown, then call continue_workflow as `nextCall` shows, with \
notes on what you did in that step. Do not guess later steps: they exist only once they are returned. Copy \
tokens exactly; each belongs to the run whose name stands at the top of the reply. If you lost your place, call \
continue_workflow with the stateToken alone: it returns the pending step and changes nothing.";

#[derive(Clone)]
pub struct Server {
    execution: Arc<dyn Execution>,
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server").finish_non_exhaustive()
    }
}

impl Server {
    pub fn new(execution: Arc<dyn Execution>) -> Self {
        Self { execution }
    }

    async fn call(&self, tool: ToolName, arguments: Option<Map<String, Value>>) -> CallToolResult {
        let execution = Arc::clone(&self.execution);
        // A blocking thread: ports are synchronous, and an append must not be cancelled half-way.
        let done = tokio::task::spawn_blocking(move || answer(&*execution, tool, arguments)).await;
        match done {
            Ok(Ok(reply)) => shown(reply.into_value(), false),
            Ok(Err(error)) => failed(&error),
            Err(_) => failed(&crashed()),
        }
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

fn crashed() -> ErrorEnvelope {
    ErrorEnvelope {
        code: ErrorCode::InternalInvariant,
        message: "The call failed inside WorkRail; the server goes on and the store is intact.".to_owned(),
        retry: Retry::RetryableImmediate,
        suggestion: "Repeat the same call once with the same tokens.".to_owned(),
        details: None,
    }
}

impl ServerHandler for Server {
    fn get_info(&self) -> ServerConfig {
        let mut info = ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
            .with_instructions(INSTRUCTIONS);
        info.server_info = Implementation::new("workrail", env!("CARGO_PKG_VERSION"));
        info
    }

    async fn list_tools(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(catalogue::tools()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let Some(tool) = ToolName::parse(&request.name) else {
            let known = ToolName::ALL.map(ToolName::as_str).join(", ");
            let message = format!("there is no tool `{}`; the tools are {known}", request.name);
            return Err(ErrorData::invalid_params(message, None));
        };
        Ok(self.call(tool, request.arguments).await.into())
    }
}
