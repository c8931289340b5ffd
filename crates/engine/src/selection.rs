//! The summaries that a question is about. A store whose index can be asked gives these alone; of any other store all are
//! read (G127).

use std::ops::{Deref, DerefMut};
use std::sync::MutexGuard;

use workrail_core::label::RunLabel;
use workrail_core::overview::{Stage, Wanted};
use workrail_core::resume::{Query, RecentRuns, terms};
use workrail_core::summary::{self, stage_number};
use workrail_model::error::ErrorEnvelope;
use workrail_model::id::{RunId, SessionId};
use workrail_ports::cache::{Count, IfAbsent, IndexAnswer, IndexQuestion};
use workrail_ports::session_store::StampDepth;

use crate::cards::{RECORDS_PER_WRITE, SessionSummaries};
use crate::gate::Reading;

/// Of each stage, beside what holds a word. Ranking shows five; some of the newest may turn out to be damaged.
const NEWEST_RANKED: usize = 24;
/// More than a list shows, for the same reason.
const NEWEST_SPARE: usize = 24;

/// Summaries among which everything is that a question is about.
pub(crate) struct Selection<'a> {
    known: Known<'a>,
}

enum Known<'a> {
    All(MutexGuard<'a, SessionSummaries>),
    /// Some of all, which the index counted.
    Found {
        found: Box<SessionSummaries>,
        sessions: u64,
        runs: u64,
    },
}

impl Selection<'_> {
    /// How many sessions the store has; 0 when nobody asked.
    pub(crate) fn all_sessions(&self) -> u64 {
        match &self.known {
            Known::All(all) => (all.healthy() + all.unhealthy.len()) as u64,
            Known::Found { sessions, .. } => *sessions,
        }
    }

    /// How many runs of healthy sessions it has; 0 when nobody asked.
    pub(crate) fn all_runs(&self) -> u64 {
        match &self.known {
            Known::All(all) => all.runs().count() as u64,
            Known::Found { runs, .. } => *runs,
        }
    }
}

impl Deref for Selection<'_> {
    type Target = SessionSummaries;

    fn deref(&self) -> &SessionSummaries {
        match &self.known {
            Known::All(all) => all,
            Known::Found { found, .. } => found,
        }
    }
}

impl DerefMut for Selection<'_> {
    fn deref_mut(&mut self) -> &mut SessionSummaries {
        match &mut self.known {
            Known::All(all) => all,
            Known::Found { found, .. } => found,
        }
    }
}

/// What `resume_session` looks at.
pub(crate) fn about_query(query: &Query) -> IndexQuestion {
    // A run that was named is offered alone, or nothing is.
    let newest = match query.is_exact() && query.recent != RecentRuns::Always {
        true => Vec::new(),
        false => Stage::ALL.map(|stage| (stage_number(stage), NEWEST_RANKED)).to_vec(),
    };
    IndexQuestion { sessions: query.sessions().collect(), terms: query.terms(), newest, count: Count::All }
}

/// What a list is made of; `None` when any run may be in it.
pub(crate) fn about_list(wanted: &Wanted) -> Option<IndexQuestion> {
    let newest = wanted.newest_of_stages()?;
    let newest =
        newest.into_iter().map(|(stage, count)| (stage_number(stage), count.saturating_add(NEWEST_SPARE)));
    Some(IndexQuestion { newest: newest.collect(), count: Count::All, ..IndexQuestion::default() })
}

pub(crate) fn about_run(run: RunId) -> IndexQuestion {
    IndexQuestion { terms: vec![terms::of_run(run)], ..IndexQuestion::default() }
}

pub(crate) fn about_label(label: RunLabel) -> IndexQuestion {
    IndexQuestion { terms: vec![terms::of_label(label)], ..IndexQuestion::default() }
}

impl<'a> Reading<'a> {
    /// Everything that a question is about, and maybe more; `heard` receives how many sessions of those that have to be
    /// read are done.
    pub(crate) fn cards_about(
        &self,
        question: &IndexQuestion,
        heard: &mut dyn FnMut(u64, u64),
    ) -> Result<Selection<'a>, Box<ErrorEnvelope>> {
        match self.found_in_index(question, heard) {
            Some(selection) => Ok(selection),
            None => self.all_cards(heard),
        }
    }

    /// Every summary.
    pub(crate) fn all_cards(
        &self,
        heard: &mut dyn FnMut(u64, u64),
    ) -> Result<Selection<'a>, Box<ErrorEnvelope>> {
        Ok(Selection { known: Known::All(self.cards_at(StampDepth::Manifest, heard)?) })
    }

    fn found_in_index(
        &self,
        question: &IndexQuestion,
        heard: &mut dyn FnMut(u64, u64),
    ) -> Option<Selection<'a>> {
        let mut answer = self.index.ask_index(summary::VERSION, question)?;
        let mut read = SessionSummaries::default();
        if !answer.unindexed.is_empty() {
            self.index_sessions(&mut read, &answer.unindexed, heard);
            answer = self.index.ask_index(summary::VERSION, question)?;
        }
        let IndexAnswer { records, unindexed, sessions, runs } = answer;
        let mut found = SessionSummaries::default();
        found.take_index(records);
        // Damaged, or written to again since: what was read of it a moment ago takes the place of what was indexed.
        for session in unindexed {
            if !found.take_from(&mut read, session) {
                self.refresh(&mut found, session);
            }
        }
        Some(Selection { known: Known::Found { found: Box::new(found), sessions, runs } })
    }

    fn index_sessions(
        &self,
        read: &mut SessionSummaries,
        sessions: &[SessionId],
        heard: &mut dyn FnMut(u64, u64),
    ) {
        for (batch, done) in sessions.chunks(RECORDS_PER_WRITE).zip((0..).step_by(RECORDS_PER_WRITE)) {
            heard(done, sessions.len() as u64);
            let records: Vec<_> = batch.iter().filter_map(|session| self.refresh(read, *session)).collect();
            self.index.add_to_index(summary::VERSION, &records, IfAbsent::Skip);
        }
    }
}
