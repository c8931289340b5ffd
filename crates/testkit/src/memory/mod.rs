//! A store in memory: the semantics of the ports without a disk, for tests and as the crash proofs' model.
//!
//! Clones share their data, as two processes share a data directory. What a call may see or refuse is exactly what
//! the ports document; only durability is missing. A held lock is refused immediately.

mod side_data;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, MutexGuard};

use workrail_model::compiled::CompiledWorkflow;
use workrail_model::digest::{BlobRef, Sha256, SnapshotRef, WorkflowHash};
use workrail_model::event::{Activity, DedupeKey, Event};
use workrail_model::evidence::HookObservation;
use workrail_model::health::SessionHealth;
use workrail_model::id::{RunId, SessionId};
use workrail_model::keyring::Keyring;
use workrail_model::manifest::{Cursor, commit_group, group_bytes, segment_bytes};
use workrail_model::passkey::PendingPreferences;
use workrail_model::plan::{AppendPlan, Attachment, AttachmentKind, RawSegment};
use workrail_model::snapshot::ExecutionSnapshot;
use workrail_model::team::AccessToken;
use workrail_ports::archive::{Archived, SessionArchive, SessionImport, StagedSession, check_continues};
use workrail_ports::cache::{CachedProjection, IndexRecord};
use workrail_ports::content::{ContentError, ContentStore};
use workrail_ports::passkeys::StoredPasskeys;
use workrail_ports::session_store::{
    Appended, LockedSession, SessionReader, SessionSlice, SessionStore, StoreError, is_recorded,
};

use crate::fixed::{self, SeededEntropy};

/// A handle on shared data; cloning it opens the same store again.
#[derive(Clone, Debug)]
pub struct MemoryStore {
    data: Arc<Mutex<MemoryData>>,
}

#[derive(Debug)]
struct MemoryData {
    sessions: BTreeMap<SessionId, MemoryLog>,
    /// The sessions whose lock is held.
    held: BTreeSet<SessionId>,
    content: BTreeMap<(AttachmentKind, Sha256), Vec<u8>>,
    entropy: SeededEntropy,
    keyring: Option<Keyring>,
    passkeys: StoredPasskeys,
    access_tokens: Vec<AccessToken>,
    activity: u64,
    cache: BTreeMap<SessionId, CachedProjection>,
    index: BTreeMap<(u32, SessionId), IndexRecord>,
    pending_preferences: BTreeMap<(SessionId, RunId), PendingPreferences>,
    observations: BTreeMap<(SessionId, RunId), Vec<HookObservation>>,
}

#[derive(Debug, Default)]
struct MemoryLog {
    events: Vec<Event>,
    /// The cursor after each committed plan.
    cursors: Vec<Cursor>,
    keys: BTreeSet<DedupeKey>,
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::new(0)
    }
}

impl MemoryStore {
    /// An empty store; the seed determines its signing keys.
    pub fn new(seed: u64) -> Self {
        let data = MemoryData {
            sessions: BTreeMap::new(),
            held: BTreeSet::new(),
            content: BTreeMap::new(),
            entropy: SeededEntropy::new(seed),
            keyring: None,
            passkeys: StoredPasskeys::default(),
            access_tokens: Vec::new(),
            activity: 0,
            cache: BTreeMap::new(),
            index: BTreeMap::new(),
            pending_preferences: BTreeMap::new(),
            observations: BTreeMap::new(),
        };
        Self { data: Arc::new(Mutex::new(data)) }
    }

    fn data(&self) -> MutexGuard<'_, MemoryData> {
        fixed::lock(&self.data)
    }

    /// How many content files are kept; equal content counts once.
    pub fn content_count(&self) -> usize {
        self.data().content.len()
    }

    fn hold(&self, session: SessionId) -> Result<MemorySession, StoreError> {
        if !self.data().held.insert(session) {
            return Err(StoreError::Locked { session });
        }
        Ok(MemorySession { store: self.clone(), session })
    }

    fn content(&self, kind: AttachmentKind, digest: Sha256) -> Result<Vec<u8>, ContentError> {
        let path = format!("{kind:?}/{}", digest.hex());
        let bytes = self.data().content.get(&(kind, digest)).cloned();
        let bytes = bytes.ok_or_else(|| ContentError::Missing { path: path.clone() })?;
        if Sha256::of(&bytes) == digest { Ok(bytes) } else { Err(ContentError::Damaged { path }) }
    }
}

impl MemoryLog {
    fn cursor(&self) -> Cursor {
        self.cursors.last().copied().unwrap_or_else(Cursor::start)
    }

    fn since(&self, since: Option<&Cursor>) -> SessionSlice {
        let from = since.copied().unwrap_or_else(Cursor::start);
        let continues = from == Cursor::start() || self.cursors.iter().rev().any(|cursor| *cursor == from);
        let skipped = if continues { from.next_event_index.get() as usize } else { 0 };
        // An event's index is its position, and no known cursor is beyond the end.
        let events = self.events[skipped..].to_vec();
        SessionSlice { events, continues, cursor: self.cursor(), health: SessionHealth::Healthy }
    }

    fn commit(&mut self, plan: AppendPlan) -> Appended {
        let before = self.cursor();
        let group = commit_group(before.next_manifest_index, plan.events(), plan.segment());
        let bytes = group_bytes(&group).expect("ids, digests and small numbers have a canonical form");
        let cursor = before.after(&group, &bytes, plan.events().len() as u64);
        let events = plan.into_events();
        self.keys.extend(events.iter().map(|event| event.dedupe_key.clone()));
        self.events.extend_from_slice(&events);
        self.cursors.push(cursor);
        Appended::Committed { events, cursor }
    }
}

impl SessionReader for MemoryStore {
    fn sessions(&self) -> Result<Vec<SessionId>, StoreError> {
        Ok(self.data().sessions.keys().copied().collect())
    }

    fn read(&self, session: SessionId, since: Option<&Cursor>) -> Result<SessionSlice, StoreError> {
        let data = self.data();
        let log = data.sessions.get(&session).ok_or(StoreError::NotFound { session })?;
        Ok(log.since(since))
    }
}

impl SessionStore for MemoryStore {
    type Locked<'a> = MemorySession;

    fn create(&self, session: SessionId) -> Result<MemorySession, StoreError> {
        let locked = self.hold(session)?;
        if self.data().sessions.contains_key(&session) {
            return Err(StoreError::AlreadyExists { session });
        }
        Ok(locked)
    }

    fn lock(&self, session: SessionId) -> Result<MemorySession, StoreError> {
        if !self.data().sessions.contains_key(&session) {
            return Err(StoreError::NotFound { session });
        }
        self.hold(session)
    }
}

/// A held session; dropping it releases the lock.
#[derive(Debug)]
pub struct MemorySession {
    store: MemoryStore,
    session: SessionId,
}

impl Drop for MemorySession {
    fn drop(&mut self) {
        self.store.data().held.remove(&self.session);
    }
}

impl LockedSession for MemorySession {
    fn session_id(&self) -> SessionId {
        self.session
    }

    fn cursor(&self) -> Cursor {
        self.store.data().sessions.get(&self.session).map_or_else(Cursor::start, MemoryLog::cursor)
    }

    fn events_since(&self, since: Option<&Cursor>) -> Result<SessionSlice, StoreError> {
        let data = self.store.data();
        Ok(data
            .sessions
            .get(&self.session)
            .map_or_else(|| MemoryLog::default().since(since), |log| log.since(since)))
    }

    fn append(&mut self, plan: AppendPlan) -> Result<Appended, StoreError> {
        let (expected, found) = (self.session, plan.session_id());
        if found != expected {
            return Err(StoreError::WrongSession { expected, found });
        }
        let data = &mut *self.store.data();
        let empty = MemoryLog::default();
        let log = data.sessions.get(&self.session).unwrap_or(&empty);
        if is_recorded(&plan, |event| log.keys.contains(&event.dedupe_key))? {
            return Ok(Appended::AlreadyRecorded);
        }
        let (expected, found) = (log.cursor().next_event_index, plan.first_index());
        if found != expected {
            return Err(StoreError::Stale { expected, found });
        }
        let attached: BTreeSet<_> =
            plan.attachments().iter().map(|attachment| (attachment.kind(), attachment.digest())).collect();
        for (kind, digest) in plan.events().iter().flat_map(|event| event.data.content_refs()) {
            if !attached.contains(&(kind, digest)) && !data.content.contains_key(&(kind, digest)) {
                return Err(StoreError::Unattached { kind, digest: digest.to_string() });
            }
        }
        for attachment in plan.attachments() {
            let key = (attachment.kind(), attachment.digest());
            data.content.entry(key).or_insert_with(|| attachment.bytes().to_vec());
        }
        Ok(data.sessions.entry(self.session).or_default().commit(plan))
    }
}

impl ContentStore for MemoryStore {
    fn snapshot(&self, reference: SnapshotRef) -> Result<ExecutionSnapshot, ContentError> {
        let bytes = self.content(AttachmentKind::Snapshot, reference.digest())?;
        ExecutionSnapshot::parse(&bytes)
            .map_err(|source| ContentError::Snapshot { path: reference.to_string(), source })
    }

    fn blob(&self, reference: BlobRef) -> Result<Vec<u8>, ContentError> {
        self.content(AttachmentKind::Blob, reference.digest())
    }

    fn workflow(&self, hash: WorkflowHash) -> Result<CompiledWorkflow, ContentError> {
        let bytes = self.content(AttachmentKind::Workflow, hash.digest())?;
        CompiledWorkflow::parse(&bytes)
            .map_err(|source| ContentError::Workflow { path: hash.to_string(), source })
    }
}

impl SessionArchive for MemoryStore {
    fn segments(
        &self,
        session: SessionId,
        until: Option<&Cursor>,
        visit: &mut dyn FnMut(RawSegment) -> ControlFlow<()>,
    ) -> Result<Archived, StoreError> {
        let (events, cursors) = {
            let data = self.data();
            let log = data.sessions.get(&session).ok_or(StoreError::NotFound { session })?;
            (log.events.clone(), log.cursors.clone())
        };
        let mut shown = Cursor::start();
        for cursor in cursors {
            let from = shown.next_event_index.get() as usize;
            let (to, end) = (cursor.next_event_index.get() as usize, until.map(|end| end.next_event_index));
            if end.is_some_and(|end| cursor.next_event_index > end) {
                break;
            }
            let bytes = segment_bytes(&events[from..to]).expect("appended events have a canonical form");
            shown = cursor;
            if visit(RawSegment::parse(bytes).expect("a committed plan is a segment")).is_break() {
                break;
            }
        }
        Ok(Archived { cursor: shown, health: SessionHealth::Healthy })
    }

    fn content(&self, kind: AttachmentKind, digest: Sha256) -> Result<Vec<u8>, ContentError> {
        Self::content(self, kind, digest)
    }
}

/// A session being imported.
#[derive(Debug)]
pub struct MemoryStaged {
    store: MemoryStore,
    session: SessionId,
    content: Vec<Attachment>,
    log: MemoryLog,
}

impl StagedSession for MemoryStaged {
    fn content(&mut self, attachment: &Attachment) -> Result<(), StoreError> {
        self.content.push(attachment.clone());
        Ok(())
    }

    fn segment(&mut self, segment: &RawSegment) -> Result<(), StoreError> {
        check_continues(segment, self.session, self.log.cursor().next_event_index)?;
        let plan = AppendPlan::new(segment.events().to_vec(), Vec::new())
            .expect("a segment within its limits is a plan without attachments");
        self.log.commit(plan);
        Ok(())
    }

    fn publish(self) -> Result<(), StoreError> {
        let mut data = self.store.data();
        for attachment in &self.content {
            let key = (attachment.kind(), attachment.digest());
            data.content.entry(key).or_insert_with(|| attachment.bytes().to_vec());
        }
        data.sessions.insert(self.session, self.log);
        Ok(())
    }
}

impl SessionImport for MemoryStore {
    type Staged<'a> = MemoryStaged;

    fn is_taken(&self, session: SessionId) -> Result<bool, StoreError> {
        Ok(self.data().sessions.contains_key(&session))
    }

    fn stage(&self, session: SessionId) -> Result<MemoryStaged, StoreError> {
        if self.is_taken(session)? {
            return Err(StoreError::AlreadyExists { session });
        }
        Ok(MemoryStaged { store: self.clone(), session, content: Vec::new(), log: MemoryLog::default() })
    }

    fn newest_activity(&self) -> Result<Activity, StoreError> {
        Ok(fixed::activity(self.data().activity))
    }

    fn raise_activity(&self, at_least: Activity) -> Result<(), StoreError> {
        let mut data = self.data();
        data.activity = data.activity.max(at_least.get());
        Ok(())
    }
}
