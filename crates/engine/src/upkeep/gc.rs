//! `gc`: removes old sessions, then content that nothing needs (G25).
//!
//! Every session is judged on its own. Old ones are removed, each under its lock and only if unchanged since it was
//! judged. Content is swept last, and only if every session could be read: an unreadable one may need any of it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::Serialize;
use workrail_core::project::SessionState;
use workrail_core::retention::{Now, RetainReason, RetentionDecision, SessionFacts, judge};
use workrail_model::digest::Sha256;
use workrail_model::error::ErrorEnvelope;
use workrail_model::id::SessionId;
use workrail_model::manifest::Cursor;
use workrail_model::preferences::RunStatus;
use workrail_model::retention::Ttl;
use workrail_model::team::Act;
use workrail_model::time::Timestamp;
use workrail_ports::session_store::StoreError;
use workrail_ports::upkeep::{FOREIGN_FOLDER, SafeModeReason, Sweep, Swept, Tally, Upkeep, UpkeepError};

use super::{ApplyMode, status_of};
use crate::ProgressSink;
use crate::{Engine, Store, error};

/// Sessions that are removed together: one sync for all of them, one open lock for each.
const BATCH_SESSIONS: usize = 64;
const DAY_MS: u64 = 24 * 60 * 60 * 1000;

/// What a dry run showed: the age, and each session that would be removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CleanupPlan(Sha256);

impl CleanupPlan {
    fn of(ttl: &str, sessions: impl Iterator<Item = SessionId>) -> Self {
        let sessions: Vec<String> = sessions.map(|session| session.to_string()).collect();
        Self(Sha256::of(format!("{ttl} {}", sessions.join(" ")).as_bytes()))
    }

    pub fn parse(text: &str) -> Option<Self> {
        Sha256::parse(text).ok().map(Self)
    }
}

impl fmt::Display for CleanupPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// What was done, or would be.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CleanupReport {
    pub dry_run: bool,
    pub ttl: String,
    /// Present if some session cannot be read: no content was removed, because it may need any of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub safe_mode: Option<ErrorEnvelope>,
    /// What ended it early; the rest of the report was done before that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stopped: Option<ErrorEnvelope>,
    /// A session whose newest event is in the future, if any: it protects all others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ahead_of_clock: Option<AheadOfClock>,
    pub removed: Vec<RemovedSession>,
    pub retained: RetainedCounts,
    pub freed: FreedSpace,
}

/// A session that was removed because of its age.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RemovedSession {
    pub session_id: SessionId,
    pub last_worked_on: Option<Timestamp>,
    pub age_days: u64,
    pub files: u64,
    pub bytes: u64,
}

/// The newest event in the store, dated in the future.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AheadOfClock {
    pub session_id: SessionId,
    pub at: Timestamp,
}

/// How many sessions were kept, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RetainedCounts {
    pub kept: u64,
    pub unfinished: u64,
    pub recent: u64,
    pub without_timestamp: u64,
    pub clock_behind: u64,
    /// Old, but in use or locked by another process at the moment.
    pub in_use: u64,
}

impl RetainedCounts {
    fn count(&mut self, why: RetainReason) {
        *match why {
            RetainReason::Kept => &mut self.kept,
            RetainReason::Unfinished => &mut self.unfinished,
            RetainReason::Recent => &mut self.recent,
            RetainReason::WithoutTimestamp => &mut self.without_timestamp,
            RetainReason::ClockBehind => &mut self.clock_behind,
        } += 1;
    }

    pub fn total(&self) -> u64 {
        self.kept + self.unfinished + self.recent + self.without_timestamp + self.clock_behind + self.in_use
    }
}

/// Files and bytes by what they are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FreedSpace {
    pub sessions: FileTotals,
    pub snapshots: FileTotals,
    pub blobs: FileTotals,
    pub workflows: FileTotals,
    pub leftovers: FileTotals,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct FileTotals {
    pub files: u64,
    pub bytes: u64,
}

impl From<Tally> for FileTotals {
    fn from(tally: Tally) -> Self {
        Self { files: tally.files, bytes: tally.bytes }
    }
}

impl FreedSpace {
    pub fn total(&self) -> FileTotals {
        let all = [self.sessions, self.snapshots, self.blobs, self.workflows, self.leftovers];
        FileTotals {
            files: all.iter().map(|sum| sum.files).sum(),
            bytes: all.iter().map(|sum| sum.bytes).sum(),
        }
    }

    fn swept(&mut self, swept: &Swept) {
        self.snapshots = swept.snapshots.into();
        self.blobs = swept.blobs.into();
        self.workflows = swept.workflows.into();
        self.leftovers = swept.leftovers.into();
    }
}

/// A session when it was assessed.
struct AssessedSession {
    cursor: Cursor,
    newest_at: Option<Timestamp>,
    unfinished_runs: usize,
    is_kept: bool,
}

/// All sessions that can be assessed, and every reason against removing content.
struct RetentionScan {
    seen: BTreeMap<SessionId, AssessedSession>,
    doubts: Vec<SafeModeReason>,
}

impl CleanupReport {
    /// What was shown to the user, who may confirm it later.
    pub fn plan(&self) -> CleanupPlan {
        CleanupPlan::of(&self.ttl, self.removed.iter().map(|session| session.session_id))
    }

    /// Records the outcome for an old session; returns whether it is gone.
    fn record_removal(
        &mut self,
        session: SessionId,
        assessed: &AssessedSession,
        age_ms: u64,
        answer: Result<Tally, UpkeepError>,
    ) -> bool {
        match answer {
            Ok(tally) => {
                self.freed.sessions.files += tally.files;
                self.freed.sessions.bytes += tally.bytes;
                self.removed.push(RemovedSession {
                    session_id: session,
                    last_worked_on: assessed.newest_at.clone(),
                    age_days: age_ms / DAY_MS,
                    files: tally.files,
                    bytes: tally.bytes,
                });
                return true;
            }
            Err(UpkeepError::Store(StoreError::NotFound { .. })) => {}
            Err(UpkeepError::Kept { .. }) => self.retained.kept += 1,
            Err(UpkeepError::Changed { .. } | UpkeepError::Store(StoreError::Locked { .. })) => {
                self.retained.in_use += 1;
            }
            Err(cause) => self.stop(cause),
        }
        false
    }

    /// Records the first failure. After the first removal a failure is reported with what was removed, never instead.
    fn stop(&mut self, cause: UpkeepError) {
        if let UpkeepError::InDoubt(doubts) = cause {
            self.safe_mode = Some(*error::safe_mode(&doubts));
        } else if self.stopped.is_none() {
            self.stopped = Some(*error::upkeep(cause));
        }
    }
}

impl<S: Store + Upkeep> Engine<S> {
    /// Removes finished sessions that were not worked on for `ttl`, then content that no session needs.
    pub fn clean_up(
        &self,
        ttl: Ttl,
        mode: ApplyMode,
        watch: ProgressSink<'_>,
    ) -> Result<CleanupReport, Box<ErrorEnvelope>> {
        self.clean_up_checked(ttl, mode, watch, |_| Ok(()))
    }

    /// The same for real, only if exactly what the user confirmed would be deleted: it cannot be undone.
    pub fn clean_up_as_planned(
        &self,
        ttl: Ttl,
        agreed: CleanupPlan,
    ) -> Result<CleanupReport, Box<ErrorEnvelope>> {
        self.clean_up_checked(ttl, ApplyMode::Real, &mut |_, _| {}, |plan| match plan == agreed {
            true => Ok(()),
            false => Err(error::cleanup_changed()),
        })
    }

    fn clean_up_checked(
        &self,
        ttl: Ttl,
        mode: ApplyMode,
        watch: ProgressSink<'_>,
        check_plan: impl FnOnce(CleanupPlan) -> Result<(), Box<ErrorEnvelope>>,
    ) -> Result<CleanupReport, Box<ErrorEnvelope>> {
        if mode == ApplyMode::Real {
            self.permit(Act::Administer)?;
        }
        let mut cleaned = CleanupReport {
            dry_run: mode == ApplyMode::DryRun,
            ttl: ttl.to_string(),
            safe_mode: None,
            stopped: None,
            ahead_of_clock: None,
            removed: Vec::new(),
            retained: RetainedCounts::default(),
            freed: FreedSpace::default(),
        };
        if self.has_lost_sessions() {
            let why = "the folder is missing, but the store holds content of sessions".to_owned();
            cleaned.stop(UpkeepError::InDoubt(vec![SafeModeReason { what: "sessions".to_owned(), why }]));
            return Ok(cleaned);
        }
        let RetentionScan { seen, doubts } = self.assess_all(watch)?;
        if mode == ApplyMode::Real {
            self.store.may_sweep().map_err(error::upkeep)?;
        }
        let expired = self.expired(&seen, ttl, &mut cleaned);
        check_plan(CleanupPlan::of(&cleaned.ttl, expired.iter().map(|(session, ..)| *session)))?;
        let removed = self.remove_expired(&expired, mode, &mut cleaned);
        if cleaned.stopped.is_some() {
            return Ok(cleaned);
        }
        if !doubts.is_empty() {
            cleaned.stop(UpkeepError::InDoubt(doubts));
            return Ok(cleaned);
        }
        let sweep = match mode {
            ApplyMode::DryRun => Sweep::DryRun { without: &removed },
            ApplyMode::Real => Sweep::Real,
        };
        match self.store.sweep(sweep) {
            Ok(swept) => {
                cleaned.freed.swept(&swept);
                swept.kept_leftover.into_iter().for_each(|cause| cleaned.stop(cause.into()));
            }
            Err(cause) => cleaned.stop(cause),
        }
        Ok(cleaned)
    }

    /// Whether the sessions folder is missing, so that no content may be removed.
    pub fn has_lost_sessions(&self) -> bool {
        self.store.has_lost_sessions()
    }

    /// Every session. An unreadable one protects all content, but no other session (G20).
    fn assess_all(&self, watch: ProgressSink<'_>) -> Result<RetentionScan, Box<ErrorEnvelope>> {
        let sessions = self.store.sessions().map_err(|cause| error::upkeep(cause.into()))?;
        let total = sessions.len() as u64;
        let foreign = self.store.foreign_folders().map_err(|cause| error::upkeep_io(&cause))?;
        let doubt = |what| SafeModeReason { what, why: FOREIGN_FOLDER.to_owned() };
        let (mut seen, mut doubts) = (BTreeMap::new(), foreign.into_iter().map(doubt).collect::<Vec<_>>());
        for (done, session) in sessions.into_iter().enumerate() {
            watch(done as u64, total);
            match self.assess(session) {
                Ok(Some(facts)) => {
                    seen.insert(session, facts);
                }
                Ok(None) => {}
                Err(why) => doubts.push(SafeModeReason { what: session.to_string(), why }),
            }
        }
        Ok(RetentionScan { seen, doubts })
    }

    /// What is known about one session; `None` if it is gone, an error if that cannot be determined.
    fn assess(&self, session: SessionId) -> Result<Option<AssessedSession>, String> {
        let slice = match self.store.read(session, None) {
            Err(StoreError::NotFound { .. }) => return Ok(None),
            read => read.map_err(|cause| cause.to_string())?,
        };
        if !slice.health.is_healthy() {
            return Err(slice.health.to_string());
        }
        let facts = SessionState::from_events(session, &slice.events).map_err(|cause| cause.to_string())?;
        let mut unfinished_runs = 0;
        for run in facts.runs() {
            let status = status_of(&facts, run.run_id, &*self.store).map_err(|cause| cause.to_string())?;
            match status {
                Some(RunStatus::Complete | RunStatus::CompleteWithGaps | RunStatus::Closed) => {}
                Some(RunStatus::InProgress | RunStatus::Blocked) | None => unfinished_runs += 1,
            }
        }
        let newest_at = slice.events.iter().filter_map(|event| event.at.as_ref()).max().cloned();
        let is_kept = self.store.is_kept(session);
        Ok(Some(AssessedSession { cursor: slice.cursor, newest_at, unfinished_runs, is_kept }))
    }

    /// The sessions that are old enough to be removed, with their ages.
    fn expired<'a>(
        &self,
        seen: &'a BTreeMap<SessionId, AssessedSession>,
        ttl: Ttl,
        cleaned: &mut CleanupReport,
    ) -> Vec<(SessionId, &'a AssessedSession, u64)> {
        let times = seen.iter().filter_map(|(session, facts)| Some((facts.newest_at.as_ref()?, *session)));
        let newest = times.max();
        let now = Now::new(&self.environment.clock.now(), newest.map(|(at, _)| at));
        if !now.is_clock_trusted() {
            let ahead = newest.map(|(at, session_id)| AheadOfClock { session_id, at: at.clone() });
            cleaned.ahead_of_clock = ahead;
        }
        let mut expired = Vec::new();
        for (session, facts) in seen {
            let judged = SessionFacts {
                newest_at: facts.newest_at.as_ref(),
                unfinished_runs: facts.unfinished_runs,
                is_kept: facts.is_kept,
            };
            match judge(&judged, ttl, &now) {
                RetentionDecision::Retain(why) => cleaned.retained.count(why),
                RetentionDecision::Expired { age_ms } => expired.push((*session, facts, age_ms)),
            }
        }
        expired
    }

    /// The sessions that were removed, or would be.
    fn remove_expired(
        &self,
        expired: &[(SessionId, &AssessedSession, u64)],
        mode: ApplyMode,
        cleaned: &mut CleanupReport,
    ) -> BTreeSet<SessionId> {
        let mut removed = BTreeSet::new();
        for batch in expired.chunks(BATCH_SESSIONS) {
            let answers = match mode {
                ApplyMode::DryRun => batch.iter().map(|(session, ..)| self.store.weigh(*session)).collect(),
                ApplyMode::Real => {
                    let judged = batch.iter().map(|(session, facts, _)| (*session, Some(facts.cursor)));
                    self.store.remove_all(&judged.collect::<Vec<_>>())
                }
            };
            for ((session, facts, age_ms), answer) in batch.iter().zip(answers) {
                if cleaned.record_removal(*session, facts, *age_ms, answer) {
                    removed.insert(*session);
                }
            }
            if cleaned.stopped.is_some() {
                break;
            }
        }
        removed
    }
}
