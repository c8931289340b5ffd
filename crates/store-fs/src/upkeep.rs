//! Upkeep on request: keeping, removing, sweeping, finding strays, repairing (G24, G25).

use std::collections::BTreeSet;

use workrail_model::digest::Sha256;
use workrail_model::event::EventIndex;
use workrail_model::id::SessionId;
use workrail_model::limits::{MANIFEST_BYTES_MAX, SEGMENT_BYTES_MAX};
use workrail_model::manifest::{Cursor, ManifestRecord, commit_group, group_bytes};
use workrail_model::plan::{Attachment, AttachmentKind};
use workrail_ports::file_system::{FileSystem, FsError, FsErrorKind};
use workrail_ports::session_store::StoreError;
use workrail_ports::upkeep::{
    Diagnosis, Inspection, Obstacle, PendingWrite, Stray, Sweep, Swept, Tally, Upkeep, UpkeepError,
};

use crate::content::write_temp;
use crate::orphan::LogContinuation;
use crate::rebuild::{self, MANIFEST_TAIL_BYTES};
use crate::store::LocalStore;
use crate::{backup, folder_tree, layout, load, obstacles, orphan, removal, strays, suspect};

impl<F: FileSystem> LocalStore<F> {
    /// The lock of a session that exists.
    fn lock_existing(&self, session: SessionId) -> Result<F::Lock, UpkeepError> {
        if !load::is_begun(self.fs(), session)? {
            return Err(StoreError::NotFound { session }.into());
        }
        Ok(self.take_lock(session)?)
    }

    /// Whether the manifest does not end with the complete group of the newest segment.
    fn may_have_an_orphan(&self, session: SessionId) -> Result<bool, FsError> {
        let entries = load::list_events(self.fs(), session)?;
        let segments =
            entries.iter().filter_map(|entry| Some((layout::segment_indexes(&entry.name)?, entry)));
        let Some(((first, _), newest)) = segments.max_by_key(|(indexes, _)| *indexes) else {
            return Ok(false);
        };
        let path = layout::manifest(session);
        let len = match self.fs().stat(&path) {
            Ok(stat) => stat.len,
            Err(error) if error.kind == FsErrorKind::NotFound => 0,
            Err(error) => return Err(error),
        };
        let tail = match len {
            0 => Vec::new(),
            len => self.fs().read(&path, len.saturating_sub(MANIFEST_TAIL_BYTES), MANIFEST_BYTES_MAX)?,
        };
        let closing = rebuild::last_closed(&tail);
        let (Some(path), Some((index, _))) = (layout::events(session).child(&newest.name), closing) else {
            return Ok(true);
        };
        let segment = self.fs().read(&path, 0, SEGMENT_BYTES_MAX)?;
        let Some(first) = EventIndex::new(first) else { return Ok(true) };
        let Ok(events) = load::events_of(session, first, &newest.name, &segment) else { return Ok(true) };
        let group = group_bytes(&commit_group(index, &events, &segment));
        Ok(!group.is_ok_and(|group| tail.ends_with(&group)))
    }
}

impl<F: FileSystem> Inspection for LocalStore<F> {
    fn is_kept(&self, session: SessionId) -> bool {
        self.is_marked_to_keep(session)
    }

    fn kept(&self, mut sessions: BTreeSet<SessionId>) -> BTreeSet<SessionId> {
        sessions.retain(|session| removal::is_mark(&self.fs().glance(&layout::keep(*session))));
        sessions
    }

    fn foreign_folders(&self) -> Result<Vec<String>, FsError> {
        strays::foreign_folders(self.fs())
    }

    fn obstacles(&self) -> Vec<Obstacle> {
        obstacles::all(self.fs())
    }

    fn segment_count(&self, session: SessionId) -> Result<u64, FsError> {
        let manifest = self.fs().read(&layout::manifest(session), 0, MANIFEST_BYTES_MAX)?;
        let lines = manifest.split(|byte| *byte == b'\n');
        let closes =
            |line: &&[u8]| matches!(ManifestRecord::parse(line), Ok(ManifestRecord::SegmentClosed { .. }));
        Ok(lines.filter(closes).count() as u64)
    }

    fn contents(&self, kind: AttachmentKind) -> Result<Vec<Sha256>, FsError> {
        self.contents_of(kind)
    }

    fn strays(&self, max: usize) -> Result<(Vec<Stray>, u64), FsError> {
        strays::strays(self.fs(), max)
    }

    fn pending_writes(&self) -> Result<Vec<PendingWrite>, FsError> {
        let mut pending = Vec::new();
        for entry in self.fs().list(&layout::sessions())? {
            let Ok(session) = SessionId::parse(&entry.name) else { continue };
            // An unreadable session is reported on its own.
            pending.extend(self.pending_write(session).ok().flatten());
        }
        Ok(pending)
    }

    fn pending_write(&self, session: SessionId) -> Result<Option<PendingWrite>, FsError> {
        // Most sessions have none, which the names alone show. If something else blocks a file, they do not, and the
        // reader decides.
        if self.may_have_an_orphan(session).is_ok_and(|may| !may) {
            return Ok(None);
        }
        let loaded = load::load(self.fs(), session, None)?.unwrap_or_else(load::LoadedLog::nothing);
        if !loaded.health.is_healthy() {
            return Ok(None);
        }
        let torn = orphan::bytes_after(self.fs(), session, &loaded.cursor)?;
        match orphan::pending(self.fs(), session, &loaded.cursor, &torn)? {
            LogContinuation::Write(orphan) => Ok(Some(PendingWrite {
                session,
                segment: format!("events/{}", orphan.name),
                events: orphan.events.len() as u64,
            })),
            // Damage is reported in the session's health.
            LogContinuation::Nothing | LogContinuation::Damaged(_) => Ok(None),
        }
    }
}

impl<F: FileSystem> Upkeep for LocalStore<F> {
    fn keep(&self, session: SessionId) -> Result<(), UpkeepError> {
        let _lock = self.lock_existing(session)?;
        // Rewritten even if it exists: an earlier sync may have failed (G14).
        write_temp(self.fs(), &layout::keep_temp(session), b"")?;
        self.fs().rename(&layout::keep_temp(session), &layout::keep(session))?;
        suspect::sync_names(self.fs(), &layout::session(session))?;
        Ok(())
    }

    fn unkeep(&self, session: SessionId) -> Result<(), UpkeepError> {
        let _lock = self.lock_existing(session)?;
        match self.fs().remove_file(&layout::keep(session)) {
            Err(error) if error.kind != FsErrorKind::NotFound => return Err(error.into()),
            _ => {}
        }
        suspect::sync_names(self.fs(), &layout::session(session))?;
        Ok(())
    }

    fn remove_all(&self, sessions: &[(SessionId, Option<Cursor>)]) -> Vec<Result<Tally, UpkeepError>> {
        self.remove_sessions(sessions)
    }

    fn weigh(&self, session: SessionId) -> Result<Tally, UpkeepError> {
        Ok(folder_tree::tally(self.fs(), &layout::session(session))?)
    }

    fn may_sweep(&self) -> Result<(), UpkeepError> {
        self.exclusive_store_lock().map(drop)
    }

    fn has_lost_sessions(&self) -> bool {
        obstacles::has_lost_sessions(self.fs())
    }

    fn sweep(&self, sweep: Sweep<'_>) -> Result<Swept, UpkeepError> {
        self.sweep_content(sweep)
    }

    fn diagnose(
        &self,
        session: SessionId,
        trusted_until: Option<EventIndex>,
    ) -> Result<Diagnosis, UpkeepError> {
        self.diagnose_session(session, trusted_until)
    }

    fn replace_content(&self, content: &Attachment) -> Result<Option<String>, UpkeepError> {
        backup::replace_content(self, content)
    }

    fn repair(
        &self,
        session: SessionId,
        trusted_until: Option<EventIndex>,
    ) -> Result<Diagnosis, UpkeepError> {
        self.repair_session(session, trusted_until)
    }
}
