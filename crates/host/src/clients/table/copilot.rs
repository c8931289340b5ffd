//! GitHub Copilot in VS Code and in the terminal. Both run hooks and read the same `.github` folder of a repository.

use super::{
    AgentFormat, ClientProfile, CommandFormat, ConfigContent, EntryShape, HookFileVersion, HookShape,
    HookTrigger, RulesFormat, SECONDS, SECONDS_NAMED, Switch, agent, command, desktop, home, hooks, http, on,
    project, rules, server, shared, user,
};
use crate::clients::SetupPart::{Agents, Commands, Hooks, Instructions, Server};
use crate::clients::texts::{Agent, SlashCommand};

const VS_CODE_EVENTS: &[HookTrigger] = &[
    on("SessionStart"),
    on("PreToolUse"),
    on("PostToolUse"),
    on("PreCompact"),
    on("Stop"),
    on("SubagentStart"),
];

const VS_CODE_HOOKS: HookShape =
    HookShape::Flat { version: HookFileVersion::None, says_type: true, command: "command", timeout: SECONDS };

pub(super) const VS_CODE: ClientProfile = ClientProfile {
    title: "VS Code",
    documentation: "https://code.visualstudio.com/docs/agent-customization/overview",
    signs: &[home(&[".vscode"]), desktop(&["Code"])],
    programs: &["code"],
    variable: Some("${env:NAME}"),
    // Tools that declare themselves read-only run without asking. The user's hooks are those of Copilot CLI.
    config_entries: &[
        user(
            Server,
            desktop(&["Code/User/mcp.json"]),
            server("servers", EntryShape::Typed("stdio"), http(Some("http"), "url")),
        ),
        user(
            Instructions,
            desktop(&["Code/User/prompts/workrail.instructions.md"]),
            rules(RulesFormat::VsCode),
        ),
        user(
            Commands,
            desktop(&["Code/User/prompts/workrail.prompt.md"]),
            command(SlashCommand::Start, CommandFormat::PromptFile),
        ),
        user(
            Commands,
            desktop(&["Code/User/prompts/workrail-resume.prompt.md"]),
            command(SlashCommand::Resume, CommandFormat::PromptFile),
        ),
        shared(
            Server,
            project(&[".vscode/mcp.json"]),
            server("servers", EntryShape::Typed("stdio"), http(Some("http"), "url")),
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
            command(SlashCommand::Start, CommandFormat::PromptFile),
        ),
        shared(
            Commands,
            project(&[".github/prompts/workrail-resume.prompt.md"]),
            command(SlashCommand::Resume, CommandFormat::PromptFile),
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

const COPILOT_EVENTS: &[HookTrigger] = &[
    on("sessionStart"),
    on("preToolUse"),
    on("postToolUse"),
    on("postToolUseFailure"),
    on("agentStop"),
    on("subagentStart"),
];

const COPILOT_HOOKS: HookShape = HookShape::Flat {
    version: HookFileVersion::One,
    says_type: true,
    command: "bash",
    timeout: SECONDS_NAMED,
};

pub(super) const COPILOT: ClientProfile = ClientProfile {
    title: "Copilot CLI",
    documentation: "https://docs.github.com/en/copilot/reference/copilot-cli-reference/cli-config-dir-reference",
    signs: &[home(&[".copilot"])],
    programs: &["copilot"],
    variable: Some("${NAME}"),
    // VS Code also reads the repository's hooks, in its own format, so those are set up for VS Code.
    config_entries: &[
        user(
            Server,
            home(&[".copilot/mcp-config.json"]),
            server("mcpServers", EntryShape::WithTools("local"), http(Some("http"), "url")),
        ),
        user(Hooks, home(&[".copilot/hooks/workrail.json"]), hooks("copilot", COPILOT_EVENTS, COPILOT_HOOKS)),
        user(Instructions, home(&[".copilot/copilot-instructions.md"]), ConfigContent::Instructions),
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
        shared(Instructions, project(&[".github/copilot-instructions.md"]), ConfigContent::Instructions),
    ],
    by_hand: None,
    hooks_note: None,
    switches: &[Switch { at: home(&[".copilot/settings.json"]), path: &["disableAllHooks"], off: true }],
};
