//! How it is started: commands, output, and the only wiring of adapters.

mod author;
mod confirm;
mod demo;
mod flags;
mod outcome;
mod output;
mod retention;
mod steer;
mod upkeep;
mod version;
mod wiring;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use workrail_mcp::LoopbackAddress;
use workrail_model::error::ErrorCode;

/// Keeps AI coding agents on the rails: one step at a time, everything durable.
#[derive(Debug, Parser)]
#[command(version = version::LONG, about)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serve agents over MCP on standard input and output, or over HTTP on this machine.
    Mcp {
        /// Serve Streamable HTTP at http://ADDRESS/mcp instead. Loopback only; port 0 takes a free one.
        #[arg(long, value_name = "127.0.0.1:PORT")]
        http: Option<LoopbackAddress>,
    },
    /// Drive a whole run through the real server in a temporary directory and show what happens.
    Demo,
    #[command(flatten)]
    Author(author::AuthorCommand),
    #[command(flatten)]
    Steer(steer::SteerCommand),
    #[command(flatten)]
    Upkeep(upkeep::UpkeepCommand),
    /// Keep sessions, or remove them.
    #[command(subcommand)]
    Sessions(retention::RetentionCommand),
    /// Explain an error code: what it means, why it matters, what to do.
    Explain {
        /// The code, such as TOKEN_BAD_SIGNATURE.
        code: String,
    },
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    wiring::log_to_stderr();
    match arguments.command {
        Command::Mcp { http: None } => wiring::serve_stdio(),
        Command::Mcp { http: Some(address) } => wiring::serve_http(address),
        Command::Demo => demo::run(),
        Command::Author(command) => author::run(command),
        Command::Steer(command) => steer::run(command),
        Command::Upkeep(command) => upkeep::run(command),
        Command::Sessions(command) => retention::run(command),
        Command::Explain { code } => explain(&code),
    }
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
