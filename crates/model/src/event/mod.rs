//! The event log's records: one closed union, one envelope, read in two steps.
//!
//! First the envelope (so that an unknown version or kind is seen before anything is guessed), then
//! the payload by kind. An error names the field of the record (G5).

mod advance_recorded;
mod approval_recorded;
mod assessment_consequence_applied;
mod assessment_recorded;
mod capability_observed;
mod context_set;
mod decision_trace_appended;
pub mod dedupe;
mod divergence_recorded;
mod edge_created;
mod envelope;
mod evidence_recorded;
mod gap_recorded;
mod node_created;
mod node_output_appended;
mod observation_recorded;
mod preferences_changed;
mod run_closed;
mod run_started;
mod session_created;
mod validation_performed;

pub use advance_recorded::{AdvanceIntent, AdvanceOutcome, AdvanceRecorded};
pub use approval_recorded::ApprovalRecorded;
pub use assessment_consequence_applied::AssessmentConsequenceApplied;
pub use assessment_recorded::AssessmentRecorded;
pub use capability_observed::CapabilityObserved;
pub use context_set::{Context, ContextError, ContextSet, ContextSource};
pub use decision_trace_appended::{DecisionTraceAppended, TraceEntry, TraceKind, TraceRef};
pub use dedupe::DedupeKey;
pub use divergence_recorded::{DivergenceReason, DivergenceRecorded};
pub use edge_created::{EdgeCause, EdgeCauseKind, EdgeCreated, EdgeKind};
pub use envelope::{Activity, Event, EventError, EventIndex, Scope};
pub use evidence_recorded::EvidenceRecorded;
pub use gap_recorded::GapRecorded;
pub use node_created::{CheckpointRecord, NodeCreated, NodeKind};
pub use node_output_appended::{NodeOutputAppended, OutputChannel, OutputPayload};
pub use observation_recorded::{Confidence, ObservationKey, ObservationRecorded, ObservationValue};
pub use preferences_changed::PreferencesChanged;
pub use run_closed::{CloseChannel, RunClosed};
pub use run_started::{KeyedStart, ParentLink, RunStarted, WorkflowSourceKind};
pub use session_created::{ImportedFrom, SessionCreated};
pub use validation_performed::{ValidationPerformed, ValidationResult};

use schemars::JsonSchema;
use serde::Serialize;

use crate::closed_set::closed_set;
use crate::digest::{BlobRef, SnapshotRef};
use crate::plan::{AttachmentKind, ContentKey};

/// Every kind, listed once: its payload has the same name.
macro_rules! event_kinds {
    ($($kind:ident),+ $(,)?) => {
        /// The payload of each kind.
        #[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
        #[serde(tag = "kind", content = "data", rename_all = "snake_case")]
        pub enum EventData {
            $($kind($kind)),+
        }

        closed_set! {
            "snake_case",
            /// The closed set of kinds, as spelled in the log.
            pub enum EventKind {
                $($kind),+
            }
        }

        impl EventData {
            pub fn kind(&self) -> EventKind {
                match self {
                    $(Self::$kind(_) => EventKind::$kind),+
                }
            }
        }
    };
}

event_kinds! {
    SessionCreated,
    ObservationRecorded,
    RunStarted,
    NodeCreated,
    EdgeCreated,
    AdvanceRecorded,
    NodeOutputAppended,
    PreferencesChanged,
    CapabilityObserved,
    GapRecorded,
    DivergenceRecorded,
    DecisionTraceAppended,
    ContextSet,
    ValidationPerformed,
    AssessmentRecorded,
    AssessmentConsequenceApplied,
    ApprovalRecorded,
    RunClosed,
    EvidenceRecorded,
}

impl EventKind {
    /// What the envelope's scope must contain for this kind.
    pub fn scope_rule(self) -> ScopeRule {
        match self {
            Self::SessionCreated => ScopeRule::Absent,
            Self::ObservationRecorded => ScopeRule::Any,
            Self::NodeOutputAppended => ScopeRule::NodeOrAbsent,
            Self::RunStarted | Self::EdgeCreated | Self::ContextSet => ScopeRule::Run,
            Self::NodeCreated
            | Self::AdvanceRecorded
            | Self::PreferencesChanged
            | Self::CapabilityObserved
            | Self::GapRecorded
            | Self::DivergenceRecorded
            | Self::DecisionTraceAppended
            | Self::ValidationPerformed
            | Self::AssessmentRecorded
            | Self::AssessmentConsequenceApplied
            | Self::ApprovalRecorded
            | Self::RunClosed
            | Self::EvidenceRecorded => ScopeRule::Node,
        }
    }
}

/// Whether an event is about a run, a node or neither.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScopeRule {
    Absent,
    Run,
    Node,
    /// About a node, or about the session itself: notes that belong to no run.
    NodeOrAbsent,
    Any,
}

impl EventData {
    /// The snapshot that this event introduces, which the manifest must pin (G12).
    pub fn snapshot_ref(&self) -> Option<SnapshotRef> {
        if let Self::NodeCreated(node) = self { Some(node.snapshot_ref) } else { None }
    }

    /// The blobs that this event refers to, in field order, which the manifest must pin (G12).
    pub fn blob_refs(&self) -> Vec<BlobRef> {
        match self {
            Self::AdvanceRecorded(advance) => advance.reply_ref.into_iter().collect(),
            Self::NodeOutputAppended(output) => output.payload.blob_ref().into_iter().collect(),
            Self::NodeCreated(node) => node.checkpoint.map(|made| made.reply_ref).into_iter().collect(),
            Self::RunStarted(run) => run.keyed.map(|keyed| keyed.reply_ref).into_iter().collect(),
            Self::EvidenceRecorded(recorded) => recorded.evidence.blob_refs(),
            Self::SessionCreated(_)
            | Self::ObservationRecorded(_)
            | Self::EdgeCreated(_)
            | Self::PreferencesChanged(_)
            | Self::CapabilityObserved(_)
            | Self::GapRecorded(_)
            | Self::DivergenceRecorded(_)
            | Self::DecisionTraceAppended(_)
            | Self::ContextSet(_)
            | Self::ValidationPerformed(_)
            | Self::AssessmentRecorded(_)
            | Self::AssessmentConsequenceApplied(_)
            | Self::ApprovalRecorded(_)
            | Self::RunClosed(_) => Vec::new(),
        }
    }

    /// The content without which this event cannot be read.
    pub fn content_refs(&self) -> Vec<ContentKey> {
        let blobs = self.blob_refs().into_iter().map(|blob| (AttachmentKind::Blob, blob.digest()));
        let snapshot = self.snapshot_ref().map(|snapshot| (AttachmentKind::Snapshot, snapshot.digest()));
        let workflow = match self {
            Self::RunStarted(run) => Some((AttachmentKind::Workflow, run.workflow_hash.digest())),
            Self::SessionCreated(_)
            | Self::ObservationRecorded(_)
            | Self::AdvanceRecorded(_)
            | Self::NodeOutputAppended(_)
            | Self::NodeCreated(_)
            | Self::EdgeCreated(_)
            | Self::PreferencesChanged(_)
            | Self::CapabilityObserved(_)
            | Self::GapRecorded(_)
            | Self::DivergenceRecorded(_)
            | Self::DecisionTraceAppended(_)
            | Self::ContextSet(_)
            | Self::ValidationPerformed(_)
            | Self::AssessmentRecorded(_)
            | Self::AssessmentConsequenceApplied(_)
            | Self::ApprovalRecorded(_)
            | Self::RunClosed(_)
            | Self::EvidenceRecorded(_) => None,
        };
        blobs.chain(snapshot).chain(workflow).collect()
    }

    /// Rules that the shape alone cannot express; the error names the broken one.
    fn check(&self) -> Result<(), String> {
        match self {
            Self::EdgeCreated(edge) => edge.check().map_err(str::to_owned),
            Self::PreferencesChanged(change) => change.check().map_err(str::to_owned),
            Self::CapabilityObserved(observed) => observed.provenance.check().map_err(str::to_owned),
            Self::DecisionTraceAppended(trace) => trace.check(),
            Self::ContextSet(set) => set.check(),
            Self::ObservationRecorded(observation) => observation.check().map_err(str::to_owned),
            Self::AssessmentRecorded(record) => record.check().map_err(str::to_owned),
            Self::DivergenceRecorded(divergence) => divergence.check().map_err(str::to_owned),
            Self::NodeOutputAppended(output) => output.check().map_err(str::to_owned),
            Self::NodeCreated(node) => node.check().map_err(str::to_owned),
            Self::ApprovalRecorded(approval) => approval.check().map_err(str::to_owned),
            Self::EvidenceRecorded(recorded) => recorded.check().map_err(str::to_owned),
            Self::SessionCreated(_)
            | Self::RunStarted(_)
            | Self::AdvanceRecorded(_)
            | Self::GapRecorded(_)
            | Self::ValidationPerformed(_)
            | Self::AssessmentConsequenceApplied(_)
            | Self::RunClosed(_) => Ok(()),
        }
    }
}
