//! `workrail session`: list sessions, keep or delete them, move them to another machine, and set their autonomy.

mod bundle;
mod damaged;
mod list;
pub(crate) mod prefs;
mod purge;
mod retention;
mod searched;

use std::process::ExitCode;

use clap::Subcommand;

use crate::outcome;

#[derive(Debug, Subcommand)]
pub(crate) enum SessionCommand {
    /// List sessions: waiting for you first, then blocked, in progress and finished.
    List(list::ListRunsArguments),
    #[command(flatten)]
    Retention(retention::RetentionCommand),
    Purge(purge::PurgeArguments),
    #[command(flatten)]
    Bundle(bundle::BundleCommand),
    /// Show or set how far runs may go on their own, for new runs or for one session.
    #[command(subcommand)]
    Prefs(prefs::PrefsCommand),
}

impl SessionCommand {
    /// Whether it may print more than one screen without asking anything.
    pub(crate) fn is_long(&self) -> bool {
        match self {
            Self::List(_) => true,
            Self::Retention(_) | Self::Purge(_) | Self::Bundle(_) | Self::Prefs(_) => false,
        }
    }
}

pub(crate) fn run(command: SessionCommand) -> ExitCode {
    match command {
        SessionCommand::List(arguments) => {
            outcome::run(arguments.json, |format| list::run(&arguments, format))
        }
        SessionCommand::Retention(command) => retention::run(command),
        SessionCommand::Purge(arguments) => purge::run(&arguments),
        SessionCommand::Bundle(command) => bundle::run(command),
        SessionCommand::Prefs(command) => prefs::run(command),
    }
}
