//! Full-text search over all records of the store: runs, notes and artifacts.

use workrail_core::overview::{Hit, SearchWords, hits, order};
use workrail_core::reply::recovery::Snapshots as _;
use workrail_model::error::ErrorEnvelope;
use workrail_model::id::{NodeId, SessionId};

use crate::ProgressSink;
use crate::{Engine, Store, error};

/// What was found, the newest first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordSearch {
    pub hits: Vec<Hit>,
    /// Hits beyond the limit.
    pub left_out: u64,
    /// How many sessions were searched.
    pub sessions: u64,
    /// The sessions that cannot be read and were not searched.
    pub unreadable: Vec<SessionId>,
}

impl<S: Store> Engine<S> {
    /// The newest `limit` records that contain every word.
    pub fn search_notes(
        &self,
        words: &str,
        limit: usize,
        progress: ProgressSink<'_>,
    ) -> Result<RecordSearch, Box<ErrorEnvelope>> {
        let wanted = SearchWords::new(words).ok_or_else(|| error::no_words(words))?;
        let reading = self.reading();
        let sessions = reading.sessions.sessions().map_err(error::store)?;
        let mut found = RecordSearch { hits: Vec::new(), left_out: 0, sessions: 0, unreadable: Vec::new() };
        for (index, session) in (0..).zip(&sessions) {
            progress(index, sessions.len() as u64);
            let Ok(read) = reading.salvage(*session).and_then(|read| read.or_refuse()) else {
                found.unreadable.push(*session);
                continue;
            };
            found.sessions += 1;
            let step = |node: NodeId| {
                let state = reading.content.state_at(read.state.node(node)?)?;
                state.pending_step().map(|step| step.step_id.to_string())
            };
            found.hits.extend(hits(
                &read.state,
                &read.events,
                &read.health,
                &wanted,
                &reading.content,
                &step,
            ));
        }
        order(&mut found.hits);
        found.left_out = found.hits.len().saturating_sub(limit) as u64;
        found.hits.truncate(limit);
        Ok(found)
    }
}
