//! Plugins: the same parts as in clients' files, in the layout of each package format (G112).

use camino::Utf8PathBuf;
use serde_json::{Value, json};
use strum::{IntoStaticStr, VariantArray};

use super::table::{
    AgentFormat, CommandFormat, EntryShape, HookFile, HookShape, HookTrigger, RulesFormat, hosts,
};
use super::texts::{Agent, FileWriter, INSTRUCTIONS, SlashCommand};
use super::{ARGUMENTS, NAME, entry, hooks, own_files};

const DESCRIPTION: &str =
    "Workflows for AI coding agents: one step at a time, each recorded before the next is shown";

const README: &str = "\
# WorkRail

This plugin runs WorkRail workflows in this host: an MCP server that gives an agent one step at a time and records each one, \
hooks that keep the agent on the pending step between calls, slash commands to start and to resume a run, and the subagents \
that delegating steps name.

The program `workrail` must be on the PATH. `workrail doctor` checks the installation.
";

/// A package format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "kebab-case", const_into_str)]
pub enum PluginFormat {
    ClaudeCode,
    /// Agent Plugins 1.0.
    AgentPlugin,
    Codex,
    Gemini,
    Cursor,
    Mcpb,
}

impl PluginFormat {
    pub const ALL: &'static [Self] = Self::VARIANTS;

    pub fn as_str(self) -> &'static str {
        self.into_str()
    }
}

/// A file of a plugin, beneath the plugin's folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PluginFile {
    pub path: Utf8PathBuf,
    pub text: String,
}

/// The path of the program inside an MCPB bundle.
pub const BUNDLED_PROGRAM: &str = "server/workrail";

/// The files of a plugin; an MCPB bundle needs the program next to them, at [`BUNDLED_PROGRAM`].
///
/// # Errors
///
/// None in practice, because there is no existing text to edit. The error names what cannot be made.
pub fn files(format: PluginFormat, version: &str) -> Result<Vec<PluginFile>, String> {
    let author = json!({ "name": "WorkRail" });
    let manifest = json!({
        "name": NAME, "version": version, "description": DESCRIPTION, "author": author, "license": "MIT",
    });
    Ok(match format {
        PluginFormat::ClaudeCode => {
            let mut files = vec![
                data(".claude-plugin/plugin.json", &manifest),
                servers(".mcp.json", EntryShape::Plain)?,
                hook_file("hooks/hooks.json", "claude-code", hosts::CLAUDE_EVENTS, hosts::GROUPED)?,
                skill(),
                file("README.md", README.to_owned()),
            ];
            files.extend(commands(CommandFormat::Markdown, "md"));
            files.extend(agents());
            files
        }
        PluginFormat::AgentPlugin => {
            let schema =
                |name: &str| json!(format!("https://agent-plugins.org/schemas/1.0.0/{name}.schema.json"));
            let mut manifest = manifest;
            manifest["$schema"] = schema("plugin");
            let server = json!({ "type": "stdio", "command": NAME, "args": ARGUMENTS });
            let servers = json!({ "$schema": schema("mcp"), "mcpServers": { NAME: server } });
            vec![data("plugin.json", &manifest), data("mcp.json", &servers), skill()]
        }
        PluginFormat::Codex => {
            let mut manifest = manifest;
            manifest["mcpServers"] = json!("./.mcp.json");
            manifest["skills"] = json!("./skills/");
            manifest["hooks"] = json!("./hooks/hooks.json");
            vec![
                data(".codex-plugin/plugin.json", &manifest),
                servers(".mcp.json", EntryShape::Plain)?,
                hook_file("hooks/hooks.json", "codex", hosts::CODEX_EVENTS, hosts::GROUPED)?,
                skill(),
            ]
        }
        PluginFormat::Gemini => {
            let mut manifest = manifest;
            manifest["mcpServers"] = json!({ NAME: { "command": NAME, "args": ARGUMENTS } });
            manifest["contextFileName"] = json!("GEMINI.md");
            let mut files = vec![
                data("gemini-extension.json", &manifest),
                file("GEMINI.md", INSTRUCTIONS.to_owned()),
                hook_file("hooks/hooks.json", "gemini", hosts::GEMINI_EVENTS, hosts::GEMINI_HOOKS)?,
            ];
            files.extend(commands(CommandFormat::Toml, "toml"));
            files.extend(agents());
            files
        }
        PluginFormat::Cursor => {
            let mut files = vec![
                data(".cursor-plugin/plugin.json", &manifest),
                servers("mcp.json", EntryShape::Plain)?,
                hook_file("hooks/hooks.json", "cursor", hosts::CURSOR_EVENTS, hosts::CURSOR_HOOKS)?,
                file("rules/workrail.mdc", own_files::rules(RulesFormat::Cursor, FileWriter::PluginRender)),
                skill(),
            ];
            files.extend(commands(CommandFormat::Bare, "md"));
            files.extend(agents());
            files
        }
        PluginFormat::Mcpb => vec![data("manifest.json", &bundle(manifest))],
    })
}

fn bundle(mut manifest: Value) -> Value {
    manifest["manifest_version"] = json!("0.3");
    manifest["display_name"] = json!("WorkRail");
    let platform = if cfg!(target_os = "macos") { "darwin" } else { "linux" };
    let command = format!("${{__dirname}}/{BUNDLED_PROGRAM}");
    let start = json!({ "command": command, "args": ARGUMENTS });
    let mut config = start.clone();
    config["platform_overrides"] = json!({ platform: start });
    manifest["server"] = json!({ "type": "binary", "entry_point": BUNDLED_PROGRAM, "mcp_config": config });
    manifest["compatibility"] = json!({ "platforms": [platform] });
    manifest["tools_generated"] = json!(true);
    manifest["prompts_generated"] = json!(true);
    manifest
}

fn file(path: &str, text: String) -> PluginFile {
    PluginFile { path: Utf8PathBuf::from(path), text }
}

fn data(path: &str, value: &Value) -> PluginFile {
    file(path, format!("{value:#}\n"))
}

fn servers(path: &str, shape: EntryShape) -> Result<PluginFile, String> {
    Ok(file(path, entry::install("", "mcpServers", shape, NAME)?))
}

fn hook_file(
    path: &str,
    host: &'static str,
    triggers: &'static [HookTrigger],
    shape: HookShape,
) -> Result<PluginFile, String> {
    Ok(file(path, hooks::install("", &HookFile { host, triggers, shape }, NAME)?))
}

/// Hosts prefix a plugin's commands with the plugin's name.
fn commands(format: CommandFormat, ending: &str) -> Vec<PluginFile> {
    let made = SlashCommand::ALL.into_iter().map(|command| {
        let name = command.name().strip_prefix("workrail-").unwrap_or("start");
        file(
            &format!("commands/{name}.{ending}"),
            own_files::command(command, format, FileWriter::PluginRender),
        )
    });
    made.collect()
}

fn agents() -> Vec<PluginFile> {
    let made = Agent::ALL.into_iter();
    made.map(|agent| {
        file(
            &format!("agents/{}.md", agent.name()),
            own_files::agent(agent, AgentFormat::Markdown, FileWriter::PluginRender),
        )
    })
    .collect()
}

fn skill() -> PluginFile {
    let about = "Runs WorkRail workflows step by step. Use it when the user asks for WorkRail, names a workflow, or continues \
                 work that a workflow began.";
    file(
        "skills/workrail/SKILL.md",
        format!("---\nname: workrail\ndescription: {about}\n---\n\n{INSTRUCTIONS}"),
    )
}
