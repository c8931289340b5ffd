//! The parts of an append plan, which, unlike a plan, can be copied and changed.

use workrail_model::event::{DedupeKey, Event, EventIndex};
use workrail_model::id::SessionId;
use workrail_model::plan::{AppendPlan, Attachment};

/// The parts of a plan. An append consumes its plan; the parts can be kept, repeated or broken.
#[derive(Clone, Debug, PartialEq)]
pub struct PlanParts {
    pub events: Vec<Event>,
    pub attachments: Vec<Attachment>,
}

impl PlanParts {
    pub(super) fn of(plan: &AppendPlan) -> Self {
        Self { events: plan.events().to_vec(), attachments: plan.attachments().to_vec() }
    }

    /// The plan; panics if the parts are invalid.
    pub fn plan(&self) -> AppendPlan {
        let plan = AppendPlan::new(self.events.clone(), self.attachments.clone());
        plan.unwrap_or_else(|error| panic!("a history makes valid plans: {error}"))
    }

    /// The same facts at other indexes, as a caller that read the log again would plan them.
    #[must_use]
    pub fn moved_to(&self, first: EventIndex) -> Self {
        let mut moved = self.clone();
        for (position, event) in moved.events.iter_mut().enumerate() {
            event.event_index = first.plus(position as u64);
        }
        moved
    }

    /// The same facts in another session, including the dedupe keys.
    #[must_use]
    pub fn in_session(&self, session: SessionId) -> Self {
        let mut copied = self.clone();
        for event in &mut copied.events {
            event.session_id = session;
            event.dedupe_key = DedupeKey::of(session, event.scope, &event.data);
        }
        copied
    }

    /// The same events without the content they name.
    #[must_use]
    pub fn without_attachments(&self) -> Self {
        Self { events: self.events.clone(), attachments: Vec::new() }
    }

    /// The index after the last event.
    pub fn next_index(&self) -> EventIndex {
        self.events.last().map_or(EventIndex::ZERO, |event| event.event_index.plus(1))
    }
}
