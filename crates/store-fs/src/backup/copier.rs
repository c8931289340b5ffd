//! Decides for each session what is copied into the target, has it written, then verifies what was written.

use std::collections::BTreeSet;

use workrail_model::digest::Sha256;
use workrail_model::health::SessionHealth;
use workrail_model::id::SessionId;
use workrail_model::limits::{MANIFEST_BYTES_MAX, SEGMENT_BYTES_MAX};
use workrail_model::manifest::ManifestRecord;
use workrail_model::plan::AttachmentKind;
use workrail_ports::archive::SessionImport as _;
use workrail_ports::backup::{
    CopyError, CopyReport, CopySide, CopyWatch, KeysCopy, SessionChange, SessionCopy, SkipReason, SourceLog,
    UnusableSession,
};
use workrail_ports::file_system::{FileSystem, FsError, FsErrorKind};
use workrail_ports::upkeep::Tally;

use super::decide::{BackupDirection, CopyStep, decide};
use super::log::AttestedLog;
use super::unusable::unusable;
use super::{Listed, source_failed, target_failed};
use crate::content::read_verified;
use crate::import::Existing;
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
    pub(super) direction: BackupDirection,
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
    pub(super) written: Vec<SessionId>,
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
            make_names_durable(target_store.fs()).map_err(target_failed)?;
        }
        let (mut named, mut in_doubt) = (BTreeSet::new(), BTreeSet::new());
        for kind in AttachmentKind::ALL {
            if suspect::is_marked(target_store.fs(), &layout::content_dir(kind)).map_err(target_failed)? {
                in_doubt.insert(kind);
            } else if check == ContentCheck::ByName {
                let contents = target_store.contents_of(kind).map_err(target_failed)?;
                named.extend(contents.into_iter().map(|digest| (kind, digest)));
            }
        }
        // A manifest does not list the workflows that its session needs.
        let workflows = source.contents_of(AttachmentKind::Workflow).map_err(source_failed)?;
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
            unusable_passkeys: None,
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
        let attested = AttestedLog::read_with_pending(self.source.fs(), session).map_err(source_failed)?;
        let Some(attested) = attested else { return Ok(None) };
        // A damaged store can be repaired. A damaged backup may be all that is left of the session.
        let rebuilt = match self.direction {
            BackupDirection::Restore => attested.rebuilt(self.source.fs(), session).map_err(source_failed)?,
            BackupDirection::Backup => None,
        };
        let (from, source_log) = match rebuilt {
            Some(rebuilt) => (rebuilt, SourceLog::Rebuilt),
            None => (attested, SourceLog::Attested),
        };
        let (step, known) = self.step(session, &from)?;
        let change = match step {
            CopyStep::Add => self.put_session(session, &from, Existing::Refuse)?,
            CopyStep::Replace => self.put_session(session, &from, Existing::Replace)?,
            CopyStep::Extend => self.extend(session, &from)?,
            CopyStep::Unchanged => {
                self.check_content(session, &from, known.as_ref(), SessionChange::Unchanged)?
            }
            CopyStep::Skip(reason) => {
                self.check_content(session, &from, known.as_ref(), SessionChange::Left(reason))?
            }
        };
        let events = match change {
            SessionChange::Left(_) => match step {
                // A writer was first, so the target has more than what was read before its lock.
                CopyStep::Extend | CopyStep::Replace => {
                    let now = AttestedLog::read(self.target.fs(), session).map_err(target_failed)?;
                    now.as_ref().map_or(0, AttestedLog::event_count)
                }
                CopyStep::Add | CopyStep::Unchanged | CopyStep::Skip(_) => {
                    known.as_ref().map_or(0, AttestedLog::event_count)
                }
            },
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
        if suspect::is_marked(self.target.fs(), &layout::session(session)).map_err(target_failed)? {
            return Ok(false);
        }
        let path = layout::manifest(session);
        let Ok(theirs) = self.target.fs().read(&path, 0, MANIFEST_BYTES_MAX) else { return Ok(false) };
        let ours = match self.source.fs().read(&path, 0, MANIFEST_BYTES_MAX) {
            Err(error) if error.kind == FsErrorKind::NotFound => return Ok(false),
            read => read.map_err(source_failed)?,
        };
        let is_same = !ours.is_empty() && ours == theirs && self.has_workflows;
        Ok(is_same && self.has_all_of(session, &theirs)? && self.source_has_just(session, &ours)?)
    }

    /// Whether the source has exactly the segments of its manifest, each matching its digest.
    fn source_has_just(&self, session: SessionId, manifest: &[u8]) -> Result<bool, CopyError> {
        let fs = self.source.fs();
        let attested = rebuild::attested(session, manifest);
        let names = segment::names(fs, session).map_err(source_failed)?;
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
        let entries = load::list_events(self.target.fs(), session).map_err(target_failed)?;
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
        let committed = AttestedLog::read(self.target.fs(), session).map_err(target_failed)?;
        let (step, pending) = self.step_over(session, from, committed.as_ref())?;
        let known = pending.or(committed);
        let is_replaced = step == CopyStep::Replace && self.direction == BackupDirection::Restore;
        let is_damaged = known.as_ref().is_some_and(|log| !log.loaded.health.is_healthy());
        let step = match is_replaced && is_damaged && self.repair_keeps_more(session, from)? {
            true => CopyStep::Skip(SkipReason::RepairKeepsMore),
            false => step,
        };
        Ok((step, known))
    }

    /// What to do with a session of which the target has committed this much, and the target's log if a completed write
    /// waits to be committed. That write belongs to the target's history: the next writer rolls it forward (G13), so a
    /// copy that continues differently must not take its place.
    pub(super) fn step_over(
        &self,
        session: SessionId,
        from: &AttestedLog,
        committed: Option<&AttestedLog>,
    ) -> Result<(CopyStep, Option<AttestedLog>), CopyError> {
        let nothing = AttestedLog::nothing();
        let committed = committed.unwrap_or(&nothing);
        let pending = committed.with_pending(self.target.fs(), session).map_err(target_failed)?;
        let log = pending.as_ref().unwrap_or(committed);
        let step = if log.is_empty() && log.loaded.health.is_healthy() {
            // Nothing, or a folder with nothing recorded in it.
            match from.is_empty() {
                true => CopyStep::Skip(SkipReason::SourceUnusable),
                false if self.is_taken(session)? => CopyStep::Replace,
                false => CopyStep::Add,
            }
        } else {
            match decide(self.direction, from, log) {
                // Without a manifest there is nothing to append to.
                CopyStep::Unchanged | CopyStep::Extend if pending.is_some() && committed.is_empty() => {
                    CopyStep::Replace
                }
                // Readers see the write only when it is committed.
                CopyStep::Unchanged if pending.is_some() => CopyStep::Extend,
                step @ (CopyStep::Add
                | CopyStep::Extend
                | CopyStep::Unchanged
                | CopyStep::Replace
                | CopyStep::Skip(_)) => step,
            }
        };
        Ok((step, pending))
    }

    fn is_taken(&self, session: SessionId) -> Result<bool, CopyError> {
        self.target.is_taken(session).map_err(|error| CopyError::Target(error.into()))
    }

    /// Whether repairing the damaged session would keep more than the source has of it.
    fn repair_keeps_more(&self, session: SessionId, from: &AttestedLog) -> Result<bool, CopyError> {
        let rebuilt = rebuild::rebuild(self.target.fs(), session, None).map_err(target_failed)?;
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
            let loaded = load::load(fs, *session, None).map_err(target_failed)?;
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
    AttachmentKind::ALL.into_iter().try_for_each(|kind| fs.sync_dir(&layout::content_dir(kind)))
}
