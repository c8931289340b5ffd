//! `repair`: restores a damaged session to what its segments attest, after backing up all of it (G24).

use serde::Serialize;
use workrail_core::project::{FoldError, SessionState};
use workrail_model::error::ErrorEnvelope;
use workrail_model::event::Event;
use workrail_model::health::SessionHealth;
use workrail_model::id::SessionId;
use workrail_model::team::Act;
use workrail_ports::upkeep::{Diagnosis, LostSegment, Upkeep, UpkeepError};

use super::ApplyMode;
use crate::{Engine, Store, error};

/// What a repair found and did.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum RepairOutcome {
    /// Nothing is wrong with the log.
    #[serde(rename_all = "camelCase")]
    Healthy {
        session_id: SessionId,
        events: u64,
    },
    /// Nothing is wrong, and one completed write waits for the next writer.
    #[serde(rename_all = "camelCase")]
    WouldRollForward {
        session_id: SessionId,
        events: u64,
    },
    /// The completed write has been recorded.
    #[serde(rename_all = "camelCase")]
    RolledForward {
        session_id: SessionId,
        events: u64,
    },
    WouldRepair(RepairSummary),
    Repaired(RepairSummary),
}

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RepairSummary {
    pub session_id: SessionId,
    /// What was wrong, in a sentence.
    pub damage: String,
    /// All events before this index are kept.
    pub events_kept: u64,
    /// How many of them are kept by recomputing their part of the manifest from the segments.
    pub events_rebuilt: u64,
    pub lost: LostEvents,
    /// Beneath the data directory: the whole session as it was.
    pub backup: String,
}

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LostEvents {
    pub segments: Vec<SegmentLoss>,
    /// Events that can still be read in the backup.
    pub readable_events: u64,
    pub readable_notes: u64,
    pub manifest_bytes: u64,
}

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SegmentLoss {
    pub path: String,
    pub first_event: Option<u64>,
    pub last_event: Option<u64>,
    pub exists: bool,
    pub unreadable_lines: u64,
    /// Index and kind of each event that can still be read.
    pub events: Vec<String>,
}

impl From<&LostSegment> for SegmentLoss {
    fn from(lost: &LostSegment) -> Self {
        Self {
            path: lost.path.clone(),
            first_event: lost.indexes.map(|(first, _)| first),
            last_event: lost.indexes.map(|(_, last)| last),
            exists: lost.exists,
            unreadable_lines: lost.unreadable_lines,
            events: lost.events.iter().map(|event| format!("{} {}", event.index, event.kind)).collect(),
        }
    }
}

/// How often a session is examined again because its damage was gone when it was about to be repaired.
const ATTEMPTS_MAX: usize = 3;

impl<S: Store + Upkeep> Engine<S> {
    /// Truncates a damaged session to what can be trusted, or says what that would do.
    pub fn repair(&self, session: SessionId, mode: ApplyMode) -> Result<RepairOutcome, Box<ErrorEnvelope>> {
        self.permit(Act::Administer)?;
        for _ in 0..ATTEMPTS_MAX {
            let tried = self.try_repair(session, mode);
            if let Some(outcome) = tried.map_err(|refused| self.unless_obstructed(session, refused))? {
                return Ok(outcome);
            }
        }
        Err(error::upkeep(UpkeepError::Changed { session }))
    }

    /// `None` if the session is no longer damaged: another process repaired it, or it can be read again.
    fn try_repair(
        &self,
        session: SessionId,
        mode: ApplyMode,
    ) -> Result<Option<RepairOutcome>, Box<ErrorEnvelope>> {
        let pending = self.store.pending_write(session).map_err(|cause| error::upkeep_io(&cause))?;
        if let Some(write) = pending {
            return self.roll_forward(session, write.events, mode).map(Some);
        }
        let slice = self.store.read(session, None).map_err(|cause| error::upkeep(cause.into()))?;
        let contradiction = first_contradiction(session, &slice.events);
        let damage = match (&slice.health, &contradiction) {
            (SessionHealth::Healthy, None) => {
                let events = slice.cursor.next_event_index.get();
                return Ok(Some(RepairOutcome::Healthy { session_id: session, events }));
            }
            (SessionHealth::Healthy, Some(cause)) => cause.to_string(),
            (health, _) => health.to_string(),
        };
        let trusted_until = contradiction.map(|cause| cause.index());
        let diagnosis = match mode {
            ApplyMode::DryRun => self.store.diagnose(session, trusted_until),
            ApplyMode::Real => self.store.repair(session, trusted_until),
        };
        let summary = match diagnosis {
            Ok(diagnosis) => summary(session, damage, &diagnosis),
            Err(UpkeepError::NotRepairable { health: SessionHealth::Healthy, .. }) => {
                return match trusted_until {
                    None => Ok(None),
                    Some(_) => Err(error::nothing_to_keep(session, &damage)),
                };
            }
            Err(cause) => return Err(error::upkeep(cause)),
        };
        Ok(Some(match mode {
            ApplyMode::DryRun => RepairOutcome::WouldRepair(summary),
            ApplyMode::Real => RepairOutcome::Repaired(summary),
        }))
    }
}

impl<S: Store + Upkeep> Engine<S> {
    fn roll_forward(
        &self,
        session: SessionId,
        events: u64,
        mode: ApplyMode,
    ) -> Result<RepairOutcome, Box<ErrorEnvelope>> {
        match mode {
            ApplyMode::DryRun => Ok(RepairOutcome::WouldRollForward { session_id: session, events }),
            ApplyMode::Real => {
                // The next process that takes the lock rolls it forward (G13).
                drop(self.store.lock(session).map_err(|cause| error::upkeep(cause.into()))?);
                Ok(RepairOutcome::RolledForward { session_id: session, events })
            }
        }
    }
}

/// The first event that contradicts those before it, although its bytes are intact.
fn first_contradiction(session: SessionId, events: &[Event]) -> Option<FoldError> {
    let mut facts = SessionState::new(session);
    events.iter().find_map(|event| facts.apply(event).err())
}

fn summary(session: SessionId, damage: String, found: &Diagnosis) -> RepairSummary {
    let events = || found.lost.iter().flat_map(|segment| &segment.events);
    RepairSummary {
        session_id: session,
        damage,
        events_kept: found.keeps_until.get(),
        events_rebuilt: found.events_rebuilt,
        lost: LostEvents {
            segments: found.lost.iter().map(SegmentLoss::from).collect(),
            readable_events: events().count() as u64,
            readable_notes: events().filter(|event| event.has_notes).count() as u64,
            manifest_bytes: found.manifest_bytes,
        },
        backup: found.backup.clone(),
    }
}
