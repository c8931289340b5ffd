//! Copies the sessions one by one into the target, then verifies what was written.

use std::collections::BTreeSet;

use workrail_model::digest::Sha256;
use workrail_model::health::SessionHealth;
use workrail_model::id::SessionId;
use workrail_model::limits::{CONTROL_BYTES_MAX, MANIFEST_BYTES_MAX, SEGMENT_BYTES_MAX};
use workrail_model::manifest::{Cursor, ManifestRecord, commit_group, group_bytes};
use workrail_model::plan::{AttachmentKind, RawSegment};
use workrail_ports::archive::{SessionImport as _, StagedSession as _};
use workrail_ports::backup::{
    CopyError, CopyReport, CopySide, CopyWatch, KeysCopy, SessionChange, SessionCopy, SkipReason, SourceLog,
    UnusableSession,
};
use workrail_ports::file_system::{FileKind, FileSystem, FsError, FsErrorKind, FsOp};
use workrail_ports::session_store::StoreError;
use workrail_ports::upkeep::Tally;

use super::decide::{BackupDirection, CopyStep, decide};
use super::log::AttestedLog;
use super::unusable::unusable;
use super::{Listed, source, target};
use crate::commit::{self, ManifestEnd};
use crate::content::{read_verified, write_temp};
use crate::load::LoadedLog;
use crate::store::LocalStore;
use crate::{layout, load, rebuild, segment, suspect};

/// How to find out whether the target has a piece of content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ContentCheck {
    /// By its name: it was verified when it was copied.
    ByName,
    /// By reading it and checking its digest.
    ByDigest,
    /// By reading it; nothing is written.
    DryRun,
}

pub(super) struct BackupCopier<'a, F: FileSystem> {
    pub(super) source: &'a LocalStore<F>,
    pub(super) target: &'a LocalStore<F>,
    direction: BackupDirection,
    pub(super) check: ContentCheck,
    /// Names of the target's content when it was listed.
    pub(super) named: BTreeSet<(AttachmentKind, Sha256)>,
    /// A sync failed in this content folder: what it shows may not be on the disk, so all of it is rewritten (G14).
    pub(super) in_doubt: BTreeSet<AttachmentKind>,
    /// Whether the target has every workflow of the source, by name.
    has_workflows: bool,
    /// Content that the target is known to have intact.
    pub(super) sound: BTreeSet<(AttachmentKind, Sha256)>,
    pub(super) copied: Vec<(AttachmentKind, Sha256)>,
    written: Vec<SessionId>,
    pub(super) report: CopyReport,
}

impl<'a, F: FileSystem> BackupCopier<'a, F> {
    pub(super) fn new(
        source: &'a LocalStore<F>,
        target_store: &'a LocalStore<F>,
        direction: BackupDirection,
        check: ContentCheck,
    ) -> Result<Self, CopyError> {
        if check != ContentCheck::DryRun {
            make_names_durable(target_store.fs()).map_err(target)?;
        }
        let (mut named, mut in_doubt) = (BTreeSet::new(), BTreeSet::new());
        for kind in layout::CONTENT_KINDS {
            if suspect::is_marked(target_store.fs(), &layout::content_dir(kind)).map_err(target)? {
                in_doubt.insert(kind);
            } else if check == ContentCheck::ByName {
                let contents = target_store.contents_of(kind).map_err(target)?;
                named.extend(contents.into_iter().map(|digest| (kind, digest)));
            }
        }
        // A manifest does not list the workflows that its session needs.
        let workflows = source.contents_of(AttachmentKind::Workflow).map_err(super::source)?;
        let has_workflows =
            workflows.into_iter().all(|digest| named.contains(&(AttachmentKind::Workflow, digest)));
        let report = CopyReport {
            sessions: Vec::new(),
            unusable: Vec::new(),
            segments: Tally::default(),
            content: Tally::default(),
            repaired: Vec::new(),
            lost_content: Vec::new(),
            keys: KeysCopy::LeftOut,
            keys_aside: None,
            keeps_earlier_keys: false,
        };
        let (sound, copied, written) = (BTreeSet::new(), Vec::new(), Vec::new());
        Ok(Self {
            source,
            target: target_store,
            direction,
            check,
            named,
            in_doubt,
            has_workflows,
            sound,
            copied,
            written,
            report,
        })
    }

    /// Copies every session; one that cannot be used, in either store, is reported and does not stop the others.
    pub(super) fn copy_all(&mut self, sessions: &[Listed], watch: CopyWatch<'_>) -> Result<(), CopyError> {
        let total = sessions.len() as u64;
        for (done, (name, listed)) in sessions.iter().enumerate() {
            watch(done as u64, total);
            let session = match listed {
                Ok(session) => *session,
                Err(why) => {
                    self.report.unusable.push(UnusableSession {
                        name: name.clone(),
                        side: CopySide::Source,
                        kind: FsErrorKind::WrongKind,
                        why: (*why).to_owned(),
                    });
                    continue;
                }
            };
            match self.copy(session) {
                Ok(Some(copy)) => self.report.sessions.push(copy),
                Ok(None) => {}
                // Deleted since the listing: there is nothing to copy, and nothing is lost.
                Err(CopyError::Source(_)) if self.is_gone(session) => {}
                Err(error) => self.report.unusable.push(unusable(session, error)?),
            }
        }
        watch(total, total);
        Ok(())
    }

    fn is_gone(&self, session: SessionId) -> bool {
        let stat = self.source.fs().stat(&layout::session(session));
        stat.is_err_and(|error| error.kind == FsErrorKind::NotFound)
    }

    /// Copies one session; `None` if the source holds nothing of it.
    fn copy(&mut self, session: SessionId) -> Result<Option<SessionCopy>, CopyError> {
        if self.check == ContentCheck::ByName && self.is_up_to_date(session)? {
            self.copy_side_data(session)?;
            return Ok(Some(SessionCopy {
                session,
                change: SessionChange::Unchanged,
                events: 0,
                source: SessionHealth::Healthy,
                source_log: SourceLog::Attested,
            }));
        }
        let attested = AttestedLog::read_with_pending(self.source.fs(), session).map_err(source)?;
        let Some(attested) = attested else { return Ok(None) };
        // A damaged store can be repaired. A damaged backup may be all that is left of the session.
        let rebuilt = match self.direction {
            BackupDirection::Restore => attested.rebuilt(self.source.fs(), session).map_err(source)?,
            BackupDirection::Backup => None,
        };
        let (from, source_log) = match rebuilt {
            Some(rebuilt) => (rebuilt, SourceLog::Rebuilt),
            None => (attested, SourceLog::Attested),
        };
        let (step, known) = self.step(session, &from)?;
        let change = match step {
            CopyStep::Add => self.put_session(session, &from, false)?,
            CopyStep::Replace => self.put_session(session, &from, true)?,
            CopyStep::Extend => self.extend(session, &from)?,
            CopyStep::Unchanged => {
                self.check_content(session, &from, known.as_ref(), SessionChange::Unchanged)?
            }
            CopyStep::Skip(reason) => {
                self.check_content(session, &from, known.as_ref(), SessionChange::Left(reason))?
            }
        };
        let events = match change {
            SessionChange::Left(_) => known.as_ref().map_or(0, AttestedLog::event_count),
            SessionChange::Added
            | SessionChange::Extended
            | SessionChange::Unchanged
            | SessionChange::Replaced { .. } => from.event_count(),
        };
        Ok(Some(SessionCopy { session, change, events, source: from.loaded.health, source_log }))
    }

    /// Whether both manifests are identical, the target has everything they name, and the source has it intact: a
    /// source that was damaged since must not look backed up.
    fn is_up_to_date(&self, session: SessionId) -> Result<bool, CopyError> {
        if suspect::is_marked(self.target.fs(), &layout::session(session)).map_err(target)? {
            return Ok(false);
        }
        let path = layout::manifest(session);
        let Ok(theirs) = self.target.fs().read(&path, 0, MANIFEST_BYTES_MAX) else { return Ok(false) };
        let ours = match self.source.fs().read(&path, 0, MANIFEST_BYTES_MAX) {
            Err(error) if error.kind == FsErrorKind::NotFound => return Ok(false),
            read => read.map_err(source)?,
        };
        let is_same = !ours.is_empty() && ours == theirs && self.has_workflows;
        Ok(is_same && self.has_all_of(session, &theirs)? && self.source_has_just(session, &ours)?)
    }

    /// Whether the source has exactly the segments of its manifest, each matching its digest.
    fn source_has_just(&self, session: SessionId, manifest: &[u8]) -> Result<bool, CopyError> {
        let fs = self.source.fs();
        let attested = rebuild::attested(session, manifest);
        let names = segment::names(fs, session).map_err(source)?;
        if names.into_values().flatten().any(|name| !attested.contains_key(&format!("events/{name}"))) {
            return Ok(false);
        }
        Ok(attested.into_iter().all(|(name, digest)| {
            let read = layout::in_session(session, &name).map(|path| fs.read(&path, 0, SEGMENT_BYTES_MAX));
            matches!(read, Some(Ok(bytes)) if Sha256::of(&bytes) == digest)
        }))
    }

    /// Whether the target has every segment and piece of content that a manifest names, checked by name.
    fn has_all_of(&self, session: SessionId, manifest: &[u8]) -> Result<bool, CopyError> {
        let entries = load::list_events(self.target.fs(), session).map_err(target)?;
        let segments: BTreeSet<String> =
            entries.into_iter().map(|entry| format!("events/{}", entry.name)).collect();
        let lines = manifest.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        Ok(lines.map(ManifestRecord::parse).all(|record| match record {
            Ok(ManifestRecord::SegmentClosed { segment_rel_path, .. }) => {
                segments.contains(&segment_rel_path)
            }
            Ok(ManifestRecord::SnapshotPinned { snapshot_ref, .. }) => {
                self.named.contains(&(AttachmentKind::Snapshot, snapshot_ref.digest()))
            }
            Ok(ManifestRecord::BlobPinned { blob_ref, .. }) => {
                self.named.contains(&(AttachmentKind::Blob, blob_ref.digest()))
            }
            Err(_) => false,
        }))
    }

    fn step(
        &self,
        session: SessionId,
        from: &AttestedLog,
    ) -> Result<(CopyStep, Option<AttestedLog>), CopyError> {
        let known = AttestedLog::read(self.target.fs(), session).map_err(target)?;
        let step = match &known {
            Some(log) if !log.is_empty() || !log.loaded.health.is_healthy() => {
                let step = decide(self.direction, from, log);
                let is_replaced = step == CopyStep::Replace && self.direction == BackupDirection::Restore;
                match is_replaced && self.repair_keeps_more(session, from)? {
                    true => CopyStep::Skip(SkipReason::RepairKeepsMore),
                    false => step,
                }
            }
            // A folder with nothing committed in it.
            _ if from.is_empty() => CopyStep::Skip(SkipReason::SourceUnusable),
            _ if self.target.is_taken(session).map_err(|error| CopyError::Target(error.into()))? => {
                CopyStep::Replace
            }
            _ => CopyStep::Add,
        };
        Ok((step, known))
    }

    /// Whether repairing the damaged session would keep more than the source has of it.
    fn repair_keeps_more(&self, session: SessionId, from: &AttestedLog) -> Result<bool, CopyError> {
        let rebuilt = rebuild::rebuild(self.target.fs(), session, None).map_err(target)?;
        Ok(rebuilt.end.get() > from.event_count())
    }

    /// A session that is left as it is still gets the content that the target lacks.
    fn check_content(
        &mut self,
        session: SessionId,
        from: &AttestedLog,
        known: Option<&AttestedLog>,
        change: SessionChange,
    ) -> Result<SessionChange, CopyError> {
        if let Some(known) = known {
            self.make_copy_durable(session, known)?;
            self.bring_content(session, &known.loaded.events)?;
        }
        if change == SessionChange::Unchanged && self.direction == BackupDirection::Backup {
            self.bring_content(session, &from.loaded.events)?;
            self.copy_side_data(session)?;
        }
        Ok(change)
    }

    /// Makes durable what a killed copy wrote without syncing; its mark is still present (G14).
    fn make_copy_durable(&self, session: SessionId, known: &AttestedLog) -> Result<(), CopyError> {
        let fs = self.target.fs();
        let is_marked = suspect::is_marked(fs, &layout::session(session)).map_err(target)?;
        if self.check == ContentCheck::DryRun || !is_marked || !known.loaded.health.is_healthy() {
            return Ok(());
        }
        let _lock = self.target.take_lock(session).map_err(|error| CopyError::Target(error.into()))?;
        // Under the lock: a writer may have appended since.
        let Some(known) = AttestedLog::read(fs, session).map_err(target)? else { return Ok(()) };
        fs.sync_dir(&layout::sessions()).map_err(target)?;
        fs.sync_dir(&layout::events(session)).map_err(target)?;
        commit::rewrite_manifest(fs, session, known.loaded.cursor.manifest_bytes).map_err(target)
    }

    /// Puts a whole session into the target, out of sight until it is complete.
    fn put_session(
        &mut self,
        session: SessionId,
        from: &AttestedLog,
        replacing: bool,
    ) -> Result<SessionChange, CopyError> {
        self.bring_content(session, &from.loaded.events)?;
        let names: Vec<&String> = from.loaded.segments.iter().collect();
        if self.check == ContentCheck::DryRun {
            self.count_segments(session, &names)?;
            let change = |aside| SessionChange::Replaced { aside };
            return Ok(if replacing { change(layout::backups().to_string()) } else { SessionChange::Added });
        }
        let failed = |error: StoreError| CopyError::Target(error.into());
        let (fs, store) = (self.target.fs(), self.target);
        // The lock keeps writers out of what is moved aside. Anything but a folder has no lock, and no writers.
        let home = layout::session(session);
        let is_folder = fs.stat(&home).is_ok_and(|stat| stat.kind == FileKind::Directory);
        let lock = (replacing && is_folder).then(|| store.take_lock(session)).transpose().map_err(failed)?;
        let mut staged = match replacing {
            true => store.stage_replacement(session),
            false => store.stage(session),
        }
        .map_err(failed)?;
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
    fn extend(&mut self, session: SessionId, from: &AttestedLog) -> Result<SessionChange, CopyError> {
        let failed = |error: StoreError| CopyError::Target(error.into());
        let (fs, store) = (self.target.fs(), self.target);
        let _lock = match self.check {
            ContentCheck::DryRun => None,
            ContentCheck::ByName | ContentCheck::ByDigest => Some(store.take_lock(session).map_err(failed)?),
        };
        // Under the lock: a writer may have appended since.
        let Some(known) = AttestedLog::read(fs, session).map_err(target)? else {
            return Err(changed_meanwhile(session));
        };
        if decide(self.direction, from, &known) != CopyStep::Extend {
            return Ok(SessionChange::Left(SkipReason::HistoriesDiffer));
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
        commit::rewrite_manifest(fs, session, known.loaded.cursor.manifest_bytes).map_err(target)?;
        remove_orphans(fs, session, &known.loaded).map_err(target)?;
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
    fn copy_side_data(&self, session: SessionId) -> Result<(), CopyError> {
        let (from, to) = (self.source.fs(), self.target.fs());
        let is_kept = |fs: &F| fs.stat(&layout::keep(session)).is_ok();
        if is_kept(from) && !is_kept(to) {
            write_temp(to, &layout::keep_temp(session), b"").map_err(target)?;
            to.rename(&layout::keep_temp(session), &layout::keep(session)).map_err(target)?;
            suspect::sync_names(to, &layout::session(session)).map_err(target)?;
        } else if !is_kept(from) && is_kept(to) && self.direction == BackupDirection::Backup {
            to.remove_file(&layout::keep(session)).map_err(target)?;
        }
        let control = layout::control(session);
        match (from.read(&control, 0, CONTROL_BYTES_MAX), to.read(&control, 0, CONTROL_BYTES_MAX)) {
            (Ok(bytes), known) if known.as_ref() != Ok(&bytes) => {
                write_temp(to, &layout::control_temp(session), &bytes).map_err(target)?;
                to.rename(&layout::control_temp(session), &control).map_err(target)
            }
            (Err(error), Ok(_))
                if error.kind == FsErrorKind::NotFound && self.direction == BackupDirection::Backup =>
            {
                to.remove_file(&control).map_err(target)
            }
            _ => Ok(()),
        }
    }

    /// Reads back everything that was written.
    pub(super) fn finish(self) -> Result<CopyReport, CopyError> {
        let fs = self.target.fs();
        for (kind, digest) in &self.copied {
            read_verified(fs, *kind, *digest).map_err(|cause| CopyError::NotReadBack {
                path: layout::content(*kind, *digest).to_string(),
                detail: cause.to_string(),
            })?;
        }
        for session in &self.written {
            let loaded = load::load(fs, *session, None).map_err(target)?;
            if !loaded.as_ref().is_some_and(|loaded| loaded.health.is_healthy()) {
                let detail = loaded.map_or("it is gone".to_owned(), |loaded| format!("{:?}", loaded.health));
                return Err(CopyError::NotReadBack { path: layout::session(*session).to_string(), detail });
            }
        }
        if self.check != ContentCheck::DryRun {
            fs.about_to_acknowledge();
        }
        Ok(self.report)
    }
}

/// A killed copy may have left names that were never synced; their bytes were. What it moved aside is synced first:
/// the old name must not be durably gone before the new one exists.
fn make_names_durable<F: FileSystem>(fs: &F) -> Result<(), FsError> {
    match fs.sync_dir(&layout::backups()) {
        Err(error) if error.kind == FsErrorKind::NotFound => {}
        synced => synced?,
    }
    fs.sync_dir(&layout::sessions())?;
    layout::CONTENT_KINDS.into_iter().try_for_each(|kind| fs.sync_dir(&layout::content_dir(kind)))
}

fn changed_meanwhile(session: SessionId) -> CopyError {
    source(FsError {
        op: FsOp::Read,
        path: layout::session(session),
        kind: FsErrorKind::Io,
        detail: "the session was repaired, removed or replaced meanwhile; run the command again".to_owned(),
    })
}

fn read_segment<F: FileSystem>(fs: &F, session: SessionId, name: &str) -> Result<RawSegment, CopyError> {
    // The name was validated with the log.
    let Some(path) = layout::in_session(session, name) else { return Err(changed_meanwhile(session)) };
    let bytes = fs.read(&path, 0, SEGMENT_BYTES_MAX).map_err(source)?;
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
    commit::write_segment(fs, session, events, segment.bytes()).map_err(target)?;
    commit::append_group(fs, session, ManifestEnd { cursor, torn_bytes: 0 }, &group).map_err(target)?;
    Ok(cursor.after(&records, &group, events.len() as u64))
}

/// Removes the segments beyond the target's log that an interrupted copy left.
fn remove_orphans<F: FileSystem>(fs: &F, session: SessionId, known: &LoadedLog) -> Result<(), FsError> {
    let next = known.cursor.next_event_index.get();
    for entry in load::list_events(fs, session)? {
        if layout::segment_indexes(&entry.name).is_some_and(|(first, _)| first == next)
            && let Some(path) = layout::events(session).child(&entry.name)
        {
            fs.remove_file(&path)?;
        }
    }
    fs.sync_dir(&layout::events(session))
}
