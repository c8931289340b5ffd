//! Files that belong to WorkRail as a whole, in the clients' formats.

use workrail_model::tool::ToolName;

use super::Setup;
use super::table::{AgentFormat, CommandFormat, OwnFile, RulesFormat};
use super::texts::{Agent, INSTRUCTIONS, MARK, SlashCommand};

/// The text of such a file; its hooks start `program`.
pub(super) fn text(file: OwnFile, setup: &Setup, program: &str) -> String {
    match file {
        OwnFile::Command(own, format) => command(own, format),
        OwnFile::Agent(own, format) => agent(own, format),
        OwnFile::Rules(format) => rules(format),
        OwnFile::GeminiPolicy => gemini_policy(),
        OwnFile::OpencodePlugin => format!("// {MARK}\n{}", (setup.opencode_plugin)(program)),
    }
}

/// The tools that change nothing.
pub(super) fn read_only_tools() -> impl Iterator<Item = &'static str> {
    ToolName::ALL.into_iter().filter(|tool| tool.is_read_only()).map(ToolName::as_str)
}

pub(super) fn command(own: SlashCommand, format: CommandFormat) -> String {
    let (description, hint) = (own.description(), own.hint());
    match format {
        CommandFormat::Markdown => format!(
            "---\ndescription: {description}\nargument-hint: {hint}\n---\n\n<!-- {MARK} -->\n\n{}",
            own.text("$ARGUMENTS")
        ),
        CommandFormat::Bare => format!("<!-- {MARK} -->\n\n{}", own.text("(what follows this command)")),
        CommandFormat::PromptFile => format!(
            "---\ndescription: {description}\nagent: agent\n---\n\n<!-- {MARK} -->\n\n{}",
            own.text(&format!("${{input:goal:{hint}}}"))
        ),
        CommandFormat::Toml => format!(
            "# {MARK}\ndescription = \"{description}\"\nprompt = \"\"\"\n{}\"\"\"\n",
            own.text("{{args}}")
        ),
    }
}

pub(super) fn agent(own: Agent, format: AgentFormat) -> String {
    let (name, description, text) = (own.name(), own.description(), own.text());
    match format {
        AgentFormat::Markdown => {
            format!("---\nname: {name}\ndescription: {description}\n---\n\n<!-- {MARK} -->\n\n{text}")
        }
        AgentFormat::Subagent => {
            format!("---\ndescription: {description}\nmode: subagent\n---\n\n<!-- {MARK} -->\n\n{text}")
        }
        AgentFormat::Toml => format!(
            "# {MARK}\nname = \"{name}\"\ndescription = \"{description}\"\ndeveloper_instructions = \"\"\"\n{text}\"\"\"\n"
        ),
    }
}

pub(super) fn rules(format: RulesFormat) -> String {
    let about = "description: WorkRail runs workflows step by step";
    let front = match format {
        RulesFormat::Plain => String::new(),
        RulesFormat::Cursor => format!("---\n{about}\nalwaysApply: true\n---\n\n"),
        RulesFormat::VsCode => format!("---\n{about}\napplyTo: \"**\"\n---\n\n"),
        RulesFormat::Windsurf => "---\ntrigger: always_on\n---\n\n".to_owned(),
        RulesFormat::Kiro => "---\ninclusion: always\n---\n\n".to_owned(),
    };
    format!("{front}<!-- {MARK} -->\n\n{INSTRUCTIONS}")
}

fn gemini_policy() -> String {
    let rules = read_only_tools().map(|tool| {
        format!("\n[[rule]]\nmcpName = \"workrail\"\ntoolName = \"{tool}\"\ndecision = \"allow\"\npriority = 100\n")
    });
    format!("# {MARK}\n{}", rules.collect::<String>())
}
