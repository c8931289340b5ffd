//! A server with everything that the MCP conformance suite tests, on our transports; never shipped.
//!
//! `fixtures.json` describes each tool, prompt and resource; this file implements them. The suite then tests the
//! transports: framing, both eras, headers, sessions, streams.

#![expect(clippy::disallowed_methods, clippy::print_stderr, reason = "a program of its own, for tests only")]
#![expect(deprecated, reason = "the suite judges sampling and logging, which the SDK marks as deprecated")]

use std::process::ExitCode;
use std::sync::Arc;

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ClientCapabilities, CompleteRequestParams,
    CompleteResult, ContentBlock, GetPromptRequestParams, GetPromptResponse, InputRequests,
    InputRequiredResult, ListPromptsResult, ListResourceTemplatesResult, ListResourcesResult,
    ListToolsResult, LoggingLevel, LoggingMessageNotificationParam, PaginatedRequestParams,
    ProgressNotificationParam, ReadResourceRequestParams, ReadResourceResponse, ServerConfig, ServerRequest,
    SetLevelRequestParams, SubscribeRequestParams, SubscriptionFilter, Tool, UnsubscribeRequestParams,
};
use rmcp::service::{RequestContext, RoleServer, SubscriptionContext};
use rmcp::{ErrorData, ServerHandler};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use workrail_mcp::http::{self, Lifetime};
use workrail_mcp::{Authentication, stdio};
use workrail_model::loopback::LoopbackAddress;

#[derive(Clone)]
struct Fixtures(Arc<Value>);

fn main() -> ExitCode {
    let fixtures: Value = serde_json::from_str(include_str!("fixtures.json")).expect("the fixtures are JSON");
    let handler = Fixtures(Arc::new(fixtures));
    let served = match std::env::args().nth(1) {
        None => stdio::serve_handler(handler),
        Some(address) => {
            let address: LoopbackAddress = address.parse().expect("the argument is a loopback address");
            let listening = |url: &str| eprintln!("listening on {url}");
            let lifetime = Lifetime::UntilSignal;
            http::serve_handler(handler, address, Authentication::None, lifetime, listening)
        }
    };
    match served {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn parsed<T: DeserializeOwned>(value: Value) -> Result<T, ErrorData> {
    serde_json::from_value(value).map_err(|error| ErrorData::internal_error(error.to_string(), None))
}

/// A result for the stateless revision; the SDK removes the mark for the handshake era.
fn complete<T: DeserializeOwned>(mut result: Value) -> Result<T, ErrorData> {
    result["resultType"] = json!("complete");
    parsed(result)
}

impl Fixtures {
    fn members(&self, kind: &str) -> &Map<String, Value> {
        self.0[kind].as_object().expect("each kind is an object")
    }

    fn find(&self, kind: &str, name: &str) -> Result<&Value, ErrorData> {
        self.members(kind)
            .get(name)
            .ok_or_else(|| ErrorData::invalid_params(format!("there is no `{name}` among the {kind}"), None))
    }

    /// Replaces `$name` in a text with values and arguments.
    fn filled(&self, template: &Value, arguments: &Map<String, Value>) -> Value {
        match template {
            Value::String(text) => {
                let whole = text.strip_prefix('$').and_then(|name| self.members("values").get(name));
                if let Some(value) = whole {
                    return value.clone();
                }
                let text = arguments.iter().fold(text.clone(), |text, (name, value)| {
                    text.replace(&format!("${name}"), value.as_str().unwrap_or_default())
                });
                Value::String(text)
            }
            Value::Array(items) => items.iter().map(|item| self.filled(item, arguments)).collect(),
            Value::Object(members) => members
                .iter()
                .map(|(name, value)| (name.clone(), self.filled(value, arguments)))
                .collect::<Map<_, _>>()
                .into(),
            Value::Null | Value::Bool(_) | Value::Number(_) => template.clone(),
        }
    }

    fn tool(&self, name: &str, fixture: &Value) -> Result<Tool, ErrorData> {
        let schema = match fixture.get("schema") {
            Some(schema) => schema.clone(),
            None => {
                json!({ "type": "object", "properties": fixture.get("properties").unwrap_or(&json!({})) })
            }
        };
        parsed(json!({ "name": name, "description": format!("Fixture {name}"), "inputSchema": schema }))
    }

    /// What must still be asked of the client, if anything.
    fn asked(
        &self,
        fixture: &Value,
        state: Option<&str>,
        responses: &Map<String, Value>,
        capabilities: Option<ClientCapabilities>,
    ) -> Result<Option<InputRequiredResult>, ErrorData> {
        let Some(rounds) = fixture["rounds"].as_array() else { return Ok(None) };
        let reached = match state {
            None => Some(0),
            Some(state) => rounds.iter().position(|round| round["state"] == state),
        };
        let Some(reached) = reached else {
            return Err(ErrorData::invalid_params("requestState is not one that this server issued", None));
        };
        let answered = |round: &Value| {
            let requests = round["requests"].as_object();
            requests.is_some_and(|requests| {
                requests.keys().all(|key| responses.get(key).is_some_and(Value::is_object))
            })
        };
        let next = if answered(&rounds[reached]) { reached + 1 } else { reached };
        let Some(round) = rounds.get(next) else { return Ok(None) };
        let mut requests: InputRequests = parsed(self.filled(&round["requests"], &Map::new()))?;
        if round["only_declared"] == true
            && capabilities.is_some_and(|declared| declared.elicitation.is_none())
        {
            requests.retain(|_, request| !matches!(request, rmcp::model::InputRequest::Elicitation(_)));
        }
        let state = round["state"].as_str().map(str::to_owned);
        Ok(Some(InputRequiredResult::new(Some(requests), state)))
    }

    /// Sends the notifications that precede the answer.
    async fn notify(&self, fixture: &Value, context: &RequestContext<RoleServer>) -> Result<(), ErrorData> {
        let failed = |error: rmcp::ServiceError| ErrorData::internal_error(error.to_string(), None);
        // The stateless revision logs only for requests that ask for it.
        let stateless = context.meta.protocol_version().is_some();
        let logs = fixture["log"].as_array().filter(|_| !stateless || context.meta.log_level().is_some());
        for line in logs.into_iter().flatten() {
            let note = LoggingMessageNotificationParam::new(LoggingLevel::Info, line.clone());
            context.peer.notify_logging_message(note).await.map_err(failed)?;
        }
        let token = context.meta.get_progress_token();
        for (step, token) in fixture["progress"].as_array().into_iter().flatten().zip(token.iter().cycle()) {
            let note =
                ProgressNotificationParam::new(token.clone(), step.as_f64().unwrap_or(0.0)).with_total(100.0);
            context.peer.notify_progress(note).await.map_err(failed)?;
        }
        Ok(())
    }

    /// Asks the client in the middle of a call, as in the handshake era.
    async fn ask(
        &self,
        fixture: &Value,
        arguments: &Map<String, Value>,
        context: &RequestContext<RoleServer>,
    ) -> Result<CallToolResult, ErrorData> {
        // Over HTTP no client can be asked: every request is independent, as in the shipped server.
        if context.extensions.get::<axum::http::request::Parts>().is_some() {
            return Err(ErrorData::invalid_request("this client cannot be asked", None));
        }
        let request: ServerRequest = parsed(self.filled(&fixture["ask"], arguments))?;
        let answer = context.peer.send_request(request).await;
        let answer = answer.map_err(|error| ErrorData::internal_error(error.to_string(), None))?;
        let answer = serde_json::to_value(answer).unwrap_or_default();
        let said = answer["content"]["text"].as_str().map_or_else(|| answer.to_string(), str::to_owned);
        let prefix = fixture["answered"].as_str().unwrap_or_default();
        Ok(CallToolResult::success(vec![ContentBlock::text(format!("{prefix}: {said}"))]))
    }
}

impl ServerHandler for Fixtures {
    fn get_info(&self) -> ServerConfig {
        let capabilities = json!({
            "tools": {}, "prompts": {}, "resources": { "subscribe": true }, "logging": {}, "completions": {},
        });
        ServerConfig::new(serde_json::from_value(capabilities).expect("the capabilities are ours"))
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        self.tool(name, self.members("tools").get(name)?).ok()
    }

    async fn list_tools(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let tools = self.members("tools").iter().map(|(name, fixture)| self.tool(name, fixture));
        Ok(ListToolsResult::with_all_items(tools.collect::<Result<_, _>>()?))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let fixture = self.find("tools", &request.name)?;
        let capabilities = context.client_capabilities();
        if let Some(required) = fixture.get("requires")
            && capabilities.as_ref().is_none_or(|declared| declared.sampling.is_none())
        {
            return Err(ErrorData::missing_required_client_capability(parsed(required.clone())?));
        }
        self.notify(fixture, &context).await?;
        let arguments = request.arguments.unwrap_or_default();
        if fixture.get("ask").is_some() {
            return Ok(self.ask(fixture, &arguments, &context).await?.into());
        }
        let responses: Map<String, Value> = request.input_responses.unwrap_or_default().into_iter().collect();
        if let Some(asked) =
            self.asked(fixture, request.request_state.as_deref(), &responses, capabilities)?
        {
            return Ok(asked.into());
        }
        match fixture.get("result") {
            Some(result) => Ok(complete::<CallToolResult>(self.filled(result, &arguments))?.into()),
            None => {
                let text = format!("state-ok, and the client said {}", Value::Object(responses));
                Ok(CallToolResult::success(vec![ContentBlock::text(text)]).into())
            }
        }
    }

    async fn list_prompts(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        let prompts: Vec<Value> = self
            .members("prompts")
            .iter()
            .map(|(name, fixture)| {
                let arguments = fixture["arguments"].as_array().into_iter().flatten();
                let arguments: Vec<Value> =
                    arguments.map(|name| json!({ "name": name, "required": true })).collect();
                json!({ "name": name, "description": format!("Fixture {name}"), "arguments": arguments })
            })
            .collect();
        Ok(ListPromptsResult::with_all_items(parsed(Value::Array(prompts))?))
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        let fixture = self.find("prompts", &request.name)?;
        let responses: Map<String, Value> = request.input_responses.unwrap_or_default().into_iter().collect();
        let capabilities = context.client_capabilities();
        if let Some(asked) =
            self.asked(fixture, request.request_state.as_deref(), &responses, capabilities)?
        {
            return Ok(asked.into());
        }
        let arguments = request.arguments.map(serde_json::to_value).and_then(Result::ok);
        let arguments = arguments.as_ref().and_then(Value::as_object).cloned().unwrap_or_default();
        let result: rmcp::model::GetPromptResult = complete(self.filled(&fixture["result"], &arguments))?;
        Ok(result.into())
    }

    async fn list_resources(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let resources: Vec<Value> = self
            .members("resources")
            .iter()
            .map(|(uri, fixture)| {
                json!({ "uri": uri, "name": uri, "description": format!("Fixture {uri}"),
                        "mimeType": fixture["mimeType"] })
            })
            .collect();
        Ok(ListResourcesResult::with_all_items(parsed(Value::Array(resources))?))
    }

    async fn list_resource_templates(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        let template = json!([{ "uriTemplate": "test://template/{id}/data", "name": "template",
                                "description": "Fixture template", "mimeType": "application/json" }]);
        Ok(ListResourceTemplatesResult::with_all_items(parsed(template)?))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let uri = &request.uri;
        let id = uri.strip_prefix("test://template/").and_then(|rest| rest.strip_suffix("/data"));
        let contents = match (self.members("resources").get(uri), id) {
            (Some(fixture), _) => self.filled(fixture, &Map::new()),
            (None, Some(id)) => {
                let data = json!({ "id": id, "templateTest": true, "data": format!("Data for ID: {id}") });
                json!({ "uri": uri, "mimeType": "application/json", "text": data.to_string() })
            }
            (None, None) => {
                return Err(ErrorData::resource_not_found("Resource not found", Some(json!({ "uri": uri }))));
            }
        };
        let result: rmcp::model::ReadResourceResult = complete(json!({ "contents": [contents] }))?;
        Ok(result.into())
    }

    async fn subscribe(
        &self,
        _request: SubscribeRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        Ok(())
    }

    async fn unsubscribe(
        &self,
        _request: UnsubscribeRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        Ok(())
    }

    fn accepted_subscription_filter(&self, requested: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        Some(requested.clone())
    }

    async fn listen(&self, subscription: SubscriptionContext) -> Result<(), ErrorData> {
        // Nothing here ever changes.
        subscription.cancelled().await;
        Ok(())
    }

    async fn set_level(
        &self,
        _request: SetLevelRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        Ok(())
    }

    async fn complete(
        &self,
        _request: CompleteRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        complete(
            json!({ "completion": { "values": ["paris", "park", "party"], "total": 3, "hasMore": false } }),
        )
    }
}
