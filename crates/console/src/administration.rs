//! What the settings pages show and change outside the engine, like `config`, `workflow sources`, `setup` and
//! `doctor` on the command line. The process that runs the console provides it.

use workrail_engine::edit::TrialReport;
use workrail_model::config::{Key, Settings};
use workrail_model::digest::Sha256;
use workrail_model::name::WorkflowId;
use workrail_model::time::Timestamp;

/// Where workflows come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceInfo {
    /// `bundled`, `folder`, `git` and so on.
    pub kind: &'static str,
    pub name: String,
    pub location: String,
    pub state: &'static str,
    pub is_well: bool,
    pub usable: usize,
    pub files: usize,
    /// The name by which it is removed; absent for built-in sources.
    pub registered_as: Option<String>,
    pub git: Option<GitInfo>,
    pub problems: Vec<SourceProblemView>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GitInfo {
    pub reference: String,
    pub commit: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceProblemView {
    pub what: String,
    pub problem: String,
    pub fix: String,
}

/// A source to be registered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NewSource {
    Folder { path: String },
    Plugin { path: String },
    Git { name: String, url: String, reference: Option<String>, folder: Option<String> },
}

/// A client's configuration file, and whether it starts WorkRail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientInfo {
    pub client: &'static str,
    /// Whether the client is installed on this machine.
    pub is_found: bool,
    pub scope: &'static str,
    pub file: String,
    pub state: ClientState,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClientState {
    /// With the command that the client starts.
    SetUp(String),
    NotSetUp,
    Unreadable(String),
}

/// The checks of the workspace that the console was started in, as they would run now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChecksInfo {
    pub workspace: String,
    /// Where what is trusted is kept.
    pub file: String,
    pub offered: Vec<OfferedCheck>,
    /// Workflow, check, and why it would not run.
    pub not_offered: Vec<(String, String, String)>,
    /// What else is trusted in this workspace: workflow, check and command line.
    pub others: Vec<(String, String, String)>,
    /// Names exactly what is offered.
    pub digest: Sha256,
}

/// A command that a workflow names as a check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OfferedCheck {
    pub workflow: String,
    pub workflow_hash: String,
    pub check: String,
    /// The command line, with spaces quoted.
    pub command: String,
    pub program: String,
    pub folder: String,
    pub is_trusted: bool,
}

/// One thing that `workrail doctor` looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DoctorFindingView {
    pub area: &'static str,
    pub level: DoctorLevel,
    pub what: String,
    pub fix: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DoctorLevel {
    Good,
    Warning,
    Problem,
}

/// Errors are shown to the user verbatim, with what to do next.
pub trait Administration: Send + Sync {
    /// The settings in the file, without this process's environment variables.
    fn settings_in_file(&self) -> Result<Settings, String>;
    /// Changes a setting in the file; without a value it is reset. Refused if it needs a user at a terminal.
    fn change(&self, key: Key, value: Option<&str>) -> Result<(), String>;
    /// Whether a change weakens what passkeys protect, so that a passkey must confirm it.
    fn needs_passkey(&self, key: Key, value: Option<&str>) -> Result<bool, String>;
    /// Like `change`, once a passkey has confirmed it.
    fn change_confirmed_by_passkey(&self, key: Key, value: Option<&str>) -> Result<(), String>;
    fn sources(&self) -> Result<Vec<SourceInfo>, String>;
    fn add_source(&self, new: &NewSource) -> Result<(), String>;
    fn remove_source(&self, registered_as: &str) -> Result<(), String>;
    fn sync_source(&self, name: &str) -> Result<(), String>;
    fn clients(&self) -> Result<Vec<ClientInfo>, String>;
    fn health(&self) -> Vec<DoctorFindingView>;
    fn checks(&self) -> Result<ChecksInfo, String>;
    /// Trusts the commands that `seen` names, once a passkey has agreed; other commands are refused.
    fn trust_checks(&self, seen: Sha256) -> Result<(), String>;
    /// Takes back trust in a check of this workspace, for every workflow.
    fn revoke_check(&self, check: &str) -> Result<(), String>;
    /// When the signing keys were last changed.
    fn keys_changed_at(&self) -> Option<Timestamp>;
    /// Writes a workflow's file to the user's own folder; returns its path.
    fn write_workflow(&self, id: &WorkflowId, bytes: &[u8]) -> Result<String, String>;
    /// Replaces the file of an editable source if it still has the digest `seen`.
    fn save_workflow(&self, key: Sha256, seen: Sha256, bytes: &[u8]) -> Result<(), String>;
    /// Runs the test script next to a file on a text.
    fn try_workflow(&self, key: Sha256, text: &[u8]) -> Result<TrialReport, String>;
}
