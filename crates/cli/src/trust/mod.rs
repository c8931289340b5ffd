//! `workrail trust`: a user allows a project's commands to run as checks of workflow steps (G121).
//!
//! It requires a terminal and a typed name, as approving with a label does. No tool of the MCP server leads here.

mod offers;

use std::process::ExitCode;

use clap::{Args, Subcommand};
use serde_json::{Value, json};
use workrail_host::checks::{
    CHECKS_FILE, ProposeError, ShowOnly, TrustFile, TrustedCommand, proposed, write_proposed,
};
use workrail_model::name::WorkflowId;
use workrail_model::shell;

use crate::outcome::{self, EXIT_CODES, Failure, Format};
use crate::output::{self, Tone};
use crate::presence::{self, OriginRecord};
use crate::wiring;

pub(crate) use offers::{CheckSubject, Offers, take_back_trust};
use offers::{root, unusable};

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct TrustArguments {
    #[command(subcommand)]
    command: Option<TrustCommand>,
    /// Only the checks of these workflows. Default: those of every workflow that can be started here.
    #[arg(value_name = "WORKFLOW")]
    workflows: Vec<String>,
    /// The checks of the workflow that a run is pinned to.
    #[arg(long, value_name = "RUN", conflicts_with = "workflows")]
    run: Option<String>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Subcommand)]
enum TrustCommand {
    /// List what you have trusted, in every workspace
    #[command(after_help = format!("{EXIT_CODES}\n\nExample: workrail trust list"))]
    List {
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Revoke trust in this workspace
    #[command(after_help = format!(
        "{EXIT_CODES}\n\nExamples:\n  workrail trust revoke test\n  workrail trust revoke --all"
    ))]
    Revoke {
        /// The check that is no longer trusted, for every workflow.
        #[arg(value_name = "CHECK", required_unless_present = "all")]
        check: Option<String>,
        /// Every check of this workspace.
        #[arg(long, conflicts_with = "check")]
        all: bool,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Write a first .workrail/checks.toml from what the repository has
    #[command(after_help = format!(
        "This trusts nothing, and does not change an existing file.\n\n{EXIT_CODES}\n\nExamples:\n  workrail \
         trust propose\n  workrail trust propose --print"
    ))]
    Propose {
        /// Print the file and write nothing.
        #[arg(long)]
        print: bool,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
}

pub(crate) fn run(arguments: TrustArguments) -> ExitCode {
    let TrustArguments { command, workflows, run, json } = arguments;
    let (done, json) = match command {
        None => (trust(&workflows, run.as_deref(), Format::json_if(json)), json),
        Some(TrustCommand::List { json }) => (list(Format::json_if(json)), json),
        Some(TrustCommand::Revoke { check, json, .. }) => {
            (revoke(check.as_deref(), Format::json_if(json)), json)
        }
        Some(TrustCommand::Propose { print, json }) => {
            let show = if print { ShowOnly::Yes } else { ShowOnly::No };
            (propose(show, Format::json_if(json)), json)
        }
    };
    outcome::finish(done, Format::json_if(json))
}

fn trust(workflows: &[String], run: Option<&str>, format: Format) -> Result<(), Failure> {
    let engine = wiring::read_only_default()?;
    let asked = match run {
        Some(run) => CheckSubject::Run(run),
        None => {
            let ids: Result<Vec<_>, _> = workflows.iter().map(|id| WorkflowId::parse(id)).collect();
            CheckSubject::Workflows(ids.map_err(|error| Failure::Usage(error.to_string()))?)
        }
    };
    let offers = Offers::here(&engine, &asked)?;
    if offers.are_all_trusted() {
        show(&offers);
        return nothing_new(&offers, format);
    }
    presence::requester(&engine, "Trusting", OriginRecord::Nothing)?;
    show(&offers);
    output::notice(
        "\nWorkRail runs exactly these commands, as you and without asking again, each time an agent submits a step that \
         names them. An agent can change the code that they run.",
    );
    let name = offers.root.file_name().unwrap_or("trust").to_owned();
    presence::require_typed(
        &format!("Type `{name}`, the name of the workspace's folder, to trust them:"),
        &name,
    )?;
    offers.trust()?;
    match format {
        Format::Text => output::toned(
            Tone::Good,
            &format!(
                "Trusted. `workrail trust list` shows it, `workrail trust revoke` removes it. ({})",
                offers.file.path()
            ),
        ),
        Format::Json => output::json(&document(&offers, TrustChange::Added)),
    }
    Ok(())
}

/// Whether the command wrote to the file of trusted commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TrustChange {
    None,
    Added,
}

fn document(offers: &Offers, change: TrustChange) -> Value {
    let trusted: Vec<Value> = offers.offered.iter().map(|offer| json!(offer.command)).collect();
    json!({ "file": offers.file.path(), "trusted": trusted, "changed": change == TrustChange::Added })
}

fn nothing_new(offers: &Offers, format: Format) -> Result<(), Failure> {
    if !offers.offered.is_empty() {
        match format {
            Format::Text => output::toned(Tone::Good, "These are already trusted."),
            Format::Json => output::json(&document(offers, TrustChange::None)),
        }
        return Ok(());
    }
    if !offers.not_offered.is_empty() {
        return Err(Failure::Usage(format!(
            "Nothing here can be trusted yet. Define it in `{CHECKS_FILE}`."
        )));
    }
    match offers.wanted.as_slice() {
        [one] => Err(Failure::Usage(format!("The workflow {} names no checks.", one.workflow_id))),
        _ => Err(Failure::Usage("No workflow that can be started here names checks.".to_owned())),
    }
}

fn show(offers: &Offers) {
    output::notice(&format!("Workspace {}", offers.root));
    let mut workflow = None;
    for offer in &offers.offered {
        if workflow != Some(&offer.workflow_id) {
            output::notice(&format!("\n{} ({})", offer.workflow_id, offer.command.workflow_hash));
            workflow = Some(&offer.workflow_id);
        }
        let known = if offer.is_trusted { "  (already trusted)" } else { "" };
        output::notice(&format!("  {}: {}{known}", offer.command.check, shell::line(&offer.command.argv)));
        output::notice(&format!("      program {}", offer.command.program));
        output::notice(&format!("      in {}", offers.folder(offer)));
    }
    for (workflow, check, reason) in &offers.not_offered {
        let why = workrail_core::evidence::not_run(*reason);
        output::notice(&format!("\n{workflow} also names `{check}`, which would not run: {why}."));
    }
}

fn list(format: Format) -> Result<(), Failure> {
    let file = TrustFile::of_user().map_err(|error| unusable(&error))?;
    let trusted = file.read().map_err(|error| unusable(&error))?;
    if format == Format::Json {
        output::json(&json!({ "file": file.path(), "trusted": trusted }));
        return Ok(());
    }
    if trusted.is_empty() {
        output::line("No checks are trusted.");
        return Ok(());
    }
    let rows = trusted.iter().map(|record| {
        let TrustedCommand { workspace, check, argv, program, .. } = &record.command;
        vec![
            workspace.to_string(),
            record.workflow_id.to_string(),
            check.to_string(),
            shell::line(argv),
            program.to_string(),
        ]
    });
    output::table(&["workspace", "workflow", "check", "runs", "program"], rows);
    Ok(())
}

fn revoke(check: Option<&str>, format: Format) -> Result<(), Failure> {
    let (file, removed) = take_back_trust(check)?;
    match format {
        Format::Json => output::json(&json!({ "file": file.path(), "revoked": removed })),
        Format::Text if removed.is_empty() => {
            output::line("Nothing to revoke: no such check is trusted in this workspace.")
        }
        Format::Text => {
            for record in &removed {
                output::line(&format!(
                    "No longer trusted: {} of {}",
                    record.command.check, record.workflow_id
                ));
            }
        }
    }
    Ok(())
}

fn propose(show: ShowOnly, format: Format) -> Result<(), Failure> {
    let root = root()?;
    let (path, text) = write_proposed(&root, show).map_err(|error| match error {
        ProposeError::Exists { .. } => {
            Failure::Usage(format!("{error}. `workrail trust propose --print` shows what would be written."))
        }
        ProposeError::NotWritten { .. } => Failure::Environment(format!("{error}.")),
    })?;
    if format == Format::Json {
        let checks = proposed(&root).into_iter();
        let checks: Vec<Value> =
            checks.map(|check| json!({ "name": check.name, "argv": check.argv })).collect();
        output::json(&json!({ "file": path, "written": show == ShowOnly::No, "checks": checks }));
        return Ok(());
    }
    match show {
        ShowOnly::Yes => output::line(text.trim_end()),
        ShowOnly::No => {
            output::toned(Tone::Good, &format!("Wrote {path}."));
            output::line("Read it, correct it, then run `workrail trust`.");
        }
    }
    Ok(())
}
