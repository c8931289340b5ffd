//! The MCP server: lists the catalogue and hands each call to the engine on a blocking thread.

use std::sync::Arc;

use rmcp::ErrorData;
use rmcp::ServerHandler;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, CompleteRequestMethod, CompleteRequestParams,
    CompleteResult, CustomRequest, CustomResult, ErrorCode, Implementation, ListPromptsRequestMethod,
    ListPromptsResult, ListResourceTemplatesRequestMethod, ListResourceTemplatesResult,
    ListResourcesRequestMethod, ListResourcesResult, ListToolsResult, PaginatedRequestParams,
    ReadResourceRequestMethod, ReadResourceRequestParams, ReadResourceResponse, ResourcesCapability,
    ServerCapabilities, ServerConfig,
};
use rmcp::service::{NotificationContext, RequestContext, RoleServer};
use serde_json::{Map, Value};
use workrail_model::tool::ToolName;

use crate::call::{self, Execution};
use crate::catalogue;
use crate::message::Ambiguity;
use crate::repair;
use crate::resources;
use crate::roots::Roots;

const INSTRUCTIONS: &str = "WorkRail gives you a workflow one step at a time and keeps everything you do. \
Find one with list_workflows, call start_workflow, do exactly the step you are shown, then call continue_workflow \
as `nextCall` shows, with notes on what you did in that step. Do not guess later steps: they exist only once they \
are returned. Copy tokens, `run` and `stepId` exactly; they belong to the run whose name stands at the top of the \
reply, and several runs may be open at once. Save long work inside a step with checkpoint_workflow. If you lost \
your place, call continue_workflow with the stateToken alone: it returns the pending step and changes nothing. In a \
new chat, find the work again with resume_session. Every error has a `nextCall` that leads on.";

/// What the transport found: our own sets it on the call, the SDK's hands on what is known of the HTTP request.
fn ambiguity(context: &RequestContext<RoleServer>) -> Option<&Ambiguity> {
    let http = || context.extensions.get::<axum::http::request::Parts>()?.extensions.get::<Ambiguity>();
    context.extensions.get::<Ambiguity>().or_else(http)
}

#[derive(Clone)]
pub struct Server {
    execution: Arc<dyn Execution>,
    roots: Roots,
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server").finish_non_exhaustive()
    }
}

impl Server {
    pub fn new(execution: Arc<dyn Execution>) -> Self {
        Self { execution, roots: Roots::default() }
    }

    async fn call(
        &self,
        tool: ToolName,
        arguments: Option<Map<String, Value>>,
        folder: Option<String>,
    ) -> CallToolResult {
        let execution = Arc::clone(&self.execution);
        // A blocking thread: ports are synchronous, and an append must not be cancelled half-way.
        tokio::task::spawn_blocking(move || call::run(&*execution, tool, arguments, folder))
            .await
            .unwrap_or_else(|_| call::crashed())
    }

    /// Resources show what `read_run` returns, so they are there when it is.
    fn has_resources(&self) -> bool {
        self.execution.offers(ToolName::ReadRun)
    }

    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&dyn Execution) -> Result<T, ErrorData> + Send + 'static,
    ) -> Result<T, ErrorData> {
        let execution = Arc::clone(&self.execution);
        let crashed = |_| ErrorData::internal_error("the request failed inside WorkRail", None);
        tokio::task::spawn_blocking(move || work(&*execution))
            .await
            .unwrap_or_else(|error| Err(crashed(error)))
    }
}

impl ServerHandler for Server {
    fn get_info(&self) -> ServerConfig {
        let mut capabilities = ServerCapabilities::builder().enable_tools().build();
        if self.has_resources() {
            capabilities.resources = Some(ResourcesCapability::default());
        }
        let mut info = ServerConfig::new(capabilities).with_instructions(INSTRUCTIONS);
        info.server_info = Implementation::new("workrail", env!("CARGO_PKG_VERSION"));
        info
    }

    async fn list_tools(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(catalogue::tools(|tool| self.execution.offers(tool))))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let offered = |tool: &ToolName| self.execution.offers(*tool);
        let Some(tool) = ToolName::parse(&request.name).filter(offered) else {
            let known: Vec<&str> = ToolName::ALL.into_iter().filter(offered).map(ToolName::as_str).collect();
            let known = known.join(", ");
            let message = format!("unknown tool `{}`; the tools are {known}", request.name);
            return Err(ErrorData::invalid_params(message, None));
        };
        let arguments = request.arguments;
        if let Some(Ambiguity(reason)) = ambiguity(&context) {
            return Ok(call::refused(tool, arguments.unwrap_or_default(), reason).into());
        }
        let names_folder = |given: &Map<String, Value>| {
            let is_one = |value: &Value| value.as_str().is_some_and(|text| !text.is_empty());
            given.iter().any(|(name, value)| repair::plain(name) == "workspacepath" && is_one(value))
        };
        let folder = match catalogue::takes_workspace(tool) && !arguments.as_ref().is_some_and(names_folder) {
            true => self.roots.first(&context.peer).await,
            false => None,
        };
        Ok(self.call(tool, arguments, folder).await.into())
    }

    async fn on_roots_list_changed(&self, _context: NotificationContext<RoleServer>) {
        self.roots.forget().await;
    }

    // The SDK answers the lists that it knows with empty ones. A method that is not offered says so.

    async fn list_prompts(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        Err(ErrorData::method_not_found::<ListPromptsRequestMethod>())
    }

    async fn list_resources(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        match self.has_resources() {
            true => self.blocking(resources::list).await,
            false => Err(ErrorData::method_not_found::<ListResourcesRequestMethod>()),
        }
    }

    async fn list_resource_templates(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        match self.has_resources() {
            true => Ok(resources::templates()),
            false => Err(ErrorData::method_not_found::<ListResourceTemplatesRequestMethod>()),
        }
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        if !self.has_resources() {
            return Err(ErrorData::method_not_found::<ReadResourceRequestMethod>());
        }
        Ok(self.blocking(move |execution| resources::read(execution, &request.uri)).await?.into())
    }

    async fn complete(
        &self,
        _request: CompleteRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        Err(ErrorData::method_not_found::<CompleteRequestMethod>())
    }

    /// The SDK hands over what it could not read as a method that it knows; a method of ours that comes here
    /// has the wrong parameters, and "method not found" would be a lie.
    async fn on_custom_request(
        &self,
        request: CustomRequest,
        context: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        let has_handshake = context.meta.protocol_version().is_none();
        let expected = match request.method.as_str() {
            "tools/call" => "`name` as text and `arguments` as an object",
            "tools/list" => "at most a `cursor`",
            "resources/read" if self.has_resources() => "`uri` as text",
            "initialize" if has_handshake => "`protocolVersion`, `capabilities` and `clientInfo`",
            _ => return Err(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, request.method, None)),
        };
        let message = format!("invalid parameters for {}: it takes {expected}", request.method);
        Err(ErrorData::invalid_params(message, None))
    }
}
