//! A card for every run of the store, kept up to date by reading what was appended since (G23).
//!
//! From cards come the ranking of `resume_session`, and the way back from a label that is all that is left
//! of a token.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use workrail_core::label::RunLabel;
use workrail_core::project::{OutputState, SessionState};
use workrail_core::resume::{RunCard, RunPlace, SessionCard, Titled};
use workrail_core::token::NodeFacts;
use workrail_model::digest::WorkflowHash;
use workrail_model::error::ErrorEnvelope;
use workrail_model::event::OutputPayload;
use workrail_model::id::SessionId;
use workrail_model::manifest::Cursor;
use workrail_ports::session_store::StoreError;

use crate::contents::Content;
use crate::error;
use crate::gate::Reading;

#[derive(Debug, Default)]
pub(crate) struct Cards {
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
pub(crate) struct Known {
    sessions: BTreeMap<SessionId, (Cursor, SessionCard)>,
    /// Damaged sessions: counted, never offered (G20).
    pub unhealthy: BTreeSet<SessionId>,
}

impl Known {
    pub(crate) fn runs(&self) -> impl Iterator<Item = &RunCard> {
        self.sessions.values().flat_map(|(_, card)| card.runs.iter())
    }
}

/// Which runs a label names.
#[derive(Clone, Debug)]
pub(crate) enum Named {
    Nobody,
    One(Box<(SessionId, RunPlace)>),
    /// Two words name 65,536 runs at most, so several can share them.
    Several(usize),
}

impl Titled for Content<'_> {
    fn whole_notes(&self, output: &OutputState) -> Option<String> {
        match &output.payload {
            OutputPayload::Notes { full_text_ref: Some(reference), .. } => {
                String::from_utf8(self.store.blob(*reference).ok()?).ok()
            }
            OutputPayload::Notes { full_text_ref: None, .. } | OutputPayload::ArtifactRef { .. } => None,
        }
    }

    fn workflow_name(&self, hash: WorkflowHash) -> Option<String> {
        self.workflow(hash).ok().map(|workflow| workflow.name.clone())
    }
}

impl<'a> Reading<'a> {
    /// All cards as the store stands now.
    pub(crate) fn cards(&self) -> Result<MutexGuard<'a, Known>, Box<ErrorEnvelope>> {
        let mut known = self.cards.known.lock().unwrap_or_else(PoisonError::into_inner);
        let cursor = |session| known.sessions.get(&session).map(|(cursor, _)| *cursor);
        let changes = self.sessions.changes(&cursor).map_err(error::store)?;
        let present: BTreeSet<SessionId> =
            changes.unchanged.iter().chain(&changes.changed).copied().collect();
        known.sessions.retain(|session, _| present.contains(session));
        known.unhealthy.clear();
        for session in changes.changed {
            self.refresh(&mut known, session)?;
        }
        Ok(known)
    }

    fn refresh(&self, known: &mut Known, session: SessionId) -> Result<(), Box<ErrorEnvelope>> {
        let before = known.sessions.get(&session).map(|(cursor, _)| *cursor);
        let slice = match self.sessions.read(session, before.as_ref()) {
            Ok(slice) => slice,
            Err(StoreError::NotFound { .. }) => {
                known.sessions.remove(&session);
                return Ok(());
            }
            Err(cause) => return Err(error::store(cause)),
        };
        if before.is_some() && slice.health.is_healthy() && slice.continues && slice.events.is_empty() {
            return Ok(());
        }
        let whole = match before {
            None => Ok(slice),
            Some(_) => self.sessions.read(session, None),
        };
        let card = whole.ok().filter(|slice| slice.health.is_healthy()).and_then(|slice| {
            let facts = SessionState::from_events(session, &slice.events).ok()?;
            Some((slice.cursor, SessionCard::of(&facts, &self.content)))
        });
        match card {
            Some(card) => {
                known.sessions.insert(session, card);
            }
            None => {
                known.sessions.remove(&session);
                known.unhealthy.insert(session);
            }
        }
        Ok(())
    }

    /// The runs of this store that go by a label.
    pub(crate) fn named(&self, label: RunLabel) -> Result<Named, Box<ErrorEnvelope>> {
        let known = self.cards()?;
        let mut fitting = known.runs().filter(|card| card.label() == Some(label));
        let Some(first) = fitting.next() else { return Ok(Named::Nobody) };
        let others = fitting.count();
        Ok(match &first.at {
            Some(place) if others == 0 => Named::One(Box::new((first.session, place.clone()))),
            Some(_) | None => Named::Several(others + 1),
        })
    }
}

/// What a token for the tip of a run needs.
pub(crate) fn tip_of(place: &RunPlace) -> NodeFacts {
    NodeFacts {
        node: place.tip,
        run: place.run,
        node_event: place.tip_event,
        created_by: place.tip_created_by,
        workflow: place.workflow_hash,
    }
}
