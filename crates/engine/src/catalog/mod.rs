//! Every workflow that can be run, found on each call and read only when it changed (G90).
//!
//! Listing, inspecting and starting all go through here, so the hash shown is the hash that a run is pinned to. A warm
//! call parses nothing; where changes are watched it does not even look at the files (G93), and elsewhere it reads only
//! each file's metadata.

mod cache;
mod judging;
mod listings;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use workrail_core::agent_site::RunRights;
use workrail_core::compile::{Diagnostics, Library};
pub use workrail_core::discover::{Choice, Filter};
use workrail_core::discover::{IdClaim, OwnerSelection, WorkflowSummary, list, matching, workflow_kind};
use workrail_model::compiled::CompiledWorkflow;
use workrail_model::digest::{Sha256, WorkflowHash};
use workrail_model::discovery::{
    KNOWN_IDS_MAX, ListedWorkflow, Precedence, UnusableFile, WorkflowKind, WorkflowList,
};
use workrail_model::name::WorkflowId;
use workrail_model::nearest::nearest;
use workrail_model::tool::ToolSet;
use workrail_ports::workflow_source::{BindingsFile, CandidateFile, SourceFile, WorkflowSource};
use workrail_ports::workspace::WorkspacePath;

use crate::edit::file_key;
use crate::error::{self, BoxedError};
use cache::{Cache, FileUsability};
use judging::{key, source_of, why_not};
use listings::{Listings, WorkspaceListing};

pub struct Catalog {
    source: Arc<dyn WorkflowSource>,
    cache: Cache,
    listings: Listings,
}

impl std::fmt::Debug for Catalog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Catalog").finish_non_exhaustive()
    }
}

/// A workflow that can be started, with everything known about it.
#[derive(Clone, Debug)]
pub struct CatalogEntry {
    pub workflow: Arc<CompiledWorkflow>,
    /// The hash that a run started now is pinned to.
    pub hash: WorkflowHash,
    pub source: SourceFile,
    pub source_digest: Sha256,
    /// Warnings and hints of the compiler.
    pub diagnostics: Arc<Diagnostics>,
    /// The id the caller asked for, if it is an older name of the workflow.
    pub asked: Option<WorkflowId>,
    /// The suggested replacement for a legacy id.
    pub suggested: Option<String>,
    /// Folders and files that could not be read and would take precedence, if they have this id.
    pub unseen: Vec<String>,
}

/// What a workspace offers at one moment.
#[derive(Debug)]
pub(crate) struct Listing {
    claims: Vec<IdClaim>,
    /// In the order of the claims.
    files: Vec<CandidateFile>,
    selection: OwnerSelection,
    /// Files that cannot be used, whatever the compiler says about the rest.
    unusable: Vec<UnusableFile>,
    bindings: Option<BindingsFile>,
    /// Why the workspace's bindings cannot be used: nothing starts until they can.
    broken_bindings: Option<BoxedError>,
    /// Why the sources could not be searched to the end: nothing is answered from such a listing.
    interrupted: Option<BoxedError>,
    /// What could not be read and may hold workflow files.
    unseen: Vec<UnseenSource>,
    repeatable: Repeatable,
    /// Positions of the files that others may inject.
    routines: Vec<usize>,
}

/// A folder or file that could not be read.
#[derive(Debug)]
struct UnseenSource {
    precedence: Precedence,
    folder_position: usize,
    reference: String,
}

/// Whether the same files would give the same listing again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Repeatable {
    Yes,
    /// Something could not be read, which may change without any file changing.
    No,
}

impl Repeatable {
    fn and(self, other: Self) -> Self {
        if self == Self::Yes { other } else { Self::No }
    }
}

/// A file that claims an id, and the outcome of that claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimingFile {
    pub precedence: Precedence,
    /// Of its folder within the precedence; a later folder wins.
    pub folder_position: usize,
    pub reference: String,
    pub choice: Choice,
}

/// How many files a source has, and how many of them can be used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SourceCount {
    pub files: usize,
    pub usable: usize,
    /// Usable files whose id belongs to a source of higher precedence: valid but not in use.
    pub shadowed: usize,
}

impl Listing {
    /// Fails if not everything was searched: an id could belong to a file that was not seen.
    fn complete(&self) -> Result<&Self, BoxedError> {
        self.interrupted.clone().map_or(Ok(self), Err)
    }

    /// What could not be read and would take precedence over this file, if it has the same id.
    fn unseen_above(&self, file: &CandidateFile, id: &WorkflowId) -> Vec<String> {
        // Only bundled workflows have these ids.
        if id.as_str().starts_with("wr.") {
            return Vec::new();
        }
        let own = (file.precedence, file.folder_position);
        let above = self.unseen.iter().filter(|unseen| (unseen.precedence, unseen.folder_position) >= own);
        above.map(|unseen| unseen.reference.clone()).collect()
    }

    /// Whether a file has this id, usable or not.
    pub(crate) fn has(&self, id: &str) -> bool {
        WorkflowId::parse(id).is_ok_and(|id| self.selection.owners.contains_key(&id))
    }
}

/// Which file each id referred to at one moment.
#[derive(Clone, Debug)]
pub(crate) struct SourceDigests(Arc<WorkspaceListing>);

impl SourceDigests {
    /// The digest of the file that a workflow id refers to.
    pub(crate) fn digest(&self, id: &WorkflowId) -> Option<Sha256> {
        let listing = self.0.listing.complete().ok()?;
        let owner = listing.selection.owner(&listing.claims, id)?;
        Some(listing.claims[owner].digest)
    }
}

impl Catalog {
    pub fn new(source: Arc<dyn WorkflowSource>) -> Self {
        Self { source, cache: Cache::default(), listings: Listings::default() }
    }

    /// The workflow that an id refers to in a workspace, compiled with the workspace's bindings.
    pub fn compiled(
        &self,
        id: &WorkflowId,
        workspace: Option<&WorkspacePath>,
    ) -> Result<CatalogEntry, BoxedError> {
        self.compiled_from(&self.sources(workspace), id)
    }

    /// The same, from the files of one moment.
    pub(crate) fn compiled_from(
        &self,
        sources: &SourceDigests,
        id: &WorkflowId,
    ) -> Result<CatalogEntry, BoxedError> {
        let listing = sources.0.listing.complete()?;
        let position = listing.selection.owner(&listing.claims, id).ok_or_else(|| unknown(listing, id))?;
        if let Some(error) = &listing.broken_bindings {
            return Err(error.clone());
        }
        let (file, claim) = (&listing.files[position], &listing.claims[position]);
        let key = key(file, claim.digest, listing);
        let compiled = match self.cache.compiled(&key) {
            Some(compiled) => compiled,
            None => self.compile(file, &key, &claim.id, listing)?,
        };
        let suggested = compiled.summary.suggested(|id| listing.has(id));
        Ok(CatalogEntry {
            hash: compiled.summary.hash,
            workflow: compiled.workflow,
            source: source_of(file),
            source_digest: claim.digest,
            diagnostics: compiled.diagnostics,
            asked: (claim.id != *id).then(|| id.clone()),
            suggested,
            unseen: listing.unseen_above(file, &claim.id),
        })
    }

    /// The file that a workflow id refers to now.
    pub(crate) fn source_text(
        &self,
        id: &WorkflowId,
        workspace: Option<&WorkspacePath>,
    ) -> Result<Vec<u8>, BoxedError> {
        let known = self.current_listing(workspace);
        let listing = known.listing.complete()?;
        let position = listing.selection.owner(&listing.claims, id).ok_or_else(|| unknown(listing, id))?;
        self.source.read(&listing.files[position]).map_err(|cause| error::source(&cause))
    }

    /// Every file in the sources, usable or not.
    pub(crate) fn files(&self, workspace: Option<&WorkspacePath>) -> Vec<CandidateFile> {
        self.source.list(workspace).files
    }

    /// The file with this key, and its current bytes.
    pub(crate) fn file(
        &self,
        key: Sha256,
        workspace: Option<&WorkspacePath>,
    ) -> Result<(CandidateFile, Vec<u8>), BoxedError> {
        let files = self.files(workspace);
        let file = files.into_iter().find(|file| file_key(file) == key).ok_or_else(error::unknown_file)?;
        let bytes = self.source.read(&file).map_err(|cause| error::source(&cause))?;
        Ok((file, bytes))
    }

    /// The file that a workflow id refers to now, whether it compiles or not.
    pub(crate) fn file_of(
        &self,
        id: &WorkflowId,
        workspace: Option<&WorkspacePath>,
    ) -> Result<CandidateFile, BoxedError> {
        let known = self.current_listing(workspace);
        let listing = known.listing.complete()?;
        let position = listing.selection.owner(&listing.claims, id).ok_or_else(|| unknown(listing, id))?;
        Ok(listing.files[position].clone())
    }

    /// The workflows and routines of a workspace, for compiling a text that is in no source.
    pub fn library(&self, workspace: Option<&WorkspacePath>) -> Library {
        let known = self.current_listing(workspace);
        let ids = known.listing.selection.owners.keys().map(ToString::to_string);
        self.routines_of(&known.listing).with_workflows(ids)
    }

    /// The digest of the file that a workflow id refers to now, without compiling anything.
    pub(crate) fn source_digest(&self, id: &WorkflowId, workspace: Option<&WorkspacePath>) -> Option<Sha256> {
        self.sources(workspace).digest(id)
    }

    /// The files that ids refer to now, to be looked up later without reading anything.
    pub(crate) fn sources(&self, workspace: Option<&WorkspacePath>) -> SourceDigests {
        SourceDigests(self.current_listing(workspace))
    }

    /// How many workflows can be started in a workspace, and every file that cannot be used.
    pub fn counted(&self, workspace: Option<&WorkspacePath>) -> (usize, Vec<UnusableFile>) {
        let known = self.current_listing(workspace);
        let (usable, unusable) = &*self.everything(&known);
        (usable.len(), unusable.clone())
    }

    /// Every workflow that can be started and passes the filter, in listing order, and every
    /// file that cannot be used.
    pub fn all(
        &self,
        workspace: Option<&WorkspacePath>,
        filter: &Filter,
    ) -> (Vec<ListedWorkflow>, Vec<UnusableFile>) {
        let known = self.current_listing(workspace);
        let (usable, unusable) = &*self.everything(&known);
        let summaries: Vec<&WorkflowSummary> = usable.iter().map(|summary| &**summary).collect();
        (matching(&summaries, filter, |id| known.listing.has(id)), unusable.clone())
    }

    /// The answer of `list_workflows`; without a filter it is cached for as long as nothing changes.
    pub fn list(
        &self,
        workspace: Option<&WorkspacePath>,
        filter: &Filter,
        (tools, rights): (ToolSet, RunRights),
    ) -> Result<WorkflowList, BoxedError> {
        let known = self.current_listing(workspace);
        known.listing.complete()?;
        let made = || {
            let (usable, unusable) = &*self.everything(&known);
            let summaries: Vec<&WorkflowSummary> = usable.iter().map(|summary| &**summary).collect();
            list(&summaries, unusable.clone(), filter, (tools, rights), |id| known.listing.has(id))
        };
        // Cached for those who may work; others read it rarely.
        Ok(if filter.is_empty() && rights == RunRights::Work { known.plain(made) } else { made() })
    }

    /// Every file that claims an id: the one that owns it first, then by descending precedence.
    pub(crate) fn claimants(&self, id: &WorkflowId, workspace: Option<&WorkspacePath>) -> Vec<ClaimingFile> {
        let known = self.current_listing(workspace);
        let listing = &known.listing;
        let owner = listing.selection.owner(&listing.claims, id).map(|owner| &listing.claims[owner].id);
        let wanted = owner.unwrap_or(id);
        let claims = listing.claims.iter().zip(&listing.selection.choices);
        let mut claimants: Vec<ClaimingFile> = claims
            .filter(|(claim, _)| claim.id == *wanted)
            .map(|(claim, choice)| ClaimingFile {
                precedence: claim.precedence,
                folder_position: claim.folder_position,
                reference: claim.reference.clone(),
                choice: *choice,
            })
            .collect();
        claimants.sort_by(|a, b| {
            let location = |claimant: &ClaimingFile| {
                (claimant.choice != Choice::Chosen, Reverse((claimant.precedence, claimant.folder_position)))
            };
            (location(a), &a.reference).cmp(&(location(b), &b.reference))
        });
        claimants
    }

    /// How many files each source has, by precedence and position.
    pub fn by_source(&self, workspace: Option<&WorkspacePath>) -> BTreeMap<(Precedence, usize), SourceCount> {
        let known = self.current_listing(workspace);
        let mut counts: BTreeMap<(Precedence, usize), SourceCount> = BTreeMap::new();
        for (position, file) in known.listing.files.iter().enumerate() {
            let count = counts.entry((file.precedence, file.folder_position)).or_default();
            count.files += 1;
            let (granted, shadowed) = match known.listing.selection.choices[position] {
                Choice::Chosen => (true, false),
                Choice::Shadowed => (true, true),
                Choice::Duplicate { .. } | Choice::Reserved | Choice::BundledCopy => (false, false),
            };
            let (usability, _) = self.usability(&known.listing, position);
            let is_usable = granted && matches!(usability, FileUsability::Usable(_));
            count.usable += usize::from(is_usable);
            count.shadowed += usize::from(is_usable && shadowed);
        }
        counts
    }

    /// Every workflow that can be started, and every file that cannot be used.
    fn everything(&self, known: &WorkspaceListing) -> Arc<listings::Everything> {
        known.everything(|| {
            let mut usable = Vec::new();
            let mut unusable = known.listing.unusable.clone();
            let mut repeatable = Repeatable::Yes;
            for position in known.listing.selection.owners.values() {
                let (usability, lasts) = self.usability(&known.listing, *position);
                repeatable = repeatable.and(lasts);
                match usability {
                    FileUsability::Usable(summary) => usable.push(summary),
                    FileUsability::Unusable(file) => unusable.push((*file).clone()),
                }
            }
            if repeatable == Repeatable::No {
                self.listings.forget(known);
            }
            (usable, unusable)
        })
    }

    /// What a workspace offers now; listed again only if something may have changed.
    fn current_listing(&self, workspace: Option<&WorkspacePath>) -> Arc<WorkspaceListing> {
        let bindings = self.source.bindings(workspace);
        let id = self.source.unchanged_listing(workspace);
        if let Some(known) = id.and_then(|id| self.listings.get(workspace, id, &bindings)) {
            return known;
        }
        let sources = self.source.list(workspace);
        let id = sources.id;
        let listing = self.listing(sources, bindings.clone());
        let id = id.filter(|_| listing.repeatable == Repeatable::Yes);
        self.listings.keep(workspace, id, bindings, listing)
    }
}

fn unknown(listing: &Listing, id: &WorkflowId) -> BoxedError {
    let denied = listing.claims.iter().zip(&listing.selection.choices).find(|(claim, _)| claim.id == *id);
    if let Some((claim, choice)) = denied
        && let Some(why) = why_not(claim, *choice, &listing.claims)
    {
        return error::unusable_workflow(id, &claim.reference, &why);
    }
    let ids: BTreeSet<&str> = listing.selection.owners.keys().map(WorkflowId::as_str).collect();
    let near = nearest(id.as_str(), ids.iter().copied());
    // The same name in another namespace is the likeliest mistake.
    let name = id.as_str().rsplit('.').next().unwrap_or_default();
    let same_name = || ids.iter().copied().find(|known| known.rsplit('.').next() == Some(name));
    let near = near.or_else(same_name);
    // Routines are parts of other workflows: a misspelled id rarely means one.
    let of_kind = |kind: WorkflowKind| {
        listing.selection.owners.iter().filter_map(move |(own, position)| {
            let its_kind = workflow_kind(own, &listing.claims[*position].reference);
            (its_kind == kind).then_some(own.as_str())
        })
    };
    let rest = of_kind(WorkflowKind::Workflow).chain(of_kind(WorkflowKind::Routine));
    let rest = rest.filter(|known| Some(*known) != near);
    let known: Vec<&str> = near.into_iter().chain(rest).take(KNOWN_IDS_MAX).collect();
    error::unknown_workflow(id, near, &known)
}
