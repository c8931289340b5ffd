//! Content-addressed reads: snapshots, blobs and pinned workflows, each hashed again when read (G17).
//!
//! There is no `put`: content becomes durable only as an attachment of an append plan.

use workrail_model::compiled::{CompiledError, CompiledWorkflow};
use workrail_model::digest::{BlobRef, SnapshotRef, WorkflowHash};
use workrail_model::snapshot::{ExecutionSnapshot, SnapshotError};

use crate::file_system::FsError;

/// Content that cannot be used.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ContentError {
    #[error("`{path}` is missing")]
    Missing { path: String },
    #[error("`{path}` does not match its digest")]
    Damaged { path: String },
    #[error("snapshot `{path}` cannot be read")]
    Snapshot { path: String, source: SnapshotError },
    #[error("compiled workflow `{path}` cannot be read")]
    Workflow { path: String, source: CompiledError },
    #[error(transparent)]
    Io(#[from] FsError),
}

pub trait ContentStore: Send + Sync {
    fn snapshot(&self, reference: SnapshotRef) -> Result<ExecutionSnapshot, ContentError>;
    fn blob(&self, reference: BlobRef) -> Result<Vec<u8>, ContentError>;
    fn workflow(&self, hash: WorkflowHash) -> Result<CompiledWorkflow, ContentError>;
}
