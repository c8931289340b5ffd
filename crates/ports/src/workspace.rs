//! The folder in which the work happens, and what can be observed there.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use workrail_model::event::{ObservationKey, ObservationValue};
use workrail_model::evidence::TreeInspection;

/// The longest path that the kernel accepts.
const PATH_BYTES_MAX: usize = 4096;

/// Why a text cannot name a workspace.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WorkspacePathError {
    #[error("the path is relative, and two processes would read it differently")]
    Relative,
    #[error("the path has {bytes} bytes, at most {PATH_BYTES_MAX} are possible")]
    TooLong { bytes: usize },
    #[error("the path has a control character in it")]
    Control,
}

/// An absolute UTF-8 path. Whether the folder exists is checked by the adapter on each use.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct WorkspacePath(Box<str>);

impl WorkspacePath {
    pub fn parse(text: &str) -> Result<Self, WorkspacePathError> {
        if text.len() > PATH_BYTES_MAX {
            return Err(WorkspacePathError::TooLong { bytes: text.len() });
        }
        if text.chars().any(char::is_control) {
            return Err(WorkspacePathError::Control);
        }
        if !Path::new(text).is_absolute() {
            return Err(WorkspacePathError::Relative);
        }
        Ok(Self(text.into()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for WorkspacePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for WorkspacePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.0)
    }
}

/// Anchors for finding the work again. Facts that could not be determined are missing; that is not an error.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WorkspaceFacts {
    pub values: BTreeMap<ObservationKey, ObservationValue>,
}

/// Observes a workspace, on every advance.
pub trait WorkspaceObserver: Send + Sync {
    /// Takes microseconds and never blocks.
    fn observe(&self, workspace: &WorkspacePath) -> WorkspaceFacts;
    /// The state of the working tree, at about the cost of `git status`; gives up on huge trees.
    fn inspect_tree(&self, _workspace: &WorkspacePath) -> TreeInspection {
        TreeInspection::NoRepository
    }
    /// The files that differ between two commits of the workspace's repository; `None` if that cannot be determined.
    fn changed_between(&self, _workspace: &WorkspacePath, _from: &str, _to: &str) -> Option<Vec<String>> {
        None
    }
    /// Whether the folder exists.
    fn is_folder(&self, workspace: &WorkspacePath) -> bool;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_workspace_path_is_absolute() {
        assert_eq!(WorkspacePath::parse("/a/b c").map(|path| path.to_string()), Ok("/a/b c".to_owned()));
        assert_eq!(WorkspacePath::parse("a"), Err(WorkspacePathError::Relative));
        assert_eq!(WorkspacePath::parse(""), Err(WorkspacePathError::Relative));
        assert_eq!(WorkspacePath::parse("/a\u{0}"), Err(WorkspacePathError::Control));
        let long = format!("/{}", "a".repeat(PATH_BYTES_MAX));
        assert!(matches!(WorkspacePath::parse(&long), Err(WorkspacePathError::TooLong { .. })));
    }
}
