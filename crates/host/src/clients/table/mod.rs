//! The one table of clients: which file holds what, in which format. Data only; a new client is a new profile.

mod copilot;
mod editors;
pub(super) mod hosts;

use super::{Client, SetupPart, SetupScope};
use crate::clients::texts::{Agent, SlashCommand};

/// A client and everything known about its files.
#[derive(Debug)]
pub(super) struct ClientProfile {
    /// The client's display name.
    pub(super) title: &'static str,
    /// The page that describes these files.
    pub(super) documentation: &'static str,
    /// Files and folders whose presence shows that the client is used here.
    pub(super) signs: &'static [FileLocation],
    /// Names of its programs, as found on the path.
    pub(super) programs: &'static [&'static str],
    /// How its files refer to an environment variable, with NAME as placeholder; `None` if that is not documented.
    pub(super) variable: Option<&'static str>,
    pub(super) config_entries: &'static [ConfigEntry],
    /// What to paste where, for a client whose files are not edited; `PROGRAM` is a placeholder for the program.
    pub(super) by_hand: Option<&'static str>,
    /// What the user must do before the host runs the hooks.
    pub(super) hooks_note: Option<&'static str>,
    /// Settings that turn its hooks off.
    pub(super) switches: &'static [Switch],
}

/// A setting that turns a client's hooks off.
#[derive(Clone, Copy, Debug)]
pub(super) struct Switch {
    pub(super) at: FileLocation,
    pub(super) path: &'static [&'static str],
    /// The value that turns them off.
    pub(super) off: bool,
}

impl Client {
    pub(super) fn profile(self) -> &'static ClientProfile {
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

/// A file or folder beneath a base. Of several names, the one that exists is used, else the first.
#[derive(Clone, Copy, Debug)]
pub(super) struct FileLocation {
    pub(super) base: Base,
    pub(super) names: &'static [&'static str],
}

const fn home(names: &'static [&'static str]) -> FileLocation {
    FileLocation { base: Base::Home, names }
}

const fn config(names: &'static [&'static str]) -> FileLocation {
    FileLocation { base: Base::Config, names }
}

const fn desktop(names: &'static [&'static str]) -> FileLocation {
    FileLocation { base: Base::Desktop, names }
}

const fn project(names: &'static [&'static str]) -> FileLocation {
    FileLocation { base: Base::Project, names }
}

/// When the file is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum When {
    Always,
    /// Only if the folder exists: the client creates it itself, and without it does not use this file.
    FolderExists,
}

/// What goes into one file.
#[derive(Debug)]
pub(super) struct ConfigEntry {
    pub(super) part: SetupPart,
    pub(super) scope: SetupScope,
    pub(super) at: FileLocation,
    pub(super) when: When,
    pub(super) content: ConfigContent,
}

const fn user(part: SetupPart, at: FileLocation, content: ConfigContent) -> ConfigEntry {
    ConfigEntry { part, scope: SetupScope::User, at, when: When::Always, content }
}

const fn shared(part: SetupPart, at: FileLocation, content: ConfigContent) -> ConfigEntry {
    ConfigEntry { part, scope: SetupScope::Project, at, when: When::Always, content }
}

#[derive(Debug)]
pub(super) enum ConfigContent {
    Server(ServerEntry),
    Hooks(HookFile),
    /// A marked block in a text that otherwise belongs to the user.
    Instructions,
    /// A file that belongs to WorkRail as a whole.
    Own(OwnFile),
    /// The names of read-only tools in a list in a JSON file, each with a prefix.
    ToolList {
        path: &'static [&'static str],
        prefix: &'static str,
    },
    /// The same, in a member of the server's own entry.
    EntryToolList {
        servers: &'static str,
        member: &'static str,
    },
    /// Codex: a table for each read-only tool below the server's table.
    CodexTools,
}

/// The entry that starts the server.
#[derive(Debug)]
pub(super) enum ServerEntry {
    /// In a JSON object, possibly with comments, under this key.
    Json { servers: &'static str, shape: EntryShape, http: Option<HttpMembers> },
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
pub(super) enum EntryShape {
    /// `command` and `args`.
    Plain,
    /// The same with a `type`.
    Typed(&'static str),
    /// The same with a `type`, and the tools that may be used.
    WithTools(&'static str),
    /// opencode: one list with the program and its arguments.
    Words,
}

/// How a client's JSON describes a server reached over HTTP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct HttpMembers {
    /// The value of `type`, if the client wants one.
    pub(super) says_type: Option<&'static str>,
    pub(super) url: &'static str,
}

const fn http(says_type: Option<&'static str>, url: &'static str) -> Option<HttpMembers> {
    Some(HttpMembers { says_type, url })
}

const fn server(servers: &'static str, shape: EntryShape, http: Option<HttpMembers>) -> ConfigContent {
    ConfigContent::Server(ServerEntry::Json { servers, shape, http })
}

/// Hooks in a JSON file.
#[derive(Debug)]
pub(super) struct HookFile {
    /// The host's name in `workrail hook`.
    pub(super) host: &'static str,
    pub(super) triggers: &'static [HookTrigger],
    pub(super) shape: HookShape,
}

#[derive(Debug)]
pub(super) struct HookTrigger {
    pub(super) name: &'static str,
    /// The tools it applies to, if the host supports a matcher.
    pub(super) matcher: Option<&'static str>,
}

const fn on(name: &'static str) -> HookTrigger {
    HookTrigger { name, matcher: None }
}

const fn on_tools(name: &'static str, matcher: &'static str) -> HookTrigger {
    HookTrigger { name, matcher: Some(matcher) }
}

const fn command(command: SlashCommand, format: CommandFormat) -> ConfigContent {
    ConfigContent::Own(OwnFile::Command(command, format))
}

const fn agent(agent: Agent, format: AgentFormat) -> ConfigContent {
    ConfigContent::Own(OwnFile::Agent(agent, format))
}

const fn rules(format: RulesFormat) -> ConfigContent {
    ConfigContent::Own(OwnFile::Rules(format))
}

const fn hooks(host: &'static str, triggers: &'static [HookTrigger], shape: HookShape) -> ConfigContent {
    ConfigContent::Hooks(HookFile { host, triggers, shape })
}

/// The format in which a host stores hooks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HookShape {
    /// `EVENT: [{ matcher, hooks: [{ type, command, timeout }] }]`
    Grouped { timeout: Timeout },
    /// `EVENT: [{ type, command, timeout }]`
    Flat { version: HookFileVersion, says_type: bool, command: &'static str, timeout: Timeout },
}

/// Whether the file starts with a version number that the host requires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HookFileVersion {
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

/// A file that belongs to WorkRail as a whole.
#[derive(Clone, Copy, Debug)]
pub(super) enum OwnFile {
    Command(SlashCommand, CommandFormat),
    Agent(Agent, AgentFormat),
    Rules(RulesFormat),
    /// Gemini CLI: a policy that allows the read-only tools.
    GeminiPolicy,
    /// opencode: a plugin that calls `workrail hook`.
    OpencodePlugin,
}

/// A client's file format for slash commands.
#[derive(Clone, Copy, Debug)]
pub(super) enum CommandFormat {
    /// Markdown with a description in front matter; `$ARGUMENTS` is what the user typed.
    Markdown,
    /// Markdown alone; what the user typed follows it.
    Bare,
    /// VS Code: a prompt file, which asks for its input.
    PromptFile,
    /// Gemini CLI: TOML with `{{args}}`.
    Toml,
}

/// A client's file format for subagents.
#[derive(Clone, Copy, Debug)]
pub(super) enum AgentFormat {
    /// Markdown with name and description in front matter.
    Markdown,
    /// opencode: named after its file, and marked as a subagent.
    Subagent,
    /// Codex: TOML.
    Toml,
}

/// What precedes the text of a rules file.
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
