//! Files that belong to WorkRail as a whole, in the clients' formats.

use workrail_model::tool::ToolName;

use super::Setup;
use super::table::{AgentFormat, CommandFormat, OwnFile, RulesFormat};
use super::texts::{Agent, FileWriter, INSTRUCTIONS, SlashCommand, WRITTEN_BY_INSTALL};

/// The text of such a file; its hooks start `program`.
pub(super) fn text(file: OwnFile, setup: &Setup, program: &str) -> String {
    match file {
        OwnFile::Command(slash_command, format) => command(slash_command, format, FileWriter::Install),
        OwnFile::Agent(subagent, format) => agent(subagent, format, FileWriter::Install),
        OwnFile::Rules(format) => rules(format, FileWriter::Install),
        OwnFile::GeminiPolicy => gemini_policy(),
        OwnFile::OpencodePlugin => format!("// {WRITTEN_BY_INSTALL}\n{}", (setup.opencode_plugin)(program)),
    }
}

/// The tools that change nothing.
pub(super) fn read_only_tools() -> impl Iterator<Item = &'static str> {
    ToolName::ALL.into_iter().filter(|tool| tool.is_read_only()).map(ToolName::as_str)
}

pub(super) fn command(slash_command: SlashCommand, format: CommandFormat, writer: FileWriter) -> String {
    let (description, hint, mark) = (slash_command.description(), slash_command.hint(), writer.mark());
    match format {
        CommandFormat::Markdown => format!(
            "---\ndescription: {description}\nargument-hint: {hint}\n---\n\n<!-- {mark} -->\n\n{}",
            slash_command.text("$ARGUMENTS")
        ),
        CommandFormat::Bare => {
            format!("<!-- {mark} -->\n\n{}", slash_command.text("what the user typed after this command"))
        }
        CommandFormat::PromptFile => format!(
            "---\ndescription: {description}\nagent: agent\n---\n\n<!-- {mark} -->\n\n{}",
            slash_command.text(&format!("${{input:goal:{hint}}}"))
        ),
        CommandFormat::Toml => format!(
            "# {mark}\ndescription = \"{description}\"\nprompt = \"\"\"\n{}\"\"\"\n",
            slash_command.text("{{args}}")
        ),
    }
}

pub(super) fn agent(agent: Agent, format: AgentFormat, writer: FileWriter) -> String {
    let mark = writer.mark();
    let (name, description, text) = (agent.name(), agent.description(), agent.text());
    match format {
        AgentFormat::Markdown => {
            format!("---\nname: {name}\ndescription: {description}\n---\n\n<!-- {mark} -->\n\n{text}")
        }
        AgentFormat::Subagent => {
            format!("---\ndescription: {description}\nmode: subagent\n---\n\n<!-- {mark} -->\n\n{text}")
        }
        AgentFormat::Toml => format!(
            "# {mark}\nname = \"{name}\"\ndescription = \"{description}\"\ndeveloper_instructions = \"\"\"\n{text}\"\"\"\n"
        ),
    }
}

pub(super) fn rules(format: RulesFormat, writer: FileWriter) -> String {
    let about = "description: WorkRail runs workflows step by step";
    let front = match format {
        RulesFormat::Plain => String::new(),
        RulesFormat::Cursor => format!("---\n{about}\nalwaysApply: true\n---\n\n"),
        RulesFormat::VsCode => format!("---\n{about}\napplyTo: \"**\"\n---\n\n"),
        RulesFormat::Windsurf => "---\ntrigger: always_on\n---\n\n".to_owned(),
        RulesFormat::Kiro => "---\ninclusion: always\n---\n\n".to_owned(),
    };
    format!("{front}<!-- {} -->\n\n{INSTRUCTIONS}", writer.mark())
}

fn gemini_policy() -> String {
    let rules = read_only_tools().map(|tool| {
        format!("\n[[rule]]\nmcpName = \"workrail\"\ntoolName = \"{tool}\"\ndecision = \"allow\"\npriority = 100\n")
    });
    format!("# {WRITTEN_BY_INSTALL}\n{}", rules.collect::<String>())
}
