//! `store copy`: copies everything in one store to another, of the same or a different kind (G117).
//!
//! Sessions are copied one by one, each whole or not at all, so an interrupted copy is continued by running it again.
//! At the end every session is read from both stores and compared.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

use serde::Serialize;
use workrail_model::digest::Sha256;
use workrail_model::error::{ErrorCode, ErrorEnvelope};
use workrail_model::event::{Event, EventData};
use workrail_model::health::SessionHealth;
use workrail_model::id::{RunId, SessionId};
use workrail_model::manifest::Cursor;
use workrail_model::plan::{ContentKey, RawSegment};
use workrail_ports::archive::{Archived, StagedSession};
use workrail_ports::content::ContentError;
use workrail_ports::file_system::FsErrorKind;
use workrail_ports::keyring::KeyringImport;
use workrail_ports::session_store::StoreError;
use workrail_ports::upkeep::{Upkeep, UpkeepError};

use super::backup::{CopyProblem, KeysResult};
use super::content::attachment;
use super::{ApplyMode, health_text};
use crate::ProgressSink;
use crate::{Store, error};

/// Problems reported in full; the rest is counted.
const PROBLEMS_MAX: usize = 1000;
/// How many sessions a refusal names.
const NAMED_MAX: usize = 5;

/// Which sessions the target may already have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TargetSessions {
    /// Only those of an earlier copy.
    OnlyCopied,
    /// Any: the copied ones are added to them.
    Any,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreCopyOptions {
    /// Also copy the signing keys, so that tokens keep working.
    pub with_keys: bool,
    pub target: TargetSessions,
    pub mode: ApplyMode,
}

/// What a copy did, or would do.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StoreCopySummary {
    pub dry_run: bool,
    pub sessions: u64,
    pub added: u64,
    /// The target had the beginning of them.
    pub continued: u64,
    pub unchanged: u64,
    /// Not copied; the problems say why.
    pub skipped: u64,
    pub events_copied: u64,
    pub content_copied: u64,
    /// Sessions that were read from both stores at the end and are equal.
    pub verified: u64,
    pub keys: KeysResult,
    pub passkeys: PasskeysResult,
    pub problems: Vec<CopyProblem>,
    pub problem_count: u64,
}

/// What happened to the passkeys of the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum PasskeysResult {
    Copied,
    Unchanged,
    /// The passkey log of one of the stores cannot be read.
    LeftOut,
    SourceHasNone,
    /// The target has its own passkeys and keeps them.
    TargetHasOthers,
}

/// How a session in the source relates to the target's.
#[derive(Clone, Debug, PartialEq)]
enum CopyRelation {
    Missing,
    Same(Cursor),
    /// The target ends here, inside the source's history.
    Behind(Cursor),
    TargetHasMore,
    Differs,
    /// In the target.
    Damaged,
    /// In the source, for this reason; the target may have the only good copy.
    SourceDamaged(String),
}

/// Whether the target's shorter copy of a session made room for the whole one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TargetRoom {
    Made { was_kept: bool },
    InUse,
}

/// Goes through the sessions and remembers what the target has.
pub(super) struct StoreCopier<'a, S: Store> {
    pub(super) source: &'a S,
    pub(super) target: &'a S,
    /// Content that this copy has put into the target.
    sent: BTreeSet<ContentKey>,
    /// How far each session was copied.
    ends: BTreeMap<SessionId, Cursor>,
    summary: StoreCopySummary,
}

pub(super) type CopyFailure = Box<ErrorEnvelope>;

fn failed(cause: impl Into<UpkeepError>) -> CopyFailure {
    error::upkeep(cause.into())
}

/// Copies everything in a store to another.
pub fn copy_store<S: Store + Upkeep + KeyringImport>(
    source: &S,
    target: &S,
    options: StoreCopyOptions,
    watch: ProgressSink<'_>,
) -> Result<StoreCopySummary, CopyFailure> {
    let sessions = source.sessions().map_err(failed)?;
    let mut copier = StoreCopier {
        source,
        target,
        sent: BTreeSet::new(),
        ends: BTreeMap::new(),
        summary: empty(options.mode),
    };
    copier.summary.sessions = sessions.len() as u64;
    let relations = copier.relations(&sessions)?;
    if options.target == TargetSessions::OnlyCopied {
        copier.refuse_foreign(&relations)?;
    }
    if options.mode == ApplyMode::Real {
        // First, so that any new activity number in the target is larger than the copied ones.
        let newest = source.newest_activity().map_err(failed)?;
        target.raise_activity(newest).map_err(failed)?;
    }
    // Each session is copied and then compared.
    let total = sessions.len() as u64 * 2;
    for (done, (session, relation)) in relations.iter().enumerate() {
        watch(done as u64, total);
        copier.copy_session(*session, relation, options.mode)?;
    }
    copier.summary.keys = copier.keys(options)?;
    copier.summary.passkeys = copier.passkeys(options.mode)?;
    if options.mode == ApplyMode::Real {
        let mut sound = BTreeSet::new();
        for (done, session) in sessions.iter().enumerate() {
            watch((sessions.len() + done) as u64, total);
            copier.compare(*session, &mut sound);
        }
    }
    Ok(copier.summary)
}

fn empty(mode: ApplyMode) -> StoreCopySummary {
    StoreCopySummary {
        dry_run: mode == ApplyMode::DryRun,
        sessions: 0,
        added: 0,
        continued: 0,
        unchanged: 0,
        skipped: 0,
        events_copied: 0,
        content_copied: 0,
        verified: 0,
        keys: KeysResult::LeftOut,
        passkeys: PasskeysResult::LeftOut,
        problems: Vec::new(),
        problem_count: 0,
    }
}

impl<S: Store + Upkeep + KeyringImport> StoreCopier<'_, S> {
    pub(super) fn problem(
        &mut self,
        what: impl Into<String>,
        problem: impl Into<String>,
        fix: impl Into<String>,
    ) {
        self.summary.problem_count += 1;
        if self.summary.problems.len() < PROBLEMS_MAX {
            let (what, problem, fix) = (what.into(), problem.into(), fix.into());
            self.summary.problems.push(CopyProblem { what, problem, fix });
        }
    }

    fn relations(&self, sessions: &[SessionId]) -> Result<Vec<(SessionId, CopyRelation)>, CopyFailure> {
        sessions.iter().map(|session| Ok((*session, self.relation(*session)?))).collect()
    }

    fn relation(&self, session: SessionId) -> Result<CopyRelation, CopyFailure> {
        let there = match self.target.read(session, None) {
            Err(StoreError::NotFound { .. }) => return Ok(CopyRelation::Missing),
            read => read.map_err(failed)?,
        };
        if !there.health.is_healthy() {
            return Ok(CopyRelation::Damaged);
        }
        let end = there.cursor;
        let since = match self.source.read(session, Some(&end)) {
            Ok(since) if since.health.is_healthy() => since,
            Ok(since) => return Ok(CopyRelation::SourceDamaged(health_text(&since.health))),
            Err(cause) => return Ok(CopyRelation::SourceDamaged(cause.to_string())),
        };
        Ok(match (since.continues, since.cursor == end) {
            (true, true) => CopyRelation::Same(end),
            (true, false) => CopyRelation::Behind(end),
            (false, _) => match self.target.read(session, Some(&since.cursor)) {
                Ok(more) if more.continues => CopyRelation::TargetHasMore,
                Ok(_) | Err(_) => CopyRelation::Differs,
            },
        })
    }

    /// Refuses to write to a target that holds another store.
    fn refuse_foreign(&self, relations: &[(SessionId, CopyRelation)]) -> Result<(), CopyFailure> {
        let known: BTreeMap<SessionId, &CopyRelation> =
            relations.iter().map(|(session, relation)| (*session, relation)).collect();
        let is_foreign = |session: &SessionId| match known.get(session) {
            None | Some(CopyRelation::TargetHasMore | CopyRelation::Differs) => true,
            Some(
                CopyRelation::Missing
                | CopyRelation::Same(_)
                | CopyRelation::Behind(_)
                | CopyRelation::Damaged
                | CopyRelation::SourceDamaged(_),
            ) => false,
        };
        let there = self.target.sessions().map_err(failed)?;
        let foreign: Vec<SessionId> = there.into_iter().filter(is_foreign).collect();
        match foreign.is_empty() {
            true => Ok(()),
            false => Err(error::foreign_target(foreign.len(), &foreign[..foreign.len().min(NAMED_MAX)])),
        }
    }

    fn copy_session(
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
            CopyRelation::Damaged => (
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
            Ok(Archived { health, .. }) => health_text(&health),
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

    /// Compares a copied session in both stores; `sound` is content that was already read.
    fn compare(&mut self, session: SessionId, sound: &mut BTreeSet<ContentKey>) {
        let Some(end) = self.ends.get(&session).copied() else { return };
        let digests = |store: &S, pieces: &mut Vec<ContentKey>| {
            let mut digests = Vec::new();
            let read = store.segments(session, Some(&end), &mut |segment: RawSegment| {
                digests.push(Sha256::of(segment.bytes()));
                pieces.extend(segment.events().iter().flat_map(|event| event.data.content_refs()));
                ControlFlow::Continue(())
            });
            read.is_ok_and(|read| read.cursor == end).then_some(digests)
        };
        let mut pieces = Vec::new();
        let is_equal = match (digests(self.source, &mut Vec::new()), digests(self.target, &mut pieces)) {
            (Some(source), Some(target)) => source == target,
            (None, _) | (_, None) => false,
        };
        let mut lacks_content = false;
        for (kind, digest) in pieces {
            if sound.contains(&(kind, digest)) {
                continue;
            }
            match self.target.content(kind, digest) {
                Ok(_) => drop(sound.insert((kind, digest))),
                // What the source lacks has already been reported.
                Err(_) => lacks_content |= self.source.content(kind, digest).is_ok(),
            }
        }
        if is_equal && !lacks_content {
            self.summary.verified += 1;
            return;
        }
        let fix = "Run `workrail store verify` on both stores, then copy again.";
        self.problem(session.to_string(), "the copy is not equal to the source", fix);
    }
}

fn started_run(event: &Event) -> Option<RunId> {
    if let EventData::RunStarted(_) = &event.data { event.scope.run() } else { None }
}
