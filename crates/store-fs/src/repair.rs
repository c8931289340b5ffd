//! Repair of a damaged session: a backup first, then back to the validated prefix (G24).
//!
//! The order makes every crash harmless. The backup is whole and durable before anything changes. Segments
//! behind the prefix go next: the manifest still names them, so the session stays damaged with the same prefix.
//! The manifest, replaced in one step, is what mends it.

use workrail_model::event::{Event, EventData, EventIndex, OutputPayload};
use workrail_model::health::SessionHealth;
use workrail_model::id::SessionId;
use workrail_model::limits::{MANIFEST_BYTES_MAX, SEGMENT_BYTES_MAX};
use workrail_model::manifest::ManifestRecord;
use workrail_ports::file_system::{FileKind, FileSystem, FsError, FsErrorKind, LockMode};
use workrail_ports::session_store::StoreError;
use workrail_ports::upkeep::{Diagnosis, LostEvent, LostSegment, UpkeepError};

use crate::load::{self, Loaded};
use crate::store::{LOCK_WAIT, LocalStore};
use crate::{commit, layout, suspect, tree};

impl<F: FileSystem> LocalStore<F> {
    pub(crate) fn diagnose_session(
        &self,
        session: SessionId,
        trusted_until: Option<EventIndex>,
    ) -> Result<Diagnosis, UpkeepError> {
        let (health, kept) = self.kept_part(session, trusted_until)?;
        let backup = layout::backup(session, next_number(self.fs(), session)?);
        let manifest = self.fs().read(&layout::manifest(session), 0, MANIFEST_BYTES_MAX)?;
        // The cursor was read from this file or a shorter one of the same beginning.
        let keep_bytes = usize::try_from(kept.cursor.manifest_bytes).unwrap_or(usize::MAX);
        let rest = manifest.get(keep_bytes..).unwrap_or_default();
        Ok(Diagnosis {
            health,
            keeps_until: kept.cursor.next_event_index,
            gives_up: self.given_up(session, &kept, rest)?,
            manifest_bytes: rest.len() as u64,
            backup: backup.to_string(),
        })
    }

    pub(crate) fn repair_session(
        &self,
        session: SessionId,
        trusted_until: Option<EventIndex>,
    ) -> Result<Diagnosis, UpkeepError> {
        // Asked first: taking the lock of an unknown session would make a folder's file.
        self.kept_part(session, trusted_until)?;
        let _lock = self.take_lock(session)?;
        // Shared, as a writer: a sweep must not take what only the backup will refer to.
        let store_lock = self.fs().lock(&layout::store_lock(), LockMode::Shared, LOCK_WAIT)?;
        let _store_lock = store_lock.ok_or(UpkeepError::Busy)?;
        let diagnosis = self.diagnose_session(session, trusted_until)?;
        let (_, kept) = self.kept_part(session, trusted_until)?;
        self.back_up(session, next_number(self.fs(), session)?)?;
        self.remove_given_up(session, &kept)?;
        commit::rewrite_manifest(self.fs(), session, kept.cursor.manifest_bytes)?;
        self.fs().about_to_acknowledge();
        self.forget(session);
        // Derived from what is gone; a stale one would be noticed and dropped, too.
        let _ = self.fs().remove_file(&layout::cache(session));
        Ok(diagnosis)
    }

    /// What is wrong, and the prefix that stays; refused when there is nothing wrong or nothing to keep.
    fn kept_part(
        &self,
        session: SessionId,
        trusted_until: Option<EventIndex>,
    ) -> Result<(SessionHealth, Loaded), UpkeepError> {
        let not_found = || StoreError::NotFound { session };
        let loaded = load::load(self.fs(), session, None)?.ok_or_else(not_found)?;
        let mut until = match &loaded.health {
            SessionHealth::Healthy => trusted_until,
            SessionHealth::CorruptTail { valid_until, .. } => Some(*valid_until),
            SessionHealth::CorruptHead { .. } | SessionHealth::UnknownVersion { .. } => None,
        };
        if let (Some(found), Some(trusted)) = (until, trusted_until) {
            until = Some(found.min(trusted));
        }
        let health = loaded.health;
        let not_mendable = || UpkeepError::NotMendable { session, health: health.clone() };
        let until = until.ok_or_else(not_mendable)?;
        let kept = load::prefix(self.fs(), session, until)?.ok_or_else(not_found)?;
        if kept.cursor.next_event_index == EventIndex::ZERO {
            return Err(not_mendable());
        }
        Ok((health, kept))
    }

    /// Copies the whole folder under the next free number; its name appears when all of it is durable.
    fn back_up(&self, session: SessionId, number: u64) -> Result<(), UpkeepError> {
        let (fs, backups) = (self.fs(), layout::backups());
        suspect::make_folder(fs, &backups)?;
        let temp = layout::backup_temp(session);
        tree::remove(fs, &temp)?;
        tree::copy(fs, &layout::session(session), &temp, &[".lock"])?;
        let target = layout::backup(session, number);
        fs.rename(&temp, &target)?;
        fs.sync_dir(&backups).inspect_err(|_| {
            // It may never have reached the disk: the next try makes another one.
            let _ = fs.rename(&target, &temp);
        })?;
        Ok(())
    }

    fn remove_given_up(&self, session: SessionId, kept: &Loaded) -> Result<(), FsError> {
        let events = layout::events(session);
        for entry in load::list_events(self.fs(), session)? {
            let stays = kept.segments.contains(&format!("events/{}", entry.name));
            if entry.kind == FileKind::Regular
                && !stays
                && let Some(path) = events.child(&entry.name)
            {
                self.fs().remove_file(&path)?;
            }
        }
        self.fs().sync_dir(&events)
    }

    /// The segments behind the prefix: those that lie there, and those that only the manifest knows of.
    fn given_up(
        &self,
        session: SessionId,
        kept: &Loaded,
        rest: &[u8],
    ) -> Result<Vec<LostSegment>, UpkeepError> {
        let mut lost = Vec::new();
        for entry in load::list_events(self.fs(), session)? {
            let path = format!("events/{}", entry.name);
            if !kept.segments.contains(&path) && !layout::is_temporary(&entry.name) {
                lost.push(self.lost_segment(session, path)?);
            }
        }
        for line in rest.split(|byte| *byte == b'\n') {
            if let Ok(ManifestRecord::SegmentClosed { segment_rel_path, .. }) = ManifestRecord::parse(line)
                && !kept.segments.contains(&segment_rel_path)
                && !lost.iter().any(|known| known.path == segment_rel_path)
            {
                let (path, indexes) = (segment_rel_path.clone(), indexes_of(&segment_rel_path));
                lost.push(LostSegment {
                    path,
                    indexes,
                    is_there: false,
                    events: Vec::new(),
                    unreadable_lines: 0,
                });
            }
        }
        lost.sort_by(|a, b| (a.indexes, &a.path).cmp(&(b.indexes, &b.path)));
        Ok(lost)
    }

    fn lost_segment(&self, session: SessionId, path: String) -> Result<LostSegment, UpkeepError> {
        let read = layout::in_session(session, &path).map(|file| self.fs().read(&file, 0, SEGMENT_BYTES_MAX));
        let bytes = match read {
            Some(Ok(bytes)) => bytes,
            Some(Err(error)) if error.kind == FsErrorKind::Io => return Err(error.into()),
            // A link, a folder, a file too large: nothing of it can be told.
            Some(Err(_)) | None => Vec::new(),
        };
        let mut lost = LostSegment {
            indexes: indexes_of(&path),
            path,
            is_there: true,
            events: Vec::new(),
            unreadable_lines: 0,
        };
        for line in bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            match Event::parse(line) {
                Ok(event) => lost.events.push(LostEvent {
                    index: event.event_index.get(),
                    kind: event.data.kind().as_str().to_owned(),
                    has_notes: has_notes(&event.data),
                }),
                Err(_) => lost.unreadable_lines += 1,
            }
        }
        Ok(lost)
    }
}

fn has_notes(data: &EventData) -> bool {
    if let EventData::NodeOutputAppended(output) = data {
        matches!(output.payload, OutputPayload::Notes { .. })
    } else {
        false
    }
}

/// The first and last event index, from `events/00000000-00000005.jsonl`.
fn indexes_of(path: &str) -> Option<(u64, u64)> {
    let (first, last) = path.strip_prefix("events/")?.strip_suffix(".jsonl")?.split_once('-')?;
    Some((first.parse().ok()?, last.parse().ok()?))
}

pub(crate) fn next_number<F: FileSystem>(fs: &F, session: SessionId) -> Result<u64, FsError> {
    let entries = match fs.list(&layout::backups()) {
        Err(error) if error.kind == FsErrorKind::NotFound => Vec::new(),
        listed => listed?,
    };
    let prefix = format!("{session}-");
    let number = |name: &str| name.strip_prefix(&prefix)?.parse::<u64>().ok();
    Ok(entries.iter().filter_map(|entry| number(&entry.name)).max().map_or(1, |last| last + 1))
}
