//! Clients that run hooks.

use super::{
    AgentFormat, CommandFormat, Content, HookEvent, HookFile, HookShape, MILLISECONDS, OwnFile, Row,
    RulesFormat, SECONDS, SECONDS_NAMED, ServerEntry, Shape, Switch, Version, config, desktop, home, http,
    on, on_tools, project, server, shared, user,
};
use crate::clients::Part::{Agents, Commands, Hooks, Instructions, Permissions, Server};
use crate::clients::texts::{Agent, Command};

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

/// Claude Code, and what it calls the tools that edit, run commands and start subagents.
pub(in crate::clients) const CLAUDE_EVENTS: &[HookEvent] = &[
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

const CLAUDE_ALLOW: Content =
    Content::ToolList { path: &["permissions", "allow"], prefix: "mcp__workrail__" };

pub(super) const CLAUDE_CODE: Row = Row {
    title: "Claude Code",
    documentation: "https://code.claude.com/docs/en/settings",
    signs: &[home(&[".claude.json", ".claude"])],
    programs: &["claude"],
    variable: Some("${NAME}"),
    places: &[
        user(Server, home(&[".claude.json"]), server("mcpServers", Shape::Plain, http(Some("http"), "url"))),
        user(Hooks, home(&[".claude/settings.json"]), hooks("claude-code", CLAUDE_EVENTS, GROUPED)),
        user(Permissions, home(&[".claude/settings.json"]), CLAUDE_ALLOW),
        user(Instructions, home(&[".claude/CLAUDE.md"]), Content::Instructions),
        user(
            Commands,
            home(&[".claude/commands/workrail.md"]),
            command(Command::Start, CommandFormat::Markdown),
        ),
        user(
            Commands,
            home(&[".claude/commands/workrail-resume.md"]),
            command(Command::Resume, CommandFormat::Markdown),
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
            server("mcpServers", Shape::Plain, http(Some("http"), "url")),
        ),
        shared(Hooks, project(&[".claude/settings.json"]), hooks("claude-code", CLAUDE_EVENTS, GROUPED)),
        shared(Permissions, project(&[".claude/settings.json"]), CLAUDE_ALLOW),
        shared(Instructions, project(&["CLAUDE.md"]), Content::Instructions),
        shared(
            Commands,
            project(&[".claude/commands/workrail.md"]),
            command(Command::Start, CommandFormat::Markdown),
        ),
        shared(
            Commands,
            project(&[".claude/commands/workrail-resume.md"]),
            command(Command::Resume, CommandFormat::Markdown),
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

pub(in crate::clients) const CURSOR_EVENTS: &[HookEvent] = &[
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
    HookShape::Flat { version: Version::One, says_type: false, command: "command", timeout: SECONDS };

pub(super) const CURSOR: Row = Row {
    title: "Cursor",
    documentation: "https://cursor.com/docs/agent/hooks",
    signs: &[home(&[".cursor"])],
    programs: &["cursor", "cursor-agent"],
    variable: Some("${env:NAME}"),
    // Its allowlist file would replace the list that people keep in the program, so permissions are left to them.
    places: &[
        user(Server, home(&[".cursor/mcp.json"]), server("mcpServers", Shape::Plain, http(None, "url"))),
        user(Hooks, home(&[".cursor/hooks.json"]), hooks("cursor", CURSOR_EVENTS, CURSOR_HOOKS)),
        user(Commands, home(&[".cursor/commands/workrail.md"]), command(Command::Start, CommandFormat::Bare)),
        user(
            Commands,
            home(&[".cursor/commands/workrail-resume.md"]),
            command(Command::Resume, CommandFormat::Bare),
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
        shared(Server, project(&[".cursor/mcp.json"]), server("mcpServers", Shape::Plain, http(None, "url"))),
        shared(Hooks, project(&[".cursor/hooks.json"]), hooks("cursor", CURSOR_EVENTS, CURSOR_HOOKS)),
        shared(Instructions, project(&[".cursor/rules/workrail.mdc"]), rules(RulesFormat::Cursor)),
        shared(
            Commands,
            project(&[".cursor/commands/workrail.md"]),
            command(Command::Start, CommandFormat::Bare),
        ),
        shared(
            Commands,
            project(&[".cursor/commands/workrail-resume.md"]),
            command(Command::Resume, CommandFormat::Bare),
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

pub(in crate::clients) const VS_CODE_EVENTS: &[HookEvent] = &[
    on("SessionStart"),
    on("PreToolUse"),
    on("PostToolUse"),
    on("PreCompact"),
    on("Stop"),
    on("SubagentStart"),
];

const VS_CODE_HOOKS: HookShape =
    HookShape::Flat { version: Version::None, says_type: true, command: "command", timeout: SECONDS };

pub(super) const VS_CODE: Row = Row {
    title: "VS Code",
    documentation: "https://code.visualstudio.com/docs/agent-customization/overview",
    signs: &[home(&[".vscode"]), desktop(&["Code"])],
    programs: &["code"],
    variable: Some("${env:NAME}"),
    // Tools that say that they only read are not asked about. Hooks of the user are those of Copilot CLI.
    places: &[
        user(
            Server,
            desktop(&["Code/User/mcp.json"]),
            server("servers", Shape::Typed("stdio"), http(Some("http"), "url")),
        ),
        user(
            Instructions,
            desktop(&["Code/User/prompts/workrail.instructions.md"]),
            rules(RulesFormat::VsCode),
        ),
        user(
            Commands,
            desktop(&["Code/User/prompts/workrail.prompt.md"]),
            command(Command::Start, CommandFormat::PromptFile),
        ),
        user(
            Commands,
            desktop(&["Code/User/prompts/workrail-resume.prompt.md"]),
            command(Command::Resume, CommandFormat::PromptFile),
        ),
        shared(
            Server,
            project(&[".vscode/mcp.json"]),
            server("servers", Shape::Typed("stdio"), http(Some("http"), "url")),
        ),
        shared(
            Hooks,
            project(&[".github/hooks/workrail.json"]),
            hooks("vscode", VS_CODE_EVENTS, VS_CODE_HOOKS),
        ),
        shared(
            Instructions,
            project(&[".github/instructions/workrail.instructions.md"]),
            rules(RulesFormat::VsCode),
        ),
        shared(
            Commands,
            project(&[".github/prompts/workrail.prompt.md"]),
            command(Command::Start, CommandFormat::PromptFile),
        ),
        shared(
            Commands,
            project(&[".github/prompts/workrail-resume.prompt.md"]),
            command(Command::Resume, CommandFormat::PromptFile),
        ),
        shared(
            Agents,
            project(&[".github/agents/workrail-executor.agent.md"]),
            agent(Agent::Executor, AgentFormat::Markdown),
        ),
        shared(
            Agents,
            project(&[".github/agents/workrail-reviewer.agent.md"]),
            agent(Agent::Reviewer, AgentFormat::Markdown),
        ),
    ],
    by_hand: None,
    hooks_note: None,
    switches: &[],
};

pub(in crate::clients) const CODEX_EVENTS: &[HookEvent] = &[
    on("SessionStart"),
    on("PreToolUse"),
    on("PostToolUse"),
    on("Stop"),
    on("SubagentStart"),
    on("SubagentStop"),
];

pub(super) const CODEX: Row = Row {
    title: "Codex",
    documentation: "https://developers.openai.com/codex/config-reference",
    signs: &[home(&[".codex"])],
    programs: &["codex"],
    variable: Some("${NAME}"),
    places: &[
        user(Server, home(&[".codex/config.toml"]), Content::Server(ServerEntry::Toml)),
        user(Permissions, home(&[".codex/config.toml"]), Content::CodexTools),
        user(Hooks, home(&[".codex/hooks.json"]), hooks("codex", CODEX_EVENTS, GROUPED)),
        user(Instructions, home(&[".codex/AGENTS.md"]), Content::Instructions),
        user(
            Commands,
            home(&[".codex/prompts/workrail.md"]),
            command(Command::Start, CommandFormat::Markdown),
        ),
        user(
            Commands,
            home(&[".codex/prompts/workrail-resume.md"]),
            command(Command::Resume, CommandFormat::Markdown),
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
        shared(Server, project(&[".codex/config.toml"]), Content::Server(ServerEntry::Toml)),
        shared(Permissions, project(&[".codex/config.toml"]), Content::CodexTools),
        shared(Hooks, project(&[".codex/hooks.json"]), hooks("codex", CODEX_EVENTS, GROUPED)),
        shared(Instructions, project(&["AGENTS.md"]), Content::Instructions),
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

pub(in crate::clients) const GEMINI_EVENTS: &[HookEvent] = &[
    on("SessionStart"),
    on("BeforeAgent"),
    on("BeforeTool"),
    on("AfterTool"),
    on("PreCompress"),
    on("AfterAgent"),
];

pub(in crate::clients) const GEMINI_HOOKS: HookShape = HookShape::Grouped { timeout: MILLISECONDS };

pub(super) const GEMINI: Row = Row {
    title: "Gemini CLI",
    documentation: "https://geminicli.com/docs/reference/configuration",
    signs: &[home(&[".gemini"])],
    programs: &["gemini"],
    variable: Some("${NAME}"),
    places: &[
        user(
            Server,
            home(&[".gemini/settings.json"]),
            server("mcpServers", Shape::Plain, http(None, "httpUrl")),
        ),
        user(Hooks, home(&[".gemini/settings.json"]), hooks("gemini", GEMINI_EVENTS, GEMINI_HOOKS)),
        user(Instructions, home(&[".gemini/GEMINI.md"]), Content::Instructions),
        user(
            Commands,
            home(&[".gemini/commands/workrail.toml"]),
            command(Command::Start, CommandFormat::Toml),
        ),
        user(
            Commands,
            home(&[".gemini/commands/workrail-resume.toml"]),
            command(Command::Resume, CommandFormat::Toml),
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
        user(Permissions, home(&[".gemini/policies/workrail.toml"]), Content::Own(OwnFile::GeminiPolicy)),
        shared(
            Server,
            project(&[".gemini/settings.json"]),
            server("mcpServers", Shape::Plain, http(None, "httpUrl")),
        ),
        shared(Hooks, project(&[".gemini/settings.json"]), hooks("gemini", GEMINI_EVENTS, GEMINI_HOOKS)),
        shared(Instructions, project(&["GEMINI.md"]), Content::Instructions),
        shared(
            Commands,
            project(&[".gemini/commands/workrail.toml"]),
            command(Command::Start, CommandFormat::Toml),
        ),
        shared(
            Commands,
            project(&[".gemini/commands/workrail-resume.toml"]),
            command(Command::Resume, CommandFormat::Toml),
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

const COPILOT_EVENTS: &[HookEvent] = &[
    on("sessionStart"),
    on("preToolUse"),
    on("postToolUse"),
    on("postToolUseFailure"),
    on("agentStop"),
    on("subagentStart"),
];

const COPILOT_HOOKS: HookShape =
    HookShape::Flat { version: Version::One, says_type: true, command: "bash", timeout: SECONDS_NAMED };

pub(super) const COPILOT: Row = Row {
    title: "Copilot CLI",
    documentation: "https://docs.github.com/en/copilot/reference/copilot-cli-reference/cli-config-dir-reference",
    signs: &[home(&[".copilot"])],
    programs: &["copilot"],
    variable: Some("${NAME}"),
    // VS Code reads the repository's hooks as well, in its own shape, so those are set up for VS Code.
    places: &[
        user(
            Server,
            home(&[".copilot/mcp-config.json"]),
            server("mcpServers", Shape::WithTools("local"), http(Some("http"), "url")),
        ),
        user(Hooks, home(&[".copilot/hooks/workrail.json"]), hooks("copilot", COPILOT_EVENTS, COPILOT_HOOKS)),
        user(Instructions, home(&[".copilot/copilot-instructions.md"]), Content::Instructions),
        user(
            Agents,
            home(&[".copilot/agents/workrail-executor.agent.md"]),
            agent(Agent::Executor, AgentFormat::Markdown),
        ),
        user(
            Agents,
            home(&[".copilot/agents/workrail-reviewer.agent.md"]),
            agent(Agent::Reviewer, AgentFormat::Markdown),
        ),
        shared(Instructions, project(&[".github/copilot-instructions.md"]), Content::Instructions),
    ],
    by_hand: None,
    hooks_note: None,
    switches: &[Switch { at: home(&[".copilot/settings.json"]), path: &["disableAllHooks"], off: true }],
};

const OPENCODE_SERVER: Content = server("mcp", Shape::Words, http(Some("remote"), "url"));

pub(super) const OPENCODE: Row = Row {
    title: "opencode",
    documentation: "https://opencode.ai/docs/config",
    signs: &[config(&["opencode"])],
    programs: &["opencode"],
    variable: Some("{env:NAME}"),
    // It asks about no tool unless its settings say so.
    places: &[
        user(Server, config(&["opencode/opencode.json", "opencode/opencode.jsonc"]), OPENCODE_SERVER),
        user(Hooks, config(&["opencode/plugins/workrail.js"]), Content::Own(OwnFile::OpencodePlugin)),
        user(Instructions, config(&["opencode/AGENTS.md"]), Content::Instructions),
        user(
            Commands,
            config(&["opencode/commands/workrail.md"]),
            command(Command::Start, CommandFormat::Markdown),
        ),
        user(
            Commands,
            config(&["opencode/commands/workrail-resume.md"]),
            command(Command::Resume, CommandFormat::Markdown),
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
        shared(Hooks, project(&[".opencode/plugins/workrail.js"]), Content::Own(OwnFile::OpencodePlugin)),
        shared(Instructions, project(&["AGENTS.md"]), Content::Instructions),
        shared(
            Commands,
            project(&[".opencode/commands/workrail.md"]),
            command(Command::Start, CommandFormat::Markdown),
        ),
        shared(
            Commands,
            project(&[".opencode/commands/workrail-resume.md"]),
            command(Command::Resume, CommandFormat::Markdown),
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
