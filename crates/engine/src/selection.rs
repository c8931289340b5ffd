//! The summaries that a query needs. A store whose index can be queried returns only these; for any other store all are
//! read (G127).

use std::ops::{Deref, DerefMut};
use std::sync::MutexGuard;

use workrail_core::label::RunLabel;
use workrail_core::overview::{ListQuery, Stage};
use workrail_core::resume::{RecentRuns, ResumeQuery, terms};
use workrail_core::summary::{self, stage_number};
use workrail_model::digest::Sha256;
use workrail_model::error::ErrorEnvelope;
use workrail_model::id::{RunId, SessionId};
use workrail_ports::cache::{Count, IfAbsent, IndexAnswer, IndexQuery};
use workrail_ports::session_store::StampDepth;

use crate::session_access::Reading;
use crate::summaries::{RECORDS_PER_WRITE, SessionSummaries};

/// Per stage, in addition to those that contain a word. Ranking shows five; some of the newest may turn out damaged.
const NEWEST_RANKED: usize = 24;
/// More than a list shows, for the same reason.
const NEWEST_SPARE: usize = 24;

/// Summaries that include everything a query needs.
pub(crate) struct SummarySelection<'a> {
    known: SelectedSummaries<'a>,
}

enum SelectedSummaries<'a> {
    All(MutexGuard<'a, SessionSummaries>),
    /// A subset; the index counted the total.
    Found {
        found: Box<SessionSummaries>,
        sessions: u64,
        runs: u64,
    },
}

impl SummarySelection<'_> {
    /// How many sessions the store has; 0 if the count was not requested.
    pub(crate) fn all_sessions(&self) -> u64 {
        match &self.known {
            SelectedSummaries::All(all) => (all.healthy() + all.unhealthy.len()) as u64,
            SelectedSummaries::Found { sessions, .. } => *sessions,
        }
    }

    fn is_everything(&self) -> bool {
        match self.known {
            SelectedSummaries::All(_) => true,
            SelectedSummaries::Found { .. } => false,
        }
    }

    /// How many runs its healthy sessions have; 0 if the count was not requested.
    pub(crate) fn all_runs(&self) -> u64 {
        match &self.known {
            SelectedSummaries::All(all) => all.runs().count() as u64,
            SelectedSummaries::Found { runs, .. } => *runs,
        }
    }
}

impl Deref for SummarySelection<'_> {
    type Target = SessionSummaries;

    fn deref(&self) -> &SessionSummaries {
        match &self.known {
            SelectedSummaries::All(all) => all,
            SelectedSummaries::Found { found, .. } => found,
        }
    }
}

impl DerefMut for SummarySelection<'_> {
    fn deref_mut(&mut self) -> &mut SessionSummaries {
        match &mut self.known {
            SelectedSummaries::All(all) => all,
            SelectedSummaries::Found { found, .. } => found,
        }
    }
}

/// What `resume_session` needs.
pub(crate) fn about_query(query: &ResumeQuery) -> IndexQuery {
    // A run that was named is offered alone, or nothing is.
    let newest = match query.is_exact() && query.recent != RecentRuns::Always {
        true => Vec::new(),
        false => Stage::ALL.map(|stage| (stage_number(stage), NEWEST_RANKED)).to_vec(),
    };
    IndexQuery { sessions: query.sessions().collect(), terms: query.terms(), newest, count: Count::All }
}

/// What a list needs; `None` if any run may be in it.
pub(crate) fn about_list(wanted: &ListQuery) -> Option<IndexQuery> {
    let newest = wanted.newest_of_stages()?;
    let newest =
        newest.into_iter().map(|(stage, count)| (stage_number(stage), count.saturating_add(NEWEST_SPARE)));
    Some(IndexQuery { newest: newest.collect(), count: Count::All, ..IndexQuery::default() })
}

pub(crate) fn about_run(run: RunId) -> IndexQuery {
    IndexQuery { terms: vec![terms::of_run(run)], ..IndexQuery::default() }
}

pub(crate) fn about_label(label: RunLabel) -> IndexQuery {
    IndexQuery { terms: vec![terms::of_label(label)], ..IndexQuery::default() }
}

/// The runs that were started with an idempotency key, and some of those whose key is unknown.
fn about_start_key(key_digest: Sha256) -> IndexQuery {
    let terms = vec![terms::of_start_key(key_digest), terms::of_unknown_start_key()];
    IndexQuery { terms, ..IndexQuery::default() }
}

impl<'a> Reading<'a> {
    /// Everything that a query needs, and maybe more; `progress` receives how many of the sessions that must be read
    /// are done.
    pub(crate) fn summaries_about(
        &self,
        query: &IndexQuery,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<SummarySelection<'a>, Box<ErrorEnvelope>> {
        match self.found_in_index(query, progress) {
            Some(selection) => Ok(selection),
            None => self.all_summaries(progress),
        }
    }

    /// The summaries of all runs that may have been started with a key. Those of older versions do not name theirs: while
    /// there is one, every summary is read.
    pub(crate) fn summaries_of_start_key(
        &self,
        key_digest: Sha256,
    ) -> Result<SummarySelection<'a>, Box<ErrorEnvelope>> {
        let found = self.summaries_about(&about_start_key(key_digest), &mut |_, _| {})?;
        let is_unknown = |key| key == terms::of_unknown_start_key();
        if found.is_everything() || !found.runs().any(|card| card.start_key.is_some_and(is_unknown)) {
            return Ok(found);
        }
        self.all_summaries(&mut |_, _| {})
    }

    /// Every summary.
    pub(crate) fn all_summaries(
        &self,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<SummarySelection<'a>, Box<ErrorEnvelope>> {
        Ok(SummarySelection {
            known: SelectedSummaries::All(self.summaries_at(StampDepth::Manifest, progress)?),
        })
    }

    fn found_in_index(
        &self,
        query: &IndexQuery,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Option<SummarySelection<'a>> {
        let mut answer = self.index.query_index(summary::VERSION, query)?;
        let mut read = SessionSummaries::default();
        if !answer.unindexed.is_empty() {
            self.index_sessions(&mut read, &answer.unindexed, progress);
            answer = self.index.query_index(summary::VERSION, query)?;
        }
        let IndexAnswer { records, unindexed, sessions, runs } = answer;
        let mut found = SessionSummaries::default();
        found.take_index(records);
        // Damaged, or written to since: what was just read of it replaces what was indexed.
        for session in unindexed {
            if !found.take_from(&mut read, session) {
                self.refresh(&mut found, session);
            }
        }
        Some(SummarySelection { known: SelectedSummaries::Found { found: Box::new(found), sessions, runs } })
    }

    fn index_sessions(
        &self,
        read: &mut SessionSummaries,
        sessions: &[SessionId],
        progress: &mut dyn FnMut(u64, u64),
    ) {
        for (batch, done) in sessions.chunks(RECORDS_PER_WRITE).zip((0..).step_by(RECORDS_PER_WRITE)) {
            progress(done, sessions.len() as u64);
            let records: Vec<_> = batch.iter().filter_map(|session| self.refresh(read, *session)).collect();
            self.index.add_to_index(summary::VERSION, &records, IfAbsent::Skip);
        }
    }
}
