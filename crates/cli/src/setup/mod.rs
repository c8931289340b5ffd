//! `workrail setup`: make clients and the shell know WorkRail.

pub(crate) mod clients;
pub(crate) mod complete;
mod shell;

use std::process::ExitCode;

use clap::Subcommand;

#[derive(Debug, Subcommand)]
pub(crate) enum SetupCommand {
    #[command(flatten)]
    Clients(clients::ClientCommand),
    #[command(flatten)]
    Shell(shell::ShellCommand),
}

pub(crate) fn run(command: SetupCommand, program: clap::Command) -> ExitCode {
    match command {
        SetupCommand::Clients(command) => clients::run(&command),
        SetupCommand::Shell(command) => shell::run(command, program),
    }
}
