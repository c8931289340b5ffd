//! The parts of an append plan, which can be copied and changed where a plan cannot.

use workrail_core::derive;
use workrail_model::event::{Activity, DedupeKey, Event, EventData, EventIndex, Scope};
use workrail_model::id::{EventId, SessionId};
use workrail_model::plan::{AppendPlan, Attachment};

use crate::fixed;

/// What a plan is made of. A plan is consumed by its append; its parts can be kept, repeated, broken.
#[derive(Clone, Debug, PartialEq)]
pub struct PlanParts {
    pub events: Vec<Event>,
    pub attachments: Vec<Attachment>,
}

impl PlanParts {
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

/// Collects events in order and gives each its index, id and dedupe key.
pub(super) struct Draft {
    session: SessionId,
    first: EventIndex,
    seed: [u8; 10],
    activity: Activity,
    parts: PlanParts,
}

impl Draft {
    pub(super) fn new(session: SessionId, first: EventIndex, seed: [u8; 10], activity: Activity) -> Self {
        let parts = PlanParts { events: Vec::new(), attachments: Vec::new() };
        Self { session, first, seed, activity, parts }
    }

    pub(super) fn push(&mut self, scope: Scope, data: EventData) -> EventId {
        let position = self.parts.events.len();
        let event_id = derive::event_id(self.seed, position as u32);
        self.parts.events.push(Event {
            event_id,
            event_index: self.first.plus(position as u64),
            session_id: self.session,
            scope,
            dedupe_key: DedupeKey::of(self.session, scope, &data),
            at: Some(fixed::epoch()),
            activity: Some(self.activity),
            data,
        });
        event_id
    }

    pub(super) fn attach(&mut self, attachment: &Attachment) {
        if !self.parts.attachments.contains(attachment) {
            self.parts.attachments.push(attachment.clone());
        }
    }

    pub(super) fn finish(self) -> PlanParts {
        self.parts
    }
}
