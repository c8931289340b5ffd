//! Where workflow files come from.

use workrail_model::event::WorkflowSourceKind;
use workrail_model::name::WorkflowId;

/// One authored file, as found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceFile {
    pub kind: WorkflowSourceKind,
    /// Opaque; meaningful within its kind. Never an absolute path.
    pub reference: String,
    pub bytes: Vec<u8>,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SourceError {
    #[error("no workflow has the id `{id}`")]
    NotFound { id: WorkflowId, known: Vec<WorkflowId> },
    #[error("`{reference}` cannot be read: {detail}")]
    Unreadable { reference: String, detail: String },
}

pub trait WorkflowSource: Send + Sync {
    fn load(&self, id: &WorkflowId) -> Result<SourceFile, SourceError>;
    /// What the workspace chose for extension points: its `.workrail/bindings.json`, when there is one.
    fn bindings(&self) -> Result<Option<SourceFile>, SourceError>;
}
