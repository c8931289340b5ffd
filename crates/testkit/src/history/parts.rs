//! The parts of an append plan, which can be copied and changed where a plan cannot.

use workrail_model::event::{DedupeKey, Event, EventIndex};
use workrail_model::id::SessionId;
use workrail_model::plan::{AppendPlan, Attachment};

/// What a plan is made of. A plan is consumed by its append; its parts can be kept, repeated, broken.
#[derive(Clone, Debug, PartialEq)]
pub struct PlanParts {
    pub events: Vec<Event>,
    pub attachments: Vec<Attachment>,
}

impl PlanParts {
    pub(super) fn of(plan: &AppendPlan) -> Self {
        Self { events: plan.events().to_vec(), attachments: plan.attachments().to_vec() }
    }

    /// The plan; panics when the parts break the rules of one.
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

    /// The same facts in another session, dedupe keys included.
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
