//! The programs in which people run agents: which files each reads, and adding WorkRail to them.
//!
//! One table (`table`) says what goes into which file; everything else reads that table. A file that is not ours is
//! changed only where it mentions WorkRail; comments, order and spacing stay. A file that cannot be parsed is refused
//! and nothing is written (G84). Removing WorkRail restores the original bytes (G111).

mod block;
mod edit;
mod entry;
mod hooks;
mod installed_hooks;
mod json;
mod ledger;
mod own_files;
mod plan;
pub mod plugin;
mod switches;
mod table;
mod texts;
mod toml;
mod trial;

use camino::{Utf8Path, Utf8PathBuf};
use strum::{IntoStaticStr, VariantArray};
use workrail_model::keyring::HttpSecret;

use crate::env_vars::{HTTP_TOKEN, TOKEN};
use table::{Base, ConfigContent, ConfigEntry, FileLocation, When};

pub use installed_hooks::{InstalledHook, installed_hooks};
pub use ledger::Ledger;
pub use plan::{FileChange, Intent, SetupTarget, apply, plan, printed};
pub use switches::{HooksOff, hooks_off};
pub use trial::{HookTrial, try_hook, untrusted_by_codex};

/// The name of WorkRail in every client's file.
pub const NAME: &str = "workrail";

/// A program that starts MCP servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "kebab-case", const_into_str)]
pub enum Client {
    ClaudeCode,
    ClaudeDesktop,
    Cursor,
    #[strum(serialize = "vscode")]
    VsCode,
    Codex,
    Gemini,
    Copilot,
    Opencode,
    Windsurf,
    Zed,
    Junie,
    Cline,
    Roo,
    Amp,
    Goose,
    Kiro,
    Continue,
    Warp,
    Antigravity,
}

/// Whom a server is set up for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "kebab-case", const_into_str)]
pub enum SetupScope {
    /// Everything this user opens.
    User,
    /// One folder, for everyone who works in it.
    Project,
}

impl SetupScope {
    pub const ALL: &'static [Self] = Self::VARIANTS;

    pub fn as_str(self) -> &'static str {
        self.into_str()
    }
}

/// One thing that is set up for an agent; each can be left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "kebab-case", const_into_str)]
pub enum SetupPart {
    /// The entry that starts the MCP server.
    Server,
    /// Commands that the host runs between two calls.
    Hooks,
    /// What the agent reads at the start of every chat.
    Instructions,
    /// Slash commands.
    Commands,
    /// The subagents that delegating steps name.
    Agents,
    /// Read-only tools that run without asking.
    Permissions,
}

impl SetupPart {
    pub const ALL: &'static [Self] = Self::VARIANTS;

    pub fn as_str(self) -> &'static str {
        self.into_str()
    }
}

/// The base folders of the clients' files.
#[derive(Clone, Debug)]
pub struct Bases {
    pub home: Utf8PathBuf,
    /// `XDG_CONFIG_HOME`, or `~/.config`.
    pub config: Utf8PathBuf,
    /// Where desktop programs keep their settings.
    pub desktop: Utf8PathBuf,
    pub project: Utf8PathBuf,
}

impl Bases {
    pub fn of_user(project: Utf8PathBuf) -> Option<Self> {
        let home = std::env::home_dir().and_then(|path| Utf8PathBuf::from_path_buf(path).ok())?;
        let xdg = std::env::var("XDG_CONFIG_HOME").ok().map(Utf8PathBuf::from);
        let config = xdg.filter(|path| path.is_absolute()).unwrap_or_else(|| home.join(".config"));
        let desktop = match cfg!(target_os = "macos") {
            true => home.join("Library/Application Support"),
            false => config.clone(),
        };
        Some(Self { home, config, desktop, project })
    }

    fn base(&self, base: Base) -> &Utf8Path {
        match base {
            Base::Home => &self.home,
            Base::Config => &self.config,
            Base::Desktop => &self.desktop,
            Base::Project => &self.project,
        }
    }

    /// The first of the location's names that exists, else its first name.
    fn locate(&self, location: &FileLocation) -> Utf8PathBuf {
        let base = self.base(location.base);
        let existing = location.names.iter().map(|name| base.join(name)).find(|path| path.exists());
        existing.unwrap_or_else(|| base.join(location.names.first().copied().unwrap_or_default()))
    }

    /// The path of a client's file on this machine; `None` if the client keeps no such file here.
    fn path_of(&self, config_entry: &ConfigEntry) -> Option<Utf8PathBuf> {
        let path = self.locate(&config_entry.at);
        let is_used = match config_entry.when {
            When::Always => true,
            When::FolderExists => path.parent().is_some_and(|folder| folder.is_dir()),
        };
        is_used.then_some(path)
    }
}

/// The file in which a client keeps its servers, for a scope.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientFile {
    pub client: Client,
    pub scope: SetupScope,
    pub path: Utf8PathBuf,
}

impl Client {
    pub const ALL: &'static [Self] = Self::VARIANTS;

    pub fn as_str(self) -> &'static str {
        self.into_str()
    }

    /// The client's display name.
    pub fn title(self) -> &'static str {
        self.profile().title
    }

    /// The URL of the page that describes the client's files.
    pub fn documentation(self) -> &'static str {
        self.profile().documentation
    }

    /// What to paste where, for a client whose files are not edited.
    pub fn by_hand(self) -> Option<&'static str> {
        self.profile().by_hand
    }

    /// What the user must do before the client runs the hooks.
    pub fn hooks_note(self) -> Option<&'static str> {
        self.profile().hooks_note
    }

    /// The scopes in which anything can be set up.
    pub fn scopes(self) -> impl Iterator<Item = SetupScope> {
        let has = move |scope: &SetupScope| {
            self.profile().config_entries.iter().any(|config_entry| config_entry.scope == *scope)
        };
        SetupScope::ALL.iter().copied().filter(has)
    }

    /// The parts for which the client has a file in this scope.
    pub fn parts(self, scope: SetupScope) -> impl Iterator<Item = SetupPart> {
        let has = move |part: &SetupPart| {
            self.profile()
                .config_entries
                .iter()
                .any(|config_entry| config_entry.scope == scope && config_entry.part == *part)
        };
        SetupPart::ALL.iter().copied().filter(has)
    }

    /// The files that start the server, for all scopes.
    pub fn server_files(self, bases: &Bases) -> Vec<ClientFile> {
        let config_entries = self
            .profile()
            .config_entries
            .iter()
            .filter(|config_entry| config_entry.part == SetupPart::Server);
        let files = config_entries.filter_map(|config_entry| {
            Some(ClientFile { client: self, scope: config_entry.scope, path: bases.path_of(config_entry)? })
        });
        files.collect()
    }

    /// Whether the client can be set up for HTTP.
    pub fn speaks_http(self) -> bool {
        self.profile().config_entries.iter().any(|config_entry| match &config_entry.content {
            ConfigContent::Server(entry) => entry.speaks_http(),
            ConfigContent::Hooks(_)
            | ConfigContent::Instructions
            | ConfigContent::Own(_)
            | ConfigContent::ToolList { .. }
            | ConfigContent::EntryToolList { .. }
            | ConfigContent::CodexTools => false,
        })
    }

    /// How the client's file refers to an environment variable.
    fn variable(self, name: &str) -> Option<String> {
        self.profile().variable.map(|syntax| syntax.replace("NAME", name))
    }

    /// Whether there are signs of the client on this machine.
    pub fn is_present(self, bases: &Bases) -> bool {
        let profile = self.profile();
        let signs = profile
            .signs
            .iter()
            .flat_map(|sign| sign.names.iter().map(|name| bases.base(sign.base).join(name)));
        signs.into_iter().any(|path| path.exists())
            || profile.programs.iter().any(|program| crate::machine::program(program).is_some())
    }

    /// The command with which a file starts WorkRail, or the address where it is reached; `None` if it has neither.
    pub fn command_in(file: &ClientFile) -> Result<Option<String>, ClientError> {
        edit::command_in(file)
    }
}

/// How clients reach WorkRail, and how its hooks are started.
#[derive(Clone, Debug)]
pub struct Setup {
    /// This program's path, for files that belong to the user alone.
    pub own_program: Option<Utf8PathBuf>,
    pub connection: ConnectionMethod,
    /// The text of opencode's plugin for a given program.
    pub opencode_plugin: fn(&str) -> String,
}

/// How a client reaches the server.
#[derive(Clone, Debug)]
pub enum ConnectionMethod {
    /// It starts the program.
    Program,
    /// It connects to a running server. The secret is written only to files that belong to the user alone.
    Http { url: String, secret: Option<HttpSecret> },
    /// It connects to a team's server. The token is written to no file: the entry names the variable that holds it.
    Remote { url: String, without_variable: WithoutVariable },
}

/// What to do for a client whose file cannot refer to a variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WithoutVariable {
    /// Write nothing: a token does not belong in a file that is copied and backed up.
    Refuse,
    /// Use a placeholder, in a text that is only shown.
    Placeholder,
}

impl Setup {
    /// A project's file is shared, so it uses the program's name; a user's file uses this program's path, because
    /// programs started from a desktop often have a different `PATH` than the shell.
    fn program(&self, scope: SetupScope) -> String {
        match (scope, &self.own_program) {
            (SetupScope::User, Some(path)) => path.to_string(),
            (SetupScope::User, None) | (SetupScope::Project, _) => NAME.to_owned(),
        }
    }
}

/// The arguments that start the server.
const ARGUMENTS: [&str; 1] = ["mcp"];

/// The header with which a client authenticates.
fn authorization(client: Client, scope: SetupScope, secret: Option<&HttpSecret>) -> Option<String> {
    match (scope, secret) {
        (SetupScope::User, Some(secret)) => Some(format!("Bearer {}", secret.reveal())),
        // A file that is shared with a project names a variable instead.
        (SetupScope::User, None) | (SetupScope::Project, _) => {
            client.variable(HTTP_TOKEN.name).map(|variable| format!("Bearer {variable}"))
        }
    }
}

/// The header for a team's server: it names the variable that holds the token.
fn remote_authorization(client: Client, without_variable: WithoutVariable) -> Option<String> {
    let variable = client.variable(TOKEN.name);
    let placeholder = || match without_variable {
        WithoutVariable::Refuse => None,
        WithoutVariable::Placeholder => Some("YOUR_TOKEN".to_owned()),
    };
    variable.or_else(placeholder).map(|token| format!("Bearer {token}"))
}

/// Why a client's file is not touched.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClientError {
    #[error("`{path}` cannot be read: {detail}")]
    Unreadable { path: Utf8PathBuf, detail: String },
    #[error("`{path}` is not valid and was left as it is: {detail}")]
    Malformed { path: Utf8PathBuf, detail: String },
    #[error(
        "`{path}` was not written by WorkRail: rename it, or leave this part out with `--without {part}`"
    )]
    NotOurs { path: Utf8PathBuf, part: &'static str },
    #[error("{client} cannot be set up for HTTP here: its file can only name a program to start")]
    NoHttp { client: &'static str },
    #[error(
        "{client} cannot be set up for a team's server here: its file cannot reference a variable, and tokens are not \
         written to files; `workrail install --client {client} --remote URL --print` shows what to paste"
    )]
    NoVariable { client: &'static str },
    #[error("`{path}` cannot be written: {detail}")]
    Unwritable { path: Utf8PathBuf, detail: String },
    #[error(
        "`{path}` was left as it is: what is in it now cannot be kept in `{folder}` ({detail}). Move `{folder}` away, or \
         make it a folder that you can write to, and try again"
    )]
    BackupFailed { path: Utf8PathBuf, folder: Utf8PathBuf, detail: String },
}
