//! Events that contradict the log before them; each error names the event and the contradiction.

use workrail_model::digest::WorkflowHash;
use workrail_model::event::{EventIndex, EventKind};
use workrail_model::id::{AttemptId, GapId, NodeId, OutputId, RunId, SessionId};

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FoldError {
    #[error("event {} belongs to {found}, not to {expected}", index.get())]
    WrongSession { index: EventIndex, expected: SessionId, found: SessionId },
    #[error("found event {} where event {} is expected", index.get(), expected.get())]
    WrongIndex { index: EventIndex, expected: EventIndex },
    #[error("event {} is of kind {} and has a scope that does not fit it", index.get(), kind.as_str())]
    WrongScope { index: EventIndex, kind: EventKind },
    #[error("event {} refers to the unknown {run}", index.get())]
    UnknownRun { index: EventIndex, run: RunId },
    #[error("event {} starts {run}, which was started before", index.get())]
    DuplicateRun { index: EventIndex, run: RunId },
    #[error("event {} refers to the unknown {node}", index.get())]
    UnknownNode { index: EventIndex, node: NodeId },
    #[error("event {} creates {node}, which was created before", index.get())]
    DuplicateNode { index: EventIndex, node: NodeId },
    #[error("event {} creates {node} as a second root of {run}", index.get())]
    SecondRoot { index: EventIndex, run: RunId, node: NodeId },
    #[error("event {} is about {run}, but {node} belongs to another run", index.get())]
    NodeOfAnotherRun { index: EventIndex, run: RunId, node: NodeId },
    #[error("event {} creates a node of {run} below {parent}, which belongs to another run", index.get())]
    ParentOfAnotherRun { index: EventIndex, run: RunId, parent: NodeId },
    #[error("event {} names the workflow {found}, but {run} is pinned to {expected}", index.get())]
    WorkflowHash { index: EventIndex, run: RunId, expected: WorkflowHash, found: WorkflowHash },
    #[error("event {} draws an edge from {from} to {to}, whose parent is another node", index.get())]
    EdgeParent { index: EventIndex, from: NodeId, to: NodeId },
    #[error("event {} draws an edge to {to}, whose node kind does not fit the edge kind", index.get())]
    EdgeKind { index: EventIndex, to: NodeId },
    #[error("event {} draws a second edge to {to}", index.get())]
    DuplicateEdge { index: EventIndex, to: NodeId },
    #[error("event {} records {attempt} on {node} a second time", index.get())]
    DuplicateAdvance { index: EventIndex, node: NodeId, attempt: AttemptId },
    #[error("event {} says that {node} advanced to {to}, which is not a step below it", index.get())]
    AdvanceTarget { index: EventIndex, node: NodeId, to: NodeId },
    #[error("event {} says that {to} was reached by a second attempt", index.get())]
    AdvancedTwice { index: EventIndex, to: NodeId },
    #[error("event {} supersedes the unknown {output}", index.get())]
    UnknownOutput { index: EventIndex, output: OutputId },
    #[error("event {} supersedes {output} of another node", index.get())]
    OutputOfAnotherNode { index: EventIndex, output: OutputId },
    #[error("event {} supersedes {output} of another channel", index.get())]
    OutputOfAnotherChannel { index: EventIndex, output: OutputId },
    #[error("event {} resolves the unknown {gap}", index.get())]
    UnknownGap { index: EventIndex, gap: GapId },
    #[error("event {} records {gap} a second time", index.get())]
    DuplicateGap { index: EventIndex, gap: GapId },
}

impl FoldError {
    /// The event that was refused; everything before it is folded.
    pub fn index(&self) -> EventIndex {
        match self {
            Self::WrongSession { index, .. }
            | Self::WrongIndex { index, .. }
            | Self::WrongScope { index, .. }
            | Self::UnknownRun { index, .. }
            | Self::DuplicateRun { index, .. }
            | Self::UnknownNode { index, .. }
            | Self::DuplicateNode { index, .. }
            | Self::SecondRoot { index, .. }
            | Self::NodeOfAnotherRun { index, .. }
            | Self::ParentOfAnotherRun { index, .. }
            | Self::WorkflowHash { index, .. }
            | Self::EdgeParent { index, .. }
            | Self::EdgeKind { index, .. }
            | Self::DuplicateEdge { index, .. }
            | Self::DuplicateAdvance { index, .. }
            | Self::AdvanceTarget { index, .. }
            | Self::AdvancedTwice { index, .. }
            | Self::UnknownOutput { index, .. }
            | Self::OutputOfAnotherNode { index, .. }
            | Self::OutputOfAnotherChannel { index, .. }
            | Self::UnknownGap { index, .. }
            | Self::DuplicateGap { index, .. } => *index,
        }
    }
}
