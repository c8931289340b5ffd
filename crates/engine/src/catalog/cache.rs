//! The catalog's cache: bounded, and dropped as a whole when in doubt.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lru::LruCache;
use workrail_core::compile::Diagnostics;
use workrail_core::discover::WorkflowSummary;
use workrail_model::compiled::CompiledWorkflow;
use workrail_model::digest::Sha256;
use workrail_model::discovery::UnusableFile;
use workrail_model::name::WorkflowId;
use workrail_ports::workflow_source::{CandidateFile, WorkflowFileStamp};

/// Two full sets of files, so that two large workspaces do not evict each other.
const FILES_MAX: usize = 20_000;
/// Compiled workflows are large, but few are ever started.
const COMPILED_MAX: NonZeroUsize = NonZeroUsize::new(32).expect("a literal above zero");

/// A file's digest, and the id that it claims.
#[derive(Clone, Debug)]
pub(super) struct FileIdentity {
    pub(super) digest: Sha256,
    pub(super) id: Option<WorkflowId>,
}

#[derive(Clone, Debug)]
pub(super) enum FileUsability {
    Usable(Arc<WorkflowSummary>),
    Unusable(Arc<UnusableFile>),
}

#[derive(Clone, Debug)]
pub(super) struct Compiled {
    pub(super) workflow: Arc<CompiledWorkflow>,
    pub(super) summary: Arc<WorkflowSummary>,
    pub(super) diagnostics: Arc<Diagnostics>,
}

#[derive(Debug, Default)]
pub(super) struct Cache(Mutex<CacheEntries>);

#[derive(Debug)]
struct CacheEntries {
    identities: BTreeMap<String, (Option<WorkflowFileStamp>, FileIdentity)>,
    usabilities: BTreeMap<Sha256, FileUsability>,
    compiled: LruCache<Sha256, Compiled>,
}

impl Default for CacheEntries {
    fn default() -> Self {
        Self {
            identities: BTreeMap::new(),
            usabilities: BTreeMap::new(),
            compiled: LruCache::new(COMPILED_MAX),
        }
    }
}

impl Cache {
    /// A poisoned lock is fine: a panic elsewhere leaves entries whole or absent.
    fn entries(&self) -> MutexGuard<'_, CacheEntries> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is cached for a file that has not changed.
    pub(super) fn identity(&self, file: &CandidateFile) -> Option<FileIdentity> {
        let stamp = file.stamp?;
        let entries = self.entries();
        entries
            .identities
            .get(&file.location)
            .filter(|(known, _)| *known == Some(stamp))
            .map(|(_, identity)| identity.clone())
    }

    /// What is cached for a file with this digest, whatever its stamp.
    pub(super) fn identity_of(&self, file: &CandidateFile, digest: Sha256) -> Option<FileIdentity> {
        let entries = self.entries();
        entries
            .identities
            .get(&file.location)
            .filter(|(_, identity)| identity.digest == digest)
            .map(|(_, identity)| identity.clone())
    }

    pub(super) fn keep_identity(&self, file: &CandidateFile, identity: &FileIdentity) {
        let mut entries = self.entries();
        if entries.identities.len() >= FILES_MAX && !entries.identities.contains_key(&file.location) {
            entries.identities.clear();
        }
        entries.identities.insert(file.location.clone(), (file.stamp, identity.clone()));
    }

    pub(super) fn usability(&self, key: &Sha256) -> Option<FileUsability> {
        self.entries().usabilities.get(key).cloned()
    }

    pub(super) fn keep_usability(&self, key: Sha256, usability: FileUsability) {
        let mut entries = self.entries();
        if entries.usabilities.len() >= FILES_MAX {
            entries.usabilities.clear();
        }
        entries.usabilities.insert(key, usability);
    }

    pub(super) fn compiled(&self, key: &Sha256) -> Option<Compiled> {
        self.entries().compiled.get(key).cloned()
    }

    pub(super) fn keep_compiled(&self, key: Sha256, compiled: Compiled) {
        self.entries().compiled.put(key, compiled);
    }
}
