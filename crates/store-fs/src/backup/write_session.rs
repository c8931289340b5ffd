//! Writes sessions into the target: new ones appear as a whole, longer ones grow as a writer would extend them.

use workrail_model::id::SessionId;
use workrail_model::limits::{CONTROL_BYTES_MAX, SEGMENT_BYTES_MAX};
use workrail_model::manifest::{Cursor, commit_group, group_bytes};
use workrail_model::plan::RawSegment;
use workrail_ports::archive::{SessionImport as _, StagedSession as _};
use workrail_ports::backup::{CopyError, SessionChange};
use workrail_ports::file_system::{FileKind, FileSystem, FsError, FsErrorKind, FsOp, RelPath};
use workrail_ports::session_store::StoreError;

use super::copier::{BackupCopier, ContentCheck};
use super::decide::{BackupDirection, CopyStep};
use super::log::AttestedLog;
use super::{source_failed, target_failed};
use crate::commit::{self, ManifestEnd};
use crate::content::write_temp;
use crate::import::Existing;
use crate::load::LoadedLog;
use crate::{layout, load, suspect};

impl<F: FileSystem> BackupCopier<'_, F> {
    /// Makes durable what a killed copy wrote without syncing; its mark is still present (G14).
    pub(super) fn make_copy_durable(&self, session: SessionId, known: &AttestedLog) -> Result<(), CopyError> {
        let fs = self.target.fs();
        let is_marked = suspect::is_marked(fs, &layout::session(session)).map_err(target_failed)?;
        if self.check == ContentCheck::DryRun || !is_marked || !known.loaded.health.is_healthy() {
            return Ok(());
        }
        let _lock = self.target.take_lock(session).map_err(|error| CopyError::Target(error.into()))?;
        // Under the lock: a writer may have appended since.
        let Some(known) = AttestedLog::read(fs, session).map_err(target_failed)? else { return Ok(()) };
        fs.sync_dir(&layout::sessions()).map_err(target_failed)?;
        fs.sync_dir(&layout::events(session)).map_err(target_failed)?;
        commit::rewrite_manifest(fs, session, known.loaded.cursor.manifest_bytes).map_err(target_failed)
    }

    /// Puts a whole session into the target, out of sight until it is complete.
    pub(super) fn put_session(
        &mut self,
        session: SessionId,
        from: &AttestedLog,
        existing: Existing,
    ) -> Result<SessionChange, CopyError> {
        self.bring_content(session, &from.loaded.events)?;
        let names: Vec<&String> = from.loaded.segments.iter().collect();
        if self.check == ContentCheck::DryRun {
            self.count_segments(session, &names)?;
            let change = |aside| SessionChange::Replaced { aside };
            return Ok(match existing {
                Existing::Refuse => SessionChange::Added,
                Existing::Replace => change(layout::backups().to_string()),
            });
        }
        let failed = |error: StoreError| CopyError::Target(error.into());
        let (fs, store) = (self.target.fs(), self.target);
        // The lock keeps writers out of what is moved aside. Anything but a folder has no lock, and no writers.
        let home = layout::session(session);
        let is_folder = fs.stat(&home).is_ok_and(|stat| stat.kind == FileKind::Directory);
        let needs_lock = existing == Existing::Replace && is_folder;
        let lock = needs_lock.then(|| store.take_lock(session)).transpose().map_err(failed)?;
        if lock.is_some() {
            let known = AttestedLog::read(fs, session).map_err(target_failed)?;
            let (step, _) = self.step_over(session, from, known.as_ref())?;
            if step != CopyStep::Replace {
                return decided_meanwhile(session, step);
            }
        }
        let mut staged = store.stage_over(session, existing).map_err(failed)?;
        for name in names {
            let segment = read_segment(self.source.fs(), session, name)?;
            self.report.segments.add(segment.bytes().len() as u64);
            staged.segment(&segment).map_err(failed)?;
        }
        if staged.manifest_bytes() != from.manifest {
            return Err(changed_meanwhile(session));
        }
        self.raise_target_activity(from)?;
        let aside = staged.publish_over().map_err(failed)?;
        drop(lock);
        store.forget(session);
        if let Some(aside) = &aside {
            // The lock file means nothing outside `sessions/`.
            let _ = aside.child(".lock").map(|lock| fs.remove_file(&lock));
        }
        self.copy_side_data(session)?;
        self.written.push(session);
        Ok(match aside {
            Some(aside) => SessionChange::Replaced { aside: aside.to_string() },
            None => SessionChange::Added,
        })
    }

    /// Appends what the target lacks, segment by segment, as a writer does.
    pub(super) fn extend(
        &mut self,
        session: SessionId,
        from: &AttestedLog,
    ) -> Result<SessionChange, CopyError> {
        let failed = |error: StoreError| CopyError::Target(error.into());
        let (fs, store) = (self.target.fs(), self.target);
        let _lock = match self.check {
            ContentCheck::DryRun => None,
            ContentCheck::ByName | ContentCheck::ByDigest => Some(store.take_lock(session).map_err(failed)?),
        };
        // Under the lock: a writer may have appended since.
        let Some(known) = AttestedLog::read(fs, session).map_err(target_failed)? else {
            return Err(changed_meanwhile(session));
        };
        let (step, _) = self.step_over(session, from, Some(&known))?;
        if step != CopyStep::Extend {
            return decided_meanwhile(session, step);
        }
        let done = usize::try_from(known.event_count()).unwrap_or(usize::MAX);
        self.bring_content(session, &known.loaded.events)?;
        self.bring_content(session, from.loaded.events.get(done..).unwrap_or_default())?;
        let missing: Vec<&String> = from.loaded.segments.difference(&known.loaded.segments).collect();
        if self.check == ContentCheck::DryRun {
            self.count_segments(session, &missing)?;
            return Ok(SessionChange::Extended);
        }
        self.raise_target_activity(from)?;
        // Rewritten: what the last writer left there may not be on the disk (G14).
        commit::rewrite_manifest(fs, session, known.loaded.cursor.manifest_bytes).map_err(target_failed)?;
        let first = missing.first().map(|name| read_segment(self.source.fs(), session, name)).transpose()?;
        let leftovers = leftovers(fs, session, &known.loaded, first.as_ref()).map_err(target_failed)?;
        commit::move_leftovers_aside(fs, session, &leftovers).map_err(target_failed)?;
        // If the copy is killed before the last sync, the next run finds the mark and does not trust what it reads.
        suspect::mark(fs, &layout::session(session));
        let mut cursor = known.loaded.cursor;
        for name in missing {
            let segment = read_segment(self.source.fs(), session, name)?;
            cursor = append_segment(fs, session, cursor, &segment, &from.manifest)?;
            self.report.segments.add(segment.bytes().len() as u64);
        }
        suspect::clear(fs, &layout::session(session));
        store.forget(session);
        self.copy_side_data(session)?;
        self.written.push(session);
        Ok(SessionChange::Extended)
    }

    /// Activity in a restored store must come after what was restored; a backup has no counter.
    fn raise_target_activity(&self, from: &AttestedLog) -> Result<(), CopyError> {
        let newest = from.loaded.events.iter().filter_map(|event| event.activity).max();
        match newest.filter(|_| self.direction == BackupDirection::Restore) {
            Some(newest) => {
                self.target.raise_activity(newest).map_err(|error| CopyError::Target(error.into()))
            }
            None => Ok(()),
        }
    }

    fn count_segments(&mut self, session: SessionId, names: &[&String]) -> Result<(), CopyError> {
        for name in names {
            let segment = read_segment(self.source.fs(), session, name)?;
            self.report.segments.add(segment.bytes().len() as u64);
        }
        Ok(())
    }

    /// What the user requested for the session: the keep mark and pending preferences.
    /// They are not truth, so an unreadable one does not fail the copy.
    pub(super) fn copy_side_data(&self, session: SessionId) -> Result<(), CopyError> {
        let (from, to) = (self.source.fs(), self.target.fs());
        let is_kept = |fs: &F| fs.stat(&layout::keep(session)).is_ok();
        if is_kept(from) && !is_kept(to) {
            write_temp(to, &layout::keep_temp(session), b"").map_err(target_failed)?;
            to.rename(&layout::keep_temp(session), &layout::keep(session)).map_err(target_failed)?;
            suspect::sync_names(to, &layout::session(session)).map_err(target_failed)?;
        } else if !is_kept(from) && is_kept(to) && self.direction == BackupDirection::Backup {
            to.remove_file(&layout::keep(session)).map_err(target_failed)?;
        }
        let preferences = layout::pending_preferences(session);
        match (from.read(&preferences, 0, CONTROL_BYTES_MAX), to.read(&preferences, 0, CONTROL_BYTES_MAX)) {
            (Ok(bytes), known) if known.as_ref() != Ok(&bytes) => {
                write_temp(to, &layout::pending_preferences_temp(session), &bytes).map_err(target_failed)?;
                to.rename(&layout::pending_preferences_temp(session), &preferences).map_err(target_failed)
            }
            (Err(error), Ok(_))
                if error.kind == FsErrorKind::NotFound && self.direction == BackupDirection::Backup =>
            {
                to.remove_file(&preferences).map_err(target_failed)
            }
            _ => Ok(()),
        }
    }
}

/// A writer was first: what to do with the session is another step now than before its lock was taken.
fn decided_meanwhile(session: SessionId, step: CopyStep) -> Result<SessionChange, CopyError> {
    match step {
        CopyStep::Unchanged => Ok(SessionChange::Unchanged),
        CopyStep::Skip(reason) => Ok(SessionChange::Left(reason)),
        CopyStep::Add | CopyStep::Extend | CopyStep::Replace => Err(target_failed(changed(session))),
    }
}

fn changed_meanwhile(session: SessionId) -> CopyError {
    source_failed(changed(session))
}

fn changed(session: SessionId) -> FsError {
    FsError {
        op: FsOp::Read,
        path: layout::session(session),
        kind: FsErrorKind::Io,
        detail: "the session was changed, repaired or removed meanwhile; run the command again".to_owned(),
    }
}

fn read_segment<F: FileSystem>(fs: &F, session: SessionId, name: &str) -> Result<RawSegment, CopyError> {
    // The name was validated with the log.
    let Some(path) = layout::in_session(session, name) else { return Err(changed_meanwhile(session)) };
    let bytes = fs.read(&path, 0, SEGMENT_BYTES_MAX).map_err(source_failed)?;
    RawSegment::parse(bytes).map_err(|_| changed_meanwhile(session))
}

/// Appends one segment to a log that ends at `cursor`; `manifest` is the resulting manifest.
fn append_segment<F: FileSystem>(
    fs: &F,
    session: SessionId,
    cursor: Cursor,
    segment: &RawSegment,
    manifest: &[u8],
) -> Result<Cursor, CopyError> {
    let events = segment.events();
    let records = commit_group(cursor.next_manifest_index, events, segment.bytes());
    let group = group_bytes(&records).map_err(|_| changed_meanwhile(session))?;
    let at = usize::try_from(cursor.manifest_bytes).unwrap_or(usize::MAX);
    if !manifest.get(at..).is_some_and(|rest| rest.starts_with(&group)) {
        return Err(changed_meanwhile(session));
    }
    commit::write_segment(fs, session, events, segment.bytes()).map_err(target_failed)?;
    commit::append_group(fs, session, ManifestEnd { cursor, torn_bytes: 0 }, &group)
        .map_err(target_failed)?;
    Ok(cursor.after(&records, &group, events.len() as u64))
}

/// Segments after the target's log that are not what is appended there: what an interrupted write or a stranger left.
fn leftovers<F: FileSystem>(
    fs: &F,
    session: SessionId,
    known: &LoadedLog,
    appended: Option<&RawSegment>,
) -> Result<Vec<RelPath>, FsError> {
    let next = known.cursor.next_event_index.get();
    let mut found = Vec::new();
    for entry in load::list_events(fs, session)? {
        let starts_here = layout::segment_indexes(&entry.name).is_some_and(|(first, _)| first == next);
        let Some(path) = layout::events(session).child(&entry.name).filter(|_| starts_here) else { continue };
        // A killed copy, or a write that the backup has too: it is replaced by itself and never missing.
        let is_appended = appended.is_some_and(|segment| {
            fs.read(&path, 0, SEGMENT_BYTES_MAX).is_ok_and(|bytes| bytes == segment.bytes())
        });
        if !is_appended {
            found.push(path);
        }
    }
    Ok(found)
}
