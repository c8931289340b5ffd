//! The one table of clients: which file holds what, in which shape. Data only; a new client is a new row.

mod copilot;
mod editors;
pub(super) mod hosts;

use super::{Client, Part, Scope};
use crate::clients::texts::{Agent, Command};

/// A client and everything that is known of its files.
#[derive(Debug)]
pub(super) struct Row {
    /// What people call it.
    pub(super) title: &'static str,
    /// The page that describes these files.
    pub(super) documentation: &'static str,
    /// Files and folders that show that the client is used here.
    pub(super) signs: &'static [Location],
    /// Its programs, as they are found on the path.
    pub(super) programs: &'static [&'static str],
    /// How its files refer to a variable, with NAME for its name; `None` where that is not documented.
    pub(super) variable: Option<&'static str>,
    pub(super) places: &'static [Place],
    /// What to paste where, for a client whose files are not edited; `PROGRAM` stands for the program.
    pub(super) by_hand: Option<&'static str>,
    /// What the user does before the host runs the hooks.
    pub(super) hooks_note: Option<&'static str>,
    /// Settings that switch its hooks off.
    pub(super) switches: &'static [Switch],
}

/// A setting with which a client runs no hooks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Switch {
    pub(super) at: Location,
    pub(super) path: &'static [&'static str],
    /// The value that switches them off.
    pub(super) off: bool,
}

impl Client {
    pub(super) fn row(self) -> &'static Row {
        match self {
            Self::ClaudeCode => &hosts::CLAUDE_CODE,
            Self::Cursor => &hosts::CURSOR,
            Self::VsCode => &copilot::VS_CODE,
            Self::Codex => &hosts::CODEX,
            Self::Gemini => &hosts::GEMINI,
            Self::Copilot => &copilot::COPILOT,
            Self::Opencode => &hosts::OPENCODE,
            Self::ClaudeDesktop => &editors::CLAUDE_DESKTOP,
            Self::Windsurf => &editors::WINDSURF,
            Self::Zed => &editors::ZED,
            Self::Junie => &editors::JUNIE,
            Self::Cline => &editors::CLINE,
            Self::Roo => &editors::ROO,
            Self::Amp => &editors::AMP,
            Self::Goose => &editors::GOOSE,
            Self::Kiro => &editors::KIRO,
            Self::Continue => &editors::CONTINUE,
            Self::Warp => &editors::WARP,
            Self::Antigravity => &editors::ANTIGRAVITY,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Base {
    Home,
    Config,
    Desktop,
    Project,
}

/// A file or folder beneath a base. Of several names, the one that exists is meant, else the first.
#[derive(Clone, Copy, Debug)]
pub(super) struct Location {
    pub(super) base: Base,
    pub(super) names: &'static [&'static str],
}

const fn home(names: &'static [&'static str]) -> Location {
    Location { base: Base::Home, names }
}

const fn config(names: &'static [&'static str]) -> Location {
    Location { base: Base::Config, names }
}

const fn desktop(names: &'static [&'static str]) -> Location {
    Location { base: Base::Desktop, names }
}

const fn project(names: &'static [&'static str]) -> Location {
    Location { base: Base::Project, names }
}

/// When a place is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum When {
    Always,
    /// The client makes the folder itself; without it, it does not use this file.
    FolderExists,
}

/// What goes into one file.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) part: Part,
    pub(super) scope: Scope,
    pub(super) at: Location,
    pub(super) when: When,
    pub(super) content: Content,
}

const fn user(part: Part, at: Location, content: Content) -> Place {
    Place { part, scope: Scope::User, at, when: When::Always, content }
}

const fn shared(part: Part, at: Location, content: Content) -> Place {
    Place { part, scope: Scope::Project, at, when: When::Always, content }
}

#[derive(Debug)]
pub(super) enum Content {
    Server(ServerEntry),
    Hooks(HookFile),
    /// A marked block in a text that is otherwise the user's.
    Instructions,
    /// A file that is WorkRail's as a whole.
    Own(OwnFile),
    /// The names of read-only tools in a list of a JSON file, each with a prefix.
    ToolList {
        path: &'static [&'static str],
        prefix: &'static str,
    },
    /// The same, in a member of the server's own entry.
    EntryToolList {
        servers: &'static str,
        member: &'static str,
    },
    /// Codex: a table for each read-only tool below the server's.
    CodexTools,
}

/// The entry that starts the server.
#[derive(Debug)]
pub(super) enum ServerEntry {
    /// In a JSON object, perhaps with comments, under this key.
    Json { servers: &'static str, shape: Shape, http: Option<HttpMembers> },
    /// Codex: a TOML table `[mcp_servers.NAME]`.
    Toml,
}

impl ServerEntry {
    pub(super) fn speaks_http(&self) -> bool {
        match self {
            Self::Json { http, .. } => http.is_some(),
            Self::Toml => true,
        }
    }
}

/// The members of an entry that starts a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    /// `command` and `args`.
    Plain,
    /// The same behind a `type`.
    Typed(&'static str),
    /// The same behind a `type`, and the tools that may be used.
    WithTools(&'static str),
    /// opencode: one list with the program and its arguments.
    Words,
}

/// How a client's JSON names a server that it reaches over HTTP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct HttpMembers {
    /// The value of `type`, where the client wants one.
    pub(super) says_type: Option<&'static str>,
    pub(super) url: &'static str,
}

const fn http(says_type: Option<&'static str>, url: &'static str) -> Option<HttpMembers> {
    Some(HttpMembers { says_type, url })
}

const fn server(servers: &'static str, shape: Shape, http: Option<HttpMembers>) -> Content {
    Content::Server(ServerEntry::Json { servers, shape, http })
}

/// Hooks in a JSON file.
#[derive(Debug)]
pub(super) struct HookFile {
    /// What `workrail hook` calls the host.
    pub(super) host: &'static str,
    pub(super) events: &'static [HookEvent],
    pub(super) shape: HookShape,
}

#[derive(Debug)]
pub(super) struct HookEvent {
    pub(super) name: &'static str,
    /// The tools that it is about, where the host can be told.
    pub(super) matcher: Option<&'static str>,
}

const fn on(name: &'static str) -> HookEvent {
    HookEvent { name, matcher: None }
}

const fn on_tools(name: &'static str, matcher: &'static str) -> HookEvent {
    HookEvent { name, matcher: Some(matcher) }
}

const fn command(command: Command, format: CommandFormat) -> Content {
    Content::Own(OwnFile::Command(command, format))
}

const fn agent(agent: Agent, format: AgentFormat) -> Content {
    Content::Own(OwnFile::Agent(agent, format))
}

const fn rules(format: RulesFormat) -> Content {
    Content::Own(OwnFile::Rules(format))
}

const fn hooks(host: &'static str, events: &'static [HookEvent], shape: HookShape) -> Content {
    Content::Hooks(HookFile { host, events, shape })
}

/// How a host writes hooks down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HookShape {
    /// `EVENT: [{ matcher, hooks: [{ type, command, timeout }] }]`
    Grouped { timeout: Timeout },
    /// `EVENT: [{ type, command, timeout }]`
    Flat { version: Version, says_type: bool, command: &'static str, timeout: Timeout },
}

/// Whether the file begins with a number that the host asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Version {
    One,
    None,
}

/// The member that limits a hook's time, and its value for ten seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Timeout {
    pub(super) member: &'static str,
    pub(super) value: &'static str,
}

const SECONDS: Timeout = Timeout { member: "timeout", value: "10" };
const MILLISECONDS: Timeout = Timeout { member: "timeout", value: "10000" };
const SECONDS_NAMED: Timeout = Timeout { member: "timeoutSec", value: "10" };

/// A file that is WorkRail's as a whole.
#[derive(Clone, Copy, Debug)]
pub(super) enum OwnFile {
    Command(Command, CommandFormat),
    Agent(Agent, AgentFormat),
    Rules(RulesFormat),
    /// Gemini CLI: a policy that allows the read-only tools.
    GeminiPolicy,
    /// opencode: a plugin that calls `workrail hook`.
    OpencodePlugin,
}

/// How a client writes a slash command down.
#[derive(Clone, Copy, Debug)]
pub(super) enum CommandFormat {
    /// Markdown with a description above; `$ARGUMENTS` is what was typed.
    Markdown,
    /// Markdown alone; what was typed follows it.
    Bare,
    /// VS Code: a prompt file, which asks for its input.
    PromptFile,
    /// Gemini CLI: TOML with `{{args}}`.
    Toml,
}

/// How a client writes a subagent down.
#[derive(Clone, Copy, Debug)]
pub(super) enum AgentFormat {
    /// Markdown with name and description above.
    Markdown,
    /// opencode: the file's name is the agent's; it says that it is a subagent.
    Subagent,
    /// Codex: TOML.
    Toml,
}

/// What is above the text of a rules file.
#[derive(Clone, Copy, Debug)]
pub(super) enum RulesFormat {
    Plain,
    /// Cursor: `alwaysApply`.
    Cursor,
    /// VS Code: `applyTo`.
    VsCode,
    /// Windsurf: `trigger`.
    Windsurf,
    /// Kiro: `inclusion`.
    Kiro,
}
