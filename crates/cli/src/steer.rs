//! What only a person does to a run: approving a step, and choosing another mode (G63, G64).
//!
//! Agents have shells too. So an approval needs a terminal, and the run's label typed into it.

use std::io::{BufRead, IsTerminal, stdin};
use std::process::ExitCode;

use clap::{Subcommand, ValueEnum};
use workrail_model::approval::{ApprovalChannel, ApprovalDecision};
use workrail_model::preferences::Mode;

use crate::outcome::{self, Failure, Format};
use crate::output::{self, Tone};
use crate::wiring;

#[derive(Debug, Subcommand)]
pub(crate) enum SteerCommand {
    /// Approve the step of a run that waits for it. Asks you to type the run's label.
    Approve {
        /// The run's two-word label, as its replies show it.
        run: String,
    },
    /// Reject the step of a run that waits for an approval. Asks you to type the run's label.
    Reject {
        /// The run's two-word label, as its replies show it.
        run: String,
    },
    /// Preferences of a session: how far its runs may go on their own.
    #[command(subcommand)]
    Prefs(PrefsCommand),
}

#[derive(Debug, Subcommand)]
pub(crate) enum PrefsCommand {
    /// Choose another mode for a run's session; its next completed step applies it.
    Set {
        /// How far it may go on its own.
        mode: ModeArgument,
        /// The run's two-word label, as its replies show it.
        #[arg(long, value_name = "LABEL")]
        run: String,
    },
}

#[derive(Clone, Copy, Debug, ValueEnum)]
#[value(rename_all = "snake_case")]
pub(crate) enum ModeArgument {
    Guided,
    FullAutoStopOnUserDeps,
    FullAutoNeverStop,
}

impl ModeArgument {
    fn mode(self) -> Mode {
        match self {
            Self::Guided => Mode::Guided,
            Self::FullAutoStopOnUserDeps => Mode::FullAutoStopOnUserDeps,
            Self::FullAutoNeverStop => Mode::FullAutoNeverStop,
        }
    }
}

pub(crate) fn run(command: SteerCommand) -> ExitCode {
    let done = match command {
        SteerCommand::Approve { run } => decide(&run, ApprovalDecision::Approved),
        SteerCommand::Reject { run } => decide(&run, ApprovalDecision::Rejected),
        SteerCommand::Prefs(PrefsCommand::Set { mode, run }) => choose(&run, mode.mode()),
    };
    outcome::finish(done, Format::Text)
}

fn decide(label: &str, decision: ApprovalDecision) -> Result<(), Failure> {
    let engine = wiring::open_default()?;
    let waiting = engine.waiting(label)?;
    if !stdin().is_terminal() {
        return Err(Failure::Environment(
            "An approval needs a person at a terminal: run this command yourself, not through a script or an \
             agent."
                .to_owned(),
        ));
    }
    output::line(&format!("Run {} · {}", waiting.label, waiting.workflow));
    output::line(&format!("Step `{}`: {}", waiting.step, waiting.title));
    let verb = match decision {
        ApprovalDecision::Approved => "approve",
        ApprovalDecision::Rejected => "reject",
    };
    output::line(&format!("Type the run's label to {verb} this step:"));
    let mut typed = String::new();
    stdin().lock().read_line(&mut typed).map_err(|error| Failure::Environment(error.to_string()))?;
    if typed.trim() != waiting.label {
        return Err(Failure::Call("That is not the run's label. Nothing was recorded.".to_owned()));
    }
    engine.approve(label, &waiting, decision, ApprovalChannel::Terminal)?;
    output::toned(Tone::Good, "Recorded. The agent can go on with the next call of its last reply.");
    Ok(())
}

fn choose(label: &str, mode: Mode) -> Result<(), Failure> {
    let engine = wiring::open_default()?;
    let session = engine.wish_preferences(label, mode.preferences())?;
    output::toned(
        Tone::Good,
        &format!("Pending for session {session}: {}. The next completed step applies it.", mode.as_str()),
    );
    Ok(())
}
