//! Connects adapters to ports: the only place that knows them all.

use std::io;
use std::sync::Arc;

use camino::{Utf8Path, Utf8PathBuf};
use workrail_engine::{Engine, EngineEnvironment, Store};
use workrail_host::boot::boot_id;
use workrail_host::checks::LocalChecks;
use workrail_host::clock::SystemClock;
use workrail_host::data_dir::data_dir;
use workrail_host::entropy::OsEntropy;
use workrail_host::identity::local_user;
use workrail_host::sources::Sources;
use workrail_host::store_password::{store_key, store_password};
use workrail_host::workspace::{GitObserver, default_workspace};
use workrail_model::bundle::Producer;
use workrail_model::config::Key;
use workrail_model::team::Caller;
use workrail_ports::file_system::{FsError, FsErrorKind};
use workrail_ports::workflow_source::WorkflowSource;
use workrail_store_fs::LocalStore;
use workrail_store_fs::disk::Disk;
use workrail_store_pg::{DatabaseAddress, Password, PgStore, WrappingKey};

use crate::outcome::Failure;
use crate::settings::{self, CurrentSettings};
use crate::store::AnyStore;
use crate::store_kind::StoreKind;
use crate::{flags, version};

/// The engine over the store in the settings.
pub(crate) type AnyEngine = Engine<AnyStore>;

/// An engine and the store beneath it.
#[derive(Debug)]
pub(crate) struct EngineWithStore<S: Store> {
    pub(crate) engine: Engine<S>,
    pub(crate) store: Arc<S>,
}

/// Opens the store in the settings for writing, with the caller's sources. The data directory is created if it does
/// not exist.
pub(crate) fn open_with(
    current: &CurrentSettings,
    sources: Arc<dyn WorkflowSource>,
) -> Result<EngineWithStore<AnyStore>, Failure> {
    let store = store_of_settings(current, open_directory(current)?)?;
    Ok(acting_as_user(engine_over(current, sources, store)))
}

/// Opens the store in the settings for reading only: nothing is created in the data directory, and no key, lock or
/// write permission is needed there (G16).
pub(crate) fn read_only(current: &CurrentSettings) -> Result<EngineWithStore<AnyStore>, Failure> {
    let store = store_of_settings(current, read_only_directory(current)?)?;
    Ok(acting_as_user(engine_over(current, sources_of(current), store)))
}

/// In a store that several users share, records name who caused them; a directory has one user.
fn acting_as_user(opened: EngineWithStore<AnyStore>) -> EngineWithStore<AnyStore> {
    let EngineWithStore { engine, store } = opened;
    let actor = match &*store {
        AnyStore::Directory(_) => None,
        AnyStore::Database { .. } => local_user(),
    };
    EngineWithStore { engine: engine.acting_as(Caller::Owner(actor)), store }
}

/// The store in the settings, with this machine's directory.
fn store_of_settings(current: &CurrentSettings, machine: Arc<LocalStore<Disk>>) -> Result<AnyStore, Failure> {
    Ok(match database(current)? {
        None => AnyStore::Directory(machine),
        Some(address) => AnyStore::Database { shared: Box::new(connect(&address)?), machine },
    })
}

/// The address of the database, if the settings name one as the store.
pub(crate) fn database(current: &CurrentSettings) -> Result<Option<DatabaseAddress>, Failure> {
    let Some(text) = current.settings.text(Key::Store) else { return Ok(None) };
    let address = DatabaseAddress::parse(text);
    address
        .map(Some)
        .map_err(|error| Failure::Usage(format!("The setting `{}`: {error}.", Key::Store.as_str())))
}

/// The store at an address, with this machine's directory.
pub(crate) fn database_at(address: &DatabaseAddress) -> Result<AnyStore, Failure> {
    let machine = read_only_directory(settings::current()?)?;
    Ok(AnyStore::Database { shared: Box::new(connect(address)?), machine })
}

fn connect(address: &DatabaseAddress) -> Result<PgStore, Failure> {
    let password =
        store_password(address.password_file()).map_err(|error| Failure::Environment(error.to_string()))?;
    let password = password.map(Password::new);
    let key = store_key(address.key_file()).map_err(|error| Failure::Environment(error.to_string()))?;
    PgStore::open(address, password.as_ref(), Box::new(OsEntropy))
        .map(|store| store.with_wrapping_key(key.map(WrappingKey::new)))
        .map_err(|error| {
            let what = format!("The store at {address} cannot be used: {error}.");
            Failure::Environment(format!("{what}\n{}", error.fix()))
        })
}

/// What kind of store the settings name.
pub(crate) fn store_kind() -> Result<StoreKind, Failure> {
    let is_directory = database(settings::current()?)?.is_none();
    Ok(if is_directory { StoreKind::Directory } else { StoreKind::Database })
}

/// Why a command needs a data directory, and what works with a database instead.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DirectoryOnly {
    pub(crate) command: &'static str,
    pub(crate) instead: &'static str,
}

impl DirectoryOnly {
    /// Refuses the command if the store is a database.
    fn check(self, current: &CurrentSettings) -> Result<(), Failure> {
        match database(current)? {
            None => Ok(()),
            Some(address) => Err(Failure::Usage(format!(
                "`workrail {}` works on a data directory only; the store is {address}.\n{}",
                self.command, self.instead
            ))),
        }
    }

    /// Refuses a command that opens directories itself.
    pub(crate) fn refuse_database(self) -> Result<(), Failure> {
        self.check(settings::current()?)
    }
}

/// This machine's directory, whatever the store is; created if it does not exist.
pub(crate) fn open_directory(current: &CurrentSettings) -> Result<Arc<LocalStore<Disk>>, Failure> {
    store_in(&root(current)?)
}

/// Like `open_directory`, without creating anything.
pub(crate) fn read_only_directory(current: &CurrentSettings) -> Result<Arc<LocalStore<Disk>>, Failure> {
    read_only_in(&root(current)?)
}

fn sources_of(current: &CurrentSettings) -> Arc<dyn WorkflowSource> {
    Arc::new(Sources::from_settings(&current.settings))
}

fn root(current: &CurrentSettings) -> Result<Utf8PathBuf, Failure> {
    data_dir(&current.settings).map_err(|error| Failure::Environment(error.to_string()))
}

fn unusable(root: &Utf8Path, error: &FsError) -> Failure {
    if error.kind == FsErrorKind::TooManyOpenFiles {
        // Nothing is wrong with the data directory; the error is temporary.
        return workrail_engine::disk_error(error).into();
    }
    // The error names the path beneath the data directory, which is empty or `.` for the directory itself.
    let what = match error.path.as_str() {
        "" | "." => format!("The data directory {root} cannot be used: {}.", error.detail),
        _ => format!("The data directory {root} cannot be used: {error}."),
    };
    let next = match error.kind {
        FsErrorKind::PermissionDenied => {
            format!("Give this user access to it (`chmod u+rwx {root}`, or `chown` if another user owns it).")
        }
        FsErrorKind::ReadOnly => {
            "Make its disk writable, or set WORKRAIL_DATA_DIR to another folder.".to_owned()
        }
        FsErrorKind::WrongKind => format!(
            "Something other than a folder may be at {root}. Move it away, or set WORKRAIL_DATA_DIR to another folder."
        ),
        FsErrorKind::NoSpace | FsErrorKind::Quota => "Free some disk space.".to_owned(),
        FsErrorKind::NotFound
        | FsErrorKind::AlreadyExists
        | FsErrorKind::TooManyOpenFiles
        | FsErrorKind::TooLarge { .. }
        | FsErrorKind::Database
        | FsErrorKind::Io => "Check the disk, or set WORKRAIL_DATA_DIR to another folder.".to_owned(),
    };
    Failure::Environment(format!("{what}\n{next}"))
}

fn engine_over<S: Store>(
    current: &CurrentSettings,
    sources: Arc<dyn WorkflowSource>,
    store: S,
) -> EngineWithStore<S> {
    let store = Arc::new(store);
    let environment = EngineEnvironment {
        clock: Box::new(SystemClock),
        entropy: Box::new(OsEntropy),
        workflows: sources,
        observer: Box::<GitObserver>::default(),
        checks: Some(Arc::new(LocalChecks::default())),
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
    EngineWithStore { engine, store }
}

/// The engine over the store in the settings, for commands that read.
pub(crate) fn read_only_default() -> Result<AnyEngine, Failure> {
    read_only(settings::current()?).map(|opened| opened.engine)
}

/// The engine for commands that change existing data. Without a data directory they find nothing and create nothing.
pub(crate) fn open_existing_default() -> Result<AnyEngine, Failure> {
    open_existing().map(|opened| opened.engine)
}

/// Like `open_existing_default`, with the store.
pub(crate) fn open_existing() -> Result<EngineWithStore<AnyStore>, Failure> {
    let current = settings::current()?;
    if current.settings.text(Key::Store).is_none() && !root(current)?.exists() {
        return read_only(current);
    }
    open_with(current, sources_of(current))
}

/// The engine for commands that add data: the data directory is created if it does not exist.
pub(crate) fn open_default() -> Result<AnyEngine, Failure> {
    let current = settings::current()?;
    open_with(current, sources_of(current)).map(|opened| opened.engine)
}

/// A store in a folder, created if it does not exist.
pub(crate) fn store_in(root: &Utf8Path) -> Result<Arc<LocalStore<Disk>>, Failure> {
    let disk = Disk::open(root).map_err(|error| unusable(root, &error))?;
    LocalStore::open(disk, Box::new(OsEntropy), boot_id())
        .map(Arc::new)
        .map_err(|error| unusable(root, &error))
}

/// Like `store_in`, without creating anything; the folder may be missing.
pub(crate) fn read_only_in(root: &Utf8Path) -> Result<Arc<LocalStore<Disk>>, Failure> {
    let disk = Disk::open_read_only(root).map_err(|error| unusable(root, &error))?;
    Ok(Arc::new(LocalStore::read_only(disk, Box::new(OsEntropy), boot_id())))
}

/// A store in a folder, without keys and without an engine; none of its folders is created.
pub(crate) fn store_as_is(root: &Utf8Path) -> Result<Arc<LocalStore<Disk>>, Failure> {
    let disk = Disk::open(root).map_err(|error| unusable(root, &error))?;
    Ok(Arc::new(LocalStore::read_only(disk, Box::new(OsEntropy), boot_id())))
}

/// This machine's directory for a hook, if there is one: hooks create none, and need no keys and no engine to see
/// that a chat has no run.
pub(crate) fn directory_for_hooks(current: &CurrentSettings) -> Option<Arc<LocalStore<Disk>>> {
    let root = root(current).ok().filter(|root| root.is_dir())?;
    store_as_is(&root).ok()
}

/// The engine of a hook, over that directory or the database in the settings.
pub(crate) fn engine_for_hooks(
    current: &CurrentSettings,
    machine: &Arc<LocalStore<Disk>>,
) -> Result<AnyEngine, Failure> {
    let store = store_of_settings(current, Arc::clone(machine))?;
    Ok(engine_over(current, sources_of(current), store).engine)
}

/// Logs to stderr: stdout belongs to the transport.
pub(crate) fn log_to_stderr() {
    // The command that needs the settings reports why they cannot be read.
    let current = settings::current().ok();
    let filter = current.and_then(|current| current.settings.text(Key::LogFilter)).unwrap_or("warn");
    let filter = tracing_subscriber::EnvFilter::try_new(filter)
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("warn"));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(io::stderr)
        .with_ansi(false)
        // It would report a closed stderr on stderr, and panic.
        .log_internal_errors(false)
        .init();
}
