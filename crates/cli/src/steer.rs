//! What only a person does to a run: approving a step, or rejecting it (G63).
//!
//! Agents have shells too. So an approval needs a terminal, and the run's label typed into it.

use std::io::{BufRead, IsTerminal, stdin};
use std::process::ExitCode;

use clap::Subcommand;
use serde_json::json;
use workrail_model::approval::{ApprovalChannel, ApprovalDecision};

use crate::outcome::{self, EXIT_CODES, Failure, Format};
use crate::output::{self, Tone};
use crate::wiring;

#[derive(Debug, Subcommand)]
pub(crate) enum SteerCommand {
    /// Approve the step of a run that waits for it. Asks you to type the run's label.
    #[command(after_help = format!("{EXIT_CODES}\n\nExample: workrail approve amber-falcon"))]
    Approve {
        /// The run's two-word label, as its replies show it.
        run: String,
        /// Print what was recorded as JSON.
        #[arg(long)]
        json: bool,
    },
    /// Reject the step of a run that waits for an approval. Asks you to type the run's label.
    #[command(after_help = format!("{EXIT_CODES}\n\nExample: workrail reject amber-falcon"))]
    Reject {
        /// The run's two-word label, as its replies show it.
        run: String,
        /// Print what was recorded as JSON.
        #[arg(long)]
        json: bool,
    },
}

pub(crate) fn run(command: SteerCommand) -> ExitCode {
    let (run, decision, json) = match command {
        SteerCommand::Approve { run, json } => (run, ApprovalDecision::Approved, json),
        SteerCommand::Reject { run, json } => (run, ApprovalDecision::Rejected, json),
    };
    let format = Format::json_if(json);
    outcome::finish(decide(&run, decision, format), format)
}

fn decide(label: &str, decision: ApprovalDecision, format: Format) -> Result<(), Failure> {
    let engine = wiring::open_default()?;
    let waiting = engine.waiting(label)?;
    if !stdin().is_terminal() {
        return Err(Failure::Environment(
            "An approval needs a person at a terminal: run this command yourself, not through a script or an \
             agent."
                .to_owned(),
        ));
    }
    output::notice(&format!("Run {} · {}", waiting.label, waiting.workflow));
    output::notice(&format!("Step `{}`: {}", waiting.step, waiting.title));
    let verb = match decision {
        ApprovalDecision::Approved => "approve",
        ApprovalDecision::Rejected => "reject",
    };
    output::notice(&format!("Type the run's label to {verb} this step:"));
    let mut typed = String::new();
    stdin().lock().read_line(&mut typed).map_err(|error| Failure::Environment(error.to_string()))?;
    if typed.trim() != waiting.label {
        return Err(Failure::Call("That is not the run's label. Nothing was recorded.".to_owned()));
    }
    engine.approve(label, &waiting, decision, ApprovalChannel::Terminal)?;
    match format {
        Format::Text => {
            output::toned(Tone::Good, "Recorded. The agent can go on with the next call of its last reply.");
        }
        Format::Json => output::json(&json!({
            "sessionId": waiting.session, "nodeId": waiting.node, "run": waiting.label, "stepId": waiting.step,
            "decision": decision,
        })),
    }
    Ok(())
}
