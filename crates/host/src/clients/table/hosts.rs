//! Clients that run hooks, except the two GitHub Copilot clients.

use super::{
    AgentFormat, ClientProfile, CommandFormat, ConfigContent, EntryShape, HookFileVersion, HookShape,
    HookTrigger, MILLISECONDS, OwnFile, RulesFormat, SECONDS, ServerEntry, Switch, agent, command, config,
    home, hooks, http, on, on_tools, project, rules, server, shared, user,
};
use crate::clients::SetupPart::{Agents, Commands, Hooks, Instructions, Permissions, Server};
use crate::clients::texts::{Agent, SlashCommand};

/// Claude Code, and what it calls the tools that edit, run commands and start subagents.
pub(in crate::clients) const CLAUDE_EVENTS: &[HookTrigger] = &[
    on("SessionStart"),
    on_tools("PreToolUse", "Edit|MultiEdit|Write|NotebookEdit|Bash"),
    on_tools(
        "PostToolUse",
        "mcp__(plugin_workrail_)?workrail__.*|Edit|MultiEdit|Write|NotebookEdit|Bash|Task|Agent",
    ),
    on_tools("PostToolUseFailure", "Edit|MultiEdit|Write|NotebookEdit|Bash"),
    on("Stop"),
    on("SubagentStart"),
    on("SubagentStop"),
];

pub(in crate::clients) const GROUPED: HookShape = HookShape::Grouped { timeout: SECONDS };

const CLAUDE_ALLOW: ConfigContent =
    ConfigContent::ToolList { path: &["permissions", "allow"], prefix: "mcp__workrail__" };

pub(super) const CLAUDE_CODE: ClientProfile = ClientProfile {
    title: "Claude Code",
    documentation: "https://code.claude.com/docs/en/settings",
    signs: &[home(&[".claude.json", ".claude"])],
    programs: &["claude"],
    variable: Some("${NAME}"),
    config_entries: &[
        user(
            Server,
            home(&[".claude.json"]),
            server("mcpServers", EntryShape::Plain, http(Some("http"), "url")),
        ),
        user(Hooks, home(&[".claude/settings.json"]), hooks("claude-code", CLAUDE_EVENTS, GROUPED)),
        user(Permissions, home(&[".claude/settings.json"]), CLAUDE_ALLOW),
        user(Instructions, home(&[".claude/CLAUDE.md"]), ConfigContent::Instructions),
        user(
            Commands,
            home(&[".claude/commands/workrail.md"]),
            command(SlashCommand::Start, CommandFormat::Markdown),
        ),
        user(
            Commands,
            home(&[".claude/commands/workrail-resume.md"]),
            command(SlashCommand::Resume, CommandFormat::Markdown),
        ),
        user(
            Agents,
            home(&[".claude/agents/workrail-executor.md"]),
            agent(Agent::Executor, AgentFormat::Markdown),
        ),
        user(
            Agents,
            home(&[".claude/agents/workrail-reviewer.md"]),
            agent(Agent::Reviewer, AgentFormat::Markdown),
        ),
        shared(
            Server,
            project(&[".mcp.json"]),
            server("mcpServers", EntryShape::Plain, http(Some("http"), "url")),
        ),
        shared(Hooks, project(&[".claude/settings.json"]), hooks("claude-code", CLAUDE_EVENTS, GROUPED)),
        shared(Permissions, project(&[".claude/settings.json"]), CLAUDE_ALLOW),
        shared(Instructions, project(&["CLAUDE.md"]), ConfigContent::Instructions),
        shared(
            Commands,
            project(&[".claude/commands/workrail.md"]),
            command(SlashCommand::Start, CommandFormat::Markdown),
        ),
        shared(
            Commands,
            project(&[".claude/commands/workrail-resume.md"]),
            command(SlashCommand::Resume, CommandFormat::Markdown),
        ),
        shared(
            Agents,
            project(&[".claude/agents/workrail-executor.md"]),
            agent(Agent::Executor, AgentFormat::Markdown),
        ),
        shared(
            Agents,
            project(&[".claude/agents/workrail-reviewer.md"]),
            agent(Agent::Reviewer, AgentFormat::Markdown),
        ),
    ],
    by_hand: None,
    hooks_note: None,
    switches: &[
        Switch { at: home(&[".claude/settings.json"]), path: &["disableAllHooks"], off: true },
        Switch { at: project(&[".claude/settings.json"]), path: &["disableAllHooks"], off: true },
        Switch { at: project(&[".claude/settings.local.json"]), path: &["disableAllHooks"], off: true },
    ],
};

pub(in crate::clients) const CURSOR_EVENTS: &[HookTrigger] = &[
    on("sessionStart"),
    on("preToolUse"),
    on("beforeShellExecution"),
    on("afterShellExecution"),
    on("afterMCPExecution"),
    on("afterFileEdit"),
    on("subagentStart"),
    on("stop"),
];

pub(in crate::clients) const CURSOR_HOOKS: HookShape =
    HookShape::Flat { version: HookFileVersion::One, says_type: false, command: "command", timeout: SECONDS };

pub(super) const CURSOR: ClientProfile = ClientProfile {
    title: "Cursor",
    documentation: "https://cursor.com/docs/agent/hooks",
    signs: &[home(&[".cursor"])],
    programs: &["cursor", "cursor-agent"],
    variable: Some("${env:NAME}"),
    // Its allowlist file would replace the list that users keep in the program, so permissions are left to them.
    config_entries: &[
        user(Server, home(&[".cursor/mcp.json"]), server("mcpServers", EntryShape::Plain, http(None, "url"))),
        user(Hooks, home(&[".cursor/hooks.json"]), hooks("cursor", CURSOR_EVENTS, CURSOR_HOOKS)),
        user(
            Commands,
            home(&[".cursor/commands/workrail.md"]),
            command(SlashCommand::Start, CommandFormat::Bare),
        ),
        user(
            Commands,
            home(&[".cursor/commands/workrail-resume.md"]),
            command(SlashCommand::Resume, CommandFormat::Bare),
        ),
        user(
            Agents,
            home(&[".cursor/agents/workrail-executor.md"]),
            agent(Agent::Executor, AgentFormat::Markdown),
        ),
        user(
            Agents,
            home(&[".cursor/agents/workrail-reviewer.md"]),
            agent(Agent::Reviewer, AgentFormat::Markdown),
        ),
        shared(
            Server,
            project(&[".cursor/mcp.json"]),
            server("mcpServers", EntryShape::Plain, http(None, "url")),
        ),
        shared(Hooks, project(&[".cursor/hooks.json"]), hooks("cursor", CURSOR_EVENTS, CURSOR_HOOKS)),
        shared(Instructions, project(&[".cursor/rules/workrail.mdc"]), rules(RulesFormat::Cursor)),
        shared(
            Commands,
            project(&[".cursor/commands/workrail.md"]),
            command(SlashCommand::Start, CommandFormat::Bare),
        ),
        shared(
            Commands,
            project(&[".cursor/commands/workrail-resume.md"]),
            command(SlashCommand::Resume, CommandFormat::Bare),
        ),
        shared(
            Agents,
            project(&[".cursor/agents/workrail-executor.md"]),
            agent(Agent::Executor, AgentFormat::Markdown),
        ),
        shared(
            Agents,
            project(&[".cursor/agents/workrail-reviewer.md"]),
            agent(Agent::Reviewer, AgentFormat::Markdown),
        ),
    ],
    by_hand: None,
    hooks_note: None,
    switches: &[],
};

pub(in crate::clients) const CODEX_EVENTS: &[HookTrigger] = &[
    on("SessionStart"),
    on("PreToolUse"),
    on("PostToolUse"),
    on("Stop"),
    on("SubagentStart"),
    on("SubagentStop"),
];

pub(super) const CODEX: ClientProfile = ClientProfile {
    title: "Codex",
    documentation: "https://developers.openai.com/codex/config-reference",
    signs: &[home(&[".codex"])],
    programs: &["codex"],
    variable: Some("${NAME}"),
    config_entries: &[
        user(Server, home(&[".codex/config.toml"]), ConfigContent::Server(ServerEntry::Toml)),
        user(Permissions, home(&[".codex/config.toml"]), ConfigContent::CodexTools),
        user(Hooks, home(&[".codex/hooks.json"]), hooks("codex", CODEX_EVENTS, GROUPED)),
        user(Instructions, home(&[".codex/AGENTS.md"]), ConfigContent::Instructions),
        user(
            Commands,
            home(&[".codex/prompts/workrail.md"]),
            command(SlashCommand::Start, CommandFormat::Markdown),
        ),
        user(
            Commands,
            home(&[".codex/prompts/workrail-resume.md"]),
            command(SlashCommand::Resume, CommandFormat::Markdown),
        ),
        user(
            Agents,
            home(&[".codex/agents/workrail-executor.toml"]),
            agent(Agent::Executor, AgentFormat::Toml),
        ),
        user(
            Agents,
            home(&[".codex/agents/workrail-reviewer.toml"]),
            agent(Agent::Reviewer, AgentFormat::Toml),
        ),
        shared(Server, project(&[".codex/config.toml"]), ConfigContent::Server(ServerEntry::Toml)),
        shared(Permissions, project(&[".codex/config.toml"]), ConfigContent::CodexTools),
        shared(Hooks, project(&[".codex/hooks.json"]), hooks("codex", CODEX_EVENTS, GROUPED)),
        shared(Instructions, project(&["AGENTS.md"]), ConfigContent::Instructions),
        shared(
            Agents,
            project(&[".codex/agents/workrail-executor.toml"]),
            agent(Agent::Executor, AgentFormat::Toml),
        ),
        shared(
            Agents,
            project(&[".codex/agents/workrail-reviewer.toml"]),
            agent(Agent::Reviewer, AgentFormat::Toml),
        ),
    ],
    by_hand: None,
    hooks_note: Some(
        "Codex runs new and changed hooks only after you have trusted them: type /hooks in Codex.",
    ),
    switches: &[
        Switch { at: home(&[".codex/config.toml"]), path: &["features", "hooks"], off: false },
        Switch { at: project(&[".codex/config.toml"]), path: &["features", "hooks"], off: false },
    ],
};

pub(in crate::clients) const GEMINI_EVENTS: &[HookTrigger] = &[
    on("SessionStart"),
    on("BeforeAgent"),
    on("BeforeTool"),
    on("AfterTool"),
    on("PreCompress"),
    on("AfterAgent"),
];

pub(in crate::clients) const GEMINI_HOOKS: HookShape = HookShape::Grouped { timeout: MILLISECONDS };

pub(super) const GEMINI: ClientProfile = ClientProfile {
    title: "Gemini CLI",
    documentation: "https://geminicli.com/docs/reference/configuration",
    signs: &[home(&[".gemini"])],
    programs: &["gemini"],
    variable: Some("${NAME}"),
    config_entries: &[
        user(
            Server,
            home(&[".gemini/settings.json"]),
            server("mcpServers", EntryShape::Plain, http(None, "httpUrl")),
        ),
        user(Hooks, home(&[".gemini/settings.json"]), hooks("gemini", GEMINI_EVENTS, GEMINI_HOOKS)),
        user(Instructions, home(&[".gemini/GEMINI.md"]), ConfigContent::Instructions),
        user(
            Commands,
            home(&[".gemini/commands/workrail.toml"]),
            command(SlashCommand::Start, CommandFormat::Toml),
        ),
        user(
            Commands,
            home(&[".gemini/commands/workrail-resume.toml"]),
            command(SlashCommand::Resume, CommandFormat::Toml),
        ),
        user(
            Agents,
            home(&[".gemini/agents/workrail-executor.md"]),
            agent(Agent::Executor, AgentFormat::Markdown),
        ),
        user(
            Agents,
            home(&[".gemini/agents/workrail-reviewer.md"]),
            agent(Agent::Reviewer, AgentFormat::Markdown),
        ),
        user(
            Permissions,
            home(&[".gemini/policies/workrail.toml"]),
            ConfigContent::Own(OwnFile::GeminiPolicy),
        ),
        shared(
            Server,
            project(&[".gemini/settings.json"]),
            server("mcpServers", EntryShape::Plain, http(None, "httpUrl")),
        ),
        shared(Hooks, project(&[".gemini/settings.json"]), hooks("gemini", GEMINI_EVENTS, GEMINI_HOOKS)),
        shared(Instructions, project(&["GEMINI.md"]), ConfigContent::Instructions),
        shared(
            Commands,
            project(&[".gemini/commands/workrail.toml"]),
            command(SlashCommand::Start, CommandFormat::Toml),
        ),
        shared(
            Commands,
            project(&[".gemini/commands/workrail-resume.toml"]),
            command(SlashCommand::Resume, CommandFormat::Toml),
        ),
        shared(
            Agents,
            project(&[".gemini/agents/workrail-executor.md"]),
            agent(Agent::Executor, AgentFormat::Markdown),
        ),
        shared(
            Agents,
            project(&[".gemini/agents/workrail-reviewer.md"]),
            agent(Agent::Reviewer, AgentFormat::Markdown),
        ),
    ],
    by_hand: None,
    hooks_note: None,
    switches: &[
        Switch { at: home(&[".gemini/settings.json"]), path: &["hooksConfig", "enabled"], off: false },
        Switch { at: project(&[".gemini/settings.json"]), path: &["hooksConfig", "enabled"], off: false },
    ],
};

const OPENCODE_SERVER: ConfigContent = server("mcp", EntryShape::Words, http(Some("remote"), "url"));

pub(super) const OPENCODE: ClientProfile = ClientProfile {
    title: "opencode",
    documentation: "https://opencode.ai/docs/config",
    signs: &[config(&["opencode"])],
    programs: &["opencode"],
    variable: Some("{env:NAME}"),
    // It asks about no tool unless its settings say so.
    config_entries: &[
        user(Server, config(&["opencode/opencode.json", "opencode/opencode.jsonc"]), OPENCODE_SERVER),
        user(Hooks, config(&["opencode/plugins/workrail.js"]), ConfigContent::Own(OwnFile::OpencodePlugin)),
        user(Instructions, config(&["opencode/AGENTS.md"]), ConfigContent::Instructions),
        user(
            Commands,
            config(&["opencode/commands/workrail.md"]),
            command(SlashCommand::Start, CommandFormat::Markdown),
        ),
        user(
            Commands,
            config(&["opencode/commands/workrail-resume.md"]),
            command(SlashCommand::Resume, CommandFormat::Markdown),
        ),
        user(
            Agents,
            config(&["opencode/agents/workrail-executor.md"]),
            agent(Agent::Executor, AgentFormat::Subagent),
        ),
        user(
            Agents,
            config(&["opencode/agents/workrail-reviewer.md"]),
            agent(Agent::Reviewer, AgentFormat::Subagent),
        ),
        shared(Server, project(&["opencode.json", "opencode.jsonc"]), OPENCODE_SERVER),
        shared(
            Hooks,
            project(&[".opencode/plugins/workrail.js"]),
            ConfigContent::Own(OwnFile::OpencodePlugin),
        ),
        shared(Instructions, project(&["AGENTS.md"]), ConfigContent::Instructions),
        shared(
            Commands,
            project(&[".opencode/commands/workrail.md"]),
            command(SlashCommand::Start, CommandFormat::Markdown),
        ),
        shared(
            Commands,
            project(&[".opencode/commands/workrail-resume.md"]),
            command(SlashCommand::Resume, CommandFormat::Markdown),
        ),
        shared(
            Agents,
            project(&[".opencode/agents/workrail-executor.md"]),
            agent(Agent::Executor, AgentFormat::Subagent),
        ),
        shared(
            Agents,
            project(&[".opencode/agents/workrail-reviewer.md"]),
            agent(Agent::Reviewer, AgentFormat::Subagent),
        ),
    ],
    by_hand: None,
    hooks_note: None,
    switches: &[],
};
