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
    /// List sessions: what waits for a person, what is blocked, what is in progress, then what is done.
    #[command(after_help = format!("{EXIT_CODES}\n\nExample: workrail session list --all"))]
    List {
        /// Finished runs too, all of them; without it the newest 20.
        #[arg(long)]
        all: bool,
        /// One JSON document.
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
