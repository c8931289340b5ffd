//! `workrail mcp`: serves the engine to agents, and registers itself in the list of running servers.

use std::io;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use workrail_engine::checks::CallProgress;
use workrail_engine::request::{Request, act_of};
use workrail_engine::{AttemptAwaitingUser, ReplyResult, UserReply, WaitingStep, too_many_new_sessions};
use workrail_host::clock::SystemClock;
use workrail_host::entropy::OsEntropy;
use workrail_host::processes;
use workrail_host::sources::{Sources, refresh_in_background};
use workrail_host::workspace;
use workrail_mcp::http::Lifetime;
use workrail_mcp::metrics::Metrics;
use workrail_mcp::quota::SessionQuotas;
use workrail_mcp::{Authentication, ChatApprovals, ChatQuestions, Execution, StructuredContent, TextInData};
use workrail_model::config::{Key, Settings};
use workrail_model::error::ErrorEnvelope;
use workrail_model::id::ServerId;
use workrail_model::loopback::LoopbackAddress;
use workrail_model::public_url::PublicUrl;
use workrail_model::server::{LoggedCall, ServerRecord, Transport};
use workrail_model::team::Caller;
use workrail_model::tool::{ToolName, ToolSet};
use workrail_ports::environment::{Clock, Entropy};
use workrail_store_fs::ServerRegistration;
use workrail_store_fs::disk::Disk;

use crate::outcome::{self, Failure, Format};
use crate::store::AnyStore;
use crate::upkeep::unusable_http_secret;
use crate::wiring::{AnyEngine, EngineWithStore};
use crate::{flags, output, settings, version, wiring};

/// The engine as the MCP server sees it.
#[derive(Clone)]
pub(crate) struct ServedEngine {
    engine: AnyEngine,
    settings: Arc<Settings>,
    tools: ToolSet,
    /// `None` if the data directory refused it: an unlisted server still serves.
    registered: Option<Arc<ServerRegistration<Disk>>>,
    agent_location: AgentLocation,
}

/// Where the agents of a server are.
#[derive(Clone)]
enum AgentLocation {
    /// On this machine: their folders exist here.
    Local,
    /// Anywhere: their folders mean nothing here.
    Remote { metrics: Arc<Metrics>, new_sessions: SessionQuotas },
}

impl ServedEngine {
    pub(crate) fn engine(&self) -> &AnyEngine {
        &self.engine
    }

    /// The same, for agents on other machines. Their people decide in the team's console at this address.
    pub(crate) fn remote(self, metrics: Arc<Metrics>, console: PublicUrl) -> Self {
        let agent_location = AgentLocation::Remote { metrics, new_sessions: SessionQuotas::default() };
        Self { engine: self.engine.for_remote_agents(console), agent_location, ..self }
    }

    /// Refuses a new session to a member that started too many lately.
    fn check_quota(&self, request: &Request, now: Instant) -> Result<(), Box<ErrorEnvelope>> {
        match (&self.agent_location, self.engine.caller()) {
            (AgentLocation::Remote { new_sessions, .. }, Caller::Member { principal, .. })
                if request.wants_new_session() && !new_sessions.take(principal.token_id, now) =>
            {
                Err(too_many_new_sessions(principal))
            }
            (
                AgentLocation::Local | AgentLocation::Remote { .. },
                Caller::Member { .. } | Caller::Owner(_),
            ) => Ok(()),
        }
    }
}

impl Execution for ServedEngine {
    fn offers(&self, tool: ToolName) -> bool {
        self.tools.offers(tool)
    }

    fn lists(&self, tool: ToolName) -> bool {
        self.tools.offers(tool) && self.engine.may(act_of(tool))
    }

    fn acting_for(&self, caller: Option<&Caller>, program: Option<&str>) -> Option<Arc<dyn Execution>> {
        let caller = caller.unwrap_or_else(|| self.engine.caller());
        let caller = program.map_or_else(|| caller.clone(), |program| caller.through(program));
        let differs = caller != *self.engine.caller();
        differs.then(|| Arc::new(Self { engine: self.engine.acting_as(caller), ..self.clone() }) as _)
    }

    fn reporting_to(&self, progress: CallProgress) -> Arc<dyn Execution> {
        Arc::new(Self { engine: self.engine.reporting_to(progress), ..self.clone() })
    }

    fn has_unindexed(&self) -> bool {
        self.engine.has_unindexed()
    }

    fn index_appended(&self) {
        self.engine.index_appended_unless_busy();
    }

    fn stop_work(&self) {
        self.engine.end_checks();
    }

    fn is_folder(&self, path: &str) -> bool {
        match self.agent_location {
            AgentLocation::Local => workspace::is_folder(path),
            AgentLocation::Remote { .. } => false,
        }
    }

    fn assumed_folder(&self) -> Option<String> {
        match self.agent_location {
            AgentLocation::Local => workspace::process_folder().map(|folder| folder.as_str().to_owned()),
            AgentLocation::Remote { .. } => None,
        }
    }

    fn structured_content(&self) -> StructuredContent {
        match self.settings.is_on(Key::RepliesStructured) {
            true => StructuredContent::Served,
            false => StructuredContent::Omitted,
        }
    }

    fn text_in_data(&self) -> TextInData {
        match self.settings.is_on(Key::RepliesTextInData) {
            true => TextInData::Repeated,
            false => TextInData::Omitted,
        }
    }

    /// Read for every call, so that disabling it affects running servers. Unreadable settings count as off.
    fn chat(&self) -> ChatQuestions {
        match chat() {
            Ok(chat) => chat,
            Err(_) => {
                tracing::warn!("the settings cannot be read, so nobody is asked in the chat");
                ChatQuestions::Off
            }
        }
    }

    fn waiting_for_user(&self, asked: &AttemptAwaitingUser) -> Option<WaitingStep> {
        let open = self.engine.waiting_for_user(asked);
        open.inspect_err(|error| tracing::warn!(code = error.code.as_str(), "the user is not asked")).ok()?
    }

    fn record_from_chat(
        &self,
        asked: &AttemptAwaitingUser,
        seen: &WaitingStep,
        reply: &UserReply,
    ) -> Result<(), Box<ErrorEnvelope>> {
        self.engine.record_from_chat(asked, seen, reply)
    }

    /// Answers a call and logs the outcome.
    fn answer(&self, mut request: Request) -> ReplyResult {
        let (at, begun, tool) = (SystemClock.now(), Instant::now(), request.tool());
        if let AgentLocation::Remote { .. } = self.agent_location {
            request.forget_folder();
        }
        let answered = self.check_quota(&request, begun).and_then(|()| self.engine.answer(request));
        let took = begun.elapsed();
        let duration_us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        let (outcome, run) = match &answered {
            Ok(reply) => (reply.kind().as_str().to_owned(), reply.run_label().map(str::to_owned)),
            Err(error) => (error.code.as_str().to_owned(), None),
        };
        if let AgentLocation::Remote { metrics, .. } = &self.agent_location {
            metrics.call(tool, &outcome, took);
        }
        if let Some(registered) = &self.registered {
            registered.log(&LoggedCall { at, tool, duration_us, outcome, run });
        }
        answered
    }
}

fn chat() -> Result<ChatQuestions, Failure> {
    // A project's file for an agent's program can name another settings file.
    let Some(settings) = settings::of_user_file()?.filter(|settings| settings.is_on(Key::ApprovalsChat))
    else {
        return Ok(ChatQuestions::Off);
    };
    // The chat belongs to the program that runs the agent, like a terminal that it started.
    let approvals = match settings::is_on_anywhere(Key::ApprovalsRefuseDescendants)? {
        true => ChatApprovals::Refused,
        false => ChatApprovals::Allowed,
    };
    let wait = Duration::from_secs(u64::from(settings.chat_wait_seconds()));
    Ok(ChatQuestions::On { wait, approvals })
}

/// Serves MCP until the client closes standard input.
pub(crate) fn stdio() -> ExitCode {
    serve(Transport::Stdio, |execution, _| {
        workrail_mcp::stdio::serve(execution).map_err(|error| io_failure(&error))
    })
}

/// Serves MCP on a loopback address until a termination signal, or until the client that started it ends (G75).
pub(crate) fn http(address: LoopbackAddress, no_auth: bool) -> ExitCode {
    serve(Transport::Http, |execution, store| {
        let (authentication, note) = match no_auth {
            true => (
                Authentication::None,
                "warning: --no-auth: every user and every program on this machine can read goals, notes and tokens \
                 here, complete steps, and answer questions meant for you. Approvals in the chat are off.",
            ),
            false => {
                let secret = store.machine().http_secret_or_new();
                let secret = secret.map_err(|error| unusable_http_secret(&error))?;
                (
                    Authentication::Bearer(secret),
                    "Requests must carry `Authorization: Bearer SECRET`; `workrail store keys http-secret` prints the secret.",
                )
            }
        };
        let lifetime = match processes::input_is_held() {
            true => Lifetime::WhileInputIsOpen,
            false => Lifetime::UntilSignal,
        };
        workrail_mcp::http::serve(execution, address, authentication, lifetime, |url| {
            output::notice(&format!("listening on {url}"));
            output::notice(note);
        })
        .map_err(|error| io_failure(&error))
    })
}

fn io_failure(error: &io::Error) -> Failure {
    Failure::Environment(outcome::io_error_text(error))
}

fn serve(
    transport: Transport,
    run: impl FnOnce(Arc<dyn Execution>, &AnyStore) -> Result<(), Failure>,
) -> ExitCode {
    let ended = open(transport).and_then(|(served_engine, store)| {
        let engine = served_engine.engine().clone();
        let ran = run(Arc::new(served_engine), &store);
        // A client that leaves right after its last reply does not leave work to the next reader.
        engine.index_appended();
        ran
    });
    if ended.is_err() {
        output::error("workrail mcp cannot serve:");
    }
    outcome::finish(ended, Format::Text)
}

/// The engine to serve and its store; the server is registered in the list of running ones.
pub(crate) fn open(transport: Transport) -> Result<(ServedEngine, Arc<AnyStore>), Failure> {
    let current = settings::current()?;
    let sources = Sources::from_settings(&current.settings).watched();
    let mirrors = sources.mirrors().to_vec();
    let EngineWithStore { engine, store } = wiring::open_with(current, Arc::new(sources))?;
    let settings = current.settings.clone();
    refresh_in_background(mirrors, |mirror, done| match done {
        Ok(done) => tracing::info!("git source {}: {done:?}", mirror.name),
        Err(error) => tracing::warn!("git source {}: {error}", mirror.name),
    });
    let registered =
        record(transport, &settings).and_then(|record| match Arc::clone(store.machine()).register(&record) {
            Ok(registered) => Some(registered),
            Err(error) => {
                tracing::warn!("this server is not listed: {error}");
                None
            }
        });
    let tools = flags::offered(&settings);
    let (settings, registered) = (Arc::new(settings), registered.map(Arc::new));
    let engine = engine.indexing_after_replies();
    Ok((ServedEngine { engine, settings, tools, registered, agent_location: AgentLocation::Local }, store))
}

fn record(transport: Transport, settings: &Settings) -> Option<ServerRecord> {
    let mut bits = [0; 10];
    OsEntropy.fill(&mut bits).ok()?;
    Some(ServerRecord {
        v: ServerRecord::VERSION,
        server_id: ServerId::from_bits(bits),
        version: version::LONG.to_owned(),
        process_id: std::process::id(),
        parent: processes::parent().map(|parent| parent.id),
        transport,
        started_at: SystemClock.now(),
        applied_config_hash: settings.hash(),
        settings: settings.clone(),
    })
}
