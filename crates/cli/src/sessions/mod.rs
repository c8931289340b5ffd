//! `workrail sessions`: which there are, what they hold, and how to go on with them.

mod list;
mod log;
mod resume;
mod search;
mod show;
mod tree;

use std::process::ExitCode;

use clap::{Args, Subcommand};
use workrail_model::health::{CorruptionReason, SessionHealth};

use crate::outcome::{self, EXIT_CODES, Failure, Format};
use crate::output::{self, Tone};
use crate::retention::{self, RetentionCommand};

const EXAMPLES: &str = "Examples:
  workrail sessions list                  what waits for you first, then what is in progress
  workrail sessions show amber-falcon     one run: where it stands, what was done, how to go on
  workrail sessions tree amber-falcon     its branches, drawn
  workrail sessions log sess_3k9          every recorded event, one per line
  workrail sessions search retry budget   notes that hold both words
  workrail sessions resume retry budget   what to paste into a new chat
  workrail sessions keep amber-falcon     keep it, whatever its age";

/// Look at sessions: list them, show one, search their notes, find the way back into one; keep or remove them.
#[derive(Debug, Args)]
#[command(after_help = format!("{EXAMPLES}\n\n{EXIT_CODES}"))]
pub(crate) struct Sessions {
    #[command(subcommand)]
    command: SessionsCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum SessionsCommand {
    /// List sessions: what waits for a person, what is blocked, what is in progress, then what is done.
    #[command(after_help = format!("{EXIT_CODES}\n\nExample: workrail sessions list --all"))]
    List {
        /// Finished runs too, all of them; without it the newest 20.
        #[arg(long)]
        all: bool,
        /// One JSON document.
        #[arg(long)]
        json: bool,
    },
    /// Show a session or run: where it stands, its points with references, branches, gaps, how to go on.
    #[command(after_help = format!("{EXIT_CODES}\n\nExample: workrail sessions show amber-falcon"))]
    Show {
        /// A session id, a run id, the beginning of one, a label, or a workrail://session/... reference to a point.
        #[arg(value_name = "SESSION|RUN|POINT")]
        about: String,
        /// One JSON document.
        #[arg(long)]
        json: bool,
    },
    /// Print the recorded events in order, one per line.
    #[command(after_help = format!("{EXIT_CODES}\n\nExample: workrail sessions log amber-falcon --limit 20"))]
    Log {
        /// A session id, a run id, the beginning of one, or a label.
        #[arg(value_name = "SESSION|RUN")]
        about: String,
        /// Only the newest N events.
        #[arg(long, value_name = "N")]
        limit: Option<usize>,
        /// One JSON document with the events exactly as they are recorded.
        #[arg(long)]
        json: bool,
    },
    /// Draw the branches of a session's runs.
    #[command(after_help = format!("{EXIT_CODES}\n\nExample: workrail sessions tree amber-falcon --ascii"))]
    Tree {
        /// A session id, a run id, the beginning of one, or a label.
        #[arg(value_name = "SESSION|RUN")]
        about: String,
        /// Draw with plain ASCII.
        #[arg(long)]
        ascii: bool,
        /// Draw every point; without it long stretches are drawn by their ends.
        #[arg(long)]
        all: bool,
        /// One JSON document.
        #[arg(long)]
        json: bool,
    },
    /// Find runs to go on with, and print exactly what to paste into a new chat.
    #[command(after_help = format!("{EXIT_CODES}\n\nExample: workrail sessions resume retry budget"))]
    Resume {
        /// Words of the goal or the notes, or a session id, run id or label. Nothing: the latest, here.
        #[arg(value_name = "WORDS|SESSION|RUN")]
        words: Vec<String>,
        /// One JSON document.
        #[arg(long)]
        json: bool,
    },
    /// Search all notes: every branch, checkpoints included, long notes whole.
    #[command(after_help = format!("{EXIT_CODES}\n\nExample: workrail sessions search retry budget"))]
    Search {
        /// All of these words must stand in a note, whole, in any case.
        #[arg(value_name = "WORDS", required = true)]
        words: Vec<String>,
        /// At most N notes, the newest first.
        #[arg(long, value_name = "N", default_value_t = 50)]
        limit: usize,
        /// One JSON document.
        #[arg(long)]
        json: bool,
    },
    #[command(flatten)]
    Retention(RetentionCommand),
}

pub(crate) fn run(sessions: Sessions) -> ExitCode {
    let (done, json) = match sessions.command {
        SessionsCommand::Retention(command) => return retention::run(command),
        SessionsCommand::List { all, json } => (list::run(all, json), json),
        SessionsCommand::Show { about, json } => (show::run(&about, json), json),
        SessionsCommand::Log { about, limit, json } => (log::run(&about, limit, json), json),
        SessionsCommand::Tree { about, ascii, all, json } => (tree::run(&about, ascii, all, json), json),
        SessionsCommand::Resume { words, json } => (resume::run(&words, json), json),
        SessionsCommand::Search { words, limit, json } => (search::run(&words, limit, json), json),
    };
    outcome::finish(done, Format::json_if(json))
}

/// Says first that a session is damaged, and how far it can be trusted.
fn warn_of_damage(health: &SessionHealth) {
    if let Some(text) = damage(health) {
        output::toned(
            Tone::Warning,
            &format!("Damaged session: {text}. What is shown lies before the damage.\n"),
        );
    }
}

/// What is wrong with a session, in words.
fn damage(health: &SessionHealth) -> Option<String> {
    match health {
        SessionHealth::Healthy => None,
        SessionHealth::CorruptTail { valid_until, reason } => {
            Some(format!("{reason}; {} events before it are intact", valid_until.get()))
        }
        SessionHealth::CorruptHead { reason: CorruptionReason::ManifestUnreadable { detail } } => {
            Some(format!("unreadable: {detail}"))
        }
        SessionHealth::CorruptHead { reason: reason @ CorruptionReason::AccessDenied { .. } } => {
            Some(reason.to_string())
        }
        SessionHealth::CorruptHead { reason } => Some(format!("{reason}; nothing before it can be trusted")),
        SessionHealth::UnknownVersion { record, version } => {
            Some(format!("{record} has version {version}; a newer WorkRail wrote it"))
        }
    }
}

fn value<T: serde::Serialize>(shown: &T) -> Result<serde_json::Value, Failure> {
    serde_json::to_value(shown).map_err(|error| Failure::Environment(error.to_string()))
}
