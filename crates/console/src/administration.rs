//! What the settings pages show and change beside the engine: what the command line has as `config`, `workflow sources`,
//! `setup` and `doctor`. The process around the console provides it.

use workrail_engine::edit::TrialReport;
use workrail_model::config::{Key, Settings};
use workrail_model::digest::Sha256;
use workrail_model::name::WorkflowId;
use workrail_model::time::Timestamp;

/// A place that workflows come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceInfo {
    /// `bundled`, `folder`, `git` and so on.
    pub kind: &'static str,
    pub name: String,
    pub place: String,
    pub state: &'static str,
    pub is_well: bool,
    pub usable: usize,
    pub files: usize,
    /// What it is removed by; absent for what is always there.
    pub registered_as: Option<String>,
    pub git: Option<GitInfo>,
    pub problems: Vec<SourceProblem>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GitInfo {
    pub reference: String,
    pub commit: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceProblem {
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

/// A client's file, and whether it starts WorkRail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientInfo {
    pub client: &'static str,
    /// Whether the client is on this machine.
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

/// One thing that `workrail doctor` looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    pub area: &'static str,
    pub level: Level,
    pub what: String,
    pub fix: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    Good,
    Warning,
    Problem,
}

/// Errors are said to a person as they are, with what to do next.
pub trait Administration: Send + Sync {
    /// What the settings file wants, without this process's environment variables.
    fn wanted(&self) -> Result<Settings, String>;
    /// Changes a setting in the file; without a value it is reset. What needs a person at a terminal is refused.
    fn change(&self, key: Key, value: Option<&str>) -> Result<(), String>;
    /// Whether a change weakens what passkeys protect, so that one must agree.
    fn needs_passkey(&self, key: Key, value: Option<&str>) -> Result<bool, String>;
    /// The same as `change`, once a passkey has agreed.
    fn change_agreed(&self, key: Key, value: Option<&str>) -> Result<(), String>;
    fn sources(&self) -> Result<Vec<SourceInfo>, String>;
    fn add_source(&self, new: &NewSource) -> Result<(), String>;
    fn remove_source(&self, registered_as: &str) -> Result<(), String>;
    fn sync_source(&self, name: &str) -> Result<(), String>;
    fn clients(&self) -> Result<Vec<ClientInfo>, String>;
    fn health(&self) -> Vec<Finding>;
    /// When the signing keys were last changed.
    fn keys_changed_at(&self) -> Option<Timestamp>;
    /// Writes a workflow's file to the user's own folder; where it is now.
    fn write_workflow(&self, id: &WorkflowId, bytes: &[u8]) -> Result<String, String>;
    /// Replaces the file of an editable source if it still has the digest `seen`.
    fn save_workflow(&self, key: Sha256, seen: Sha256, bytes: &[u8]) -> Result<(), String>;
    /// Runs the test script beside a file on a text.
    fn try_workflow(&self, key: Sha256, text: &[u8]) -> Result<TrialReport, String>;
}
