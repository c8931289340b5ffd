//! Clients for which WorkRail installs no hooks.

use super::{
    ClientProfile, CommandFormat, ConfigContent, ConfigEntry, EntryShape, RulesFormat, When, command, config,
    desktop, home, http, project, rules, server, shared, user,
};
use crate::clients::SetupPart::{Commands, Instructions, Permissions, Server};
use crate::clients::SetupScope;
use crate::clients::texts::SlashCommand;

const PLAIN: ConfigContent = server("mcpServers", EntryShape::Plain, http(None, "url"));
const PROGRAM_ONLY: ConfigContent = server("mcpServers", EntryShape::Plain, None);

pub(super) const CLAUDE_DESKTOP: ClientProfile = ClientProfile {
    title: "Claude Desktop",
    documentation: "https://modelcontextprotocol.io/docs/develop/connect-local-servers",
    signs: &[desktop(&["Claude"])],
    programs: &["claude-desktop"],
    variable: None,
    config_entries: &[user(Server, desktop(&["Claude/claude_desktop_config.json"]), PROGRAM_ONLY)],
    by_hand: None,
    hooks_note: None,
    switches: &[],
};

pub(super) const WINDSURF: ClientProfile = ClientProfile {
    title: "Windsurf",
    documentation: "https://docs.windsurf.com/windsurf/cascade/mcp",
    signs: &[home(&[".codeium/windsurf"])],
    programs: &["windsurf"],
    variable: Some("${env:NAME}"),
    config_entries: &[
        user(
            Server,
            home(&[".codeium/windsurf/mcp_config.json"]),
            server("mcpServers", EntryShape::Plain, http(None, "serverUrl")),
        ),
        user(
            Instructions,
            home(&[".codeium/windsurf/memories/global_rules.md"]),
            ConfigContent::Instructions,
        ),
        shared(Instructions, project(&[".windsurf/rules/workrail.md"]), rules(RulesFormat::Windsurf)),
    ],
    by_hand: None,
    hooks_note: None,
    switches: &[],
};

const ZED_SERVER: ConfigContent = server("context_servers", EntryShape::Plain, http(None, "url"));

pub(super) const ZED: ClientProfile = ClientProfile {
    title: "Zed",
    documentation: "https://zed.dev/docs/ai/mcp",
    signs: &[config(&["zed"])],
    programs: &["zed", "zeditor"],
    variable: None,
    config_entries: &[
        user(Server, config(&["zed/settings.json"]), ZED_SERVER),
        shared(Server, project(&[".zed/settings.json"]), ZED_SERVER),
        shared(Instructions, project(&["AGENTS.md"]), ConfigContent::Instructions),
    ],
    by_hand: None,
    hooks_note: None,
    switches: &[],
};

pub(super) const JUNIE: ClientProfile = ClientProfile {
    title: "JetBrains Junie",
    documentation: "https://www.jetbrains.com/help/junie/model-context-protocol-mcp.html",
    signs: &[home(&[".junie"])],
    programs: &["junie"],
    variable: None,
    config_entries: &[
        user(Server, home(&[".junie/mcp/mcp.json"]), PROGRAM_ONLY),
        shared(Server, project(&[".junie/mcp/mcp.json"]), PROGRAM_ONLY),
        shared(Instructions, project(&[".junie/guidelines.md"]), ConfigContent::Instructions),
    ],
    by_hand: None,
    hooks_note: None,
    switches: &[],
};

const CLINE_SERVER: ConfigContent =
    server("mcpServers", EntryShape::Plain, http(Some("streamableHttp"), "url"));
const CLINE_ALLOW: ConfigContent =
    ConfigContent::EntryToolList { servers: "mcpServers", member: "autoApprove" };
const CLINE_IDE: &[&str] =
    &["Code/User/globalStorage/saoudrizwan.claude-dev/settings/cline_mcp_settings.json"];

pub(super) const CLINE: ClientProfile = ClientProfile {
    title: "Cline",
    documentation: "https://docs.cline.bot/mcp/mcp-overview",
    signs: &[home(&[".cline"]), desktop(&["Code/User/globalStorage/saoudrizwan.claude-dev"])],
    programs: &["cline"],
    variable: None,
    config_entries: &[
        user(Server, home(&[".cline/data/settings/cline_mcp_settings.json"]), CLINE_SERVER),
        user(Permissions, home(&[".cline/data/settings/cline_mcp_settings.json"]), CLINE_ALLOW),
        ConfigEntry {
            part: Server,
            scope: SetupScope::User,
            at: desktop(CLINE_IDE),
            when: When::FolderExists,
            content: CLINE_SERVER,
        },
        ConfigEntry {
            part: Permissions,
            scope: SetupScope::User,
            at: desktop(CLINE_IDE),
            when: When::FolderExists,
            content: CLINE_ALLOW,
        },
        shared(Instructions, project(&[".clinerules/workrail.md"]), rules(RulesFormat::Plain)),
    ],
    by_hand: None,
    hooks_note: None,
    switches: &[],
};

const ROO_SERVER: ConfigContent =
    server("mcpServers", EntryShape::Plain, http(Some("streamable-http"), "url"));
const ROO_ALLOW: ConfigContent =
    ConfigContent::EntryToolList { servers: "mcpServers", member: "alwaysAllow" };
const ROO_IDE: &[&str] = &["Code/User/globalStorage/rooveterinaryinc.roo-cline/settings/mcp_settings.json"];

pub(super) const ROO: ClientProfile = ClientProfile {
    title: "Roo Code",
    documentation: "https://docs.roocode.com/features/mcp/using-mcp-in-roo",
    signs: &[home(&[".roo"]), desktop(&["Code/User/globalStorage/rooveterinaryinc.roo-cline"])],
    programs: &[],
    variable: Some("${env:NAME}"),
    config_entries: &[
        ConfigEntry {
            part: Server,
            scope: SetupScope::User,
            at: desktop(ROO_IDE),
            when: When::FolderExists,
            content: ROO_SERVER,
        },
        ConfigEntry {
            part: Permissions,
            scope: SetupScope::User,
            at: desktop(ROO_IDE),
            when: When::FolderExists,
            content: ROO_ALLOW,
        },
        shared(Server, project(&[".roo/mcp.json"]), ROO_SERVER),
        shared(Permissions, project(&[".roo/mcp.json"]), ROO_ALLOW),
        shared(Instructions, project(&[".roo/rules/workrail.md"]), rules(RulesFormat::Plain)),
        shared(
            Commands,
            project(&[".roo/commands/workrail.md"]),
            command(SlashCommand::Start, CommandFormat::Bare),
        ),
        shared(
            Commands,
            project(&[".roo/commands/workrail-resume.md"]),
            command(SlashCommand::Resume, CommandFormat::Bare),
        ),
    ],
    by_hand: None,
    hooks_note: None,
    switches: &[],
};

const AMP_SERVER: ConfigContent = server("amp.mcpServers", EntryShape::Plain, http(None, "url"));

pub(super) const AMP: ClientProfile = ClientProfile {
    title: "Amp",
    documentation: "https://ampcode.com/manual",
    signs: &[config(&["amp"])],
    programs: &["amp"],
    variable: Some("${NAME}"),
    config_entries: &[
        user(Server, config(&["amp/settings.json", "amp/settings.jsonc"]), AMP_SERVER),
        user(Instructions, config(&["amp/AGENTS.md"]), ConfigContent::Instructions),
        shared(Server, project(&[".amp/settings.json", ".amp/settings.jsonc"]), AMP_SERVER),
        shared(Instructions, project(&["AGENTS.md"]), ConfigContent::Instructions),
    ],
    by_hand: None,
    hooks_note: None,
    switches: &[],
};

pub(super) const GOOSE: ClientProfile = ClientProfile {
    title: "Goose",
    documentation: "https://block.github.io/goose/docs/guides/config-files",
    signs: &[config(&["goose"])],
    programs: &["goose"],
    variable: None,
    config_entries: &[],
    // YAML, which WorkRail does not edit: comments and anchors would be lost.
    by_hand: Some(
        "Add this below `extensions:` in ~/.config/goose/config.yaml:\n\n  workrail:\n    type: stdio\n    name: workrail\n    \
         enabled: true\n    cmd: PROGRAM\n    args: [mcp]\n    timeout: 300\n",
    ),
    hooks_note: None,
    switches: &[],
};

const KIRO_ALLOW: ConfigContent =
    ConfigContent::EntryToolList { servers: "mcpServers", member: "autoApprove" };

pub(super) const KIRO: ClientProfile = ClientProfile {
    title: "Kiro",
    documentation: "https://kiro.dev/docs/mcp/configuration",
    signs: &[home(&[".kiro"])],
    programs: &["kiro", "kiro-cli"],
    variable: Some("${NAME}"),
    config_entries: &[
        user(Server, home(&[".kiro/settings/mcp.json"]), PLAIN),
        user(Permissions, home(&[".kiro/settings/mcp.json"]), KIRO_ALLOW),
        user(Instructions, home(&[".kiro/steering/workrail.md"]), rules(RulesFormat::Kiro)),
        shared(Server, project(&[".kiro/settings/mcp.json"]), PLAIN),
        shared(Permissions, project(&[".kiro/settings/mcp.json"]), KIRO_ALLOW),
        shared(Instructions, project(&[".kiro/steering/workrail.md"]), rules(RulesFormat::Kiro)),
    ],
    by_hand: None,
    hooks_note: None,
    switches: &[],
};

pub(super) const CONTINUE: ClientProfile = ClientProfile {
    title: "Continue",
    documentation: "https://docs.continue.dev/customize/deep-dives/mcp",
    signs: &[home(&[".continue"])],
    programs: &["cn"],
    variable: None,
    config_entries: &[
        shared(Server, project(&[".continue/mcpServers/workrail.json"]), PROGRAM_ONLY),
        shared(Instructions, project(&[".continue/rules/workrail.md"]), rules(RulesFormat::Plain)),
    ],
    by_hand: None,
    hooks_note: None,
    switches: &[],
};

pub(super) const WARP: ClientProfile = ClientProfile {
    title: "Warp",
    documentation: "https://docs.warp.dev/agent-platform/capabilities/mcp",
    signs: &[home(&[".warp"])],
    programs: &["warp-terminal", "oz"],
    variable: None,
    config_entries: &[
        user(Server, home(&[".warp/.mcp.json"]), PROGRAM_ONLY),
        shared(Server, project(&[".warp/.mcp.json"]), PROGRAM_ONLY),
        shared(Instructions, project(&["AGENTS.md"]), ConfigContent::Instructions),
    ],
    by_hand: None,
    hooks_note: None,
    switches: &[],
};

pub(super) const ANTIGRAVITY: ClientProfile = ClientProfile {
    title: "Antigravity",
    documentation: "https://antigravity.google/docs/mcp",
    signs: &[home(&[".gemini/antigravity", ".gemini/antigravity-cli"])],
    programs: &["agy", "antigravity"],
    variable: None,
    // Its documentation is inconsistent about the user's file, so only the project's is written.
    config_entries: &[
        shared(Server, project(&[".agents/mcp_config.json"]), PROGRAM_ONLY),
        shared(Instructions, project(&[".agents/rules/workrail.md"]), rules(RulesFormat::Plain)),
    ],
    by_hand: Some(
        "For all projects: open MCP Servers, Manage MCP Servers, View raw config, and add this:\n\n{\n  \"mcpServers\": {\n    \
         \"workrail\": { \"command\": \"PROGRAM\", \"args\": [\"mcp\"] }\n  }\n}\n",
    ),
    hooks_note: None,
    switches: &[],
};
