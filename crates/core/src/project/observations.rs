//! Where the work happens: the latest observation of each key, by event index (G6).

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use workrail_model::digest::Sha256;
use workrail_model::event::{Confidence, EventIndex, ObservationKey, ObservationRecorded, ObservationValue};

use super::SessionState;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ObservationState {
    pub value: ObservationValue,
    pub confidence: Confidence,
    pub index: EventIndex,
    /// How often the key was recorded, including this time: the `occurrence` of the next change.
    pub occurrences: u32,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Observations {
    latest: BTreeMap<ObservationKey, ObservationState>,
    /// Every repository that the session was worked on in.
    repositories: BTreeSet<Sha256>,
}

impl Observations {
    pub(super) fn record(&mut self, index: EventIndex, observed: &ObservationRecorded) {
        let before = self.latest.get(&observed.key).map_or(0, |state| state.occurrences);
        let state = ObservationState {
            value: observed.value.clone(),
            confidence: observed.confidence,
            index,
            occurrences: before + 1,
        };
        if let (ObservationKey::RepoRootHash, ObservationValue::Sha256(root)) =
            (observed.key, &observed.value)
        {
            self.repositories.insert(*root);
        }
        self.latest.insert(observed.key, state);
    }
}

impl SessionState {
    /// The latest observation of every key that was ever observed.
    pub(crate) fn observations(&self) -> impl Iterator<Item = (ObservationKey, &ObservationState)> {
        self.observations.latest.iter().map(|(key, state)| (*key, state))
    }

    /// Every repository that the session was ever worked on in: a later call from elsewhere removes none.
    pub fn repositories(&self) -> &BTreeSet<Sha256> {
        &self.observations.repositories
    }

    pub(crate) fn observation(&self, key: ObservationKey) -> Option<&ObservationState> {
        self.observations.latest.get(&key)
    }
}
