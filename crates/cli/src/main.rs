//! How it is started: commands, output, and the only wiring of adapters.

mod author;
mod bundle;
mod catalog;
mod config;
mod confirm;
mod demo;
mod doctor;
mod flags;
mod outcome;
mod output;
mod prefs;
mod presence;
mod report;
mod retention;
mod serve;
mod sessions;
mod settings;
mod setup;
mod shell;
mod sources;
mod steer;
mod upkeep;
mod version;
mod wiring;

use std::process::ExitCode;

use camino::Utf8PathBuf;
use clap::{CommandFactory, Parser, Subcommand};
use workrail_mcp::LoopbackAddress;
use workrail_model::error::ErrorCode;

use crate::outcome::{Failure, Format};

/// Keeps AI coding agents on the rails: one step at a time, everything durable.
#[derive(Debug, Parser)]
#[command(version = version::LONG, about)]
struct Arguments {
    /// The settings file to use instead of the usual one.
    #[arg(long, global = true, value_name = "FILE")]
    config: Option<Utf8PathBuf>,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serve agents over MCP on standard input and output, or over HTTP on this machine.
    #[command(
        after_help = "Clients start it by themselves once `workrail install` has set them up. Over HTTP, requests must \
                            carry the secret that `workrail keys http-secret` prints.\n\nExamples:\n  \
                            workrail mcp\n  workrail mcp --http 127.0.0.1:8765"
    )]
    Mcp {
        /// Serve Streamable HTTP at http://ADDRESS/mcp instead. Loopback only; port 0 takes a free one.
        #[arg(long, value_name = "127.0.0.1:PORT")]
        http: Option<LoopbackAddress>,
        /// Serve HTTP without a secret: every user and program of this machine can then read goals and notes and
        /// complete steps.
        #[arg(long, requires = "http")]
        no_auth: bool,
    },
    /// Drive a whole run through the real server in a temporary directory and show what happens.
    #[command(after_help = "Example: workrail demo")]
    Demo,
    #[command(flatten)]
    Author(author::AuthorCommand),
    #[command(flatten)]
    Steer(steer::SteerCommand),
    /// How far runs may go on their own, for new runs or for a session.
    #[command(subcommand)]
    Prefs(prefs::PrefsCommand),
    /// The settings: one file, a closed set of keys.
    #[command(subcommand)]
    Config(config::ConfigCommand),
    /// Where workflows come from: folders, plugins, git repositories.
    Sources(sources::SourcesArguments),
    #[command(flatten)]
    Catalog(catalog::CatalogCommand),
    #[command(flatten)]
    Setup(setup::SetupCommand),
    /// Look at everything around your sessions, and say what to fix and how.
    Doctor(doctor::DoctorArguments),
    #[command(flatten)]
    Shell(shell::ShellCommand),
    #[command(flatten)]
    Bundle(bundle::BundleCommand),
    Sessions(sessions::Sessions),
    Report(report::ReportCommand),
    #[command(flatten)]
    Upkeep(upkeep::UpkeepCommand),
    /// Explain an error code: what it means, why it matters, what to do.
    #[command(after_help = "Example: workrail explain TOKEN_BAD_SIGNATURE")]
    Explain {
        /// The code, such as TOKEN_BAD_SIGNATURE.
        code: String,
    },
}

fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => return not_parsed(&error),
    };
    settings::named(arguments.config);
    wiring::log_to_stderr();
    let ended = run(arguments.command);
    output::flush();
    ended
}

fn run(command: Command) -> ExitCode {
    match command {
        Command::Mcp { http: None, .. } => serve::stdio(),
        Command::Mcp { http: Some(address), no_auth } => serve::http(address, no_auth),
        Command::Demo => demo::run(),
        Command::Author(command) => author::run(command),
        Command::Steer(command) => steer::run(command),
        Command::Prefs(command) => prefs::run(command),
        Command::Config(command) => config::run(command),
        Command::Sources(arguments) => sources::run(arguments),
        Command::Catalog(command) => catalog::run(command),
        Command::Setup(command) => setup::run(&command),
        Command::Doctor(arguments) => doctor::run(&arguments),
        Command::Shell(command) => shell::run(command, Arguments::command()),
        Command::Bundle(command) => bundle::run(command),
        Command::Sessions(command) => sessions::run(command),
        Command::Report(command) => report::run(&command),
        Command::Upkeep(command) => upkeep::run(command),
        Command::Explain { code } => explain(&code),
    }
}

/// Help and version go out as they are; a mistake is told to whoever asked for JSON as JSON.
fn not_parsed(error: &clap::Error) -> ExitCode {
    let mut options = std::env::args_os().skip(1).take_while(|argument| argument != "--");
    if !error.use_stderr() {
        output::rendered(error.render().ansi().to_string().trim_end());
        return ExitCode::SUCCESS;
    }
    if !options.any(|argument| argument == "--json") {
        error.exit();
    }
    let message = error.render().to_string().trim_end().to_owned();
    outcome::finish(Err(Failure::Call(message)), Format::Json)
}

fn explain(code: &str) -> ExitCode {
    let wanted = code.trim().to_ascii_uppercase();
    match ErrorCode::ALL.iter().find(|known| known.as_str() == wanted) {
        Some(code) => {
            output::line(code.page().trim_end());
            ExitCode::SUCCESS
        }
        None => {
            output::error(&format!("There is no error code `{wanted}`. The codes are:"));
            for known in ErrorCode::ALL {
                output::error(&format!("  {}", known.as_str()));
            }
            ExitCode::from(2)
        }
    }
}
