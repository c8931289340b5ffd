//! The checks of projects on this machine: what they run, whether a person trusts it, and running it.

mod confine;
mod file;
mod propose;
mod run;
mod supervisor;
mod trust;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use camino::{Utf8Path, Utf8PathBuf};
pub use file::{CHECKS_FILE, CheckDefinition, ChecksFile, ChecksFileError, read as read_checks};
pub use propose::{ProposeError, Proposed, ShowOnly, proposed, write_proposed};
pub use supervisor::{is_supervisor, supervise};
pub use trust::{TrustError, TrustFile, TrustRecord, TrustedCommand};
use workrail_model::digest::WorkflowHash;
use workrail_model::evidence::NotRunReason;
use workrail_model::name::CheckName;
use workrail_ports::checks::{CheckRunner, PreparedCheck, Readiness};
use workrail_ports::workspace::WorkspacePath;

use crate::programs;
use crate::workspace::{git_folder, project_root};
use run::TrustedCheck;
use supervisor::Job;

/// A check as it would run now, on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResolvedCheck {
    pub argv: Vec<String>,
    /// The executable, as an absolute path.
    pub program: Utf8PathBuf,
    /// As written in the checks file, relative to the root.
    pub directory: Utf8PathBuf,
    /// `directory` with links resolved.
    folder: Utf8PathBuf,
}

impl ResolvedCheck {
    /// Exactly what a person trusts when they trust this check.
    pub fn command(&self, root: &Utf8Path, workflow_hash: WorkflowHash, check: &CheckName) -> TrustedCommand {
        TrustedCommand {
            workspace: root.to_owned(),
            workflow_hash,
            check: check.clone(),
            argv: self.argv.clone(),
            program: self.program.clone(),
            directory: self.directory.clone(),
        }
    }
}

/// Resolves a check's directory and executable.
pub fn resolve(root: &Utf8Path, definition: &CheckDefinition) -> Result<ResolvedCheck, NotRunReason> {
    let folder = root.join(&definition.directory).canonicalize_utf8();
    let folder = folder.map_err(|_| NotRunReason::OutsideWorkspace)?;
    if !folder.starts_with(root) || !folder.is_dir() {
        return Err(NotRunReason::OutsideWorkspace);
    }
    let name = definition.argv.first().ok_or(NotRunReason::Undefined)?;
    let program = match name.contains('/') {
        // As a shell would find it from that folder.
        true => Some(folder.join(name)).filter(|program| programs::is_program(program)),
        false => programs::find(name),
    };
    // A path with hidden characters is not shown as it is, so nobody could knowingly trust it.
    let program = program.filter(|path| !path.as_str().chars().any(file::is_hidden));
    Ok(ResolvedCheck {
        argv: definition.argv.clone(),
        program: program.ok_or(NotRunReason::ProgramMissing)?,
        directory: definition.directory.clone(),
        folder,
    })
}

/// Runs the trusted checks of workspaces on this machine.
#[derive(Debug, Default)]
pub struct LocalChecks {
    ending: Arc<AtomicBool>,
}

impl LocalChecks {
    fn ready(
        &self,
        root: &Utf8Path,
        workflow: WorkflowHash,
        (name, resolved): (&CheckName, ResolvedCheck),
    ) -> Readiness {
        let command = resolved.command(root, workflow, name);
        if !TrustFile::of_user().is_ok_and(|file| file.trusts(&command)) {
            return Readiness::NotRun(NotRunReason::Untrusted);
        }
        let job = Job {
            program: resolved.program,
            argv: resolved.argv,
            directory: resolved.folder,
            writable: confine::writable(root, git_folder(root)),
        };
        Readiness::Ready(Box::new(TrustedCheck { job, ending: Arc::clone(&self.ending) }))
    }
}

impl CheckRunner for LocalChecks {
    fn prepare(&self, workspace: &WorkspacePath, workflow: WorkflowHash, name: &CheckName) -> PreparedCheck {
        let not_run = |argv, reason| PreparedCheck { argv, readiness: Readiness::NotRun(reason) };
        let Some(root) = project_root(workspace.as_str()) else {
            return not_run(Vec::new(), NotRunReason::NoWorkspace);
        };
        let definition = match read_checks(&root) {
            Ok(mut checks) => match checks.remove(name) {
                Some(definition) => definition,
                None => return not_run(Vec::new(), NotRunReason::Undefined),
            },
            Err(ChecksFileError::Missing) => return not_run(Vec::new(), NotRunReason::Undefined),
            Err(ChecksFileError::Unreadable(_) | ChecksFileError::Invalid(_)) => {
                return not_run(Vec::new(), NotRunReason::InvalidFile);
            }
        };
        match resolve(&root, &definition) {
            Ok(resolved) => PreparedCheck {
                argv: definition.argv,
                readiness: self.ready(&root, workflow, (name, resolved)),
            },
            Err(reason) => not_run(definition.argv, reason),
        }
    }

    fn end(&self) {
        self.ending.store(true, Ordering::SeqCst);
    }
}
