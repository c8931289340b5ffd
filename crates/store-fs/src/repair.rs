//! Repairs a damaged session: first a backup, then a manifest that the segments attest (G24).
//!
//! The manifest is recomputed from the intact segments (G11), so that damage to the manifest alone loses nothing.
//! Segments after the first gap are given up. The order makes every crash harmless: the backup is complete and
//! durable before anything changes. Given-up segments are durably removed next, so that none returns as an orphan;
//! until the manifest is replaced, in one step, the session stays damaged.

use std::collections::BTreeSet;

use workrail_model::event::{Event, EventIndex};
use workrail_model::health::SessionHealth;
use workrail_model::id::SessionId;
use workrail_model::limits::{MANIFEST_BYTES_MAX, SEGMENT_BYTES_MAX};
use workrail_ports::file_system::{FileKind, FileStat, FileSystem, FsError, FsErrorKind, LockMode, RelPath};
use workrail_ports::session_store::StoreError;
use workrail_ports::upkeep::{Diagnosis, LostEvent, LostSegment, UpkeepError};

use crate::rebuild::{self, RebuiltLog};
use crate::store::{LOCK_WAIT, LocalStore};
use crate::{commit, folder_tree, layout, load, orphan, suspect};

/// A damaged session and what a repair would do.
struct RepairPlan {
    health: SessionHealth,
    /// How far the current manifest attests the log.
    validated_until: EventIndex,
    rebuilt: RebuiltLog,
}

impl<F: FileSystem> LocalStore<F> {
    pub(crate) fn diagnose_session(
        &self,
        session: SessionId,
        trusted_until: Option<EventIndex>,
    ) -> Result<Diagnosis, UpkeepError> {
        self.plan_repair(session, trusted_until).and_then(|plan| self.described(session, &plan))
    }

    fn described(&self, session: SessionId, plan: &RepairPlan) -> Result<Diagnosis, UpkeepError> {
        let backup = layout::backup(session, next_number(self.fs(), session)?);
        let old = rebuild::manifest_bytes(self.fs(), session)?;
        let same = old.iter().zip(&plan.rebuilt.manifest).take_while(|(old, new)| old == new).count();
        let validated = plan.validated_until.get().min(plan.rebuilt.end.get());
        Ok(Diagnosis {
            health: plan.health.clone(),
            keeps_until: plan.rebuilt.end,
            events_rebuilt: plan.rebuilt.end.get() - validated,
            lost: self.given_up(session, &plan.rebuilt.segments, &old)?,
            manifest_bytes: (old.len() - same) as u64,
            backup: backup.to_string(),
        })
    }

    pub(crate) fn repair_session(
        &self,
        session: SessionId,
        trusted_until: Option<EventIndex>,
    ) -> Result<Diagnosis, UpkeepError> {
        // Checked first: taking the lock of an unknown session would create a lock file.
        self.plan_repair(session, trusted_until)?;
        let _lock = self.take_lock(session)?;
        // Shared, as for a writer: a sweep must not remove what only the backup will refer to.
        let store_lock = self.fs().lock(&layout::store_lock(), LockMode::Shared, LOCK_WAIT)?;
        let _store_lock = store_lock.ok_or(UpkeepError::Busy)?;
        let plan = self.plan_repair(session, trusted_until)?;
        let diagnosis = self.described(session, &plan)?;
        self.back_up(session, next_number(self.fs(), session)?)?;
        self.remove_given_up(session, &plan.rebuilt.segments)?;
        commit::replace_manifest(self.fs(), session, &plan.rebuilt.manifest)?;
        self.fs().about_to_acknowledge();
        self.forget(session);
        // Derived from what is gone; a stale one would be detected and dropped anyway.
        let _ = self.fs().remove_file(&layout::cache(session));
        Ok(diagnosis)
    }

    /// What is wrong and what is kept; refused if nothing is wrong or nothing can be kept.
    fn plan_repair(
        &self,
        session: SessionId,
        trusted_until: Option<EventIndex>,
    ) -> Result<RepairPlan, UpkeepError> {
        let loaded = load::load(self.fs(), session, None)?.ok_or(StoreError::NotFound { session })?;
        let (health, validated_until) = (loaded.health, loaded.cursor.next_event_index);
        let not_repairable = |health| Err(UpkeepError::NotRepairable { session, health });
        let is_repairable = match &health {
            SessionHealth::Healthy => trusted_until.is_some(),
            SessionHealth::CorruptTail { .. } | SessionHealth::CorruptHead { .. } => true,
            SessionHealth::UnknownVersion { .. } => false,
        };
        // An unreadable file may be intact, so it is not given up.
        if !is_repairable || health.is_access_denied() {
            return not_repairable(health);
        }
        let rebuilt = rebuild::rebuild(self.fs(), session, trusted_until)?;
        if let Some(error) = &rebuilt.denied {
            return not_repairable(SessionHealth::CorruptHead { reason: orphan::access_denied(error) });
        }
        if let Some((record, version)) = rebuilt.newer {
            // Cutting it off or rewriting it would give up what the newer build recorded.
            return not_repairable(SessionHealth::UnknownVersion { record, version });
        }
        if rebuilt.end == EventIndex::ZERO {
            return not_repairable(health);
        }
        Ok(RepairPlan { health, validated_until, rebuilt })
    }

    /// Copies the whole folder under the next free number; the name appears once everything is durable.
    fn back_up(&self, session: SessionId, number: u64) -> Result<(), UpkeepError> {
        let (fs, backups) = (self.fs(), layout::backups());
        suspect::make_folder(fs, &backups)?;
        let temp = layout::backup_temp(session);
        folder_tree::remove(fs, &temp)?;
        let (lock, misplaced) = (layout::session_lock(session), self.misplaced(session)?);
        let is_left_out = |path: &RelPath| *path == lock || misplaced.iter().any(|(other, _)| other == path);
        folder_tree::copy(fs, &layout::session(session), &temp, &is_left_out)?;
        let target = layout::backup(session, number);
        fs.rename(&temp, &target)?;
        fs.sync_dir(&backups).inspect_err(|_| {
            // It may not have reached the disk: the next attempt makes another one.
            let _ = fs.rename(&target, &temp);
        })?;
        self.move_misplaced(session, &target, &misplaced)
    }

    /// Anything that has the name of the manifest or of an attested segment but cannot be copied: a folder, a link, a
    /// pipe, or an oversized file. Any other copy failure aborts the repair.
    fn misplaced(&self, session: SessionId) -> Result<Vec<(RelPath, FileKind)>, FsError> {
        let manifest = rebuild::manifest_bytes(self.fs(), session)?;
        let attested = rebuild::attested(session, &manifest).into_keys();
        let segments = attested.filter_map(|name| layout::in_session(session, &name));
        let mut misplaced = Vec::new();
        for path in std::iter::once(layout::manifest(session)).chain(segments) {
            match self.fs().stat(&path) {
                Ok(FileStat { kind: FileKind::Regular, len, .. }) if len <= MANIFEST_BYTES_MAX => {}
                Ok(FileStat { kind, .. }) => misplaced.push((path, kind)),
                // The copy will report what is wrong with it.
                Err(_) => {}
            }
        }
        Ok(misplaced)
    }

    /// Moves folders and oversized files into the backup. A link or a pipe holds no data of ours: in place of a
    /// segment it is removed, in place of the manifest it is replaced.
    fn move_misplaced(
        &self,
        session: SessionId,
        backup: &RelPath,
        misplaced: &[(RelPath, FileKind)],
    ) -> Result<(), UpkeepError> {
        let (fs, manifest) = (self.fs(), layout::manifest(session));
        for (path, kind) in misplaced {
            let is_manifest = *path == manifest;
            let (from, to) = match is_manifest {
                true => (layout::session(session), Some(backup.clone())),
                false => (layout::events(session), backup.child("events")),
            };
            let (Some(to), name) = (to, path.file_name()) else { continue };
            match (kind, to.child(name)) {
                (FileKind::Regular | FileKind::Directory, Some(moved)) => {
                    fs.rename(path, &moved)?;
                    fs.sync_dir(&to)?;
                }
                (FileKind::Other, _) if !is_manifest => fs.remove_file(path)?,
                (FileKind::Regular | FileKind::Directory | FileKind::Other, _) => {}
            }
            fs.sync_dir(&from)?;
        }
        Ok(())
    }

    /// Removes the given-up segments, and nothing that is not named like a segment.
    fn remove_given_up(&self, session: SessionId, rebuilt: &BTreeSet<String>) -> Result<(), FsError> {
        let events = layout::events(session);
        for entry in load::list_events(self.fs(), session)? {
            let is_segment =
                entry.kind == FileKind::Regular && layout::segment_indexes(&entry.name).is_some();
            if is_segment
                && !rebuilt.contains(&format!("events/{}", entry.name))
                && let Some(path) = events.child(&entry.name)
            {
                self.fs().remove_file(&path)?;
            }
        }
        self.fs().sync_dir(&events)
    }

    /// The segments that are given up: existing ones, and those that only the manifest names.
    fn given_up(
        &self,
        session: SessionId,
        rebuilt: &BTreeSet<String>,
        manifest: &[u8],
    ) -> Result<Vec<LostSegment>, UpkeepError> {
        let mut lost = Vec::new();
        for entry in load::list_events(self.fs(), session)? {
            let path = format!("events/{}", entry.name);
            if !rebuilt.contains(&path) && layout::segment_indexes(&entry.name).is_some() {
                lost.push(self.lost_segment(session, path)?);
            }
        }
        for path in rebuild::attested(session, manifest).into_keys() {
            if !rebuilt.contains(&path) && !lost.iter().any(|known| known.path == path) {
                let indexes = indexes_of(&path);
                lost.push(LostSegment {
                    path,
                    indexes,
                    exists: false,
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
            // A link, a folder or an oversized file: its content is unknown. An unreadable one has no backup.
            Some(Err(error))
                if error.kind.is_verdict_on_file() && error.kind != FsErrorKind::PermissionDenied =>
            {
                Vec::new()
            }
            Some(Err(error)) => return Err(error.into()),
            None => Vec::new(),
        };
        let mut lost = LostSegment {
            indexes: indexes_of(&path),
            path,
            exists: true,
            events: Vec::new(),
            unreadable_lines: 0,
        };
        for line in bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            match Event::parse(line) {
                Ok(event) => lost.events.push(LostEvent::of(&event)),
                Err(_) => lost.unreadable_lines += 1,
            }
        }
        Ok(lost)
    }
}

/// The first and last event index, from `events/00000000-00000005.jsonl`.
fn indexes_of(path: &str) -> Option<(u64, u64)> {
    layout::segment_indexes(path.strip_prefix("events/")?)
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
