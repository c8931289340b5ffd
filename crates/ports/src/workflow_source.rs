//! Where workflow files come from: found cheaply, read only when they changed (G90).

use workrail_model::compiled::ReferenceDeclaration;
use workrail_model::discovery::Precedence;

use crate::workspace::WorkspacePath;

/// Where an authored file came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceFile {
    pub kind: Precedence,
    /// Opaque; meaningful only within its kind. Never an absolute path.
    pub reference: String,
    /// The base of references resolved from the package. For the adapter only: never recorded.
    pub package: Option<String>,
}

/// The file with which a workspace fills extension points.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BindingsFile {
    pub reference: String,
    pub bytes: Vec<u8>,
}

/// Differs when the file may have changed; for one file, equal stamps mean equal bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkflowFileStamp(pub [u64; 4]);

/// A file that may hold a workflow; found but not read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CandidateFile {
    pub precedence: Precedence,
    /// Position of its folder within its precedence; a later folder wins.
    pub folder_position: usize,
    /// Relative to its folder, separated by `/`.
    pub reference: String,
    /// Where the adapter finds it. Opaque, unique, never shown and never recorded.
    pub location: String,
    pub package: Option<String>,
    /// Absent if the file is so fresh that it could change again without changing its stamp.
    pub stamp: Option<WorkflowFileStamp>,
}

/// Something that was found but cannot be a candidate, or a folder that should exist and does not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceProblem {
    pub precedence: Precedence,
    /// What to show: a file relative to its folder, or the folder as named by the user.
    pub reference: String,
    pub problem: String,
    pub fix: String,
    pub scope: ProblemScope,
}

/// What a problem of a source concerns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProblemScope {
    /// Nothing beyond what it names: its content could not count anyway.
    Named,
    /// Workflow files that may exist and could not be seen; any of them could own an id.
    Unseen {
        /// Position of the folder within its precedence.
        folder_position: usize,
    },
}

/// Identifies one listing: no two listings of a process have the same id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListingId(pub u64);

/// Everything that was found, without reading any of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SourceListing {
    /// By precedence, folder and reference.
    pub files: Vec<CandidateFile>,
    pub problems: Vec<SourceProblem>,
    /// Why the search ended early for a reason that passes, such as too many open files. What was found then shows
    /// nothing about what exists, and is never cached.
    pub interrupted: Option<String>,
    /// Absent if a change would go unnoticed.
    pub id: Option<ListingId>,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SourceError {
    #[error("`{reference}` cannot be read: {detail}")]
    Unreadable { reference: String, detail: String },
    /// The process has no file handles or memory left: the file may be fine.
    #[error("`{reference}` cannot be read now: {detail}")]
    Interrupted { reference: String, detail: String },
}

/// Whether a document that a workflow refers to exists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Located {
    /// `relative` is relative to the workspace or package; `absolute` is specific to this machine and never recorded.
    Found {
        relative: String,
        absolute: String,
    },
    Missing,
}

pub trait WorkflowSource: Send + Sync {
    /// Finds files in the sources that always exist and in those of the workspace. Reads only the metadata of each
    /// file, and never fails: problems are listed in the result.
    fn list(&self, workspace: Option<&WorkspacePath>) -> SourceListing;

    /// The id of the workspace's latest listing, if nothing it found or read has changed since. `None` if something
    /// did or that is unknown; the cost does not depend on the number of files.
    fn unchanged_listing(&self, _workspace: Option<&WorkspacePath>) -> Option<ListingId> {
        None
    }

    fn read(&self, file: &CandidateFile) -> Result<Vec<u8>, SourceError>;

    /// What the workspace chose for extension points: its `.workrail/bindings.json`, if any.
    fn bindings(&self, workspace: Option<&WorkspacePath>) -> Result<Option<BindingsFile>, SourceError>;

    /// Looks for a declared document, only within the workspace or the source's package.
    fn locate(
        &self,
        declaration: &ReferenceDeclaration,
        source: &SourceFile,
        workspace: Option<&WorkspacePath>,
    ) -> Located;
}
