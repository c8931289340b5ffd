//! Puts adapters behind ports: the one place that knows them all.

use std::io;
use std::sync::Arc;

use camino::{Utf8Path, Utf8PathBuf};
use workrail_engine::{Engine, Environment, Producer};
use workrail_host::boot::boot_id;
use workrail_host::clock::SystemClock;
use workrail_host::data_dir::data_dir;
use workrail_host::entropy::OsEntropy;
use workrail_host::sources::Sources;
use workrail_host::workspace::{GitObserver, default_workspace};
use workrail_model::config::Key;
use workrail_ports::file_system::{FsError, FsErrorKind};
use workrail_ports::workflow_source::WorkflowSource;
use workrail_store_fs::LocalStore;
use workrail_store_fs::disk::Disk;

use crate::outcome::Failure;
use crate::settings::{self, Current};
use crate::{flags, version};

pub(crate) type LocalEngine = Engine<LocalStore<Disk>>;

/// An engine and the store beneath it.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) engine: LocalEngine,
    pub(crate) store: Arc<LocalStore<Disk>>,
}

/// Opens the data directory that the settings name for writing, with the sources as the caller wants them. The
/// directory is made when it does not exist.
pub(crate) fn open_with(current: &Current, sources: Arc<dyn WorkflowSource>) -> Result<Opened, Failure> {
    let disk = Disk::open(&root(current)?).map_err(|error| unusable(&error))?;
    let store = LocalStore::open(disk, Box::new(OsEntropy), boot_id()).map_err(|error| unusable(&error))?;
    Ok(opened(current, sources, store))
}

/// Opens it for reading only: nothing is created, and no key, lock or right to write is needed (G16).
pub(crate) fn look(current: &Current) -> Result<Opened, Failure> {
    let disk = Disk::look(&root(current)?).map_err(|error| unusable(&error))?;
    let store = LocalStore::look(disk, Box::new(OsEntropy), boot_id());
    Ok(opened(current, sources_of(current), store))
}

fn sources_of(current: &Current) -> Arc<dyn WorkflowSource> {
    Arc::new(Sources::from_settings(&current.settings))
}

fn root(current: &Current) -> Result<Utf8PathBuf, Failure> {
    data_dir(&current.settings).map_err(|error| Failure::Environment(error.to_string()))
}

fn unusable(error: &FsError) -> Failure {
    if error.kind == FsErrorKind::TooManyOpenFiles {
        // Nothing is wrong with the data directory, and it passes.
        return workrail_engine::disk_error(error).into();
    }
    Failure::Environment(error.to_string())
}

fn opened(current: &Current, sources: Arc<dyn WorkflowSource>, store: LocalStore<Disk>) -> Opened {
    let store = Arc::new(store);
    let environment = Environment {
        clock: Box::new(SystemClock),
        entropy: Box::new(OsEntropy),
        workflows: sources,
        observer: Box::new(GitObserver),
        workspace: default_workspace(),
        default_preferences: current.default_preferences(),
        approvals: Arc::new(settings::LiveApprovals),
        token_encoding: current.settings.token_encoding(),
        tools: flags::offered(&current.settings),
        producer: Producer {
            app_version: version::SHORT.to_owned(),
            applied_config_hash: Some(current.settings.hash()),
        },
    };
    let engine = Engine::new(Arc::clone(&store), environment);
    Opened { engine, store }
}

/// The engine over the data directory of the user, for commands that read.
pub(crate) fn look_default() -> Result<LocalEngine, Failure> {
    look(settings::current()?).map(|opened| opened.engine)
}

/// The same for commands that change what is there. Where there is nothing yet, they find nothing and make nothing.
pub(crate) fn change_default() -> Result<LocalEngine, Failure> {
    let current = settings::current()?;
    if !root(current)?.exists() {
        return look_default();
    }
    open_with(current, sources_of(current)).map(|opened| opened.engine)
}

/// The same for commands that bring something in: the data directory is made when it does not exist.
pub(crate) fn open_default() -> Result<Opened, Failure> {
    let current = settings::current()?;
    open_with(current, sources_of(current))
}

/// A store in a folder, without keys and without an engine; of its folders none is made.
pub(crate) fn store_as_is(root: &Utf8Path) -> Result<Arc<LocalStore<Disk>>, Failure> {
    let disk = Disk::open(root).map_err(|error| Failure::Environment(error.to_string()))?;
    Ok(Arc::new(LocalStore::look(disk, Box::new(OsEntropy), boot_id())))
}

/// Logs to stderr: stdout belongs to the transport.
pub(crate) fn log_to_stderr() {
    // Settings that cannot be read are said by the command that needs them.
    let current = settings::current().ok();
    let filter = current.and_then(|current| current.settings.text(Key::LogFilter)).unwrap_or("warn");
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
