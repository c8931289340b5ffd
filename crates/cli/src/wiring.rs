//! Puts adapters behind ports: the one place that knows them all.

use std::io;
use std::process::ExitCode;
use std::sync::Arc;

use camino::Utf8Path;
use workrail_engine::request::{
    CheckpointWorkflow, ContinueWorkflow, InspectWorkflow, ListWorkflows, ResumeSession, StartSession,
    StartWorkflow,
};
use workrail_engine::{Answer, Engine, Producer, Reply, Surroundings};
use workrail_host::boot::boot_id;
use workrail_host::clock::SystemClock;
use workrail_host::data_dir::data_dir;
use workrail_host::entropy::OsEntropy;
use workrail_host::env_vars;
use workrail_host::sources::Sources;
use workrail_host::workspace::{GitObserver, default_workspace};
use workrail_mcp::catalogue::ToolName;
use workrail_mcp::{Execution, LoopbackAddress};
use workrail_model::preferences::{Mode, Preferences};
use workrail_model::token::TokenEncoding;
use workrail_ports::file_system::FsError;
use workrail_store_fs::LocalStore;
use workrail_store_fs::disk::Disk;

use crate::outcome::{self, Failure, Format};
use crate::{flags, output, version};

pub(crate) type LocalEngine = Engine<LocalStore<Disk>>;

/// The engine as the MCP server sees it.
struct Served(LocalEngine);

impl Execution for Served {
    fn list_workflows(&self, request: ListWorkflows) -> Answer {
        Reply::plain(&self.0.list_workflows(request)?)
    }

    fn inspect_workflow(&self, request: InspectWorkflow) -> Answer {
        Reply::plain(&self.0.inspect_workflow(request)?)
    }

    fn start_workflow(&self, request: StartWorkflow) -> Answer {
        self.0.start_workflow(request)
    }

    fn continue_workflow(&self, request: ContinueWorkflow) -> Answer {
        self.0.continue_workflow(request)
    }

    fn checkpoint_workflow(&self, request: CheckpointWorkflow) -> Answer {
        self.0.checkpoint_workflow(request)
    }

    fn resume_session(&self, request: ResumeSession) -> Answer {
        self.0.resume_session(request)
    }

    fn start_session(&self, request: StartSession) -> Answer {
        self.0.start_session(request)
    }

    fn offers(&self, tool: ToolName) -> bool {
        flags::offers(tool)
    }
}

/// Opens the engine over a data directory.
fn open(root: &Utf8Path) -> Result<LocalEngine, Failure> {
    let unusable = |error: FsError| Failure::Environment(error.to_string());
    let disk = Disk::open(root).map_err(unusable)?;
    let store = LocalStore::open(disk, Box::new(OsEntropy), boot_id()).map_err(unusable)?;
    let around = Surroundings {
        clock: Box::new(SystemClock),
        entropy: Box::new(OsEntropy),
        workflows: Arc::new(Sources::from_environment()),
        observer: Box::new(GitObserver),
        workspace: default_workspace(),
        default_preferences: default_preferences()?,
        token_encoding: token_encoding()?,
        producer: Producer { app_version: version::SHORT.to_owned(), applied_config_hash: None },
    };
    Ok(Engine::open(Arc::new(store), around)?)
}

/// A wrong word in the environment is said at once, not guessed away.
fn default_preferences() -> Result<Preferences, Failure> {
    let Some(text) = env_vars::DEFAULT_MODE.get() else { return Ok(Preferences::default()) };
    Mode::parse(&text).map(Mode::preferences).ok_or_else(|| {
        let known: Vec<&str> = Mode::ALL.into_iter().map(Mode::as_str).collect();
        let name = env_vars::DEFAULT_MODE.name;
        Failure::Call(format!("`{name}` is `{text}`, it must be one of {}", known.join(", ")))
    })
}

fn token_encoding() -> Result<TokenEncoding, Failure> {
    match env_vars::TOKEN_ENCODING.get().as_deref() {
        None | Some("v2") => Ok(TokenEncoding::V2),
        Some("v1") => Ok(TokenEncoding::V1),
        Some(text) => {
            let name = env_vars::TOKEN_ENCODING.name;
            Err(Failure::Call(format!("`{name}` is `{text}`, it must be v1 or v2")))
        }
    }
}

/// The engine over the data directory of the user.
pub(crate) fn open_default() -> Result<LocalEngine, Failure> {
    let root = data_dir().map_err(|error| Failure::Environment(error.to_string()))?;
    open(&root)
}

/// Serves MCP until the client closes standard input.
pub(crate) fn serve_stdio() -> ExitCode {
    serve(workrail_mcp::stdio::serve)
}

/// Serves MCP on a loopback address until the process is told to end.
pub(crate) fn serve_http(address: LoopbackAddress) -> ExitCode {
    serve(|execution| {
        workrail_mcp::http::serve(execution, address, |url| output::notice(&format!("listening on {url}")))
    })
}

fn serve(transport: impl FnOnce(Arc<dyn Execution>) -> io::Result<()>) -> ExitCode {
    let served = open_default().and_then(|engine| {
        transport(Arc::new(Served(engine))).map_err(|error| Failure::Environment(error.to_string()))
    });
    if served.is_err() {
        output::error("workrail mcp cannot serve:");
    }
    outcome::finish(served, Format::Text)
}

/// Logs to stderr: stdout belongs to the transport.
pub(crate) fn log_to_stderr() {
    let filter = env_vars::LOG.get().unwrap_or_else(|| "warn".to_owned());
    let filter = tracing_subscriber::EnvFilter::try_new(filter)
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("warn"));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(io::stderr)
        .with_ansi(false)
        // It would report a closed stderr on stderr, and panic there.
        .log_internal_errors(false)
        .init();
}
