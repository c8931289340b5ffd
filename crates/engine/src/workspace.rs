//! Where the work happens: which folder a call is about, and what is observed there.

use std::num::NonZeroUsize;
use std::sync::{Mutex, PoisonError};

use lru::LruCache;
use workrail_core::decide::evidence::{self, CurrentWorkspace};
use workrail_core::decide::observe::{ObservedFact, is_same_repository};
use workrail_core::project::SessionState;
use workrail_model::digest::Sha256;
use workrail_model::error::ErrorEnvelope;
use workrail_model::event::{ObservationKey, ObservationValue};
use workrail_model::evidence::{TreeInspection, WorkingTree};
use workrail_model::id::{NodeId, RunId, SessionId};
use workrail_ports::workspace::WorkspacePath;

use crate::{Engine, Store, error};

/// What git compares a first commit with.
const EMPTY_TREE: &str = "4b825dc642cb6eb9a060e54bf8d69288fbee4904";

/// How many sessions' folders are remembered; beyond this the least recently used one is forgotten, and the call's
/// folder is used.
const REMEMBERED_MAX: NonZeroUsize = NonZeroUsize::new(256).expect("a literal above zero");

/// The folders that callers named when they started sessions. Never recorded: paths are specific to this machine.
#[derive(Debug)]
pub(crate) struct Workspaces {
    by_session: Mutex<LruCache<SessionId, WorkspacePath>>,
}

impl Default for Workspaces {
    fn default() -> Self {
        Self { by_session: Mutex::new(LruCache::new(REMEMBERED_MAX)) }
    }
}

impl Workspaces {
    fn remember(&self, session: SessionId, workspace: WorkspacePath) {
        self.by_session.lock().unwrap_or_else(PoisonError::into_inner).put(session, workspace);
    }

    fn of(&self, session: SessionId) -> Option<WorkspacePath> {
        self.by_session.lock().unwrap_or_else(PoisonError::into_inner).get(&session).cloned()
    }
}

impl<S: Store> Engine<S> {
    /// The folder that a call is about: the one it names, else the server's own.
    pub(crate) fn workspace(&self, named: Option<&str>) -> Result<Option<WorkspacePath>, Box<ErrorEnvelope>> {
        match named {
            None => Ok(self.environment.workspace.clone()),
            Some(text) => WorkspacePath::parse(text).map(Some).map_err(|cause| error::workspace(&cause)),
        }
    }

    /// The same for calls that depend on the folder's content: a misspelled one would silently offer nothing.
    pub(crate) fn existing_workspace(
        &self,
        named: Option<&str>,
    ) -> Result<Option<WorkspacePath>, Box<ErrorEnvelope>> {
        let workspace = self.workspace(named)?;
        match (named, &workspace) {
            (Some(_), Some(path)) if !self.environment.observer.is_folder(path) => {
                Err(error::no_such_workspace(path, self.environment.workspace.as_ref()))
            }
            (Some(_) | None, _) => Ok(workspace),
        }
    }

    pub(crate) fn remember_workspace(&self, session: SessionId, workspace: Option<WorkspacePath>) {
        if let Some(workspace) = workspace {
            self.workspaces.remember(session, workspace);
        }
    }

    /// The repository's current state, and what changed in it since a node's step began (G104).
    pub(crate) fn current_workspace(
        &self,
        facts: &SessionState,
        node: NodeId,
        folder: Option<&WorkspacePath>,
        (tree, observed): (&TreeInspection, &[ObservedFact]),
    ) -> CurrentWorkspace {
        if !is_same_repository(facts, observed) {
            return CurrentWorkspace::default();
        }
        let changed = match (tree, folder) {
            (TreeInspection::Seen(tree), Some(folder)) => self.changed_since(facts, node, folder, tree),
            (TreeInspection::Seen(_) | TreeInspection::NotSeen(_) | TreeInspection::NoRepository, _) => None,
        };
        CurrentWorkspace { tree: tree.clone(), changed, changed_in_run: None }
    }

    /// Every file that changed since the run began; `None` if that is unknown.
    pub(crate) fn changed_in_run(
        &self,
        facts: &SessionState,
        run: RunId,
        folder: Option<&WorkspacePath>,
        tree: &TreeInspection,
    ) -> Option<Vec<String>> {
        match tree {
            TreeInspection::Seen(tree) => self.changed_since(facts, facts.run(run)?.root?, folder?, tree),
            TreeInspection::NotSeen(_) | TreeInspection::NoRepository => None,
        }
    }

    fn changed_since(
        &self,
        facts: &SessionState,
        node: NodeId,
        folder: &WorkspacePath,
        tree: &WorkingTree,
    ) -> Option<Vec<String>> {
        let baseline = evidence::baseline(facts, node)?;
        let files = evidence::recorded_files(baseline, &self.content())?;
        let old_head = baseline.head.as_ref().map(|head| head.as_str());
        let committed = match (old_head, tree.head.as_deref()) {
            (old_head, new_head) if old_head == new_head => Vec::new(),
            (old_head, Some(new_head)) => {
                self.environment.observer.changed_between(folder, old_head.unwrap_or(EMPTY_TREE), new_head)?
            }
            (_, None) => return None,
        };
        Some(evidence::changed_files(&files, &tree.dirty, committed))
    }

    /// The folder that was named when the session was started, else the one of the call.
    pub(crate) fn folder_of(
        &self,
        session: SessionId,
        workspace: Option<&WorkspacePath>,
    ) -> Option<WorkspacePath> {
        self.workspaces.of(session).or_else(|| workspace.cloned())
    }

    /// Identifies the repository of a folder; `None` outside repositories.
    pub fn repository_of(&self, folder: &str) -> Result<Option<Sha256>, Box<ErrorEnvelope>> {
        let folder = self.existing_workspace(Some(folder))?;
        Ok(folder.and_then(|folder| self.repository_in(&folder)))
    }

    /// Identifies this process's own repository; `None` outside one.
    pub fn own_repository(&self) -> Option<Sha256> {
        self.repository_in(self.environment.workspace.as_ref()?)
    }

    fn repository_in(&self, folder: &WorkspacePath) -> Option<Sha256> {
        match self.environment.observer.observe(folder).values.get(&ObservationKey::RepoRootHash)? {
            ObservationValue::Sha256(root) => Some(*root),
            ObservationValue::ShortString(_) | ObservationValue::GitSha1(_) => None,
        }
    }

    pub(crate) fn seen_in(&self, workspace: &WorkspacePath) -> Vec<ObservedFact> {
        let seen = self.environment.observer.observe(workspace).values;
        seen.into_iter().map(|(key, value)| ObservedFact { key, value }).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A larger number makes a smaller id: new sessions are the first ones in the order of ids.
    fn session(number: usize) -> SessionId {
        let mut bits = [0_u8; 10];
        bits[..8].copy_from_slice(&(u64::MAX - number as u64).to_be_bytes());
        SessionId::from_bits(bits)
    }

    fn folder(number: usize) -> WorkspacePath {
        WorkspacePath::parse(&format!("/projects/{number}")).unwrap()
    }

    #[test]
    fn the_folder_of_the_least_recently_used_session_is_forgotten_first() {
        let most = REMEMBERED_MAX.get();
        let workspaces = Workspaces::default();
        (0..most).for_each(|number| workspaces.remember(session(number), folder(number)));
        workspaces.remember(session(1), folder(most));
        assert_eq!(workspaces.of(session(0)), Some(folder(0)), "named again, a session takes no place");

        workspaces.remember(session(most), folder(most));
        assert_eq!(workspaces.of(session(2)), None);
        for (number, named) in [(0, 0), (1, most), (3, 3), (most - 1, most - 1), (most, most)] {
            assert_eq!(workspaces.of(session(number)), Some(folder(named)), "{number}");
        }
    }
}
