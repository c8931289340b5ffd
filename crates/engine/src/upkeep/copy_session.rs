//! How `store copy` copies one session: whole or not at all, with its content and side data.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

use workrail_model::error::ErrorCode;
use workrail_model::health::SessionHealth;
use workrail_model::id::SessionId;
use workrail_model::manifest::Cursor;
use workrail_model::plan::{ContentKey, RawSegment};
use workrail_ports::archive::{Archived, StagedSession};
use workrail_ports::content::ContentError;
use workrail_ports::file_system::FsErrorKind;
use workrail_ports::keyring::KeyringImport;
use workrail_ports::session_store::StoreError;
use workrail_ports::upkeep::{Upkeep, UpkeepError};

use super::ApplyMode;
use super::content::attachment;
use super::copy::{CopyFailure, CopyRelation, StoreCopier, failed, started_run};
use crate::{Store, error};

/// Whether the target's shorter copy of a session made room for the whole one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TargetRoom {
    Made { was_kept: bool },
    InUse,
}

impl<S: Store + Upkeep + KeyringImport> StoreCopier<'_, S> {
    pub(super) fn copy_session(
        &mut self,
        session: SessionId,
        relation: &CopyRelation,
        mode: ApplyMode,
    ) -> Result<(), CopyFailure> {
        let skipped = match relation {
            // Content that could not be read when the session was copied is added now.
            CopyRelation::Same(end) if mode == ApplyMode::Real && self.lacks_content(session, end) => {
                return self.copy_session(session, &CopyRelation::Behind(*end), mode);
            }
            CopyRelation::Same(end) => {
                self.summary.unchanged += 1;
                self.ends.insert(session, *end);
                return self.side_data_unless_in_use(session, mode);
            }
            CopyRelation::Missing | CopyRelation::Behind(_) => {
                let is_copied = self.copy_whole(session, relation, mode)?;
                let counted = match (is_copied, relation) {
                    (false, _) => &mut self.summary.skipped,
                    (true, CopyRelation::Behind(_)) => &mut self.summary.continued,
                    (true, _) => &mut self.summary.added,
                };
                *counted += 1;
                return if is_copied { self.side_data_unless_in_use(session, mode) } else { Ok(()) };
            }
            CopyRelation::TargetHasMore => {
                ("it continued in the target", "Nothing to do: the target has more of it.".to_owned())
            }
            CopyRelation::Differs => (
                "the target has another history of it",
                format!(
                    "Decide which one to keep. Delete the other with `workrail session delete {session}`, then copy again."
                ),
            ),
            CopyRelation::SourceDamaged(why) => {
                self.summary.skipped += 1;
                self.source_damaged(session, why);
                return Ok(());
            }
            CopyRelation::TargetDamaged => (
                "it is damaged in the target",
                format!(
                    "Run `workrail store repair {session}` on the target, or delete it there, then copy again."
                ),
            ),
        };
        self.summary.skipped += 1;
        self.problem(session.to_string(), skipped.0, skipped.1);
        Ok(())
    }

    /// Reports a target's session that an agent is using; the other sessions are still copied.
    fn in_use(&mut self, session: SessionId, what: &str) {
        let fix = "Copy again when no agent uses it there.";
        self.problem(session.to_string(), format!("{what}: it is in use in the target"), fix);
    }

    fn side_data_unless_in_use(&mut self, session: SessionId, mode: ApplyMode) -> Result<(), CopyFailure> {
        match self.copy_side_data(session, mode) {
            Err(refused) if refused.code == ErrorCode::SessionLocked => {
                self.in_use(session, "its mark of `session keep` or its pending modes were not copied");
                Ok(())
            }
            done => done,
        }
    }

    /// Removes the target's shorter copy of a session.
    fn make_room(&mut self, session: SessionId, end: &Cursor) -> Result<TargetRoom, CopyFailure> {
        let was_kept = self.target.is_kept(session);
        let unkept = if was_kept { self.target.unkeep(session).map(drop) } else { Ok(()) };
        // Only if it still ends where it was compared: a session written to since stays.
        let removed = unkept.and_then(|()| self.target.remove(session, Some(end)).map(drop));
        let Err(cause) = removed else { return Ok(TargetRoom::Made { was_kept }) };
        self.keep_again(session, was_kept);
        if !matches!(cause, UpkeepError::Changed { .. } | UpkeepError::Store(StoreError::Locked { .. })) {
            return Err(error::upkeep(cause));
        }
        self.in_use(session, "not copied");
        Ok(TargetRoom::InUse)
    }

    /// Restores the mark of `session keep`, unless it is still there.
    fn keep_again(&mut self, session: SessionId, was_kept: bool) {
        if was_kept
            && !self.target.is_kept(session)
            && let Err(cause) = self.target.keep(session)
        {
            let fix = format!("Run `workrail session keep {session}` on the target.");
            self.problem(session.to_string(), format!("its mark of `session keep` was lost: {cause}"), fix);
        }
    }

    /// Whether the target has a session's log but lacks content that the source has.
    fn lacks_content(&self, session: SessionId, end: &Cursor) -> bool {
        let mut pieces = BTreeSet::new();
        let read = self.target.segments(session, Some(end), &mut |segment: RawSegment| {
            pieces.extend(segment.events().iter().flat_map(|event| event.data.content_refs()));
            ControlFlow::Continue(())
        });
        let is_lost = |(kind, digest): ContentKey| {
            self.target.content(kind, digest).is_err() && self.source.content(kind, digest).is_ok()
        };
        read.is_ok() && pieces.into_iter().filter(|piece| !self.sent.contains(piece)).any(is_lost)
    }

    /// Copies a session as a whole; false if it cannot be read from the source, or is in use in the target.
    fn copy_whole(
        &mut self,
        session: SessionId,
        relation: &CopyRelation,
        mode: ApplyMode,
    ) -> Result<bool, CopyFailure> {
        if mode == ApplyMode::DryRun {
            return Ok(self.source.read(session, None).is_ok_and(|slice| slice.health.is_healthy()));
        }
        let mut was_kept = false;
        if let CopyRelation::Behind(end) = relation {
            // The target's copy goes only for one that is whole: it may be the only good one.
            let read = self.source.segments(session, None, &mut |_| ControlFlow::Continue(()));
            if self.end_if_healthy(session, read).is_none() {
                return Ok(false);
            }
            match self.make_room(session, end)? {
                TargetRoom::Made { was_kept: kept } => was_kept = kept,
                TargetRoom::InUse => return Ok(false),
            }
        }
        let mut staged = self.target.stage(session).map_err(failed)?;
        let mut fresh = BTreeSet::new();
        let (mut events, mut lost, mut written) = (0, Vec::new(), Ok(()));
        let read = self.source.segments(session, None, &mut |segment| {
            events += segment.events().len() as u64;
            let pieces = segment.events().iter().flat_map(|event| event.data.content_refs());
            for piece in pieces.filter(|piece| !self.sent.contains(piece)) {
                if fresh.insert(piece) {
                    match self.source.content(piece.0, piece.1) {
                        Ok(bytes) => written = staged.content(&attachment(piece.0, bytes)),
                        Err(cause) => lost.push(cause),
                    }
                }
                if written.is_err() {
                    return ControlFlow::Break(());
                }
            }
            written = staged.segment(&segment);
            if written.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
        written.map_err(failed)?;
        let Some(end) = self.end_if_healthy(session, read) else { return Ok(false) };
        staged.publish().map_err(failed)?;
        self.summary.events_copied += events;
        self.summary.content_copied += fresh.len() as u64 - lost.len() as u64;
        self.sent.extend(fresh);
        self.ends.insert(session, end);
        lost.iter().for_each(|cause| self.lost_content(session, cause));
        self.keep_again(session, was_kept);
        Ok(true)
    }

    /// Where a session ended when it was read; `None` if it is damaged, which is reported.
    fn end_if_healthy(&mut self, session: SessionId, read: Result<Archived, StoreError>) -> Option<Cursor> {
        let why = match read {
            Ok(Archived { cursor, health: SessionHealth::Healthy }) => return Some(cursor),
            Ok(Archived { health, .. }) => health.to_string(),
            Err(cause) => cause.to_string(),
        };
        self.source_damaged(session, &why);
        None
    }

    fn source_damaged(&mut self, session: SessionId, why: &str) {
        let fix = format!("Run `workrail store repair {session}` on the source, then copy again.");
        self.problem(session.to_string(), format!("not copied: {why}"), fix);
    }

    fn lost_content(&mut self, session: SessionId, cause: &ContentError) {
        let fix = match cause {
            ContentError::Io(refused) if refused.kind == FsErrorKind::PermissionDenied => {
                "Give this user access to it on the source, then copy again."
            }
            ContentError::Io(_)
            | ContentError::Missing { .. }
            | ContentError::Damaged { .. }
            | ContentError::Snapshot { .. }
            | ContentError::Workflow { .. } => {
                "`workrail store repair --all` on the source recomputes it where possible; then copy again."
            }
        };
        self.problem(session.to_string(), format!("content is lost: {cause}"), fix);
    }

    /// What belongs to a session but is not in its log: the mark of `session keep`, and pending preferences.
    fn copy_side_data(&mut self, session: SessionId, mode: ApplyMode) -> Result<(), CopyFailure> {
        if mode == ApplyMode::DryRun {
            return Ok(());
        }
        if self.source.is_kept(session) {
            self.target.keep(session).map_err(error::upkeep)?;
        }
        let slice = self.source.read(session, None).map_err(failed)?;
        let mut pending = BTreeMap::new();
        for run in slice.events.iter().filter_map(started_run) {
            let of_run = self.source.pending_preferences(session, run);
            pending.extend(of_run.map_err(|cause| error::upkeep_io(&cause))?.map(|of_run| (run, of_run)));
        }
        if pending.is_empty() {
            return Ok(());
        }
        let _held = self.target.lock(session).map_err(failed)?;
        self.target.set_pending_preferences(session, &pending).map_err(|cause| error::upkeep_io(&cause))
    }
}
