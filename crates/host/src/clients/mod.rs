//! The programs that people run agents in: where each keeps its servers, and putting WorkRail there.
//!
//! A file of somebody else's is changed only where it mentions WorkRail; comments, order and spacing stay.
//! What cannot be read as it should be is refused, and nothing is written (G84).

mod edit;
mod json;
mod toml;

use camino::{Utf8Path, Utf8PathBuf};
use strum::{IntoStaticStr, VariantArray};
use workrail_model::keyring::HttpSecret;

use crate::env_vars::HTTP_TOKEN;

pub use edit::{Change, apply, installed, installed_http, removed};

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
}

/// For whom a server is set up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "kebab-case", const_into_str)]
pub enum Scope {
    /// Everything this user opens.
    User,
    /// One folder, for everyone who works in it.
    Project,
}

impl Scope {
    pub const ALL: &'static [Self] = Self::VARIANTS;

    pub fn as_str(self) -> &'static str {
        self.into_str()
    }
}

/// How a client's file is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Syntax {
    /// JSON, perhaps with comments; the servers are under this key.
    Json { servers: &'static str, says_type: bool },
    /// TOML, in tables `[mcp_servers.NAME]`.
    Toml,
}

/// How a client's JSON names a server that it reaches over HTTP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct HttpMembers {
    /// The value of `type`, where the client wants one.
    says_type: Option<&'static str>,
    url: &'static str,
}

/// Where things are that the clients' files are beneath.
#[derive(Clone, Debug)]
pub struct Bases {
    pub home: Utf8PathBuf,
    /// Where desktop programs keep their settings.
    pub desktop: Utf8PathBuf,
    pub project: Utf8PathBuf,
}

impl Bases {
    /// `XDG_CONFIG_HOME`, or what the system uses instead.
    pub fn of_user(project: Utf8PathBuf) -> Option<Self> {
        let home = std::env::home_dir().and_then(|path| Utf8PathBuf::from_path_buf(path).ok())?;
        let xdg = std::env::var("XDG_CONFIG_HOME").ok().map(Utf8PathBuf::from);
        let desktop = match cfg!(target_os = "macos") {
            true => home.join("Library/Application Support"),
            false => xdg.filter(|path| path.is_absolute()).unwrap_or_else(|| home.join(".config")),
        };
        Some(Self { home, desktop, project })
    }
}

/// A client's file for a scope.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientFile {
    pub client: Client,
    pub scope: Scope,
    pub path: Utf8PathBuf,
}

impl Client {
    pub const ALL: &'static [Self] = Self::VARIANTS;

    pub fn as_str(self) -> &'static str {
        self.into_str()
    }

    fn syntax(self) -> Syntax {
        match self {
            Self::ClaudeCode | Self::ClaudeDesktop | Self::Cursor | Self::Gemini => {
                Syntax::Json { servers: "mcpServers", says_type: false }
            }
            Self::VsCode => Syntax::Json { servers: "servers", says_type: true },
            Self::Codex => Syntax::Toml,
        }
    }

    /// The client's entry for an HTTP server; `None` when its file supports only programs.
    fn http_members(self) -> Option<HttpMembers> {
        match self {
            Self::ClaudeCode | Self::VsCode => Some(HttpMembers { says_type: Some("http"), url: "url" }),
            Self::Cursor | Self::Codex => Some(HttpMembers { says_type: None, url: "url" }),
            Self::Gemini => Some(HttpMembers { says_type: None, url: "httpUrl" }),
            Self::ClaudeDesktop => None,
        }
    }

    /// Whether the client can be set up for HTTP.
    pub fn speaks_http(self) -> bool {
        self.http_members().is_some()
    }

    /// How the client's file refers to a variable of the environment.
    fn variable(self, name: &str) -> String {
        match self {
            Self::ClaudeCode | Self::ClaudeDesktop | Self::Codex | Self::Gemini => format!("${{{name}}}"),
            Self::Cursor | Self::VsCode => format!("${{env:{name}}}"),
        }
    }

    /// The client's file, where it has one for the scope.
    pub fn file(self, scope: Scope, bases: &Bases) -> Option<ClientFile> {
        let Bases { home, desktop, project } = bases;
        let path = match (self, scope) {
            (Self::ClaudeCode, Scope::User) => home.join(".claude.json"),
            (Self::ClaudeCode, Scope::Project) => project.join(".mcp.json"),
            (Self::ClaudeDesktop, Scope::User) => desktop.join("Claude/claude_desktop_config.json"),
            (Self::Cursor, Scope::User) => home.join(".cursor/mcp.json"),
            (Self::Cursor, Scope::Project) => project.join(".cursor/mcp.json"),
            (Self::VsCode, Scope::Project) => project.join(".vscode/mcp.json"),
            (Self::Codex, Scope::User) => home.join(".codex/config.toml"),
            (Self::Gemini, Scope::User) => home.join(".gemini/settings.json"),
            (Self::Gemini, Scope::Project) => project.join(".gemini/settings.json"),
            (Self::ClaudeDesktop | Self::Codex, Scope::Project) | (Self::VsCode, Scope::User) => return None,
        };
        Some(ClientFile { client: self, scope, path })
    }

    /// Its file for the whole user, or else for the project.
    pub fn usual_file(self, bases: &Bases) -> Option<ClientFile> {
        Scope::ALL.iter().copied().find_map(|scope| self.file(scope, bases))
    }

    /// Whether there are signs of the client on this machine.
    pub fn is_present(self, bases: &Bases) -> bool {
        let Bases { home, desktop, .. } = bases;
        let (signs, program): (&[Utf8PathBuf], &str) = match self {
            Self::ClaudeCode => (&[home.join(".claude.json"), home.join(".claude")], "claude"),
            Self::ClaudeDesktop => (&[desktop.join("Claude")], "claude-desktop"),
            Self::Cursor => (&[home.join(".cursor")], "cursor"),
            Self::VsCode => (&[home.join(".vscode"), desktop.join("Code")], "code"),
            Self::Codex => (&[home.join(".codex")], "codex"),
            Self::Gemini => (&[home.join(".gemini")], "gemini"),
        };
        signs.iter().any(|path| path.exists()) || crate::machine::program(program).is_some()
    }
}

/// How a client starts WorkRail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Launch {
    /// A name on the path, or a whole path.
    pub command: String,
}

impl Launch {
    /// A project's file is shared, so it names the program; a user's own names this one: programs that a
    /// desktop starts often have another path than the shell.
    pub fn for_scope(scope: Scope, own: Option<&Utf8Path>) -> Self {
        let command = match (scope, own) {
            (Scope::User, Some(own)) => own.to_string(),
            (Scope::User, None) | (Scope::Project, _) => NAME.to_owned(),
        };
        Self { command }
    }

    pub const ARGUMENTS: [&'static str; 1] = ["mcp"];
}

/// A server that a client reaches over HTTP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpEndpoint {
    pub url: String,
    pub credential: Credential,
}

/// What the client sends to show whose it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Credential {
    /// The secret itself: for files of the user alone.
    Secret(HttpSecret),
    /// The variable `WORKRAIL_HTTP_TOKEN`: for files that are shared with a project.
    Variable,
}

impl HttpEndpoint {
    fn authorization(&self, client: Client) -> String {
        match &self.credential {
            Credential::Secret(secret) => format!("Bearer {}", secret.reveal()),
            Credential::Variable => format!("Bearer {}", client.variable(HTTP_TOKEN.name)),
        }
    }
}

/// A client's file that is not touched, and why.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClientError {
    #[error("`{path}` cannot be read: {detail}")]
    Unreadable { path: Utf8PathBuf, detail: String },
    #[error("`{path}` is not valid and was left as it is: {detail}")]
    Malformed { path: Utf8PathBuf, detail: String },
    #[error("{client} cannot be set up for HTTP: its file knows only programs to start")]
    NoHttp { client: &'static str },
    #[error("`{path}` cannot be written: {detail}")]
    Unwritable { path: Utf8PathBuf, detail: String },
}
