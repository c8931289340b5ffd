//! Collects the events of one plan and assigns their index, id, dedupe key and time.

use workrail_model::digest::SnapshotRef;
use workrail_model::event::{DedupeKey, Event, EventData, EventIndex, Scope};
use workrail_model::id::{EventId, SessionId};
use workrail_model::plan::{AppendPlan, Attachment, PlanError};
use workrail_model::snapshot::ExecutionSnapshot;

use super::{DecideError, Minting};
use crate::derive;

pub(super) struct PlanDraft {
    session: SessionId,
    first: EventIndex,
    minting: Minting,
    events: Vec<Event>,
    attachments: Vec<Attachment>,
}

impl PlanDraft {
    pub(super) fn new(session: SessionId, first: EventIndex, minting: Minting) -> Self {
        Self { session, first, minting, events: Vec::new(), attachments: Vec::new() }
    }

    pub(super) fn push(&mut self, scope: Scope, data: EventData) -> EventId {
        let position = self.events.len() as u32;
        let event_id = derive::event_id(self.minting.event_seed, position);
        self.events.push(Event {
            event_id,
            event_index: self.first.plus(u64::from(position)),
            session_id: self.session,
            scope,
            dedupe_key: DedupeKey::of(self.session, scope, &data),
            at: Some(self.minting.at.clone()),
            activity: Some(self.minting.activity),
            actor: self.minting.actor.clone(),
            data,
        });
        event_id
    }

    /// Appends an event unless the plan already has one with the same identity.
    pub(super) fn push_once(&mut self, scope: Scope, data: EventData) {
        let key = DedupeKey::of(self.session, scope, &data);
        if self.events.iter().all(|event| event.dedupe_key != key) {
            self.push(scope, data);
        }
    }

    /// Whether there is nothing to record.
    pub(super) fn is_empty(&self) -> bool {
        self.events.is_empty()
    }

    pub(super) fn attach(&mut self, attachment: Attachment) {
        self.attachments.push(attachment);
    }

    /// Attaches content unless the plan already has it.
    pub(super) fn attach_once(&mut self, attachment: Attachment) {
        if !self.attachments.contains(&attachment) {
            self.attach(attachment);
        }
    }

    pub(super) fn attach_snapshot(
        &mut self,
        snapshot: &ExecutionSnapshot,
    ) -> Result<SnapshotRef, DecideError> {
        let attachment = Attachment::snapshot(snapshot.to_canonical()?);
        let reference = attachment.snapshot_ref();
        self.attach(attachment);
        Ok(reference)
    }

    pub(super) fn plan(self) -> Result<AppendPlan, PlanError> {
        AppendPlan::new(self.events, self.attachments)
    }
}
