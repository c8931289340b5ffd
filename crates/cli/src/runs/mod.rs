//! Commands about one run: show it, resume it, decide what waits for the user.

mod compare;
pub(crate) mod list;
mod log;
mod report;
mod resume;
mod search;
mod show;
mod status;
mod steer;
mod tree;
mod watch;

use std::process::ExitCode;

use clap::Subcommand;
use workrail_model::health::SessionHealth;

use crate::outcome::{self, EXIT_CODES, Failure};
use crate::output::{self, Tone};

#[derive(Debug, Subcommand)]
pub(crate) enum RunCommand {
    /// Show what needs you, why, and the command for it; then what is running.
    #[command(after_help = format!("{EXIT_CODES}\n\nExample: workrail status"))]
    Status {
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Keep the status on the screen and up to date. In a pipe, print a line for each change.
    #[command(
        after_help = "Press Ctrl-C to stop.\n\nExamples:\n  workrail watch\n  workrail watch --notify\n  workrail watch --json | jq .stage"
    )]
    Watch {
        /// Raise a desktop notification when a run starts to wait for you.
        #[arg(long)]
        notify: bool,
        /// Print each change as one line of JSON.
        #[arg(long)]
        json: bool,
    },
    /// Show a run or session: its current step, history, branches, gaps and how to continue.
    #[command(after_help = format!("{EXIT_CODES}\n\nExample: workrail show amber-falcon"))]
    Show {
        /// A session id, a run id, a prefix of one, a label, or a workrail://session/... reference to a point.
        #[arg(value_name = "SESSION|RUN|POINT")]
        about: String,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Print the recorded events, one per line.
    #[command(after_help = format!("{EXIT_CODES}\n\nExample: workrail log amber-falcon --limit 20"))]
    Log {
        /// A session id, a run id, a prefix of one, or a label.
        #[arg(value_name = "SESSION|RUN")]
        about: String,
        /// Only the newest N events.
        #[arg(long, value_name = "N")]
        limit: Option<usize>,
        /// Print JSON: the events exactly as recorded.
        #[arg(long)]
        json: bool,
    },
    /// Draw the branches of a session's runs.
    #[command(after_help = format!("{EXIT_CODES}\n\nExample: workrail tree amber-falcon --ascii"))]
    Tree {
        /// A session id, a run id, a prefix of one, or a label.
        #[arg(value_name = "SESSION|RUN")]
        about: String,
        /// Draw with plain ASCII.
        #[arg(long)]
        ascii: bool,
        /// Draw every point; by default long stretches are shortened.
        #[arg(long)]
        all: bool,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Compare two branches, attempts or runs: what differs, and which one continues.
    #[command(after_help = format!("{}\n\n{EXIT_CODES}", compare::EXAMPLES))]
    Compare {
        /// A run (label, id or prefix of one), or a part of it: RUN@b is branch b, RUN@..7 the path up to point 7, RUN@7
        /// point 7, RUN@7:2 its second attempt. A workrail://session/... reference names a point, too.
        // The id makes completion offer runs (setup/complete.rs).
        #[arg(value_name = "A", id = "run")]
        a: String,
        /// Like A. Without a run (@b), a part of A's run.
        // The id makes completion offer runs (setup/complete.rs).
        #[arg(value_name = "B", id = "about")]
        b: String,
        /// Show short context values, not only keys. Values that look like secrets are never shown.
        #[arg(long)]
        context: bool,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Find a run to continue and print what to paste into a new chat.
    #[command(after_help = format!("{EXIT_CODES}\n\nExample: workrail resume retry budget"))]
    Resume {
        /// Words from the goal or notes, or a session id, run id or label. Default: recent runs, unfinished ones first;
        /// among those, runs on this folder's commit or git branch come first.
        #[arg(value_name = "WORDS|SESSION|RUN")]
        words: Vec<String>,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Search goals, notes, artifacts, labels and workflow names of all sessions, on every branch.
    #[command(after_help = format!("{EXIT_CODES}\n\nExample: workrail search retry budget"))]
    Search {
        /// Whole words that must all occur; case is ignored.
        #[arg(value_name = "WORDS", required = true)]
        words: Vec<String>,
        /// Show at most N matches, newest first.
        #[arg(long, value_name = "N", default_value_t = 50)]
        limit: usize,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    Report(report::ReportCommand),
    #[command(flatten)]
    Steer(steer::SteerCommand),
}

impl RunCommand {
    /// Whether it may print more than one screen without asking anything.
    pub(crate) fn is_long(&self) -> bool {
        match self {
            Self::Show { .. }
            | Self::Log { .. }
            | Self::Tree { .. }
            | Self::Compare { .. }
            | Self::Resume { .. }
            | Self::Search { .. }
            | Self::Report(_) => true,
            Self::Status { .. } | Self::Watch { .. } | Self::Steer(_) => false,
        }
    }
}

pub(crate) fn run(command: RunCommand) -> ExitCode {
    match command {
        RunCommand::Report(command) => report::run(&command),
        RunCommand::Steer(command) => steer::run(command),
        RunCommand::Status { json } => outcome::run(json, status::run),
        RunCommand::Watch { notify, json } => {
            outcome::run(json, |format| watch::run(watch::Notify::if_requested(notify), format))
        }
        RunCommand::Show { about, json } => outcome::run(json, |format| show::run(&about, format)),
        RunCommand::Log { about, limit, json } => {
            outcome::run(json, |format| log::run(&about, limit, format))
        }
        RunCommand::Tree { about, ascii, all, json } => {
            outcome::run(json, |format| tree::run(&about, ascii, all, format))
        }
        RunCommand::Compare { a, b, context, json } => {
            outcome::run(json, |format| compare::run(&a, &b, context, format))
        }
        RunCommand::Resume { words, json } => outcome::run(json, |format| resume::run(&words, format)),
        RunCommand::Search { words, limit, json } => {
            outcome::run(json, |format| search::run(&words, limit, format))
        }
    }
}

/// What `workrail` without a command prints.
pub(crate) fn status() -> ExitCode {
    outcome::run(false, status::run)
}

/// Reports first that a session is damaged, and how far it can be trusted.
fn warn_of_damage(health: &SessionHealth) {
    if let Some(text) = health.damage() {
        output::toned(
            Tone::Warning,
            &format!("Damaged session: {text}. Only what comes before the damage is shown.\n"),
        );
    }
}

pub(crate) fn value<T: serde::Serialize>(shown: &T) -> Result<serde_json::Value, Failure> {
    serde_json::to_value(shown).map_err(|error| Failure::Environment(error.to_string()))
}
