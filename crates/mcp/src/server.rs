//! The MCP server: lists the catalogue and hands each call to the engine on a blocking thread.

use std::sync::Arc;

use rmcp::ErrorData;
use rmcp::ServerHandler;
use rmcp::model::{
    ArgumentInfo, CallToolRequestParams, CallToolResponse, CallToolResult, CompleteRequestParams,
    CompleteResult, CompletionInfo, CustomRequest, CustomResult, DiscoverResult, ErrorCode,
    GetPromptRequestParams, GetPromptResponse, Implementation, InputResponses, ListPromptsResult,
    ListResourceTemplatesRequestMethod, ListResourceTemplatesResult, ListResourcesRequestMethod,
    ListResourcesResult, ListToolsResult, MetaObject, PaginatedRequestParams, ReadResourceRequestMethod,
    ReadResourceRequestParams, ReadResourceResponse, Reference, ResourcesCapability, ServerCapabilities,
    ServerConfig,
};
use rmcp::service::{NotificationContext, RequestContext, RoleServer};
use serde_json::{Map, Value, json};
use workrail_model::team::Caller;
use workrail_model::tool::ToolName;

use crate::arguments;
use crate::asked_forms::AskedForms;
use crate::call::{self, CallResult, Execution, Folder, StructuredContent, TextInData};
use crate::catalogue;
use crate::elicit::{self, AskChannel, AskOutcome, ChatApprovals};
use crate::indexing::IndexingPauses;
use crate::message::Ambiguity;
use crate::progress;
use crate::prompts;
use crate::resources;
use crate::roots::ClientRoots;

const NAME: &str = "workrail";
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Where the stateless revision puts the server's name in a result.
const SERVER_INFO_KEY: &str = "io.modelcontextprotocol/serverInfo";

/// How long a client may cache what does not change while a server runs. An hour saves a request in every chat, and
/// an updated server is still noticed the same day.
const UNCHANGING_TTL_MS: u64 = 60 * 60 * 1000;

/// How to work with the enabled tools.
fn instructions(offers: impl Fn(ToolName) -> bool) -> String {
    if !offers(ToolName::ContinueWorkflow) {
        return "WorkRail gives agents a workflow one step at a time and keeps everything they do. This server only \
                reads: list_workflows and inspect_workflow show workflows, read_run shows what is recorded of a run."
            .to_owned();
    }
    let mut text = "WorkRail gives you a workflow one step at a time and keeps everything you do. Find one with \
                    list_workflows, call start_workflow, do exactly the step you are shown, then call \
                    continue_workflow as the end of the reply shows, with notes on what you did in that step. Do not \
                    guess later steps: they exist only once they are returned. Copy tokens, `run` and `stepId` \
                    exactly; they belong to the run named at the top of the reply, and several runs may be open at \
                    once."
        .to_owned();
    if offers(ToolName::CheckpointWorkflow) {
        text.push_str(" Save long work inside a step with checkpoint_workflow.");
    }
    text.push_str(
        " If you lost your place, call continue_workflow with the stateToken alone: it returns the pending step and \
         changes nothing.",
    );
    if offers(ToolName::ResumeSession) {
        text.push_str(" In a new chat, find the work again with resume_session.");
    }
    text.push_str(" Every error ends with the call to make next.");
    text
}

/// What the transport found: our own sets it on the call, the SDK's passes on the parts of the HTTP request.
fn ambiguity(context: &RequestContext<RoleServer>) -> Option<&Ambiguity> {
    let http = || context.extensions.get::<axum::http::request::Parts>()?.extensions.get::<Ambiguity>();
    context.extensions.get::<Ambiguity>().or_else(http)
}

#[derive(Clone)]
pub struct Server {
    execution: Arc<dyn Execution>,
    roots: ClientRoots,
    pub(crate) asked_forms: AskedForms,
    pub(crate) chat_approvals: ChatApprovals,
    pauses: IndexingPauses,
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server").finish_non_exhaustive()
    }
}

impl Server {
    pub fn new(execution: Arc<dyn Execution>) -> Self {
        Self {
            execution,
            roots: ClientRoots::default(),
            asked_forms: AskedForms::default(),
            chat_approvals: ChatApprovals::Allowed,
            pauses: IndexingPauses::default(),
        }
    }

    /// The server without approvals in the chat, whatever the settings say.
    pub(crate) fn without_chat_approvals(self) -> Self {
        Self { chat_approvals: ChatApprovals::Refused, ..self }
    }

    /// The execution for this request: on behalf of its sender, and through their program.
    pub(crate) fn execution(&self, context: &RequestContext<RoleServer>) -> Arc<dyn Execution> {
        let http = context.extensions.get::<axum::http::request::Parts>();
        let caller = http.and_then(|parts| parts.extensions.get::<Caller>());
        let program = context.client_info().map(|client| format!("{} {}", client.name, client.version));
        let acting = self.execution.acting_for(caller, program.as_deref());
        acting.unwrap_or_else(|| Arc::clone(&self.execution))
    }

    async fn call(
        &self,
        execution: Arc<dyn Execution>,
        tool: ToolName,
        arguments: Option<Map<String, Value>>,
        folder: Folder,
    ) -> CallResult {
        let running = self.pauses.call_begins();
        // A blocking thread: ports are synchronous, and an append must not be cancelled halfway.
        let answered =
            tokio::task::spawn_blocking(move || call::run(&*execution, tool, arguments, folder)).await;
        // Not the execution of this call: the reply waits until that one, which reports its progress, is dropped.
        running.ended(&self.execution);
        answered.unwrap_or_else(|_| call::crashed().into())
    }

    /// Resources show what `read_run` returns, so they are offered if it is.
    fn has_resources(&self) -> bool {
        self.execution.offers(ToolName::ReadRun)
    }

    /// Looks something up, on a blocking thread as well.
    pub(crate) async fn blocking<T: Send + 'static>(
        &self,
        context: &RequestContext<RoleServer>,
        query: impl FnOnce(&dyn Execution) -> T + Send + 'static,
    ) -> Result<T, ErrorData> {
        let execution = self.execution(context);
        let found = tokio::task::spawn_blocking(move || query(&*execution)).await;
        found.map_err(|_| ErrorData::internal_error("the request failed inside WorkRail", None))
    }

    /// The result in the form that the settings and the era ask for.
    fn finished(&self, era: Era, mut result: CallToolResult) -> CallToolResponse {
        match self.execution.structured_content() {
            StructuredContent::Omitted => {}
            StructuredContent::Served => call::add_structured_content(&mut result),
        }
        match self.execution.text_in_data() {
            TextInData::Repeated => {}
            TextInData::Omitted => call::omit_text_in_data(&mut result),
        }
        era.add_server_info(&mut result.meta);
        result.into()
    }

    async fn folder(
        &self,
        tool: ToolName,
        arguments: Option<&Map<String, Value>>,
        context: &RequestContext<RoleServer>,
    ) -> Folder {
        let names_folder = |given: &Map<String, Value>| {
            let is_one = |value: &Value| value.as_str().is_some_and(|text| !text.is_empty());
            given.iter().any(|(name, value)| arguments::plain(name) == "workspacepath" && is_one(value))
        };
        if !catalogue::takes_workspace(tool) || arguments.is_some_and(names_folder) {
            return Folder::Settled;
        }
        match self.roots.first(&context.peer).await {
            Some(root) if self.execution.is_folder(&root) => Folder::Root(root),
            // A client on another machine, or outside this container.
            Some(_) if tool != ToolName::ContinueWorkflow => Folder::Unknown,
            Some(_) => Folder::Settled,
            // A session remembers the folder in which it was started.
            None if tool != ToolName::ContinueWorkflow && !has_roots(context) => Folder::Unknown,
            None => Folder::Settled,
        }
    }
}

/// Which lifecycle a request belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Era {
    /// The client began with `initialize` and knows the server from there.
    Handshake,
    /// Requests are independent of each other, and every result names the server.
    Stateless,
}

impl Era {
    fn of(context: &RequestContext<RoleServer>) -> Self {
        match context.meta.protocol_version() {
            Some(_) => Self::Stateless,
            None => Self::Handshake,
        }
    }

    /// Names the server where the client has not learned it from a handshake.
    fn add_server_info(self, meta: &mut Option<MetaObject>) {
        match self {
            Self::Handshake => {}
            Self::Stateless => {
                let info = json!({ "name": NAME, "version": VERSION });
                meta.get_or_insert_with(MetaObject::new).0.insert(SERVER_INFO_KEY.to_owned(), info);
            }
        }
    }
}

/// Whether the revision and the transport support roots, whatever the client offers.
fn has_roots(context: &RequestContext<RoleServer>) -> bool {
    Era::of(context) == Era::Handshake && !is_http(context)
}

/// How the user can be asked through this client, if at all.
fn ask_channel(
    era: Era,
    responses: Option<InputResponses>,
    state: Option<String>,
    context: &RequestContext<RoleServer>,
) -> Option<AskChannel> {
    if !elicit::shows_forms(context.client_capabilities().as_ref()) {
        return None;
    }
    match era {
        // Earlier revisions have no results that ask for input.
        Era::Stateless if context.meta.protocol_version()?.has_initialize() => None,
        Era::Stateless => Some(AskChannel::Result { responses, state }),
        Era::Handshake if is_http(context) => None,
        Era::Handshake => Some(AskChannel::Request),
    }
}

/// Over HTTP the server keeps no session, so it cannot send requests to the client.
fn is_http(context: &RequestContext<RoleServer>) -> bool {
    context.extensions.get::<axum::http::request::Parts>().is_some()
}

impl ServerHandler for Server {
    fn get_info(&self) -> ServerConfig {
        let mut capabilities =
            ServerCapabilities::builder().enable_tools().enable_prompts().enable_completions().build();
        if self.has_resources() {
            capabilities.resources = Some(ResourcesCapability::default());
        }
        let mut info = ServerConfig::new(capabilities)
            .with_instructions(instructions(|tool| self.execution.offers(tool)));
        info.server_info = Implementation::new(NAME, VERSION);
        info
    }

    async fn list_tools(
        &self,
        _request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let structured_content = self.execution.structured_content();
        let execution = self.execution(&context);
        let tools = catalogue::tools(|tool| execution.lists(tool), structured_content);
        let mut listed = ListToolsResult::with_all_items(tools);
        let era = Era::of(&context);
        era.add_server_info(&mut listed.meta);
        match era {
            Era::Handshake => Ok(listed),
            Era::Stateless => Ok(listed.with_ttl_ms(UNCHANGING_TTL_MS)),
        }
    }

    async fn discover(&self, _context: RequestContext<RoleServer>) -> Result<DiscoverResult, ErrorData> {
        let versions = self.supported_protocol_versions().into_owned();
        Ok(DiscoverResult::from_server_info(versions, self.get_info()).with_ttl_ms(UNCHANGING_TTL_MS))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let execution = self.execution(&context);
        let offered = |tool: &ToolName| execution.offers(*tool);
        let Some(tool) = ToolName::parse(&request.name).filter(offered) else {
            let known: Vec<&str> = ToolName::ALL.into_iter().filter(offered).map(ToolName::as_str).collect();
            let known = known.join(", ");
            let name = call::quoted_name(&request.name);
            let message = format!("unknown tool `{name}`; the tools are {known}");
            return Err(ErrorData::invalid_params(message, None));
        };
        let (arguments, era) = (request.arguments, Era::of(&context));
        let channel = ask_channel(era, request.input_responses, request.request_state, &context);
        if let Some(Ambiguity(reason)) = ambiguity(&context) {
            let refused = call::refused(tool, arguments.unwrap_or_default(), reason);
            return Ok(self.finished(era, refused));
        }
        let folder = self.folder(tool, arguments.as_ref(), &context).await;
        let (execution, progress) = progress::reporting(execution, &context);
        let (CallResult { result, waits }, ()) =
            tokio::join!(self.call(execution, tool, arguments, folder), progress);
        let (Some(reply), Some(channel)) = (waits, channel) else { return Ok(self.finished(era, result)) };
        match self.ask_user(*reply, channel, &context).await {
            AskOutcome::Unanswered => Ok(self.finished(era, result)),
            AskOutcome::Answered(reply) => Ok(self.finished(era, call::shown(*reply))),
            AskOutcome::Pending(mut asked) => {
                era.add_server_info(&mut asked.meta);
                Ok(asked.into())
            }
        }
    }

    async fn list_prompts(
        &self,
        _request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        let folder = self.roots.first(&context.peer).await.filter(|root| self.execution.is_folder(root));
        let prompts = self.blocking(&context, |execution| prompts::list(execution, folder)).await?;
        let mut listed = ListPromptsResult::with_all_items(prompts);
        Era::of(&context).add_server_info(&mut listed.meta);
        Ok(listed)
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        let folder = self.roots.first(&context.peer).await.filter(|root| self.execution.is_folder(root));
        let given = request.arguments.unwrap_or_default();
        let name = request.name;
        let got =
            self.blocking(&context, move |execution| prompts::get(execution, &name, &given, folder)).await?;
        got.map(|mut prompt| {
            Era::of(&context).add_server_info(&mut prompt.meta);
            prompt.into()
        })
    }

    async fn complete(
        &self,
        request: CompleteRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        let completion = if let Reference::Prompt(prompt) = request.r#ref {
            let folder = self.roots.first(&context.peer).await.filter(|root| self.execution.is_folder(root));
            let ArgumentInfo { name, value, .. } = request.argument;
            let complete = move |execution: &dyn Execution| {
                prompts::complete(execution, &prompt.name, &name, &value, folder)
            };
            self.blocking(&context, complete).await?
        } else {
            CompletionInfo::default()
        };
        let mut result = CompleteResult::new(completion);
        Era::of(&context).add_server_info(&mut result.meta);
        Ok(result)
    }

    async fn on_roots_list_changed(&self, _context: NotificationContext<RoleServer>) {
        self.roots.forget().await;
    }

    // The SDK answers known list methods with empty lists. A method that is not offered must say so.

    async fn list_resources(
        &self,
        _request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        if !self.has_resources() {
            return Err(ErrorData::method_not_found::<ListResourcesRequestMethod>());
        }
        let mut listed = self.blocking(&context, resources::list).await??;
        Era::of(&context).add_server_info(&mut listed.meta);
        Ok(listed)
    }

    async fn list_resource_templates(
        &self,
        _request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        if !self.has_resources() {
            return Err(ErrorData::method_not_found::<ListResourceTemplatesRequestMethod>());
        }
        let mut listed = resources::templates();
        Era::of(&context).add_server_info(&mut listed.meta);
        Ok(listed)
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        if !self.has_resources() {
            return Err(ErrorData::method_not_found::<ReadResourceRequestMethod>());
        }
        let mut read =
            self.blocking(&context, move |execution| resources::read(execution, &request.uri)).await??;
        Era::of(&context).add_server_info(&mut read.meta);
        Ok(read.into())
    }

    /// The SDK passes on here what it could not parse as a known method; one of our methods that arrives here has
    /// invalid parameters, and "method not found" would be wrong.
    async fn on_custom_request(
        &self,
        request: CustomRequest,
        context: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        let has_handshake = context.meta.protocol_version().is_none();
        let expected = match request.method.as_str() {
            "tools/call" => "`name` as text and `arguments` as an object",
            "tools/list" | "prompts/list" => "at most a `cursor`",
            "prompts/get" => "`name` as text and `arguments` as an object of texts",
            "completion/complete" => "`ref` to a prompt and `argument` with `name` and `value`",
            "resources/read" if self.has_resources() => "`uri` as text",
            "initialize" if has_handshake => "`protocolVersion`, `capabilities` and `clientInfo`",
            method => {
                return Err(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, call::quoted_name(method), None));
            }
        };
        let message = format!("invalid parameters for {}: it takes {expected}", request.method);
        Err(ErrorData::invalid_params(message, None))
    }
}
