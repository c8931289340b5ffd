//! What an index keeps of a session: everything that lists, resuming and labels need, without folding it again.
//!
//! A summary is derived, never the source of truth (G18). It is written as compact bytes under [`VERSION`]; for bytes
//! of another version, or damaged ones, the session is read instead.

mod codec;

#[cfg(test)]
mod tests;

pub use codec::stage_number;

use std::cell::Cell;
use std::sync::Arc;

use workrail_model::compiled::CompiledWorkflow;
use workrail_model::digest::{BlobRef, WorkflowHash};
use workrail_model::event::Activity;
use workrail_model::snapshot::EngineState;

use crate::overview::{RunRow, rows};
use crate::project::{NodeState, SessionState};
use crate::reply::recovery::Snapshots;
use crate::report::ContentReader;
use crate::resume::{RunCard, cards};

/// The version of the summaries: raised whenever their bytes or their meaning change.
pub const VERSION: u32 = 6;

/// A healthy session as lists and `resume_session` show it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SessionSummary {
    pub cards: Vec<RunCard>,
    pub rows: Vec<RunRow>,
}

/// Whether a summary reflects all of the log and its content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Completeness {
    Complete,
    /// Some content could not be read: it may be readable next time, so this summary is not stored.
    ContentMissing,
}

impl SessionSummary {
    /// The terms by which its runs are found, each once.
    pub fn terms(&self) -> Vec<u64> {
        let mut all: Vec<u64> = self.cards.iter().flat_map(RunCard::terms).collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    /// The stage of each run as a number, and when it was worked on.
    pub fn stages(&self) -> impl Iterator<Item = (u8, Option<Activity>)> {
        self.rows.iter().map(|row| (stage_number(row.stage), row.activity))
    }

    pub fn of(facts: &SessionState, content: &dyn ContentReader) -> (Self, Completeness) {
        let content = TrackedContent { content, missing: Cell::new(false) };
        let summary = Self { cards: cards(facts, &content), rows: rows(facts, &content) };
        let completeness = match content.missing.get() {
            false => Completeness::Complete,
            true => Completeness::ContentMissing,
        };
        (summary, completeness)
    }
}

/// Content, and whether any of it was missing.
#[derive(Debug)]
struct TrackedContent<'a> {
    content: &'a dyn ContentReader,
    missing: Cell<bool>,
}

impl TrackedContent<'_> {
    fn noted<T>(&self, found: Option<T>) -> Option<T> {
        if found.is_none() {
            self.missing.set(true);
        }
        found
    }
}

impl Snapshots for TrackedContent<'_> {
    fn state_at(&self, node: &NodeState) -> Option<EngineState> {
        self.noted(self.content.state_at(node))
    }
}

impl ContentReader for TrackedContent<'_> {
    fn workflow(&self, hash: WorkflowHash) -> Option<Arc<CompiledWorkflow>> {
        self.noted(self.content.workflow(hash))
    }

    fn blob(&self, reference: BlobRef) -> Option<Vec<u8>> {
        self.noted(self.content.blob(reference))
    }
}
