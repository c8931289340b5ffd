//! All sessions of the store, those that wait first.

use std::collections::BTreeSet;

use workrail_core::overview::{DamagedRow, ListQuery, SessionsList, arrange, damaged};
use workrail_model::error::ErrorEnvelope;
use workrail_model::health::SessionHealth;
use workrail_model::id::SessionId;

use crate::ProgressSink;
use crate::selection::about_list;
use crate::session_access::Reading;
use crate::summaries::SessionSummaries;
use crate::{Engine, Store};

/// For the sessions that come first, every segment is checked; for the others only the manifest. Nobody reads further
/// than this, and checking all segments would cost more than the rest of the list.
const INSPECTED_MAX: usize = 500;

impl<S: Store> Engine<S> {
    /// One row per run, and every damaged session with its health.
    pub fn sessions(
        &self,
        wanted: &ListQuery,
        progress: ProgressSink<'_>,
    ) -> Result<SessionsList, Box<ErrorEnvelope>> {
        self.reading().list_sessions(wanted, progress)
    }
}

/// The sessions that are worth a close check.
fn first_of(list: &SessionsList) -> impl Iterator<Item = SessionId> {
    list.runs.iter().take(INSPECTED_MAX).map(|row| row.session_id)
}

impl Reading<'_> {
    fn list_sessions(
        &self,
        wanted: &ListQuery,
        progress: ProgressSink<'_>,
    ) -> Result<SessionsList, Box<ErrorEnvelope>> {
        let question = about_list(wanted);
        let mut known = match &question {
            Some(question) => self.summaries_about(question, progress)?,
            None => self.all_summaries(progress)?,
        };
        let mut inspected = BTreeSet::new();
        let mut list = loop {
            let list = arrange(known.rows(), wanted);
            let mut first: Vec<SessionId> = first_of(&list).collect();
            if wanted.is_narrowed() {
                // Damage is reported even if the list is filtered.
                let limit = Some(INSPECTED_MAX);
                first.extend(first_of(&arrange(
                    known.rows(),
                    &ListQuery { limit, ..ListQuery::all_of(wanted.length) },
                )));
            }
            first.retain(|session| inspected.insert(*session));
            // Sessions that replace a damaged one are checked as well.
            if !self.drop_damaged(&mut known, &first) {
                break list;
            }
        };
        list.damaged = self.damaged_rows(&known);
        list.sessions = known.all_sessions();
        if question.is_some() {
            list.left_out = known.all_runs().saturating_sub(list.runs.len() as u64);
        }
        Ok(list)
    }

    fn damaged_rows(&self, known: &SessionSummaries) -> Vec<DamagedRow> {
        let row = |(session, health): (&SessionId, &SessionHealth)| {
            // Only runs before the damage can be named.
            let read = match health {
                SessionHealth::CorruptTail { .. } => self.salvage(*session).ok(),
                SessionHealth::Healthy
                | SessionHealth::CorruptHead { .. }
                | SessionHealth::UnknownVersion { .. } => None,
            };
            damaged(*session, health.clone(), read.as_ref().map(|read| &read.state))
        };
        known.unhealthy.iter().map(row).collect()
    }
}
