//! The identity of an imported session: ids and numbers, rewritten where this store needs it.
//!
//! Nodes, attempts, outputs and events keep their ids: they are unique within a session. A stored reply keeps
//! the ids it was written with: it is found only by its attempt, and no token of this store can name an attempt
//! in another store's session, so it is never shown.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use workrail_model::event::{DedupeKey, Event, EventError, ImportedFrom};
use workrail_model::id::{RunId, SessionId};

use super::ImportableBundle;

/// The ids of an imported session here, and its recorded origin.
#[derive(Clone, Debug)]
pub struct ImportIdentity {
    pub session: SessionId,
    /// The runs that get a new id, by their old one.
    pub runs: BTreeMap<RunId, RunId>,
    pub from: ImportedFrom,
    pub activities: Renumbering,
}

/// What happens to the activity numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Renumbering {
    Keep,
    /// In the same order, continuing from this number.
    After(u64),
}

impl ImportIdentity {
    /// The newest activity number of the events under this identity.
    pub fn newest_activity(&self, checked: &ImportableBundle) -> u64 {
        match self.activities {
            Renumbering::Keep => checked.newest_activity(),
            Renumbering::After(last) => last + checked.activities.len() as u64,
        }
    }

    /// Rewrites one event in place.
    pub(super) fn apply(&self, checked: &ImportableBundle, event: &mut Value) -> Result<(), EventError> {
        self.set_activity(checked, event);
        if event.get("kind").and_then(Value::as_str) == Some("session_created") {
            set(event, "/data/importedFrom", json!(self.from));
        }
        if self.session == checked.bundle.session && self.runs.is_empty() {
            return Ok(());
        }
        set(event, "/sessionId", json!(self.session));
        for pointer in ["/scope/runId", "/data/parent/runId"] {
            let known =
                event.pointer(pointer).and_then(Value::as_str).and_then(|text| RunId::parse(text).ok());
            if let Some(new) = known.and_then(|run| self.runs.get(&run)) {
                set(event, pointer, json!(new));
            }
        }
        // The dedupe key is derived from the event as it is now, without its own key.
        let renamed = Event::from_value(event.clone())?;
        let key = DedupeKey::of(renamed.session_id, renamed.scope, &renamed.data);
        set(event, "/dedupeKey", json!(key));
        Ok(())
    }

    fn set_activity(&self, checked: &ImportableBundle, event: &mut Value) {
        let Renumbering::After(last) = self.activities else { return };
        let Some(activity) = event.get("activity").and_then(Value::as_u64) else { return };
        let rank = checked.activities.partition_point(|known| *known <= activity) as u64;
        set(event, "/activity", json!(last + rank));
    }
}

/// Sets a member of an object that exists; the member itself may be new.
fn set(event: &mut Value, pointer: &str, value: Value) {
    let Some((parent, name)) = pointer.rsplit_once('/') else { return };
    if let Some(Value::Object(members)) = event.pointer_mut(parent) {
        members.insert(name.to_owned(), value);
    }
}
