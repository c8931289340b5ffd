//! The projections exactly as specified: literal walks over the whole log, slow and simple.
#![expect(clippy::wildcard_enum_match_arm, reason = "each walk looks for one kind and passes by the others")]

use serde_json::{Map, Value};
use workrail_model::capability::{Capability, CapabilityStatus};
use workrail_model::event::{
    AdvanceOutcome, AdvanceRecorded, EdgeKind, Event, EventData, EventIndex, NodeCreated, NodeKind,
    NodeOutputAppended,
};
use workrail_model::gap::{Resolution, Severity};
use workrail_model::id::{AttemptId, GapId, NodeId, OutputId, RunId};
use workrail_model::preferences::{Autonomy, Preferences, RunStatus};
use workrail_model::reason::Reason;

#[derive(Clone, Copy, Debug)]
pub(super) struct Naive<'a>(pub(super) &'a [Event]);

impl Naive<'_> {
    fn created(&self, node: NodeId) -> (&Event, &NodeCreated) {
        let created = self.0.iter().find_map(|event| match &event.data {
            EventData::NodeCreated(created) if event.scope.node() == Some(node) => Some((event, created)),
            _ => None,
        });
        created.unwrap()
    }

    fn nodes(&self, run: RunId) -> Vec<NodeId> {
        let created = self.0.iter().filter(|event| matches!(event.data, EventData::NodeCreated(_)));
        created
            .filter(|event| event.scope.run() == Some(run))
            .filter_map(|event| event.scope.node())
            .collect()
    }

    /// From the root down to the node.
    pub(super) fn path(&self, node: NodeId) -> Vec<NodeId> {
        let mut path = vec![node];
        while let Some(parent) = self.created(path[path.len() - 1]).1.parent_node_id {
            path.push(parent);
        }
        path.reverse();
        path
    }

    /// The step a node belongs to.
    fn owner(&self, node: NodeId) -> NodeId {
        let created = self.created(node).1;
        match (created.node_kind, created.parent_node_id) {
            (NodeKind::Checkpoint, Some(parent)) => self.owner(parent),
            (NodeKind::Checkpoint, None) | (NodeKind::Step, _) => node,
        }
    }

    fn touched(event: &Event) -> Option<NodeId> {
        match &event.data {
            EventData::EdgeCreated(edge) => Some(edge.to_node_id),
            EventData::ContextSet(set) => Some(set.node_id),
            _ => event.scope.node(),
        }
    }

    fn is_step_tip(&self, node: NodeId) -> bool {
        let continued = self.0.iter().any(|event| match &event.data {
            EventData::EdgeCreated(edge) => {
                edge.edge_kind == EdgeKind::AckedStep && self.owner(edge.from_node_id) == node
            }
            _ => false,
        });
        self.owner(node) == node && !continued
    }

    /// The highest index among the events that touch a step of the path or a checkpoint of such a step.
    fn last_activity(&self, tip: NodeId) -> EventIndex {
        let path = self.path(tip);
        let touching = self.0.iter().filter(|event| {
            Self::touched(event).is_some_and(|node| path.contains(&node) || path.contains(&self.owner(node)))
        });
        touching.map(|event| event.event_index).max().unwrap()
    }

    pub(super) fn leaves(&self, run: RunId) -> Vec<NodeId> {
        self.nodes(run).into_iter().filter(|node| self.is_step_tip(*node)).collect()
    }

    pub(super) fn preferred_tip(&self, run: RunId) -> Option<NodeId> {
        let rank = |tip: &NodeId| (self.last_activity(*tip), self.created(*tip).0.event_index, *tip);
        self.leaves(run).into_iter().max_by_key(rank)
    }

    pub(super) fn context(&self, node: NodeId, retry_chain: &[AttemptId]) -> Map<String, Value> {
        let mut merged = Map::new();
        let mut merge = |set: &Map<String, Value>| {
            merged.extend(set.clone());
            merged.retain(|_, value| !value.is_null());
        };
        let sets = self.0.iter().filter_map(|event| match &event.data {
            EventData::ContextSet(set) => Some(set),
            _ => None,
        });
        for on_path in self.path(node) {
            for set in sets.clone().filter(|set| set.node_id == on_path && set.attempt_id.is_none()) {
                merge(set.context.as_map());
            }
        }
        let of_chain =
            |attempt: Option<AttemptId>| attempt.is_some_and(|attempt| retry_chain.contains(&attempt));
        for set in sets.filter(|set| set.node_id == node && of_chain(set.attempt_id)) {
            merge(set.context.as_map());
        }
        merged
    }

    fn advances(&self) -> impl Iterator<Item = (NodeId, &AdvanceRecorded)> {
        self.0.iter().filter_map(|event| match &event.data {
            EventData::AdvanceRecorded(advance) => event.scope.node().map(|node| (node, advance)),
            _ => None,
        })
    }

    /// The attempt whose advance led to the node.
    pub(super) fn attempt_to(&self, node: NodeId) -> Option<AttemptId> {
        let made = |outcome: &AdvanceOutcome| *outcome == AdvanceOutcome::Advanced { to_node_id: node };
        self.advances().find(|(_, advance)| made(&advance.outcome)).map(|(_, advance)| advance.attempt_id)
    }

    fn outputs(&self) -> impl Iterator<Item = (NodeId, &NodeOutputAppended)> {
        self.0.iter().filter_map(|event| match &event.data {
            EventData::NodeOutputAppended(output) => event.scope.node().map(|node| (node, output)),
            _ => None,
        })
    }

    pub(super) fn path_outputs(&self, node: NodeId) -> Vec<OutputId> {
        let path = self.path(node);
        let led_on = |at: NodeId| {
            let next = path.iter().skip_while(|on_path| **on_path != at).nth(1);
            next.and_then(|next| self.attempt_to(*next))
        };
        let visible = |at: NodeId, attempt: AttemptId| {
            if Some(attempt) == led_on(at) {
                return true;
            }
            let is_checkpoint = self.owner(at) != at;
            is_checkpoint && !self.advances().any(|(on, advance)| on == at && advance.attempt_id == attempt)
        };
        let current = self.outputs().filter(|(_, output)| {
            !self.outputs().any(|(_, later)| later.supersedes_output_id == Some(output.output_id))
        });
        current
            .filter(|(at, _)| path.contains(&self.owner(*at)))
            .filter(|(at, output)| output.attempt_id.is_none_or(|attempt| visible(*at, attempt)))
            .map(|(_, output)| output.output_id)
            .collect()
    }

    pub(super) fn preferences(&self, node: NodeId) -> Preferences {
        let on_node = |node: NodeId| {
            self.0.iter().rev().find_map(|event| match &event.data {
                EventData::PreferencesChanged(change) if event.scope.node() == Some(node) => {
                    Some(change.effective)
                }
                _ => None,
            })
        };
        self.path(node).into_iter().rev().find_map(on_node).unwrap_or_default()
    }

    pub(super) fn capability(
        &self,
        node: NodeId,
        capability: Capability,
    ) -> Option<(EventIndex, CapabilityStatus)> {
        let on_node = |node: NodeId| {
            self.0.iter().rev().find_map(|event| match &event.data {
                EventData::CapabilityObserved(observed)
                    if event.scope.node() == Some(node) && observed.capability == capability =>
                {
                    Some((event.event_index, observed.status))
                }
                _ => None,
            })
        };
        self.path(node).into_iter().rev().find_map(on_node)
    }

    /// The run's open critical gaps: where, and for which reason.
    pub(super) fn open_critical(&self, run: RunId) -> Vec<(NodeId, Reason)> {
        let gaps = || {
            self.0.iter().filter_map(|event| match &event.data {
                EventData::GapRecorded(gap) => event.scope.node().map(|node| (event, node, gap)),
                _ => None,
            })
        };
        let resolved = |id: GapId| {
            gaps().any(|(_, _, later)| later.resolution == Resolution::Resolves { resolves_gap_id: id })
        };
        gaps()
            .filter(|(event, _, gap)| event.scope.run() == Some(run) && gap.severity == Severity::Critical)
            .filter(|(_, _, gap)| gap.resolution == Resolution::Unresolved && !resolved(gap.gap_id))
            .map(|(_, node, gap)| (node, gap.reason))
            .collect()
    }

    pub(super) fn run_status(&self, run: RunId, tip_is_complete: bool) -> Option<RunStatus> {
        let tip = self.preferred_tip(run)?;
        let open = self.open_critical(run);
        if tip_is_complete {
            return Some(if open.is_empty() { RunStatus::Complete } else { RunStatus::CompleteWithGaps });
        }
        let mut of_run = self.0.iter().filter(|event| event.scope.run() == Some(run));
        let newest = of_run.rfind(|event| !matches!(event.data, EventData::ObservationRecorded(_)));
        if newest.is_some_and(|event| matches!(event.data, EventData::RunClosed(_))) {
            return Some(RunStatus::Closed);
        }
        let gap_blocks = open.iter().any(|(node, reason)| {
            let blocks = matches!(
                reason,
                Reason::UserOnlyDependency(_) | Reason::ContractViolation(_) | Reason::CapabilityMissing(_)
            );
            *node == tip && blocks
        });
        let newest = self.advances().filter(|(node, _)| *node == tip).last();
        let refused =
            newest.is_some_and(|(_, advance)| matches!(advance.outcome, AdvanceOutcome::Blocked { .. }));
        let never_stops = self.preferences(tip).autonomy == Autonomy::FullAutoNeverStop;
        let blocked = !never_stops && (gap_blocks || refused);
        Some(if blocked { RunStatus::Blocked } else { RunStatus::InProgress })
    }
}
