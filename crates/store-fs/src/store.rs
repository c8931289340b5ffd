//! The local session store: what a process remembers about each session, and the lock that guards it (G19).

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use workrail_model::event::Event;
use workrail_model::health::SessionHealth;
use workrail_model::id::SessionId;
use workrail_model::limits::{LOCK_WAIT_MS_MAX, MANIFEST_BYTES_MAX};
use workrail_model::manifest::Cursor;
use workrail_model::plan::AppendPlan;
use workrail_ports::environment::Entropy;
use workrail_ports::file_system::{DirEntry, FileStamp, FileSystem, FsError, FsErrorKind, LockMode, RelPath};
use workrail_ports::session_store::{
    Appended, LockedSession, LogStamp, SessionReader, SessionSlice, SessionStore, StampDepth, StampedSession,
    StoreError, is_recorded,
};

use crate::commit::{self, ManifestEnd};
use crate::load::{self, CursorOrigin, LoadedLog};
use crate::memo::{Memo, Memos};
use crate::orphan::LogContinuation;
use crate::{layout, obstacles, orphan, stamps, suspect};

/// How long a writer waits for a lock.
pub(crate) const LOCK_WAIT: Duration = Duration::from_millis(LOCK_WAIT_MS_MAX);

/// How often a new session's folder may vanish before it is locked.
const CREATE_TRIES_MAX: usize = 8;

/// Sessions, content, keys and caches beneath one data directory.
pub struct LocalStore<F: FileSystem> {
    fs: F,
    pub(crate) entropy: Box<dyn Entropy>,
    /// Differs after each boot: an unsynced counter is not trusted across boots.
    pub(crate) boot_id: String,
    memos: Mutex<Memos>,
    /// Sessions in which something failed: their manifest is rewritten before it is relied on.
    doubted: Mutex<BTreeSet<SessionId>>,
    /// Sessions that this process has read. For all others, cursors may come from a cache.
    read_before: Mutex<BTreeSet<SessionId>>,
}

impl<F: FileSystem> std::fmt::Debug for LocalStore<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LocalStore").finish_non_exhaustive()
    }
}

impl<F: FileSystem> LocalStore<F> {
    /// Opens the store, creating its folders durably. `boot_id` identifies the current boot of the kernel. A folder
    /// that is blocked by something else, or that this user may not use, fails only the calls that need it.
    pub fn open(fs: F, entropy: Box<dyn Entropy>, boot_id: String) -> Result<Self, FsError> {
        for folder in layout::base_dirs() {
            match suspect::make_folder(&fs, &folder) {
                Err(error) if is_obstructed(&fs, &folder, &error) => {}
                made => made?,
            }
        }
        Ok(Self::read_only(fs, entropy, boot_id))
    }

    /// The store as it is: no folder is created, and a missing one reads as empty if `fs` says so. For commands that
    /// only read; writers use `open`.
    pub fn read_only(fs: F, entropy: Box<dyn Entropy>, boot_id: String) -> Self {
        let (memos, doubted, read_before) = (Mutex::default(), Mutex::default(), Mutex::default());
        Self { fs, entropy, boot_id, memos, doubted, read_before }
    }

    pub(crate) fn fs(&self) -> &F {
        &self.fs
    }

    fn memos(&self) -> MutexGuard<'_, Memos> {
        // A panic while the map was locked cannot have left it half-changed: memos are moved in and out whole.
        self.memos.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn doubted(&self) -> MutexGuard<'_, BTreeSet<SessionId>> {
        self.doubted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Forgets a session that is gone or was truncated.
    pub(crate) fn forget(&self, session: SessionId) {
        self.memos().take(session);
        self.doubted().remove(&session);
        self.read_before.lock().unwrap_or_else(PoisonError::into_inner).remove(&session);
    }

    pub(crate) fn take_lock(&self, session: SessionId) -> Result<F::Lock, StoreError> {
        self.fs
            .lock(&layout::session_lock(session), LockMode::Exclusive, LOCK_WAIT)
            .map_err(|error| match error.kind == FsErrorKind::NotFound {
                true => StoreError::NotFound { session },
                false => StoreError::Io(error),
            })?
            .ok_or(StoreError::Locked { session })
    }

    /// Validates what this process has not seen yet, makes it durable before relying on it, and rolls a completed
    /// write forward (G13).
    fn admit(&self, session: SessionId, lock: F::Lock) -> Result<LockedLocalSession<'_, F>, StoreError> {
        let memo = self.memos().take(session);
        let admitted_before = memo.is_some();
        let mut memo = memo.or_else(|| self.saved_keys(session)).unwrap_or_else(Memo::new);
        let in_doubt =
            suspect::is_marked(&self.fs, &layout::session(session))? || self.doubted().contains(&session);
        if in_doubt {
            memo = Memo::new();
        }
        let since = (memo.cursor != Cursor::start()).then_some(memo.cursor);
        let origin = if admitted_before { CursorOrigin::ThisProcess } else { CursorOrigin::Saved };
        let mut loaded = self.load_healthy(session, since.as_ref(), origin)?;
        let is_new_to_us = !admitted_before || loaded.cursor != memo.cursor;
        if in_doubt {
            self.rewrite_doubted_manifest(session)?;
        } else if is_new_to_us && loaded.has_manifest {
            self.make_durable(session).inspect_err(|error| {
                if suspect::is_failed_sync(error) {
                    self.doubted().insert(session);
                }
            })?;
        }
        // Taken before the listing, so that the next call notices a name that appears during it.
        let folder = self.events_stamp(session);
        let entries = match folder.is_some() && folder == memo.clean_folder && !is_new_to_us {
            true => Vec::new(),
            false => load::list_events(&self.fs, session)?,
        };
        if starts_at(&entries, loaded.cursor.next_event_index.get()) && self.roll_forward(session, &loaded)? {
            loaded = self.load_healthy(session, since.as_ref(), origin)?;
        }
        if !loaded.continues {
            memo = Memo::new();
        }
        let base = memo.cursor;
        let leftovers = leftovers(session, &entries, &loaded, base);
        memo.clean_folder = folder.filter(|_| leftovers.is_empty());
        memo.remember(&loaded.events);
        memo.cursor = loaded.cursor;
        memo.torn_bytes = loaded.torn_bytes;
        let new_events = loaded.events;
        Ok(LockedLocalSession { store: self, session, lock, memo, base, new_events, leftovers, failed: None })
    }

    /// Changes with every name in the segments folder. A name that another process adds within the resolution of the
    /// file system's clock is missed until the next change; it was not acknowledged (G13).
    fn events_stamp(&self, session: SessionId) -> Option<FileStamp> {
        self.fs.stat(&layout::events(session)).ok().map(|stat| stat.stamp)
    }

    /// The log from `since` on; empty if there is no manifest.
    fn load_healthy(
        &self,
        session: SessionId,
        since: Option<&Cursor>,
        origin: CursorOrigin,
    ) -> Result<LoadedLog, StoreError> {
        let loaded = load::load_from(&self.fs, session, since, origin)?.unwrap_or_else(LoadedLog::nothing);
        if loaded.health.is_healthy() {
            Ok(loaded)
        } else {
            Err(StoreError::Unhealthy { session, health: loaded.health })
        }
    }

    /// Commits the completed write at the end of the log, if there is one; returns whether it did.
    fn roll_forward(&self, session: SessionId, loaded: &LoadedLog) -> Result<bool, StoreError> {
        // As for an append: no sweep may remove the content meanwhile.
        let store_lock = self.fs.lock(&layout::store_lock(), LockMode::Shared, LOCK_WAIT)?;
        let _store_lock = store_lock.ok_or(StoreError::Busy)?;
        let torn = orphan::bytes_after(&self.fs, session, &loaded.cursor)?;
        let orphan = match orphan::pending(&self.fs, session, &loaded.cursor, &torn)? {
            LogContinuation::Nothing => return Ok(false),
            LogContinuation::Write(orphan) => orphan,
            LogContinuation::Damaged(reason) => {
                let health = SessionHealth::corrupt_from(loaded.cursor.next_event_index, reason);
                return Err(StoreError::Unhealthy { session, health });
            }
        };
        if loaded.cursor == Cursor::start() {
            // The process that created the folders may have failed to make their names durable.
            suspect::make_folder(&self.fs, &layout::session(session))?;
            suspect::make_folder(&self.fs, &layout::events(session))?;
        }
        let end = ManifestEnd { cursor: loaded.cursor, torn_bytes: torn.len() as u64 };
        commit::roll_forward(&self.fs, session, end, &orphan).inspect_err(|_| {
            self.doubted().insert(session);
        })?;
        Ok(true)
    }

    /// Syncs a manifest that another process, or this one before a crash, appended to.
    fn make_durable(&self, session: SessionId) -> Result<(), FsError> {
        let folder = layout::session(session);
        let mut file = self.fs.open_append(&layout::manifest(session))?;
        suspect::sync_file(&self.fs, &folder, &mut file)?;
        suspect::sync_found_names(&self.fs, &folder)
    }

    /// Rewrites the manifest with everything that is seen of it: it may include writes that were acknowledged to
    /// others. A killed import may have left the session's own name not durable.
    fn rewrite_doubted_manifest(&self, session: SessionId) -> Result<(), FsError> {
        // A removal that failed half-way may have left the folder under another name on the disk.
        self.fs.sync_dir(&layout::sessions())?;
        commit::rewrite_manifest(&self.fs, session, MANIFEST_BYTES_MAX)?;
        self.doubted().remove(&session);
        Ok(())
    }
}

/// Whether a folder could not be created because something has its name, or its parent's name.
fn is_obstructed<F: FileSystem>(fs: &F, folder: &RelPath, error: &FsError) -> bool {
    matches!(error.kind, FsErrorKind::PermissionDenied | FsErrorKind::WrongKind | FsErrorKind::AlreadyExists)
        && [Some(folder.clone()), folder.parent()]
            .into_iter()
            .flatten()
            .any(|path| obstacles::folder_obstacle(fs, &path).is_some())
}

fn starts_at(entries: &[DirEntry], index: u64) -> bool {
    entries.iter().any(|entry| layout::segment_indexes(&entry.name).is_some_and(|(first, _)| first == index))
}

/// Everything within the log's range that has a segment's name, is not named by any group, and could not be rolled
/// forward. Only exact segment names count: other files are not in the way.
fn leftovers(session: SessionId, entries: &[DirEntry], loaded: &LoadedLog, base: Cursor) -> Vec<RelPath> {
    let end = loaded.cursor.next_event_index.get();
    let is_left = |entry: &&DirEntry| {
        let Some((first, _)) = layout::segment_indexes(&entry.name) else { return false };
        let committed = loaded.segments.contains(&format!("events/{}", entry.name));
        // Segments before `base` were checked when they were read.
        !committed && (base.next_event_index.get()..=end).contains(&first)
    };
    let events = layout::events(session);
    entries.iter().filter(is_left).filter_map(|entry| events.child(&entry.name)).collect()
}

fn slice(loaded: LoadedLog) -> SessionSlice {
    SessionSlice {
        events: loaded.events,
        continues: loaded.continues,
        cursor: loaded.cursor,
        health: loaded.health,
    }
}

impl<F: FileSystem> SessionReader for LocalStore<F> {
    fn sessions(&self) -> Result<Vec<SessionId>, StoreError> {
        let mut found = Vec::new();
        for entry in self.fs.list(&layout::sessions())? {
            let Ok(session) = SessionId::parse(&entry.name) else { continue };
            // Anything that cannot be inspected, or is not a folder, is listed too: reading it reports why.
            if load::is_begun(&self.fs, session).unwrap_or(true) {
                found.push(session);
            }
        }
        Ok(found)
    }

    fn stamped_sessions(&self, depth: StampDepth) -> Result<Vec<StampedSession>, StoreError> {
        stamps::all(&self.fs, depth)
    }

    fn stamp(&self, session: SessionId) -> Option<LogStamp> {
        stamps::one(&self.fs, session)
    }

    fn change_stamp(&self) -> Option<u64> {
        Some(stamps::of_store(&self.fs))
    }

    fn read(&self, session: SessionId, since: Option<&Cursor>) -> Result<SessionSlice, StoreError> {
        let mut read_before = self.read_before.lock().unwrap_or_else(PoisonError::into_inner);
        let origin = match read_before.insert(session) {
            true => CursorOrigin::Saved,
            false => CursorOrigin::ThisProcess,
        };
        drop(read_before);
        let loaded = load::load_from(&self.fs, session, since, origin)?;
        let loaded = loaded.ok_or(StoreError::NotFound { session })?;
        if loaded.health.is_healthy() && loaded.cursor == Cursor::start() {
            return Err(StoreError::NotFound { session });
        }
        Ok(slice(loaded))
    }
}

impl<F: FileSystem> SessionStore for LocalStore<F> {
    type Locked<'a> = LockedLocalSession<'a, F>;

    fn create(&self, session: SessionId) -> Result<LockedLocalSession<'_, F>, StoreError> {
        // A sweep may remove an empty folder before it is locked; then it is created again.
        for _ in 0..CREATE_TRIES_MAX {
            match self.try_create(session) {
                Err(StoreError::NotFound { .. }) => {}
                created => return created,
            }
        }
        Err(StoreError::Locked { session })
    }

    fn lock(&self, session: SessionId) -> Result<LockedLocalSession<'_, F>, StoreError> {
        // Checked first, so that an unknown id does not leave a lock file behind.
        let stat = self.fs.stat(&layout::manifest(session));
        let absent = stat.is_err_and(|error| error.kind == FsErrorKind::NotFound);
        if absent && !load::holds_work(&self.fs, session)? {
            self.forget(session);
            return Err(StoreError::NotFound { session });
        }
        let lock = self.take_lock(session)?;
        let locked = self.admit(session, lock)?;
        if locked.cursor() == Cursor::start() {
            return Err(StoreError::NotFound { session });
        }
        Ok(locked)
    }
}

impl<F: FileSystem> LocalStore<F> {
    fn try_create(&self, session: SessionId) -> Result<LockedLocalSession<'_, F>, StoreError> {
        let (folder, events) = (layout::session(session), layout::events(session));
        // Only an empty one is removed: a folder in use was synced before it was used.
        suspect::make_folder(&self.fs, &folder).inspect_err(|_| {
            let _ = self.fs.remove_dir(&folder);
        })?;
        let lock = self.take_lock(session)?;
        suspect::make_folder(&self.fs, &events).inspect_err(|_| {
            suspect::mark(&self.fs, &folder);
            let _ = self.fs.remove_dir(&events);
        })?;
        let locked = self.admit(session, lock)?;
        if locked.cursor() != Cursor::start() {
            return Err(StoreError::AlreadyExists { session });
        }
        Ok(locked)
    }
}

/// The witness: a held lock over a log found healthy. Created only here, and ends with the lock.
pub struct LockedLocalSession<'a, F: FileSystem> {
    store: &'a LocalStore<F>,
    session: SessionId,
    #[expect(dead_code, reason = "held for its drop, which releases the lock")]
    lock: F::Lock,
    memo: Memo,
    /// Where `new_events` starts.
    base: Cursor,
    new_events: Vec<Event>,
    /// Moved aside by the next append; never by a caller that only reads or replays.
    leftovers: Vec<RelPath>,
    /// The first failure: nothing more is attempted on this witness.
    failed: Option<FsError>,
}

impl<F: FileSystem> std::fmt::Debug for LockedLocalSession<'_, F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LockedLocalSession").field("session", &self.session).finish_non_exhaustive()
    }
}

impl<F: FileSystem> LockedLocalSession<'_, F> {
    fn check(&self, plan: &AppendPlan) -> Result<(), StoreError> {
        if let Some(error) = &self.failed {
            return Err(error.clone().into());
        }
        if plan.session_id() != self.session {
            return Err(StoreError::WrongSession { expected: self.session, found: plan.session_id() });
        }
        Ok(())
    }

    fn commit(&mut self, plan: &AppendPlan) -> Result<Cursor, StoreError> {
        let fs = self.store.fs();
        let store_lock =
            fs.lock(&layout::store_lock(), LockMode::Shared, LOCK_WAIT)?.ok_or(StoreError::Busy)?;
        let end = ManifestEnd { cursor: self.memo.cursor, torn_bytes: self.memo.torn_bytes };
        let result = commit::commit(fs, end, plan, &self.leftovers);
        drop(store_lock);
        result
    }
}

impl<F: FileSystem> LockedSession for LockedLocalSession<'_, F> {
    fn session_id(&self) -> SessionId {
        self.session
    }

    fn cursor(&self) -> Cursor {
        self.memo.cursor
    }

    fn events_since(&self, since: Option<&Cursor>) -> Result<SessionSlice, StoreError> {
        let cursor = self.memo.cursor;
        let health = SessionHealth::Healthy;
        if since == Some(&cursor) {
            return Ok(SessionSlice { events: Vec::new(), continues: true, cursor, health });
        }
        if since.copied().unwrap_or_else(Cursor::start) == self.base {
            return Ok(SessionSlice { events: self.new_events.clone(), continues: true, cursor, health });
        }
        let loaded = load::load(self.store.fs(), self.session, since)?;
        loaded.map(slice).ok_or(StoreError::NotFound { session: self.session })
    }

    fn append(&mut self, plan: AppendPlan) -> Result<Appended, StoreError> {
        self.check(&plan)?;
        if is_recorded(&plan, |event| self.memo.keys.contains(&event.dedupe_key.fingerprint()))? {
            self.store.fs().about_to_acknowledge();
            return Ok(Appended::AlreadyRecorded);
        }
        let expected = self.memo.cursor.next_event_index;
        if plan.first_index() != expected {
            return Err(StoreError::Stale { expected, found: plan.first_index() });
        }
        match self.commit(&plan) {
            Ok(cursor) => {
                self.memo.remember(plan.events());
                self.memo.cursor = cursor;
                self.memo.torn_bytes = 0;
                self.leftovers.clear();
                self.memo.clean_folder = self.store.events_stamp(self.session);
                self.new_events.extend_from_slice(plan.events());
                self.store.save_keys(self.session, &mut self.memo);
                Ok(Appended::Committed { events: plan.into_events(), cursor })
            }
            Err(error) => {
                if let StoreError::Io(cause) | StoreError::Uncertain(cause) = &error {
                    self.failed = Some(cause.clone());
                    self.store.doubted().insert(self.session);
                }
                Err(error)
            }
        }
    }
}

impl<F: FileSystem> Drop for LockedLocalSession<'_, F> {
    fn drop(&mut self) {
        // After a failure the disk is read again: memory may be wrong about what reached it.
        if self.failed.is_some() || self.memo.cursor == Cursor::start() {
            return;
        }
        let memo = std::mem::replace(&mut self.memo, Memo::new());
        self.store.memos().keep(self.session, memo);
    }
}
