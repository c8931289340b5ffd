//! The store in the settings: a directory, or a database along with this machine's own directory.
//!
//! Sessions, content, keys and caches are in one or the other. Data about this machine stays in its directory: which
//! servers run here, and the HTTP transport's secret.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::sync::Arc;

use workrail_model::compiled::CompiledWorkflow;
use workrail_model::digest::{BlobRef, Sha256, SnapshotRef, WorkflowHash};
use workrail_model::event::{Activity, EventIndex};
use workrail_model::evidence::HookObservation;
use workrail_model::id::{AccessTokenId, RunId, SessionId};
use workrail_model::keyring::Keyring;
use workrail_model::manifest::Cursor;
use workrail_model::passkey::PendingPreferences;
use workrail_model::plan::{AppendPlan, Attachment, AttachmentKind, RawSegment};
use workrail_model::server::{LoggedCall, ServerRecord};
use workrail_model::snapshot::ExecutionSnapshot;
use workrail_model::team::AccessToken;
use workrail_model::time::Timestamp;
use workrail_ports::access::AccessTokens;
use workrail_ports::archive::{Archived, SessionArchive, SessionImport, StagedSession};
use workrail_ports::backup::KeysCopy;
use workrail_ports::cache::{
    CachedProjection, IfAbsent, IndexAnswer, IndexQuery, IndexRecord, ProjectionCache, SessionIndex,
};
use workrail_ports::content::{ContentError, ContentStore};
use workrail_ports::environment::ActivityCounter;
use workrail_ports::file_system::FsError;
use workrail_ports::keyring::{KeyringError, KeyringImport, KeyringStore, ReplacedKeyring};
use workrail_ports::observations::ObservationSpool;
use workrail_ports::passkeys::{PasskeyLog, PasskeyLogError, PasskeyReader, StoredPasskeys};
use workrail_ports::pending_preferences::{PendingPreferencesReader, PendingPreferencesStore};
use workrail_ports::servers::ServerDirectory;
use workrail_ports::session_store::{
    Appended, LockedSession, LogStamp, SessionReader, SessionSlice, SessionStore, StampDepth, StampedSession,
    StoreError,
};
use workrail_ports::upkeep::{
    Diagnosis, Inspection, Obstacle, PendingWrite, Stray, Sweep, Swept, Tally, Upkeep, UpkeepError,
};
use workrail_store_fs::disk::Disk;
use workrail_store_fs::{self as directory, LocalStore};
use workrail_store_pg::{self as database, PgStore};

#[derive(Debug)]
pub(crate) enum AnyStore {
    Directory(Arc<LocalStore<Disk>>),
    Database { shared: Box<PgStore>, machine: Arc<LocalStore<Disk>> },
}

impl AnyStore {
    /// The directory of this machine.
    pub(crate) fn machine(&self) -> &Arc<LocalStore<Disk>> {
        match self {
            Self::Directory(machine) | Self::Database { machine, .. } => machine,
        }
    }
}

/// Makes the same call on whichever store it is.
macro_rules! either {
    ($any:expr, $store:ident => $call:expr) => {
        match $any {
            AnyStore::Directory($store) => $call,
            AnyStore::Database { shared: $store, .. } => $call,
        }
    };
}

#[derive(Debug)]
pub(crate) enum AnyLocked<'a> {
    Directory(Box<directory::LockedLocalSession<'a, Disk>>),
    Database(Box<database::LockedPgSession<'a>>),
}

macro_rules! either_locked {
    ($any:expr, $locked:ident => $call:expr) => {
        match $any {
            AnyLocked::Directory($locked) => $call,
            AnyLocked::Database($locked) => $call,
        }
    };
}

impl LockedSession for AnyLocked<'_> {
    fn session_id(&self) -> SessionId {
        either_locked!(self, locked => locked.session_id())
    }

    fn cursor(&self) -> Cursor {
        either_locked!(self, locked => locked.cursor())
    }

    fn events_since(&self, since: Option<&Cursor>) -> Result<SessionSlice, StoreError> {
        either_locked!(self, locked => locked.events_since(since))
    }

    fn append(&mut self, plan: AppendPlan) -> Result<Appended, StoreError> {
        either_locked!(self, locked => locked.append(plan))
    }
}

impl SessionReader for AnyStore {
    fn sessions(&self) -> Result<Vec<SessionId>, StoreError> {
        either!(self, store => store.sessions())
    }

    fn stamped_sessions(&self, depth: StampDepth) -> Result<Vec<StampedSession>, StoreError> {
        either!(self, store => store.stamped_sessions(depth))
    }

    fn stamp(&self, session: SessionId) -> Option<LogStamp> {
        either!(self, store => store.stamp(session))
    }

    fn stamps(&self, sessions: &[SessionId]) -> Vec<Option<LogStamp>> {
        either!(self, store => store.stamps(sessions))
    }

    fn change_stamp(&self) -> Option<u64> {
        either!(self, store => store.change_stamp())
    }

    fn read(&self, session: SessionId, since: Option<&Cursor>) -> Result<SessionSlice, StoreError> {
        either!(self, store => store.read(session, since))
    }
}

impl SessionStore for AnyStore {
    type Locked<'a> = AnyLocked<'a>;

    fn create(&self, session: SessionId) -> Result<AnyLocked<'_>, StoreError> {
        Ok(match self {
            Self::Directory(store) => AnyLocked::Directory(Box::new(store.create(session)?)),
            Self::Database { shared, .. } => AnyLocked::Database(Box::new(shared.create(session)?)),
        })
    }

    fn lock(&self, session: SessionId) -> Result<AnyLocked<'_>, StoreError> {
        Ok(match self {
            Self::Directory(store) => AnyLocked::Directory(Box::new(store.lock(session)?)),
            Self::Database { shared, .. } => AnyLocked::Database(Box::new(shared.lock(session)?)),
        })
    }
}

impl ContentStore for AnyStore {
    fn snapshot(&self, reference: SnapshotRef) -> Result<ExecutionSnapshot, ContentError> {
        either!(self, store => store.snapshot(reference))
    }

    fn blob(&self, reference: BlobRef) -> Result<Vec<u8>, ContentError> {
        either!(self, store => store.blob(reference))
    }

    fn workflow(&self, hash: WorkflowHash) -> Result<CompiledWorkflow, ContentError> {
        either!(self, store => store.workflow(hash))
    }
}

impl KeyringStore for AnyStore {
    fn location(&self) -> &'static str {
        either!(self, store => store.location())
    }

    fn load_or_create(&self) -> Result<Keyring, KeyringError> {
        either!(self, store => store.load_or_create())
    }

    fn peek(&self) -> Result<Option<Keyring>, KeyringError> {
        either!(self, store => store.peek())
    }

    fn rotate(&self) -> Result<Keyring, KeyringError> {
        either!(self, store => store.rotate())
    }

    fn replace(&self) -> Result<ReplacedKeyring, KeyringError> {
        either!(self, store => store.replace())
    }

    fn replace_encrypted(&self) -> Result<ReplacedKeyring, KeyringError> {
        either!(self, store => store.replace_encrypted())
    }
}

impl KeyringImport for AnyStore {
    fn adopt(&self, keys: &Keyring) -> Result<KeysCopy, KeyringError> {
        either!(self, store => store.adopt(keys))
    }
}

impl PasskeyReader for AnyStore {
    fn passkey_log(&self) -> Result<StoredPasskeys, PasskeyLogError> {
        either!(self, store => store.passkey_log())
    }
}

impl PasskeyLog for AnyStore {
    fn append_passkey(&self, seen: &StoredPasskeys, line: &[u8]) -> Result<(), PasskeyLogError> {
        either!(self, store => store.append_passkey(seen, line))
    }

    fn replace_passkeys(
        &self,
        damaged: &StoredPasskeys,
        sound_bytes: usize,
        line: &[u8],
    ) -> Result<(), PasskeyLogError> {
        either!(self, store => store.replace_passkeys(damaged, sound_bytes, line))
    }
}

impl AccessTokens for AnyStore {
    fn access_tokens(&self) -> Result<Vec<AccessToken>, KeyringError> {
        either!(self, store => store.access_tokens())
    }

    fn access_token(&self, id: AccessTokenId) -> Result<Option<AccessToken>, KeyringError> {
        either!(self, store => store.access_token(id))
    }

    fn add_access_token(&self, token: &AccessToken) -> Result<(), KeyringError> {
        either!(self, store => store.add_access_token(token))
    }

    fn revoke_access_token(&self, id: AccessTokenId, at: &Timestamp) -> Result<bool, KeyringError> {
        either!(self, store => store.revoke_access_token(id, at))
    }
}

impl ActivityCounter for AnyStore {
    fn next(&self) -> Result<Activity, StoreError> {
        either!(self, store => store.next())
    }
}

impl ProjectionCache for AnyStore {
    fn get(&self, session: SessionId, version: u32) -> Option<CachedProjection> {
        either!(self, store => store.get(session, version))
    }

    fn put(&self, session: SessionId, projection: &CachedProjection) -> Result<(), FsError> {
        either!(self, store => store.put(session, projection))
    }

    fn invalidate(&self, session: SessionId) -> Result<(), FsError> {
        either!(self, store => store.invalidate(session))
    }
}

impl SessionIndex for AnyStore {
    fn index_records(&self, version: u32, is_present: &dyn Fn(SessionId) -> bool) -> Vec<IndexRecord> {
        either!(self, store => store.index_records(version, is_present))
    }

    fn add_to_index(&self, version: u32, records: &[IndexRecord], if_absent: IfAbsent) {
        either!(self, store => store.add_to_index(version, records, if_absent));
    }

    fn query_index(&self, version: u32, query: &IndexQuery) -> Option<IndexAnswer> {
        either!(self, store => store.query_index(version, query))
    }
}

impl PendingPreferencesReader for AnyStore {
    fn pending_preferences(
        &self,
        session: SessionId,
        run: RunId,
    ) -> Result<Option<PendingPreferences>, FsError> {
        either!(self, store => store.pending_preferences(session, run))
    }

    fn has_unreadable_pending_preferences(&self, session: SessionId, is_run: &dyn Fn(RunId) -> bool) -> bool {
        either!(self, store => store.has_unreadable_pending_preferences(session, is_run))
    }
}

impl PendingPreferencesStore for AnyStore {
    fn set_pending_preferences(
        &self,
        session: SessionId,
        pending: &BTreeMap<RunId, PendingPreferences>,
    ) -> Result<(), FsError> {
        either!(self, store => store.set_pending_preferences(session, pending))
    }

    fn clear_pending_preferences(
        &self,
        session: SessionId,
        run: RunId,
        applied: &PendingPreferences,
    ) -> Result<(), FsError> {
        either!(self, store => store.clear_pending_preferences(session, run, applied))
    }
}

/// On this machine: hooks run where the agent does.
impl ObservationSpool for AnyStore {
    fn leave_observation(
        &self,
        session: SessionId,
        run: RunId,
        seen: &HookObservation,
    ) -> Result<(), FsError> {
        self.machine().leave_observation(session, run, seen)
    }

    fn take_observations(&self, session: SessionId, run: RunId) -> Vec<HookObservation> {
        self.machine().take_observations(session, run)
    }

    fn forget_observations(&self, session: SessionId, run: RunId, recorded: usize) -> Result<(), FsError> {
        self.machine().forget_observations(session, run, recorded)
    }
}

/// On this machine: a process id and a terminal mean nothing elsewhere.
impl ServerDirectory for AnyStore {
    fn servers(&self) -> Result<Vec<ServerRecord>, FsError> {
        self.machine().servers()
    }

    fn calls(&self, limit: usize) -> Result<Vec<LoggedCall>, FsError> {
        self.machine().calls(limit)
    }
}

impl SessionArchive for AnyStore {
    fn segments(
        &self,
        session: SessionId,
        until: Option<&Cursor>,
        visit: &mut dyn FnMut(RawSegment) -> ControlFlow<()>,
    ) -> Result<Archived, StoreError> {
        either!(self, store => store.segments(session, until, visit))
    }

    fn content(&self, kind: AttachmentKind, digest: Sha256) -> Result<Vec<u8>, ContentError> {
        either!(self, store => store.content(kind, digest))
    }
}

#[derive(Debug)]
pub(crate) enum AnyStaged<'a> {
    Directory(Box<directory::StagedLocalImport<'a, Disk>>),
    Database(Box<database::StagedPgImport<'a>>),
}

macro_rules! either_staged {
    ($any:expr, $staged:ident => $call:expr) => {
        match $any {
            AnyStaged::Directory($staged) => $call,
            AnyStaged::Database($staged) => $call,
        }
    };
}

impl StagedSession for AnyStaged<'_> {
    fn content(&mut self, attachment: &Attachment) -> Result<(), StoreError> {
        either_staged!(self, staged => staged.content(attachment))
    }

    fn segment(&mut self, segment: &RawSegment) -> Result<(), StoreError> {
        either_staged!(self, staged => staged.segment(segment))
    }

    fn publish(self) -> Result<(), StoreError> {
        either_staged!(self, staged => staged.publish())
    }
}

impl SessionImport for AnyStore {
    type Staged<'a> = AnyStaged<'a>;

    fn is_taken(&self, session: SessionId) -> Result<bool, StoreError> {
        either!(self, store => store.is_taken(session))
    }

    fn stage(&self, session: SessionId) -> Result<AnyStaged<'_>, StoreError> {
        Ok(match self {
            Self::Directory(store) => AnyStaged::Directory(Box::new(store.stage(session)?)),
            Self::Database { shared, .. } => AnyStaged::Database(Box::new(shared.stage(session)?)),
        })
    }

    fn newest_activity(&self) -> Result<Activity, StoreError> {
        either!(self, store => store.newest_activity())
    }

    fn raise_activity(&self, at_least: Activity) -> Result<(), StoreError> {
        either!(self, store => store.raise_activity(at_least))
    }
}

impl Inspection for AnyStore {
    fn is_kept(&self, session: SessionId) -> bool {
        either!(self, store => store.is_kept(session))
    }

    fn kept(&self, sessions: BTreeSet<SessionId>) -> BTreeSet<SessionId> {
        either!(self, store => store.kept(sessions))
    }

    fn foreign_folders(&self) -> Result<Vec<String>, FsError> {
        either!(self, store => store.foreign_folders())
    }

    fn obstacles(&self) -> Vec<Obstacle> {
        either!(self, store => store.obstacles())
    }

    fn segment_count(&self, session: SessionId) -> Result<u64, FsError> {
        either!(self, store => store.segment_count(session))
    }

    fn contents(&self, kind: AttachmentKind) -> Result<Vec<Sha256>, FsError> {
        either!(self, store => store.contents(kind))
    }

    fn strays(&self, max: usize) -> Result<(Vec<Stray>, u64), FsError> {
        either!(self, store => store.strays(max))
    }

    fn pending_writes(&self) -> Result<Vec<PendingWrite>, FsError> {
        either!(self, store => store.pending_writes())
    }

    fn pending_write(&self, session: SessionId) -> Result<Option<PendingWrite>, FsError> {
        either!(self, store => store.pending_write(session))
    }
}

impl Upkeep for AnyStore {
    fn keep(&self, session: SessionId) -> Result<(), UpkeepError> {
        either!(self, store => store.keep(session))
    }

    fn unkeep(&self, session: SessionId) -> Result<(), UpkeepError> {
        either!(self, store => store.unkeep(session))
    }

    fn remove_all(&self, sessions: &[(SessionId, Option<Cursor>)]) -> Vec<Result<Tally, UpkeepError>> {
        either!(self, store => store.remove_all(sessions))
    }

    fn weigh(&self, session: SessionId) -> Result<Tally, UpkeepError> {
        either!(self, store => store.weigh(session))
    }

    fn may_sweep(&self) -> Result<(), UpkeepError> {
        either!(self, store => store.may_sweep())
    }

    fn has_lost_sessions(&self) -> bool {
        either!(self, store => store.has_lost_sessions())
    }

    fn sweep(&self, sweep: Sweep<'_>) -> Result<Swept, UpkeepError> {
        either!(self, store => store.sweep(sweep))
    }

    fn diagnose(
        &self,
        session: SessionId,
        trusted_until: Option<EventIndex>,
    ) -> Result<Diagnosis, UpkeepError> {
        either!(self, store => store.diagnose(session, trusted_until))
    }

    fn replace_content(&self, content: &Attachment) -> Result<Option<String>, UpkeepError> {
        either!(self, store => store.replace_content(content))
    }

    fn repair(
        &self,
        session: SessionId,
        trusted_until: Option<EventIndex>,
    ) -> Result<Diagnosis, UpkeepError> {
        either!(self, store => store.repair(session, trusted_until))
    }
}
