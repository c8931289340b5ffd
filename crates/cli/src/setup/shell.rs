//! What a shell and `man` want to know about the commands.

use std::process::ExitCode;

use camino::Utf8PathBuf;
use clap::{Command, Subcommand};
use clap_complete::Shell;

use crate::outcome::{self, Failure, Format};
use crate::output;

#[derive(Debug, Subcommand)]
pub(crate) enum ShellCommand {
    /// Print the completion script for a shell.
    #[command(
        after_help = "Example: workrail setup completions bash > ~/.local/share/bash-completion/completions/workrail"
    )]
    Completions { shell: Shell },
    /// Write the manual pages into a folder.
    #[command(after_help = "Example: workrail setup man ~/.local/share/man/man1")]
    Man {
        /// The folder; created if missing.
        folder: Utf8PathBuf,
    },
}

pub(crate) fn run(command: ShellCommand, mut program: Command) -> ExitCode {
    match command {
        ShellCommand::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut program, "workrail", &mut script);
            output::bytes(&script);
            ExitCode::SUCCESS
        }
        ShellCommand::Man { folder } => outcome::finish(pages(&folder, program), Format::Text),
    }
}

fn pages(folder: &Utf8PathBuf, program: Command) -> Result<(), Failure> {
    let failed =
        |error: std::io::Error| Failure::Environment(format!("`{folder}` cannot be written: {error}"));
    std::fs::create_dir_all(folder).map_err(failed)?;
    clap_mangen::generate_to(program, folder).map_err(failed)?;
    output::line(&format!("Written to {folder}; `man -l {folder}/workrail.1` shows the first."));
    Ok(())
}
