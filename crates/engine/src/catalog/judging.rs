//! Which files are usable: each is read, judged together with those that claim the same id, and compiled when needed.

use std::sync::Arc;

use workrail_core::compile::{
    Bindings, CompileInput, DiagnosticSeverity, Diagnostics, FileOrigin, Library, authored_id, bindings_for,
    check,
};
use workrail_core::discover::{Choice, IdClaim, OwnerSelection, WorkflowSummary, select, workflow_kind};
use workrail_model::compiled::CompiledWorkflow;
use workrail_model::digest::Sha256;
use workrail_model::discovery::{
    LISTED_ERROR_BYTES_MAX, LISTED_ERRORS_MAX, Precedence, UnusableFile, WorkflowKind,
};
use workrail_model::name::WorkflowId;
use workrail_model::text::truncate_with_marker;
use workrail_ports::workflow_source::{
    BindingsFile, CandidateFile, ProblemScope, SourceError, SourceFile, SourceListing,
};

use super::cache::{Compiled, FileIdentity, FileUsability};
use super::{Catalog, Listing, Repeatable, UnseenSource};
use crate::error::{self, BoxedError};

/// The files that a workspace offers, by whether they claim an id.
struct ClaimedFiles {
    claims: Vec<IdClaim>,
    /// In the order of the claims.
    files: Vec<CandidateFile>,
    /// Files without an id. They cannot be asked for; the compiler reports what is wrong with them.
    nameless: Vec<(CandidateFile, Sha256)>,
}

/// What is wrong with the sources and files of a workspace.
#[derive(Default)]
struct Trouble {
    unusable: Vec<UnusableFile>,
    unseen: Vec<UnseenSource>,
    interrupted: Option<BoxedError>,
    /// Whether a file could not be read.
    has_unread_file: bool,
}

impl Catalog {
    pub(super) fn listing(
        &self,
        sources: SourceListing,
        bindings: Result<Option<BindingsFile>, SourceError>,
    ) -> Listing {
        let mut trouble = Trouble::of_sources(&sources);
        let (bindings, broken_bindings) = match usable_bindings(bindings) {
            Ok(bindings) => (bindings, None),
            Err(error) => {
                let why = error.message.clone();
                trouble.unusable.push(refused(Precedence::Project, "bindings", None, &[why]));
                (None, Some(error))
            }
        };
        let ClaimedFiles { claims, files, nameless } = self.claim_files(sources.files, &mut trouble);
        let selection = select(&claims);
        let routines = routines(&claims, &selection);
        for (claim, choice) in claims.iter().zip(&selection.choices) {
            if let Some(why) = why_not(claim, *choice, &claims) {
                let id = Some(&claim.id);
                trouble.unusable.push(refused(claim.precedence, &claim.reference, id, &[why]));
            }
        }
        let repeatable = match trouble.has_unread_file || trouble.interrupted.is_some() {
            true => Repeatable::No,
            false => Repeatable::Yes,
        };
        let mut listing = Listing {
            claims,
            files,
            selection,
            unusable: trouble.unusable,
            bindings,
            broken_bindings,
            interrupted: trouble.interrupted,
            unseen: trouble.unseen,
            repeatable,
            routines,
        };
        for (file, digest) in nameless {
            let (usability, lasts) = self.judge(&file, digest, None, &listing);
            listing.repeatable = listing.repeatable.and(lasts);
            match usability {
                FileUsability::Unusable(why) => listing.unusable.push((*why).clone()),
                FileUsability::Usable(_) => {}
            }
        }
        listing
    }

    /// Reads the ids that files claim.
    fn claim_files(&self, offered: Vec<CandidateFile>, trouble: &mut Trouble) -> ClaimedFiles {
        let (mut claims, mut files, mut nameless) = (Vec::new(), Vec::new(), Vec::new());
        for file in offered {
            match self.identity(&file) {
                Err(cause) => trouble.add_unread(file, &cause),
                Ok(FileIdentity { digest, id: Some(id) }) => {
                    claims.push(IdClaim {
                        id,
                        precedence: file.precedence,
                        folder_position: file.folder_position,
                        reference: file.reference.clone(),
                        digest,
                    });
                    files.push(file);
                }
                Ok(FileIdentity { digest, id: None }) => nameless.push((file, digest)),
            }
        }
        ClaimedFiles { claims, files, nameless }
    }

    /// The routines of a listing, read only now: only a file that calls a template needs them.
    pub(super) fn routines_of(&self, listing: &Listing) -> Library {
        listing.routines.iter().fold(Library::EMPTY, |library, position| {
            // A routine that cannot be read now is treated as unknown; its own entry says why.
            match self.source.read(&listing.files[*position]) {
                Ok(bytes) => library.with_routine(listing.claims[*position].id.as_str(), bytes),
                Err(_) => library,
            }
        })
    }

    fn identity(&self, file: &CandidateFile) -> Result<FileIdentity, SourceError> {
        if let Some(identity) = self.cache.identity(file) {
            return Ok(identity);
        }
        let bytes = self.source.read(file)?;
        let digest = Sha256::of(&bytes);
        let identity = match self.cache.identity_of(file, digest) {
            Some(identity) => identity,
            None => FileIdentity { digest, id: authored_id(&bytes) },
        };
        self.cache.keep_identity(file, &identity);
        Ok(identity)
    }

    pub(super) fn usability(&self, listing: &Listing, position: usize) -> (FileUsability, Repeatable) {
        let (file, claim) = (&listing.files[position], &listing.claims[position]);
        self.judge(file, claim.digest, Some(&claim.id), listing)
    }

    /// Whether a file can be used; the verdict is cached by everything it depends on.
    fn judge(
        &self,
        file: &CandidateFile,
        digest: Sha256,
        id: Option<&WorkflowId>,
        listing: &Listing,
    ) -> (FileUsability, Repeatable) {
        let key = key(file, digest, listing);
        if let Some(usability) = self.cache.usability(&key) {
            return (usability, Repeatable::Yes);
        }
        let usability = match self.checked(file, digest, id, listing) {
            Ok((_, summary, _)) => FileUsability::Usable(summary),
            Err(CompileFailure::Diagnostics(diagnostics)) => {
                FileUsability::Unusable(Arc::new(wrong(file, id, &diagnostics)))
            }
            // Not a property of the bytes, so not cached.
            Err(CompileFailure::Outside(error)) => {
                let why = error.message.clone();
                let file = refused(file.precedence, &file.reference, id, &[why]);
                return (FileUsability::Unusable(Arc::new(file)), Repeatable::No);
            }
        };
        self.cache.keep_usability(key, usability.clone());
        (usability, Repeatable::Yes)
    }

    pub(super) fn compile(
        &self,
        file: &CandidateFile,
        key: &Sha256,
        id: &WorkflowId,
        listing: &Listing,
    ) -> Result<Compiled, BoxedError> {
        let identity = self.identity(file).map_err(|cause| match cause {
            SourceError::Interrupted { .. } => error::source(&cause),
            SourceError::Unreadable { .. } => {
                error::unusable_workflow(id, &file.reference, &cause.to_string())
            }
        });
        let digest = identity?.digest;
        let (workflow, summary, diagnostics) =
            self.checked(file, digest, Some(id), listing).map_err(|trouble| match trouble {
                CompileFailure::Diagnostics(diagnostics) => error::diagnostics(&diagnostics),
                CompileFailure::Outside(error) => error,
            })?;
        let compiled = Compiled { workflow: Arc::new(workflow), summary, diagnostics: Arc::new(diagnostics) };
        self.cache.keep_compiled(*key, compiled.clone());
        Ok(compiled)
    }

    fn checked(
        &self,
        file: &CandidateFile,
        digest: Sha256,
        id: Option<&WorkflowId>,
        listing: &Listing,
    ) -> Result<(CompiledWorkflow, Arc<WorkflowSummary>, Diagnostics), CompileFailure> {
        let bytes = self.source.read(file).map_err(|cause| CompileFailure::Outside(error::source(&cause)))?;
        let outside = |why: &str| {
            let own = id.cloned().or_else(|| authored_id(&bytes));
            let error = own.map_or_else(
                || error::internal(why),
                |id| error::unusable_workflow(&id, &file.reference, why),
            );
            CompileFailure::Outside(error)
        };
        // The claim was made by other bytes: decided again on the next call.
        if Sha256::of(&bytes) != digest {
            return Err(outside("it changed while it was read; repeat the call"));
        }
        // A file without an id has no section of its own.
        let chosen = match (listing.bindings.as_ref(), id) {
            (Some(bindings), Some(id)) => bindings_for(&bindings.bytes, id.as_str())
                .map_err(|cause| CompileFailure::Outside(error::bindings(&bindings.reference, &cause)))?,
            (None, _) | (_, None) => Bindings::new(),
        };
        let calls_a_template =
            bytes.windows(TEMPLATE_CALL_BYTES.len()).any(|part| part == TEMPLATE_CALL_BYTES);
        let library = if calls_a_template { self.routines_of(listing) } else { Library::EMPTY };
        let input = CompileInput {
            origin: FileOrigin::of(file.precedence.source_kind()),
            bindings: &chosen,
            library: &library,
            ..CompileInput::new(&bytes, &file.reference)
        };
        let checked = check(input);
        let Some(workflow) = checked.workflow else {
            return Err(CompileFailure::Diagnostics(checked.diagnostics));
        };
        let hash = workflow.hash().map_err(|cause| outside(&cause.to_string()))?;
        let summary = WorkflowSummary::new(&workflow, hash, file.precedence, &file.reference, digest);
        Ok((workflow, Arc::new(summary), checked.diagnostics))
    }
}

/// Everything that the result of compiling depends on.
pub(super) fn key(file: &CandidateFile, digest: Sha256, listing: &Listing) -> Sha256 {
    let source = file.precedence.word();
    let bindings: &[u8] = listing.bindings.as_ref().map_or(&[], |file| &file.bytes);
    let routines = listing.routines.iter().flat_map(|position| {
        let claim = &listing.claims[*position];
        [claim.id.as_str().as_bytes(), claim.digest.as_bytes()].concat()
    });
    let routines: Vec<u8> = routines.collect();
    Sha256::of_parts(&[digest.as_bytes(), source.as_bytes(), file.reference.as_bytes(), bindings, &routines])
}

/// What every spelling of a template call contains, whatever the case of its first letter. A file without these bytes
/// needs no routines, and looking for them is cheaper than reading every routine.
const TEMPLATE_CALL_BYTES: &[u8] = b"emplate";

/// The files that others may inject. The compiler already knows the bundled routines.
fn routines(claims: &[IdClaim], selection: &OwnerSelection) -> Vec<usize> {
    let owners = selection.owners.iter();
    let routines = owners.filter(|(id, position)| {
        let claim = &claims[**position];
        claim.precedence != Precedence::Bundled
            && workflow_kind(id, &claim.reference) == WorkflowKind::Routine
    });
    routines.map(|(_, position)| *position).collect()
}

pub(super) fn source_of(file: &CandidateFile) -> SourceFile {
    SourceFile { kind: file.precedence, reference: file.reference.clone(), package: file.package.clone() }
}

/// The message about a claim that was not granted; `None` where precedence decided as intended.
pub(super) fn why_not(claim: &IdClaim, choice: Choice, claims: &[IdClaim]) -> Option<String> {
    match choice {
        Choice::Chosen | Choice::Shadowed | Choice::BundledCopy => None,
        Choice::Reserved => {
            let name = claim.id.as_str().strip_prefix("wr.").unwrap_or(claim.id.as_str());
            let namespace = match claim.precedence {
                Precedence::Bundled => WorkflowId::RESERVED_NAMESPACE,
                Precedence::User | Precedence::Custom => "user",
                Precedence::Project => "project",
                Precedence::Plugin | Precedence::Git => "repo",
            };
            Some(format!(
                "ids under `wr.` are reserved for bundled workflows; rename it to \"{namespace}.{name}\""
            ))
        }
        Choice::Duplicate { winner } => {
            let winner = claims.get(winner).map_or("another file", |claim| claim.reference.as_str());
            Some(format!("{winner} has the same id and is used instead; give one of them another id"))
        }
    }
}

impl Trouble {
    /// What the sources themselves report.
    fn of_sources(sources: &SourceListing) -> Self {
        let mut trouble = Self::default();
        for problem in &sources.problems {
            let why = format!("{}; {}", problem.problem, problem.fix);
            trouble.unusable.push(refused(problem.precedence, &problem.reference, None, &[why]));
            match problem.scope {
                ProblemScope::Named => {}
                ProblemScope::Unseen { folder_position } => trouble.unseen.push(UnseenSource {
                    precedence: problem.precedence,
                    folder_position,
                    reference: problem.reference.clone(),
                }),
            }
        }
        trouble.interrupted = sources.interrupted.as_deref().map(error::sources_interrupted);
        if let Some(error) = &trouble.interrupted {
            let why = std::slice::from_ref(&error.message);
            trouble.unusable.push(refused(Precedence::Project, "sources", None, why));
        }
        trouble
    }

    fn add_unread(&mut self, file: CandidateFile, cause: &SourceError) {
        self.has_unread_file = true;
        self.unusable.push(refused(file.precedence, &file.reference, None, &[cause.to_string()]));
        match cause {
            SourceError::Interrupted { .. } => {
                self.interrupted.get_or_insert_with(|| error::source(cause));
            }
            SourceError::Unreadable { .. } => self.unseen.push(UnseenSource {
                precedence: file.precedence,
                folder_position: file.folder_position,
                reference: file.reference,
            }),
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
        source_kind: precedence,
        file: reference.to_owned(),
        workflow_id: id.map(ToString::to_string),
        errors: shown.map(|error| truncate_with_marker(error, LISTED_ERROR_BYTES_MAX).into_owned()).collect(),
        errors_left_out: errors.len().saturating_sub(LISTED_ERRORS_MAX),
    }
}

fn wrong(file: &CandidateFile, id: Option<&WorkflowId>, diagnostics: &Diagnostics) -> UnusableFile {
    let errors = diagnostics.problems.iter().filter(|problem| problem.severity == DiagnosticSeverity::Error);
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

/// Why a file could not be compiled.
enum CompileFailure {
    Diagnostics(Diagnostics),
    /// Not because of its bytes: it could not be read or has changed, or its bindings are wrong.
    Outside(BoxedError),
}

/// The workspace's bindings, if they are usable as a whole; a wrong section concerns only its workflow.
fn usable_bindings(
    found: Result<Option<BindingsFile>, SourceError>,
) -> Result<Option<BindingsFile>, BoxedError> {
    let file = found.map_err(|cause| error::source(&cause))?;
    if let Some(file) = &file {
        bindings_for(&file.bytes, "").map_err(|cause| error::bindings(&file.reference, &cause))?;
    }
    Ok(file)
}
