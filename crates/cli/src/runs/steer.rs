//! What is meant for a person to do to a run: approving a step, or rejecting it (G63).
//!
//! It needs a terminal and the run's label typed into it. An agent with a shell can do both; see `presence`.

use std::process::ExitCode;

use clap::Subcommand;
use serde_json::json;
use workrail_model::approval::{ApprovalChannel, ApprovalDecision, ApprovalOrigin};

use crate::outcome::{self, EXIT_CODES, Failure, Format};
use crate::output::{self, Tone};
use crate::presence::Recorded;
use crate::{presence, wiring};

#[derive(Debug, Subcommand)]
pub(crate) enum SteerCommand {
    /// Approve the step that a run is waiting on. Asks you to type the run's label.
    #[command(after_help = format!("{EXIT_CODES}\n\nExample: workrail approve amber-falcon"))]
    Approve {
        /// The run's two-word label, such as amber-falcon.
        run: String,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Reject the step that a run is waiting on. Asks you to type the run's label.
    #[command(after_help = format!("{EXIT_CODES}\n\nExample: workrail reject amber-falcon"))]
    Reject {
        /// The run's two-word label, such as amber-falcon.
        run: String,
        /// Print JSON.
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
    let engine = wiring::change_default()?;
    let waiting = engine.waiting(label)?;
    let requester = presence::requester(&engine, "Approving", Recorded::Descent)?;
    output::notice(&format!("Run {} · {}", waiting.label, waiting.workflow));
    output::notice(&format!("Step `{}`: {}", waiting.step, waiting.title));
    let verb = match decision {
        ApprovalDecision::Approved => "approve",
        ApprovalDecision::Rejected => "reject",
    };
    presence::typed(&format!("Type the run's label to {verb} this step:"), &waiting.label)?;
    let origin = ApprovalOrigin {
        channel: ApprovalChannel::Terminal,
        descends_from_server: requester.descends_from_server,
    };
    engine.approve(label, &waiting, decision, origin)?;
    match format {
        Format::Text => {
            output::toned(
                Tone::Good,
                "Recorded. The agent can continue with the next call of its last reply.",
            );
        }
        Format::Json => output::json(&json!({
            "sessionId": waiting.session, "nodeId": waiting.node, "run": waiting.label, "stepId": waiting.step,
            "decision": decision, "channel": origin.channel,
            "descendsFromServer": origin.descends_from_server,
        })),
    }
    Ok(())
}
