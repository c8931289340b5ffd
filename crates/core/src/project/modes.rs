//! Preferences (G60) and capabilities (G62) in effect at a node: the nearest record on its path.
//!
//! Both are attached to nodes, so that a rewind restores them and a fork does not inherit what another
//! branch changed or found out.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use workrail_model::capability::{Capability, CapabilityStatus, EnforcementGrade, Provenance};
use workrail_model::event::{CapabilityObserved, EventIndex, PreferencesChanged};
use workrail_model::id::NodeId;
use workrail_model::passkey::PreferenceProof;
use workrail_model::preferences::Preferences;

use super::dag::{Dag, NodeIx};
use super::nearest::Nearest;
use super::per_node::PerNode;
use super::{Recorded, SessionState};

/// What is known about a capability, and from where.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CapabilityState {
    pub node_id: NodeId,
    pub index: EventIndex,
    pub status: CapabilityStatus,
    pub provenance: Provenance,
}

impl CapabilityState {
    /// Only a strong one satisfies a required capability.
    pub(crate) fn grade(&self) -> EnforcementGrade {
        self.provenance.grade()
    }
}

/// The latest record by node, and which node answers for which.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Latest<T> {
    by_node: BTreeMap<NodeIx, T>,
    nearest: Nearest,
}

impl<T> Default for Latest<T> {
    fn default() -> Self {
        Self { by_node: BTreeMap::new(), nearest: Nearest::default() }
    }
}

impl<T> Latest<T> {
    fn set(&mut self, dag: &Dag, ix: NodeIx, value: T) {
        self.by_node.insert(ix, value);
        self.nearest.mark(dag, ix);
    }

    fn find(&self, dag: &Dag, ix: NodeIx) -> Option<&T> {
        self.by_node.get(&self.nearest.find(dag, ix)?)
    }
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Modes {
    preferences: Latest<Preferences>,
    changes: PerNode<Recorded<PreferencesChanged>>,
    delegation: Latest<CapabilityState>,
    web_browsing: Latest<CapabilityState>,
}

impl Modes {
    pub(super) fn is_readable(&self) -> bool {
        self.changes.is_readable()
    }

    pub(super) fn node_created(&mut self, parent: Option<NodeIx>) {
        self.preferences.nearest.node_created(parent);
        self.delegation.nearest.node_created(parent);
        self.web_browsing.nearest.node_created(parent);
    }

    pub(super) fn change(&mut self, dag: &Dag, ix: NodeIx, recorded: Recorded<PreferencesChanged>) {
        self.preferences.set(dag, ix, recorded.data.effective);
        self.changes.push(ix, recorded);
    }

    pub(super) fn observe(
        &mut self,
        dag: &Dag,
        index: EventIndex,
        ix: NodeIx,
        observed: &CapabilityObserved,
    ) {
        let state = CapabilityState {
            node_id: dag.node(ix).node_id,
            index,
            status: observed.status,
            provenance: observed.provenance.clone(),
        };
        match observed.capability {
            Capability::Delegation => self.delegation.set(dag, ix, state),
            Capability::WebBrowsing => self.web_browsing.set(dag, ix, state),
        }
    }
}

impl SessionState {
    /// The latest observation on the nearest node of the path that has one.
    pub(crate) fn capability(&self, node: NodeId, capability: Capability) -> Option<&CapabilityState> {
        let latest = match capability {
            Capability::Delegation => &self.modes.delegation,
            Capability::WebBrowsing => &self.modes.web_browsing,
        };
        latest.find(&self.dag, self.dag.find(node)?)
    }

    /// The effective preferences at the node: guided and conservative if nothing was ever set.
    pub fn preferences(&self, node: NodeId) -> Preferences {
        let ix = self.dag.find(node);
        ix.and_then(|ix| self.modes.preferences.find(&self.dag, ix)).copied().unwrap_or_default()
    }

    /// A passkey's signature on the preferences in effect at the node.
    pub(crate) fn mode_proof(&self, node: NodeId) -> Option<&PreferenceProof> {
        let ix = self.modes.preferences.nearest.find(&self.dag, self.dag.find(node)?)?;
        self.modes.changes.get(ix).last()?.data.proof.as_ref()
    }

    /// The changes attached to this node itself, oldest first.
    pub(crate) fn preference_changes(&self, node: NodeId) -> &[Recorded<PreferencesChanged>] {
        self.dag.find(node).map_or(&[], |ix| self.modes.changes.get(ix))
    }
}
