//! Where workflow files come from: found cheaply, read when they changed (G90).

use workrail_model::compiled::ReferenceDeclaration;
use workrail_model::discovery::Precedence;

use crate::workspace::WorkspacePath;

/// Where an authored file came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceFile {
    pub kind: Precedence,
    /// Opaque; meaningful within its kind. Never an absolute path.
    pub reference: String,
    /// What references resolved from the package are relative to. For the adapter alone: never recorded.
    pub package: Option<String>,
}

/// The file in which a workspace fills extension points.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BindingsFile {
    pub reference: String,
    pub bytes: Vec<u8>,
}

/// Differs when the file may have changed; equal stamps of one place mean equal bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp(pub [u64; 4]);

/// A file that may hold a workflow, found and not read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    pub precedence: Precedence,
    /// The position of its folder among those of its precedence; a later folder wins.
    pub folder: usize,
    /// Relative to its folder, with `/` between parts.
    pub reference: String,
    /// Where the adapter finds it. Opaque, unique, never shown and never recorded.
    pub place: String,
    pub package: Option<String>,
    /// Absent when the file is so fresh that it could change again under the same stamp.
    pub stamp: Option<Stamp>,
}

/// Something that was found and cannot be a candidate, or a folder that should be there and is not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceProblem {
    pub precedence: Precedence,
    /// What to show: a file relative to its folder, or the folder as the user named it.
    pub reference: String,
    pub problem: String,
    pub fix: String,
}

/// Names one survey: no two surveys of a process have the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark(pub u64);

/// Everything there is to find, without having read any of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SourceListing {
    /// By precedence, folder and reference.
    pub files: Vec<Candidate>,
    pub problems: Vec<SourceProblem>,
    /// Absent when nobody would notice a change.
    pub mark: Option<Mark>,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SourceError {
    #[error("`{reference}` cannot be read: {detail}")]
    Unreadable { reference: String, detail: String },
}

/// Whether a document that a workflow points at is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Located {
    /// `relative` is below the workspace or the package; `absolute` is this machine's, never recorded.
    Found {
        relative: String,
        absolute: String,
    },
    Missing,
}

pub trait WorkflowSource: Send + Sync {
    /// Finds files: the sources that are always there, and those of the workspace. Costs one look at each
    /// file's metadata and never fails: what goes wrong is in the survey.
    fn survey(&self, workspace: Option<&WorkspacePath>) -> SourceListing;

    /// The mark of the workspace's latest survey, while nothing that it found or read has changed. `None` when
    /// something did, or when that is not known; costs the same whatever the number of files.
    fn mark(&self, _workspace: Option<&WorkspacePath>) -> Option<Mark> {
        None
    }

    fn read(&self, file: &Candidate) -> Result<Vec<u8>, SourceError>;

    /// What the workspace chose for extension points: its `.workrail/bindings.json`, when there is one.
    fn bindings(&self, workspace: Option<&WorkspacePath>) -> Result<Option<BindingsFile>, SourceError>;

    /// Looks for a declared document, within the workspace or the source's package and nowhere else.
    fn locate(
        &self,
        declaration: &ReferenceDeclaration,
        source: &SourceFile,
        workspace: Option<&WorkspacePath>,
    ) -> Located;
}
