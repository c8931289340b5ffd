//! The health of all sessions in the store, none left out (G20).

use std::collections::BTreeMap;

use workrail_core::overview::Stage;
use workrail_model::digest::WorkflowHash;
use workrail_model::error::ErrorEnvelope;
use workrail_model::id::SessionId;
use workrail_ports::session_store::StampDepth;

use crate::{Engine, Store, error};

/// A session that cannot continue, and why.
#[derive(Clone, Debug, PartialEq)]
pub struct UnhealthySession {
    pub session: SessionId,
    pub cause: Box<ErrorEnvelope>,
}

/// What was found.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StoreHealth {
    pub sessions: usize,
    pub unhealthy: Vec<UnhealthySession>,
    /// Pinned workflows that unfinished runs need and that cannot be read.
    pub unreadable_workflows: Vec<UnreadableWorkflow>,
}

/// A pinned workflow without which runs cannot continue, and why it cannot be read.
#[derive(Clone, Debug, PartialEq)]
pub struct UnreadableWorkflow {
    /// How many unfinished runs need it.
    pub runs: usize,
    pub cause: Box<ErrorEnvelope>,
}

fn is_unfinished(stage: Stage) -> bool {
    match stage {
        Stage::WaitsForPerson | Stage::Blocked | Stage::InProgress | Stage::Unreadable => true,
        Stage::NotesOnly | Stage::CompleteWithGaps | Stage::Complete | Stage::Closed => false,
    }
}

impl<S: Store> Engine<S> {
    /// Reads every session with a file written since it was indexed; `progress` receives how many of those are
    /// done. Damage that no file system reports, such as bit rot, is found by `verify`.
    pub fn health(&self, mut progress: impl FnMut(usize, usize)) -> Result<StoreHealth, Box<ErrorEnvelope>> {
        let reading = self.reading();
        let known = reading.summaries_at(StampDepth::Segments, &mut |done, total| {
            progress(
                usize::try_from(done).unwrap_or(usize::MAX),
                usize::try_from(total).unwrap_or(usize::MAX),
            );
        })?;
        let unhealthy: Vec<UnhealthySession> = known
            .unhealthy
            .iter()
            .map(|(session, health)| UnhealthySession {
                session: *session,
                cause: error::health(*session, health),
            })
            .collect();
        let mut needed: BTreeMap<WorkflowHash, usize> = BTreeMap::new();
        for card in known.runs().filter(|card| is_unfinished(card.stage)) {
            if let Some(position) = &card.at {
                *needed.entry(position.workflow_hash).or_default() += 1;
            }
        }
        let unreadable_workflows = needed.into_iter().filter_map(|(hash, runs)| {
            let cause = error::content(self.store.workflow(hash).err()?);
            Some(UnreadableWorkflow { runs, cause })
        });
        Ok(StoreHealth {
            sessions: known.healthy() + unhealthy.len(),
            unreadable_workflows: unreadable_workflows.collect(),
            unhealthy,
        })
    }
}
