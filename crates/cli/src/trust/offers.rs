//! What can be trusted in the workspace of this process, for the terminal and for the console (G121).

use camino::{Utf8Path, Utf8PathBuf};
use serde_json::json;
use workrail_engine::checks::WorkflowChecks;
use workrail_host::checks::{
    CHECKS_FILE, ChecksFile, ChecksFileError, TrustError, TrustFile, TrustRecord, TrustedCommand,
    read_checks, resolve,
};
use workrail_host::clock::SystemClock;
use workrail_host::workspace::{default_workspace, project_root};
use workrail_model::digest::Sha256;
use workrail_model::evidence::NotRunReason;
use workrail_model::name::{CheckName, WorkflowId};
use workrail_ports::environment::Clock;

use crate::outcome::Failure;
use crate::wiring::AnyEngine;

/// Whose checks are asked about.
pub(crate) enum CheckSubject<'a> {
    /// Without any: every workflow that can be started here.
    Workflows(Vec<WorkflowId>),
    /// The workflow that a run is pinned to.
    Run(&'a str),
}

/// A check of a workflow, as it would run here.
pub(crate) struct CheckOffer {
    pub(crate) workflow_id: WorkflowId,
    pub(crate) command: TrustedCommand,
    pub(crate) is_trusted: bool,
}

/// What can be trusted, and what cannot with the reason.
pub(crate) struct Offers {
    pub(crate) root: Utf8PathBuf,
    pub(crate) file: TrustFile,
    pub(crate) wanted: Vec<WorkflowChecks>,
    pub(crate) offered: Vec<CheckOffer>,
    pub(crate) not_offered: Vec<(WorkflowId, CheckName, NotRunReason)>,
    /// What else is trusted in this workspace: for other versions of a workflow, or with another command.
    pub(crate) others: Vec<TrustRecord>,
}

impl Offers {
    /// The checks of the workspace that this process was started in.
    pub(crate) fn here(engine: &AnyEngine, asked: &CheckSubject<'_>) -> Result<Self, Failure> {
        let root = root()?;
        let defined = checks(&root)?;
        let wanted = match asked {
            CheckSubject::Run(run) => vec![engine.checks_of_run(run)?],
            CheckSubject::Workflows(ids) => engine.workflows_with_checks(ids)?,
        };
        let file = TrustFile::of_user().map_err(|error| unusable(&error))?;
        if file.path().starts_with(&root) {
            return Err(Failure::Usage(format!(
                "Trusted checks are recorded in {}, which is inside this workspace: anyone who can change the workspace \
                 could change it. Nothing was trusted.",
                file.path()
            )));
        }
        let trusted = file.read().map_err(|error| unusable(&error))?;
        let (offered, not_offered, others) = Default::default();
        let mut offers = Self { root, file, wanted, offered, not_offered, others };
        offers.resolve(&defined, &trusted);
        let is_other = |record: &&TrustRecord| {
            record.command.workspace == offers.root
                && !offers.offered.iter().any(|offered| offered.command == record.command)
        };
        offers.others = trusted.iter().filter(is_other).cloned().collect();
        Ok(offers)
    }

    fn resolve(&mut self, defined: &ChecksFile, trusted: &[TrustRecord]) {
        for workflow in &self.wanted {
            for check in &workflow.checks {
                let found = defined.get(check).ok_or(NotRunReason::Undefined);
                let workflow_id = workflow.workflow_id.clone();
                match found.and_then(|definition| resolve(&self.root, definition)) {
                    Ok(resolved) => {
                        let command = resolved.command(&self.root, workflow.hash, check);
                        let is_trusted = trusted.iter().any(|record| record.command == command);
                        self.offered.push(CheckOffer { workflow_id, command, is_trusted });
                    }
                    Err(reason) => self.not_offered.push((workflow_id, check.clone(), reason)),
                }
            }
        }
    }

    pub(crate) fn are_all_trusted(&self) -> bool {
        self.offered.iter().all(|offer| offer.is_trusted)
    }

    /// Names exactly what is offered: whatever changes in a command changes it. It is compared in this process only, and
    /// maps are sorted, so that the text needs no canonical form.
    pub(crate) fn digest(&self) -> Sha256 {
        let commands: Vec<&TrustedCommand> = self.offered.iter().map(|offer| &offer.command).collect();
        Sha256::of(json!(commands).to_string().as_bytes())
    }

    /// Where a check runs.
    pub(crate) fn folder(&self, offer: &CheckOffer) -> String {
        self.root.join(&offer.command.directory).as_str().trim_end_matches("/.").to_owned()
    }

    /// Trusts everything that is offered. The caller has asked a person.
    pub(crate) fn trust(&self) -> Result<(), Failure> {
        let trusted_at = SystemClock.now();
        let records = self.offered.iter().map(|offer| TrustRecord {
            command: offer.command.clone(),
            workflow_id: offer.workflow_id.clone(),
            trusted_at: trusted_at.clone(),
        });
        self.file.add(records.collect()).map_err(|error| unusable(&error))
    }
}

/// Takes back trust in this workspace: in one check, or in all. Returns what is no longer trusted.
pub(crate) fn take_back_trust(check: Option<&str>) -> Result<(TrustFile, Vec<TrustRecord>), Failure> {
    let root = root()?;
    let check = check.map(CheckName::parse).transpose().map_err(|error| Failure::Usage(error.to_string()))?;
    let file = TrustFile::of_user().map_err(|error| unusable(&error))?;
    let is_meant = |record: &TrustRecord| {
        record.command.workspace == root && check.as_ref().is_none_or(|check| record.command.check == *check)
    };
    let removed = file.remove(is_meant).map_err(|error| unusable(&error))?;
    Ok((file, removed))
}

pub(super) fn unusable(error: &TrustError) -> Failure {
    Failure::Environment(format!(
        "{error}. No check is trusted until this is fixed. Move the file away to start over with `workrail trust`."
    ))
}

pub(super) fn root() -> Result<Utf8PathBuf, Failure> {
    let found = default_workspace().and_then(|workspace| project_root(workspace.as_str()));
    found.ok_or_else(|| Failure::Environment("This folder cannot be read as a workspace.".to_owned()))
}

/// The project's checks, or what to do about the file.
fn checks(root: &Utf8Path) -> Result<ChecksFile, Failure> {
    read_checks(root).map_err(|error| match error {
        ChecksFileError::Missing => Failure::Usage(format!(
            "{root} has no `{CHECKS_FILE}`, which says what its checks run.\n`workrail trust propose` writes one to start \
             from."
        )),
        ChecksFileError::Unreadable(_) | ChecksFileError::Invalid(_) => {
            Failure::Usage(format!("{error}\nNothing was trusted."))
        }
    })
}
