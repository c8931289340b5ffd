//! `store copy`: copies everything in one store to another, of the same or a different kind (G117).
//!
//! Sessions are copied one by one, each whole or not at all, so an interrupted copy is continued by running it again.
//! At the end every session is read from both stores and compared.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

use serde::Serialize;
use workrail_model::digest::Sha256;
use workrail_model::error::ErrorEnvelope;
use workrail_model::event::{Event, EventData};
use workrail_model::id::{RunId, SessionId};
use workrail_model::manifest::Cursor;
use workrail_model::plan::{ContentKey, RawSegment};
use workrail_ports::keyring::KeyringImport;
use workrail_ports::session_store::StoreError;
use workrail_ports::upkeep::{Upkeep, UpkeepError};

use super::ApplyMode;
use super::backup::{CopyProblem, KeysResult};
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
pub(super) enum CopyRelation {
    Missing,
    Same(Cursor),
    /// The target ends here, inside the source's history.
    Behind(Cursor),
    TargetHasMore,
    Differs,
    TargetDamaged,
    /// In the source, for this reason; the target may have the only good copy.
    SourceDamaged(String),
}

/// Goes through the sessions and remembers what the target has.
pub(super) struct StoreCopier<'a, S: Store> {
    pub(super) source: &'a S,
    pub(super) target: &'a S,
    /// Content that this copy has put into the target.
    pub(super) sent: BTreeSet<ContentKey>,
    /// How far each session was copied.
    pub(super) ends: BTreeMap<SessionId, Cursor>,
    pub(super) summary: StoreCopySummary,
}

pub(super) type CopyFailure = Box<ErrorEnvelope>;

pub(super) fn failed(cause: impl Into<UpkeepError>) -> CopyFailure {
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
            return Ok(CopyRelation::TargetDamaged);
        }
        let end = there.cursor;
        let since = match self.source.read(session, Some(&end)) {
            Ok(since) if since.health.is_healthy() => since,
            Ok(since) => return Ok(CopyRelation::SourceDamaged(since.health.to_string())),
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
                | CopyRelation::TargetDamaged
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

pub(super) fn started_run(event: &Event) -> Option<RunId> {
    if let EventData::RunStarted(_) = &event.data { event.scope.run() } else { None }
}
