//! `workrail session`: list sessions, keep or delete them, move them to another machine, and set how far they may go.

mod bundle;
mod list;
pub(crate) mod prefs;
mod retention;

use std::process::ExitCode;

use clap::Subcommand;

use crate::outcome::{self, EXIT_CODES, Format};

#[derive(Debug, Subcommand)]
pub(crate) enum SessionCommand {
    /// List sessions: waiting for you first, then blocked, in progress and finished.
    #[command(after_help = format!("{EXIT_CODES}\n\nExample: workrail session list --all"))]
    List {
        /// List all finished runs, not only the newest 20.
        #[arg(long)]
        all: bool,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    #[command(flatten)]
    Retention(retention::RetentionCommand),
    #[command(flatten)]
    Bundle(bundle::BundleCommand),
    /// Show or set how far runs may go on their own, for new runs or for one session.
    #[command(subcommand)]
    Prefs(prefs::PrefsCommand),
}

pub(crate) fn run(command: SessionCommand) -> ExitCode {
    match command {
        SessionCommand::List { all, json } => outcome::finish(list::run(all, json), Format::json_if(json)),
        SessionCommand::Retention(command) => retention::run(command),
        SessionCommand::Bundle(command) => bundle::run(command),
        SessionCommand::Prefs(command) => prefs::run(command),
    }
}
