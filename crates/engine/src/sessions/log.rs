//! The events of a session or a run, in order.

use std::collections::BTreeMap;

use workrail_core::overview::{LogLine, LoggedNodes, line};
use workrail_core::reply::recovery::Snapshots as _;
use workrail_core::report::point_names;
use workrail_model::error::ErrorEnvelope;
use workrail_model::event::Event;
use workrail_model::health::SessionHealth;

use crate::find::SessionOrRun;
use crate::{Engine, Store};

#[derive(Clone, Debug)]
pub struct SessionLog {
    pub health: SessionHealth,
    /// The newest requested ones, in order.
    pub events: Vec<Event>,
    /// A line for each of them.
    pub lines: Vec<LogLine>,
    /// How many older ones were left out.
    pub left_out: u64,
}

impl<S: Store> Engine<S> {
    /// The newest `limit` events, or all if there is no limit.
    pub fn session_log(
        &self,
        about: SessionOrRun,
        limit: Option<usize>,
    ) -> Result<SessionLog, Box<ErrorEnvelope>> {
        let reading = self.reading();
        let read = reading.salvage(about.session)?.or_refuse()?;
        let signatures = reading.signatures(&read.state, &read.events);
        let mut events: Vec<Event> = read
            .events
            .into_iter()
            .filter(|event| about.run.is_none() || event.scope.run() == about.run)
            .collect();
        let left_out = events.len().saturating_sub(limit.unwrap_or(usize::MAX));
        events.drain(..left_out);
        let mut nodes = LoggedNodes { names: point_names(&read.state), steps: BTreeMap::new(), signatures };
        for node in events.iter().filter_map(|event| read.state.node(event.scope.node()?)) {
            if !nodes.steps.contains_key(&node.node_id) {
                let state = reading.content.state_at(node);
                let step = state.as_ref().and_then(|state| state.pending_step());
                nodes.steps.extend(step.map(|step| (node.node_id, step.step_id.to_string())));
            }
        }
        let lines = events.iter().map(|event| line(event, &nodes)).collect();
        Ok(SessionLog { health: read.health, events, lines, left_out: left_out as u64 })
    }
}
