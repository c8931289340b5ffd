//! How it is started: commands, output, and the only wiring of adapters.

mod config;
mod confirm;
mod console;
mod demo;
mod doctor;
mod flags;
mod outcome;
mod output;
mod presence;
mod runs;
mod serve;
mod sessions;
mod settings;
mod setup;
mod tree;
mod upkeep;
mod version;
mod wiring;
mod workflows;

use std::process::ExitCode;

use camino::Utf8PathBuf;
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use workrail_model::error::ErrorCode;
use workrail_model::loopback::LoopbackAddress;

use crate::outcome::{Failure, Format};

/// Keeps AI coding agents on the rails: one step at a time, everything durable.
#[derive(Debug, Parser)]
#[command(version = version::LONG, about)]
struct Arguments {
    /// Use this settings file instead of the default one.
    #[arg(long, global = true, value_name = "FILE")]
    config: Option<Utf8PathBuf>,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    #[command(flatten)]
    Run(runs::RunCommand),
    /// Find, write and check workflows
    #[command(subcommand, visible_alias = "workflows")]
    Workflow(workflows::WorkflowCommand),
    /// List, keep, delete and move sessions
    #[command(subcommand, visible_alias = "sessions")]
    Session(sessions::SessionCommand),
    /// Check, back up, repair and clean the data directory; manage its keys
    #[command(subcommand)]
    Store(upkeep::UpkeepCommand),
    /// Set WorkRail up in clients and in the shell
    #[command(subcommand)]
    Setup(setup::SetupCommand),
    /// Check the whole installation and print what to fix
    Doctor(doctor::DoctorArguments),
    /// Show or change settings
    #[command(subcommand)]
    Config(config::ConfigCommand),
    /// Explain an error code: what it means, why it matters, what to do
    #[command(after_help = "Example: workrail explain TOKEN_BAD_SIGNATURE")]
    Explain {
        /// The code, such as TOKEN_BAD_SIGNATURE.
        code: String,
    },
    /// Run a whole workflow through the real server in a temporary directory
    #[command(after_help = "Example: workrail demo")]
    Demo,
    /// Open the console: see every run in a browser, approve, reject and answer
    #[command(
        after_help = "The console listens on loopback only. The printed address holds a code that lets one browser in.\n\n\
                            Examples:\n  workrail console\n  workrail console --port 4717 --no-open"
    )]
    Console {
        /// The port on localhost. Default: 4717, or a free one if that is taken.
        #[arg(long, value_name = "N")]
        port: Option<u16>,
        /// Print the address only; do not open a browser.
        #[arg(long)]
        no_open: bool,
    },
    /// Serve agents over MCP on standard input and output, or over HTTP on loopback
    #[command(
        after_help = "Clients start the server themselves once `workrail setup install` has configured them. Over \
                            HTTP, requests must carry the secret that `workrail store keys http-secret` prints.\n\n\
                            Examples:\n  workrail mcp\n  workrail mcp --http 127.0.0.1:8765"
    )]
    Mcp {
        /// Serve Streamable HTTP at http://ADDRESS/mcp instead. Loopback only; port 0 picks a free port.
        #[arg(long, value_name = "127.0.0.1:PORT")]
        http: Option<LoopbackAddress>,
        /// Serve HTTP without a secret. Every user and program on this machine can then read goals and notes and
        /// complete steps.
        #[arg(long, requires = "http")]
        no_auth: bool,
    },
}

fn main() -> ExitCode {
    let parsed = tree::program::<Arguments>().try_get_matches();
    let arguments = match parsed.and_then(|matches| Arguments::from_arg_matches(&matches)) {
        Ok(arguments) => arguments,
        Err(error) => return not_parsed(error),
    };
    settings::named(arguments.config);
    wiring::log_to_stderr();
    let ended = run(arguments.command);
    output::flush();
    ended
}

fn run(command: Command) -> ExitCode {
    match command {
        Command::Run(command) => runs::run(command),
        Command::Workflow(command) => workflows::run(command),
        Command::Session(command) => sessions::run(command),
        Command::Store(command) => upkeep::run(command),
        Command::Setup(command) => setup::run(command, tree::program::<Arguments>()),
        Command::Doctor(arguments) => doctor::run(&arguments),
        Command::Config(command) => config::run(command),
        Command::Explain { code } => explain(&code),
        Command::Demo => demo::run(),
        Command::Console { port, no_open } => console::run(port, console::Browser::unless(no_open)),
        Command::Mcp { http: None, .. } => serve::stdio(),
        Command::Mcp { http: Some(address), no_auth } => serve::http(address, no_auth),
    }
}

/// Prints help and version as they are, and a usage error in the format that was asked for.
fn not_parsed(error: clap::Error) -> ExitCode {
    let error = tree::with_full_path(error, &Arguments::command());
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
            output::error(&format!("Unknown error code `{wanted}`. The codes are:"));
            for known in ErrorCode::ALL {
                output::error(&format!("  {}", known.as_str()));
            }
            ExitCode::from(2)
        }
    }
}
