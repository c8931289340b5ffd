//! `workrail setup`: shell completion and the manual. `install` and `uninstall` are accepted here as well.

pub(crate) mod complete;
mod shell;

use std::process::ExitCode;

use clap::Subcommand;

use crate::install::{self, InstallArguments, UninstallArguments};

#[derive(Debug, Subcommand)]
pub(crate) enum SetupCommand {
    /// Another spelling of `workrail install`
    #[command(hide = true)]
    Install(InstallArguments),
    /// Another spelling of `workrail uninstall`
    #[command(hide = true)]
    Uninstall(UninstallArguments),
    #[command(flatten)]
    Shell(shell::ShellCommand),
}

pub(crate) fn run(command: SetupCommand, program: clap::Command) -> ExitCode {
    match command {
        SetupCommand::Install(arguments) => install::install(&arguments),
        SetupCommand::Uninstall(arguments) => install::uninstall(&arguments),
        SetupCommand::Shell(command) => shell::run(command, program),
    }
}
