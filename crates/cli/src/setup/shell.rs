//! What shells and `man` need to know about the commands.

use std::process::ExitCode;

use camino::Utf8PathBuf;
use clap::{Command, Subcommand};
use clap_complete::Shell;
use serde_json::json;

use crate::outcome::{self, Failure, Format};
use crate::output;

#[derive(Debug, Subcommand)]
pub(crate) enum ShellCommand {
    /// Print the completion script for a shell.
    #[command(
        after_help = "Example: workrail setup completions bash > ~/.local/share/bash-completion/completions/workrail"
    )]
    Completions {
        /// The shell.
        shell: Shell,
    },
    /// Write the manual pages into a folder.
    #[command(after_help = "Example: workrail setup man ~/.local/share/man/man1")]
    Man {
        /// The folder; created if missing.
        folder: Utf8PathBuf,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
}

pub(crate) fn run(command: ShellCommand, mut program: Command) -> ExitCode {
    match command {
        ShellCommand::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut program, "workrail", &mut script);
            if shell == Shell::Zsh {
                without_registration(&mut script);
            }
            script.extend_from_slice(names_in(shell).as_bytes());
            output::bytes(&script);
            ExitCode::SUCCESS
        }
        ShellCommand::Man { folder, json } => {
            let format = Format::json_if(json);
            outcome::finish(pages(&folder, program, format), format)
        }
    }
}

/// Removes the end of a generated zsh script, which registers completion without names.
fn without_registration(script: &mut Vec<u8>) {
    const REGISTRATION: &[u8] = b"if [ \"$funcstack[1]\" = \"_workrail\" ]; then";
    if let Some(at) = script.windows(REGISTRATION.len()).rposition(|part| part == REGISTRATION) {
        script.truncate(at);
    }
}

/// The addition that completes names of runs, workflows and settings in a shell's script. Other shells get only what
/// the commands themselves define.
fn names_in(shell: Shell) -> &'static str {
    let known = [
        (Shell::Bash, include_str!("names.bash")),
        (Shell::Zsh, include_str!("names.zsh")),
        (Shell::Fish, include_str!("names.fish")),
    ];
    known.into_iter().find(|(other, _)| *other == shell).map_or("", |(_, script)| script)
}

fn pages(folder: &Utf8PathBuf, program: Command, format: Format) -> Result<(), Failure> {
    let failed =
        |error: std::io::Error| Failure::Environment(format!("`{folder}` cannot be written: {error}"));
    std::fs::create_dir_all(folder).map_err(failed)?;
    clap_mangen::generate_to(program, folder).map_err(failed)?;
    match format {
        Format::Text => {
            output::line(&format!(
                "Wrote the manual pages to {folder}. Read the first with `man -l {folder}/workrail.1`."
            ));
        }
        Format::Json => output::json(&json!({ "written": folder })),
    }
    Ok(())
}
