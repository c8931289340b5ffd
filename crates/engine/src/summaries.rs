//! A summary of every session in the store, kept up to date by reading what was appended since (G23).
//!
//! Summaries are the source for the ranking of `resume_session`, the list of sessions, and finding a run by label when
//! the rest of its token is lost. A new process takes them from the store's index, reads only sessions that changed
//! since they were indexed, and adds these to it. A session that cannot be read affects no other: it is counted with
//! its health (G20).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use workrail_core::label::RunLabel;
use workrail_core::overview::RunRow;
use workrail_core::project::SessionState;
use workrail_core::resume::{CardPosition, RunCard};
use workrail_core::summary::{self, Completeness, SessionSummary};
use workrail_core::token::NodeFacts;
use workrail_model::error::ErrorEnvelope;
use workrail_model::health::SessionHealth;
use workrail_model::id::{RunId, SessionId};
use workrail_model::manifest::Cursor;
use workrail_ports::cache::{IfAbsent, IndexKeys, IndexRecord, IndexedRun};
use workrail_ports::session_store::{LogStamp, StampDepth, StampedSession, StoreError};

use crate::error;
use crate::salvage::unreadable;
use crate::selection::{about_label, about_run};
use crate::session_access::Reading;

/// Records added to the index together: a process killed while building it loses little.
pub(crate) const RECORDS_PER_WRITE: usize = 256;

#[derive(Debug, Default)]
pub(crate) struct SummaryCache {
    known: Mutex<SessionSummaries>,
}

#[derive(Debug, Default)]
pub(crate) struct SessionSummaries {
    sessions: BTreeMap<SessionId, Summarised>,
    /// Damaged and unreadable sessions with their health: counted, never offered (G20).
    pub unhealthy: BTreeMap<SessionId, SessionHealth>,
    /// Whether the index has been read; once per process is enough.
    has_index: bool,
}

/// A healthy session.
#[derive(Debug)]
struct Summarised {
    /// Absent if the log could not be checked or was written while it was read: then it is read again.
    stamp: Option<LogStamp>,
    cursor: Cursor,
    summary: SessionSummary,
}

impl SessionSummaries {
    pub(crate) fn runs(&self) -> impl Iterator<Item = &RunCard> {
        self.sessions.values().flat_map(|session| session.summary.cards.iter())
    }

    pub(crate) fn healthy(&self) -> usize {
        self.sessions.len()
    }

    pub(crate) fn rows(&self) -> impl Iterator<Item = &[RunRow]> {
        self.sessions.values().map(|session| session.summary.rows.as_slice())
    }
}

/// Which runs have a label.
#[derive(Clone, Debug)]
pub(crate) enum LabelMatch {
    NoRun,
    One(Box<(SessionId, CardPosition)>),
    /// There are only 65,536 labels of two words, so several runs can share one.
    Several(usize),
}

impl<'a> Reading<'a> {
    /// All summaries, up to date with the store.
    pub(crate) fn summaries(&self) -> Result<MutexGuard<'a, SessionSummaries>, Box<ErrorEnvelope>> {
        self.summaries_at(StampDepth::Manifest, &mut |_, _| {})
    }

    /// The same, with stamps of this depth; `progress` receives how many of the sessions that must be read are done.
    pub(crate) fn summaries_at(
        &self,
        depth: StampDepth,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<MutexGuard<'a, SessionSummaries>, Box<ErrorEnvelope>> {
        let mut known = self.summary_cache.known.lock().unwrap_or_else(PoisonError::into_inner);
        let found = self.sessions.stamped_sessions(depth).map_err(error::store)?;
        let present: BTreeSet<SessionId> = found.iter().map(|found| found.session).collect();
        known.sessions.retain(|session, _| present.contains(session));
        known.unhealthy.clear();
        if !known.has_index {
            known.take_index(self.index.index_records(summary::VERSION, &|id| present.contains(&id)));
        }
        let is_news = |found: &StampedSession| {
            let seen = known.sessions.get(&found.session).and_then(|session| session.stamp);
            !seen.zip(found.stamp).is_some_and(|(seen, now)| now.is_unchanged(&seen, depth))
        };
        let changed: Vec<StampedSession> = found.into_iter().filter(is_news).collect();
        let mut records = Vec::new();
        for (done, found) in (0..).zip(&changed) {
            progress(done, changed.len() as u64);
            records.extend(self.refresh(&mut known, found.session));
            if records.len() >= RECORDS_PER_WRITE {
                self.index.add_to_index(summary::VERSION, &records, IfAbsent::Skip);
                records.clear();
            }
        }
        self.index.add_to_index(summary::VERSION, &records, IfAbsent::Skip);
        Ok(known)
    }

    /// Reads again those of the sessions with a segment that changed since they were summarised; returns whether one
    /// of them is damaged and so has lost its summary.
    pub(crate) fn drop_damaged(&self, known: &mut SessionSummaries, sessions: &[SessionId]) -> bool {
        let before = known.sessions.len();
        for (session, now) in sessions.iter().zip(self.sessions.stamps(sessions)) {
            let seen = known.sessions.get(session).and_then(|session| session.stamp);
            if !seen.zip(now).is_some_and(|(seen, now)| now.is_unchanged(&seen, StampDepth::Segments)) {
                self.refresh(known, *session);
            }
        }
        known.sessions.len() < before
    }

    /// Reads a session that may have changed; returns its new index record.
    pub(crate) fn refresh(&self, known: &mut SessionSummaries, session: SessionId) -> Option<IndexRecord> {
        // Stamped before reading: anything written in between shows in the next stamp.
        let stamp = self.sessions.stamp(session);
        let segments = |stamp: Option<LogStamp>| stamp.map(|stamp| stamp.segments);
        if let Some(before) = known.sessions.get_mut(&session)
            && segments(before.stamp) == segments(stamp)
            && let Ok(slice) = self.sessions.read(session, Some(&before.cursor))
            && slice.health.is_healthy()
            && slice.continues
            && slice.events.is_empty()
        {
            before.stamp = stamp.filter(|stamp| stamp.bytes == before.cursor.manifest_bytes);
            return record(session, before.stamp?, before.cursor, &before.summary);
        }
        known.sessions.remove(&session);
        let (state, cursor) = match self.healthy_state(session) {
            Ok(Some(read)) => read,
            Ok(None) => return None,
            Err(health) => {
                known.unhealthy.insert(session, health);
                return None;
            }
        };
        let (summary, completeness) = SessionSummary::of(&state, &self.content);
        let stamp = stamp.filter(|stamp| stamp.bytes == cursor.manifest_bytes);
        let stamp = stamp.filter(|_| completeness == Completeness::Complete);
        let record = stamp.and_then(|stamp| record(session, stamp, cursor, &summary));
        known.sessions.insert(session, Summarised { stamp, cursor, summary });
        record
    }

    /// A healthy session, folded up to its end; `None` if it has no committed event.
    fn healthy_state(&self, session: SessionId) -> Result<Option<(SessionState, Cursor)>, SessionHealth> {
        if let Some(folded) = self.cached(session)
            && let Ok(slice) = self.sessions.read(session, Some(&folded.cursor))
            && slice.health.is_healthy()
            && slice.continues
        {
            let mut folded = folded;
            if folded.take(&slice).is_ok() {
                return Ok(Some((folded.state, folded.cursor)));
            }
        }
        match self.salvage_slice(session) {
            Ok((read, cursor)) if read.health.is_healthy() => Ok(Some((read.state, cursor))),
            Ok((read, _)) => Err(read.health),
            Err(StoreError::NotFound { .. }) => Ok(None),
            Err(cause) => Err(unreadable(&cause)),
        }
    }

    /// The position of a run, by its id; `None` if no healthy session has it.
    pub(crate) fn run_position(
        &self,
        run: RunId,
    ) -> Result<Option<(SessionId, CardPosition)>, Box<ErrorEnvelope>> {
        let known = self.summaries_about(&about_run(run), &mut |_, _| {})?;
        let found = known.runs().find_map(|card| {
            let position = card.at.as_ref().filter(|position| position.run == run)?;
            Some((card.session, position.clone()))
        });
        Ok(found)
    }

    /// The runs in this store with a label.
    pub(crate) fn runs_with_label(&self, label: RunLabel) -> Result<LabelMatch, Box<ErrorEnvelope>> {
        let known = self.summaries_about(&about_label(label), &mut |_, _| {})?;
        let mut fitting = known.runs().filter(|card| card.label() == Some(label));
        let Some(first) = fitting.next() else { return Ok(LabelMatch::NoRun) };
        let others = fitting.count();
        Ok(match &first.at {
            Some(position) if others == 0 => LabelMatch::One(Box::new((first.session, position.clone()))),
            Some(_) | None => LabelMatch::Several(others + 1),
        })
    }
}

impl SessionSummaries {
    /// Moves what was read of a session into this; false if nothing was.
    pub(crate) fn take_from(&mut self, read: &mut Self, session: SessionId) -> bool {
        if let Some(summarised) = read.sessions.remove(&session) {
            self.sessions.insert(session, summarised);
            return true;
        }
        let Some(health) = read.unhealthy.remove(&session) else { return false };
        self.sessions.remove(&session);
        self.unhealthy.insert(session, health);
        true
    }

    /// Takes over other processes' summaries. Sessions whose record does not decode are read instead.
    pub(crate) fn take_index(&mut self, records: Vec<IndexRecord>) {
        for IndexRecord { session, stamp, cursor, summary, keys: _ } in records {
            if let Some(summary) = SessionSummary::from_bytes(session, &summary) {
                self.sessions.entry(session).or_insert(Summarised { stamp: Some(stamp), cursor, summary });
            }
        }
        self.has_index = true;
    }
}

/// The index record of a session; `None` if the stamp is not of the log that the cursor ends.
pub(crate) fn record(
    session: SessionId,
    stamp: LogStamp,
    cursor: Cursor,
    summary: &SessionSummary,
) -> Option<IndexRecord> {
    let runs = || summary.stages().map(|(stage, activity)| IndexedRun { stage, activity }).collect();
    (stamp.bytes == cursor.manifest_bytes).then(|| IndexRecord {
        session,
        stamp,
        cursor,
        summary: summary.to_bytes(),
        keys: IndexKeys { terms: summary.terms(), runs: runs() },
    })
}

/// What a token for the run's tip needs.
pub(crate) fn tip_of(position: &CardPosition) -> NodeFacts {
    NodeFacts {
        node: position.tip,
        run: position.run,
        node_event: position.tip_event,
        created_by: position.tip_created_by,
        workflow: position.workflow_hash,
    }
}
