//! Gaps: what was missing, assumed or skipped; a resolution is a link to the gap, never an edit (G41).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use workrail_model::event::{EventIndex, GapRecorded};
use workrail_model::gap::{EvidenceRef, Resolution, Severity};
use workrail_model::id::{GapId, NodeId, RunId};
use workrail_model::limits::{GAP_CAUSE_BYTES_MAX, SUMMARY_BYTES_MAX};
use workrail_model::reason::Reason;
use workrail_model::text::BoundedText;

use super::{FoldError, SessionState};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GapState {
    pub gap_id: GapId,
    pub run_id: RunId,
    pub node_id: NodeId,
    pub index: EventIndex,
    pub severity: Severity,
    pub reason: Reason,
    pub summary: BoundedText<SUMMARY_BYTES_MAX>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub evidence_refs: Vec<EvidenceRef>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<BoundedText<GAP_CAUSE_BYTES_MAX>>,
    /// The gap that this record closes: then it is itself never open.
    pub resolves: Option<GapId>,
    /// The first later record that closes this one.
    pub resolved_by: Option<GapId>,
}

impl GapState {
    pub(crate) fn is_resolved(&self) -> bool {
        self.resolved_by.is_some()
    }

    /// Neither closed nor closing another.
    pub fn is_open(&self) -> bool {
        self.resolves.is_none() && self.resolved_by.is_none()
    }

    fn is_critical(&self) -> bool {
        self.severity == Severity::Critical
    }

    /// Critical, in a category that blocks if the mode blocks (G61).
    fn is_blocking(&self) -> bool {
        let blocks = match self.reason {
            Reason::UserOnlyDependency(_) | Reason::ContractViolation(_) | Reason::CapabilityMissing(_) => {
                true
            }
            Reason::Unexpected(_) | Reason::Advisory(_) => false,
        };
        blocks && self.is_critical()
    }
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(from = "Vec<GapState>")]
pub(super) struct Gaps {
    states: Vec<GapState>,
    positions: BTreeMap<GapId, usize>,
    by_run: BTreeMap<RunId, Vec<usize>>,
    open_critical: BTreeMap<RunId, usize>,
    open_blocking: BTreeMap<NodeId, usize>,
}

impl Serialize for Gaps {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.states.serialize(serializer)
    }
}

impl From<Vec<GapState>> for Gaps {
    fn from(states: Vec<GapState>) -> Self {
        let mut gaps = Self::default();
        for state in states {
            gaps.add(state);
        }
        gaps
    }
}

impl Gaps {
    pub(super) fn record(
        &mut self,
        index: EventIndex,
        run_id: RunId,
        node_id: NodeId,
        gap: &GapRecorded,
    ) -> Result<(), FoldError> {
        if self.positions.contains_key(&gap.gap_id) {
            return Err(FoldError::DuplicateGap { index, gap: gap.gap_id });
        }
        let resolves = match gap.resolution {
            Resolution::Unresolved => None,
            Resolution::Resolves { resolves_gap_id } => Some(resolves_gap_id),
        };
        if let Some(resolved) = resolves {
            let position =
                *self.positions.get(&resolved).ok_or(FoldError::UnknownGap { index, gap: resolved })?;
            self.resolve(position, gap.gap_id);
        }
        self.add(GapState {
            gap_id: gap.gap_id,
            run_id,
            node_id,
            index,
            severity: gap.severity,
            reason: gap.reason,
            summary: gap.summary.clone(),
            cause: gap.cause.clone(),
            evidence_refs: gap.evidence_refs.clone(),
            resolves,
            resolved_by: None,
        });
        Ok(())
    }

    fn add(&mut self, state: GapState) {
        let position = self.states.len();
        self.positions.insert(state.gap_id, position);
        self.by_run.entry(state.run_id).or_default().push(position);
        self.count(&state, |open| open + 1);
        self.states.push(state);
    }

    fn resolve(&mut self, position: usize, by: GapId) {
        let state = self.states[position].clone();
        if !state.is_resolved() {
            self.count(&state, |open| open - 1);
            self.states[position].resolved_by = Some(by);
        }
    }

    /// Keeps the counters of open gaps, so that a status never scans them.
    fn count(&mut self, state: &GapState, change: fn(usize) -> usize) {
        if !state.is_open() {
            return;
        }
        if state.is_critical() {
            change_count(&mut self.open_critical, state.run_id, change);
        }
        if state.is_blocking() {
            change_count(&mut self.open_blocking, state.node_id, change);
        }
    }
}

/// Zero is not stored, so that a state read back equals the one written.
fn change_count<K: Ord + Copy>(counts: &mut BTreeMap<K, usize>, key: K, change: fn(usize) -> usize) {
    let count = change(counts.get(&key).copied().unwrap_or(0));
    if count == 0 {
        counts.remove(&key);
    } else {
        counts.insert(key, count);
    }
}

impl SessionState {
    /// All gap records of the run, oldest first, including closed and closing ones.
    pub fn gaps(&self, run: RunId) -> impl DoubleEndedIterator<Item = &GapState> {
        self.gaps.by_run.get(&run).into_iter().flatten().map(|position| &self.gaps.states[*position])
    }

    pub(crate) fn gap(&self, id: GapId) -> Option<&GapState> {
        self.gaps.positions.get(&id).map(|position| &self.gaps.states[*position])
    }

    /// How many critical gaps of the run are open.
    pub(crate) fn unresolved_critical(&self, run: RunId) -> usize {
        self.gaps.open_critical.get(&run).copied().unwrap_or(0)
    }

    /// Whether an open critical gap on the node blocks, if the mode lets it.
    pub(crate) fn node_has_blocking_gap(&self, node: NodeId) -> bool {
        self.gaps.open_blocking.contains_key(&node)
    }
}
