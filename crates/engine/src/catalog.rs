//! Every workflow that can be run, found on each call and read only when it changed (G90).
//!
//! Listing, inspecting and starting go through here, so that the hash that is shown is the hash that a
//! run is pinned to. A warm call costs one look at each file's metadata and parses nothing.

mod cache;

use std::collections::BTreeSet;
use std::sync::Arc;

use workrail_core::compile::{
    Bindings, CompileInput, Diagnostics, Origin, Severity, authored_id, bindings_for, check, nearest,
};
use workrail_core::discover::{Choice, Claim, Selection, Summary, select};
use workrail_model::compiled::CompiledWorkflow;
use workrail_model::digest::{Sha256, WorkflowHash};
use workrail_model::discovery::{
    KNOWN_IDS_MAX, LISTED_ERROR_BYTES_MAX, LISTED_ERRORS_MAX, Precedence, UnusableFile,
};
use workrail_model::error::ErrorEnvelope;
use workrail_model::name::WorkflowId;
use workrail_model::text::truncate_with_marker;
use workrail_ports::workflow_source::{BindingsFile, Candidate, SourceFile, WorkflowSource};
use workrail_ports::workspace::WorkspacePath;

use crate::error;
use cache::{Cache, Compiled, Head, Verdict};

type Failure = Box<ErrorEnvelope>;

pub struct Catalog {
    source: Arc<dyn WorkflowSource>,
    cache: Cache,
}

impl std::fmt::Debug for Catalog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Catalog").finish_non_exhaustive()
    }
}

/// A workflow that can be started, with all that is known about it.
#[derive(Clone, Debug)]
pub struct CatalogEntry {
    pub workflow: Arc<CompiledWorkflow>,
    /// What a run that starts now is pinned to.
    pub hash: WorkflowHash,
    pub source: SourceFile,
    /// Warnings and hints of the compiler.
    pub diagnostics: Arc<Diagnostics>,
    /// What the caller asked for, when it is an older name of the workflow.
    pub asked: Option<WorkflowId>,
    /// What a legacy id should become.
    pub suggested: Option<String>,
}

/// What a workspace has to offer at one moment.
#[derive(Debug)]
pub(crate) struct Listing {
    claims: Vec<Claim>,
    /// In the order of the claims.
    files: Vec<Candidate>,
    selection: Selection,
    /// What cannot be used, whatever the compiler says about the rest.
    unusable: Vec<UnusableFile>,
    bindings: Option<BindingsFile>,
    /// Why the workspace's bindings cannot be used: nothing starts until they can.
    broken_bindings: Option<Failure>,
}

impl Listing {
    /// Whether a file has this id, usable or not.
    pub(crate) fn has(&self, id: &str) -> bool {
        WorkflowId::parse(id).is_ok_and(|id| self.selection.owners.contains_key(&id))
    }
}

impl Catalog {
    pub fn new(source: Arc<dyn WorkflowSource>) -> Self {
        Self { source, cache: Cache::default() }
    }

    /// The workflow that an id means in a workspace, compiled with the workspace's bindings.
    pub fn compiled(
        &self,
        id: &WorkflowId,
        workspace: Option<&WorkspacePath>,
    ) -> Result<CatalogEntry, Failure> {
        let listing = self.listing(workspace);
        let position = listing.selection.owner(&listing.claims, id).ok_or_else(|| unknown(&listing, id))?;
        if let Some(error) = &listing.broken_bindings {
            return Err(error.clone());
        }
        let (file, claim) = (&listing.files[position], &listing.claims[position]);
        let key = key(file, claim.digest, listing.bindings.as_ref());
        let compiled = match self.cache.compiled(&key) {
            Some(compiled) => compiled,
            None => self.compile(file, &key, &claim.id, listing.bindings.as_ref())?,
        };
        let suggested = compiled.summary.suggested(|id| listing.has(id));
        Ok(CatalogEntry {
            hash: compiled.summary.hash,
            workflow: compiled.workflow,
            source: source_of(file),
            diagnostics: compiled.diagnostics,
            asked: (claim.id != *id).then(|| id.clone()),
            suggested,
        })
    }

    /// How many workflows can be started in a workspace, and every file that cannot be used.
    pub fn counted(&self, workspace: Option<&WorkspacePath>) -> (usize, Vec<UnusableFile>) {
        let (usable, unusable) = self.everything(&self.listing(workspace));
        (usable.len(), unusable)
    }

    /// Every workflow that can be started, and every file that cannot be used.
    pub(crate) fn everything(&self, listing: &Listing) -> (Vec<Arc<Summary>>, Vec<UnusableFile>) {
        let mut usable = Vec::new();
        let mut unusable = listing.unusable.clone();
        for position in listing.selection.owners.values() {
            match self.verdict(listing, *position) {
                Verdict::Usable(summary) => usable.push(summary),
                Verdict::Unusable(file) => unusable.push((*file).clone()),
            }
        }
        (usable, unusable)
    }

    pub(crate) fn listing(&self, workspace: Option<&WorkspacePath>) -> Listing {
        let survey = self.source.survey(workspace);
        let mut unusable: Vec<UnusableFile> = survey
            .problems
            .iter()
            .map(|own| {
                refused(own.precedence, &own.reference, None, &[format!("{}; {}", own.problem, own.fix)])
            })
            .collect();
        let (bindings, broken_bindings) = match self.bindings(workspace) {
            Ok(bindings) => (bindings, None),
            Err(error) => {
                let why = error.message.clone();
                unusable.push(refused(Precedence::Project, "bindings", None, &[why]));
                (None, Some(error))
            }
        };
        let (mut claims, mut files) = (Vec::new(), Vec::new());
        for file in survey.files {
            match self.head(&file) {
                Err(why) => unusable.push(refused(file.precedence, &file.reference, None, &[why])),
                Ok(Head { digest, id: Some(id) }) => {
                    let (precedence, folder) = (file.precedence, file.folder);
                    claims.push(Claim { id, precedence, folder, reference: file.reference.clone(), digest });
                    files.push(file);
                }
                // Without an id nobody can ask for it; what is wrong is the compiler's to say.
                Ok(Head { digest, id: None }) => match self.judge(&file, digest, None, None) {
                    Verdict::Unusable(why) => unusable.push((*why).clone()),
                    Verdict::Usable(_) => {}
                },
            }
        }
        let selection = select(&claims);
        for (claim, choice) in claims.iter().zip(&selection.choices) {
            if let Some(why) = why_not(claim, *choice, &claims) {
                let id = Some(&claim.id);
                unusable.push(refused(claim.precedence, &claim.reference, id, &[why]));
            }
        }
        Listing { claims, files, selection, unusable, bindings, broken_bindings }
    }

    /// The workspace's bindings, when they are usable as a whole; a wrong section is its workflow's affair.
    fn bindings(&self, workspace: Option<&WorkspacePath>) -> Result<Option<BindingsFile>, Failure> {
        let file = self.source.bindings(workspace).map_err(|cause| error::source(&cause))?;
        if let Some(file) = &file {
            bindings_for(&file.bytes, "").map_err(|cause| error::bindings(&file.reference, &cause))?;
        }
        Ok(file)
    }

    /// What a file's bytes are, and whose it says it is.
    fn head(&self, file: &Candidate) -> Result<Head, String> {
        if let Some(head) = self.cache.head(file) {
            return Ok(head);
        }
        let bytes = self.source.read(file).map_err(|cause| cause.to_string())?;
        let digest = Sha256::of(&bytes);
        let head = match self.cache.head_of(file, digest) {
            Some(head) => head,
            None => Head { digest, id: authored_id(&bytes) },
        };
        self.cache.keep_head(file, &head);
        Ok(head)
    }

    fn verdict(&self, listing: &Listing, position: usize) -> Verdict {
        let (file, claim) = (&listing.files[position], &listing.claims[position]);
        self.judge(file, claim.digest, Some(&claim.id), listing.bindings.as_ref())
    }

    /// Whether a file can be used, remembered by what decides it.
    fn judge(
        &self,
        file: &Candidate,
        digest: Sha256,
        id: Option<&WorkflowId>,
        bindings: Option<&BindingsFile>,
    ) -> Verdict {
        let key = key(file, digest, bindings);
        if let Some(verdict) = self.cache.verdict(&key) {
            return verdict;
        }
        let verdict = match self.checked(file, digest, id, bindings) {
            Ok((_, summary, _)) => Verdict::Usable(summary),
            Err(Trouble::Diagnostics(diagnostics)) => {
                Verdict::Unusable(Arc::new(wrong(file, id, &diagnostics)))
            }
            // Not a property of the bytes, so not worth remembering.
            Err(Trouble::Outside(error)) => {
                let why = error.message.clone();
                return Verdict::Unusable(Arc::new(refused(file.precedence, &file.reference, id, &[why])));
            }
        };
        self.cache.keep_verdict(key, verdict.clone());
        verdict
    }

    fn compile(
        &self,
        file: &Candidate,
        key: &Sha256,
        id: &WorkflowId,
        bindings: Option<&BindingsFile>,
    ) -> Result<Compiled, Failure> {
        let digest =
            self.head(file).map_err(|why| error::unusable_workflow(id, &file.reference, &why))?.digest;
        let (workflow, summary, diagnostics) =
            self.checked(file, digest, Some(id), bindings).map_err(|trouble| match trouble {
                Trouble::Diagnostics(diagnostics) => error::diagnostics(&diagnostics),
                Trouble::Outside(error) => error,
            })?;
        let compiled = Compiled { workflow: Arc::new(workflow), summary, diagnostics: Arc::new(diagnostics) };
        self.cache.keep_compiled(*key, compiled.clone());
        Ok(compiled)
    }

    fn checked(
        &self,
        file: &Candidate,
        digest: Sha256,
        id: Option<&WorkflowId>,
        bindings: Option<&BindingsFile>,
    ) -> Result<(CompiledWorkflow, Arc<Summary>, Diagnostics), Trouble> {
        let bytes = self.source.read(file).map_err(|cause| Trouble::Outside(error::source(&cause)))?;
        let outside = |why: &str| {
            let own = id.cloned().or_else(|| authored_id(&bytes));
            let error = own.map_or_else(
                || error::internal(why),
                |id| error::unusable_workflow(&id, &file.reference, why),
            );
            Trouble::Outside(error)
        };
        // The claim was made by other bytes: decided again on the next call.
        if Sha256::of(&bytes) != digest {
            return Err(outside("it changed while it was read; repeat the call"));
        }
        let chosen = match (bindings, id) {
            (Some(bindings), Some(id)) => bindings_for(&bindings.bytes, id.as_str())
                .map_err(|cause| Trouble::Outside(error::bindings(&bindings.reference, &cause)))?,
            (None, _) | (_, None) => Bindings::new(),
        };
        let kind = file.precedence.source_kind();
        let input = CompileInput {
            origin: Origin::of(kind),
            bindings: &chosen,
            ..CompileInput::new(&bytes, &file.reference)
        };
        let checked = check(input);
        let Some(workflow) = checked.workflow else { return Err(Trouble::Diagnostics(checked.diagnostics)) };
        let hash = workflow.hash().map_err(|cause| outside(&cause.to_string()))?;
        let summary = Arc::new(Summary::new(&workflow, hash, kind, &file.reference, digest));
        Ok((workflow, summary, checked.diagnostics))
    }
}

/// Why a file could not be compiled.
enum Trouble {
    Diagnostics(Diagnostics),
    Outside(Failure),
}

/// Everything that decides what compiling gives.
fn key(file: &Candidate, digest: Sha256, bindings: Option<&BindingsFile>) -> Sha256 {
    let kind = format!("{:?}", file.precedence);
    let bindings: &[u8] = bindings.map_or(&[], |file| &file.bytes);
    Sha256::of_parts(&[digest.as_bytes(), kind.as_bytes(), file.reference.as_bytes(), bindings])
}

fn source_of(file: &Candidate) -> SourceFile {
    SourceFile {
        kind: file.precedence.source_kind(),
        reference: file.reference.clone(),
        package: file.package.clone(),
    }
}

/// What is said about a claim that was not granted; nothing where precedence did its work.
fn why_not(claim: &Claim, choice: Choice, claims: &[Claim]) -> Option<String> {
    match choice {
        Choice::Chosen | Choice::Shadowed | Choice::BundledCopy => None,
        Choice::Reserved => {
            let name = claim.id.as_str().strip_prefix("wr.").unwrap_or(claim.id.as_str());
            let namespace = match claim.precedence {
                Precedence::Bundled => "wr",
                Precedence::User | Precedence::Custom => "user",
                Precedence::Project => "project",
                Precedence::Plugin | Precedence::Git | Precedence::Remote => "repo",
            };
            Some(format!(
                "ids under `wr.` belong to the bundled workflows and no file may take one; rename it to \
                 \"{namespace}.{name}\""
            ))
        }
        Choice::Duplicate { winner } => {
            let winner = claims.get(winner).map_or("another file", |claim| claim.reference.as_str());
            Some(format!("{winner} has the same id and is used instead; give one of them another id"))
        }
    }
}

fn refused(
    precedence: Precedence,
    reference: &str,
    id: Option<&WorkflowId>,
    errors: &[String],
) -> UnusableFile {
    let shown = errors.iter().take(LISTED_ERRORS_MAX);
    UnusableFile {
        source_kind: precedence.source_kind(),
        file: reference.to_owned(),
        workflow_id: id.map(ToString::to_string),
        errors: shown.map(|error| truncate_with_marker(error, LISTED_ERROR_BYTES_MAX).into_owned()).collect(),
        errors_left_out: errors.len().saturating_sub(LISTED_ERRORS_MAX),
    }
}

fn wrong(file: &Candidate, id: Option<&WorkflowId>, diagnostics: &Diagnostics) -> UnusableFile {
    let errors = diagnostics.problems.iter().filter(|problem| problem.severity == Severity::Error);
    let errors: Vec<String> = errors
        .map(|problem| {
            let at =
                if problem.path.is_empty() { String::new() } else { format!(" (at `{}`)", problem.path) };
            format!("{}:{} {}{at}; {}", problem.line, problem.column, problem.message, problem.fix)
        })
        .collect();
    let mut file = refused(file.precedence, &file.reference, id, &errors);
    file.errors_left_out += diagnostics.left_out;
    file
}

fn unknown(listing: &Listing, id: &WorkflowId) -> Failure {
    let denied = listing.claims.iter().zip(&listing.selection.choices).find(|(claim, _)| claim.id == *id);
    if let Some((claim, choice)) = denied
        && let Some(why) = why_not(claim, *choice, &listing.claims)
    {
        return error::unusable_workflow(id, &claim.reference, &why);
    }
    let ids: BTreeSet<&str> = listing.selection.owners.keys().map(WorkflowId::as_str).collect();
    let near = nearest(id.as_str(), ids.iter().copied());
    // The same name in another namespace is the likeliest slip of all.
    let name = id.as_str().rsplit('.').next().unwrap_or_default();
    let same_name = || ids.iter().copied().find(|known| known.rsplit('.').next() == Some(name));
    let near = near.or_else(same_name);
    let rest = ids.iter().copied().filter(|known| Some(*known) != near);
    let known: Vec<&str> = near.into_iter().chain(rest).take(KNOWN_IDS_MAX).collect();
    error::unknown_workflow(id, near, &known)
}
