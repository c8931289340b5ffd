//! What exists besides the file being compiled: the workflows it may delegate to, and the routines it may call.
//!
//! The text of a called routine becomes part of the compiled workflow, and so of its hash; nothing else here
//! does (G21).

use std::collections::{BTreeMap, BTreeSet};

use workrail_model::compiled::ResolveFrom;

/// Workflows and routines besides the file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Library {
    workflow_ids: Option<BTreeSet<String>>,
    routines: BTreeMap<String, Vec<u8>>,
    missing_documents: BTreeSet<(ResolveFrom, String)>,
}

impl Library {
    /// Nothing is known: only delegations to built-in routines are checked.
    pub const EMPTY: Self =
        Self { workflow_ids: None, routines: BTreeMap::new(), missing_documents: BTreeSet::new() };

    /// Every workflow that can be started, so that delegations are checked.
    #[must_use]
    pub fn with_workflows(mut self, ids: impl IntoIterator<Item = String>) -> Self {
        self.workflow_ids = Some(ids.into_iter().collect());
        self
    }

    /// Further workflows that can be delegated to.
    #[must_use]
    pub fn also_with(mut self, ids: impl IntoIterator<Item = String>) -> Self {
        self.workflow_ids.get_or_insert_default().extend(ids);
        self
    }

    /// The file of a routine, by its id.
    #[must_use]
    pub fn with_routine(mut self, id: &str, text: Vec<u8>) -> Self {
        self.routines.insert(id.to_owned(), text);
        self
    }

    /// References whose documents were not found, each with the base of its path.
    #[must_use]
    pub fn with_missing_documents(mut self, paths: impl IntoIterator<Item = (ResolveFrom, String)>) -> Self {
        self.missing_documents.extend(paths);
        self
    }

    pub(super) fn is_missing(&self, from: ResolveFrom, path: &str) -> bool {
        self.missing_documents.iter().any(|(base, missing)| *base == from && missing == path)
    }

    pub(super) fn workflow_ids(&self) -> Option<&BTreeSet<String>> {
        self.workflow_ids.as_ref()
    }

    pub(super) fn routine(&self, id: &str) -> Option<&[u8]> {
        self.routines.get(id).map(Vec::as_slice)
    }

    pub(super) fn routine_ids(&self) -> impl Iterator<Item = &str> {
        self.routines.keys().map(String::as_str)
    }
}
