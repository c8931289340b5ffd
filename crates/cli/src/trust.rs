//! `workrail trust`: a person allows commands of a project to be run as checks of workflow steps (G121).
//!
//! It asks for what approving asks for. No tool of the MCP server leads here.

use std::process::ExitCode;

use camino::{Utf8Path, Utf8PathBuf};
use clap::{Args, Subcommand};
use serde_json::{Value, json};
use workrail_engine::checks::WorkflowChecks;
use workrail_host::checks::{
    CHECKS_FILE, ChecksFile, ChecksFileError, ProposeError, ResolvedCheck, ShowOnly, TrustError, TrustFile,
    TrustRecord, TrustedCommand, proposed, read_checks, resolve, write_proposed,
};
use workrail_host::clock::SystemClock;
use workrail_host::workspace::{default_workspace, project_root};
use workrail_model::evidence::NotRunReason;
use workrail_model::name::{CheckName, WorkflowId};
use workrail_ports::environment::Clock;

use crate::outcome::{self, EXIT_CODES, Failure, Format};
use crate::output::{self, Tone};
use crate::presence::{self, OriginRecord};
use crate::wiring;

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct TrustArguments {
    #[command(subcommand)]
    command: Option<TrustCommand>,
    /// Only the checks of these workflows. Without any: those of every workflow that can be started here.
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
    /// Take back trust in this workspace
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
        "Nothing is trusted by this, and a file that exists is not changed.\n\n{EXIT_CODES}\n\n\
         Examples:\n  workrail trust propose\n  workrail trust propose --print"
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

/// A check of a workflow, as it would run here.
struct Offered {
    workflow_id: WorkflowId,
    check: CheckName,
    command: TrustedCommand,
    is_trusted: bool,
}

fn unusable(error: &TrustError) -> Failure {
    Failure::Environment(format!("{error}."))
}

fn root() -> Result<Utf8PathBuf, Failure> {
    let found = default_workspace().and_then(|workspace| project_root(workspace.as_str()));
    found.ok_or_else(|| Failure::Environment("This folder cannot be read as a workspace.".to_owned()))
}

/// The project's checks, or what to do about the file.
fn checks(root: &Utf8Path) -> Result<ChecksFile, Failure> {
    read_checks(root).map_err(|error| match error {
        ChecksFileError::Missing => Failure::Call(format!(
            "{root} has no `{CHECKS_FILE}`, which says what its checks run.\n`workrail trust propose` writes one to start \
             from."
        )),
        ChecksFileError::Unreadable(_) | ChecksFileError::Invalid(_) => {
            Failure::Call(format!("{error}\nNothing was trusted."))
        }
    })
}

fn trust(workflows: &[String], run: Option<&str>, format: Format) -> Result<(), Failure> {
    let root = root()?;
    let defined = checks(&root)?;
    let engine = wiring::look_default()?;
    let wanted = match run {
        Some(run) => vec![engine.checks_of_run(run)?],
        None => {
            let ids: Result<Vec<_>, _> = workflows.iter().map(|id| WorkflowId::parse(id)).collect();
            engine.workflows_with_checks(&ids.map_err(|error| Failure::Call(error.to_string()))?)?
        }
    };
    let file = TrustFile::of_user().map_err(|error| unusable(&error))?;
    if file.path().starts_with(&root) {
        return Err(Failure::Call(format!(
            "What you trust is kept in {}, which is inside this workspace: anyone who can change the workspace could change it. \
             Nothing was trusted.",
            file.path()
        )));
    }
    let trusted = file.read().map_err(|error| unusable(&error))?;
    let (offered, not_offered) = offered(&root, &defined, &wanted, &trusted);
    if offered.iter().all(|own| own.is_trusted) {
        show(&root, &offered, &not_offered);
        return nothing_new(&offered, &not_offered, &wanted);
    }
    presence::requester(&engine, "Trusting", OriginRecord::Nothing)?;
    show(&root, &offered, &not_offered);
    output::notice(
        "\nWorkRail runs exactly these commands, as you and without asking again, each time an agent submits a step that \
         names them. An agent can change the code that they run.",
    );
    let name = root.file_name().unwrap_or("trust").to_owned();
    presence::typed(&format!("Type the name of the workspace's folder, {name}, to trust them:"), &name)?;
    let trusted_at = SystemClock.now();
    let records = offered.iter().map(|own| TrustRecord {
        command: own.command.clone(),
        workflow_id: own.workflow_id.clone(),
        trusted_at: trusted_at.clone(),
    });
    file.add(records.collect()).map_err(|error| unusable(&error))?;
    match format {
        Format::Text => output::toned(
            Tone::Good,
            &format!(
                "Trusted. `workrail trust list` shows it, `workrail trust revoke` takes it back. ({})",
                file.path()
            ),
        ),
        Format::Json => {
            let trusted: Vec<Value> = offered.iter().map(|own| json!(own.command)).collect();
            output::json(&json!({ "file": file.path(), "trusted": trusted }));
        }
    }
    Ok(())
}

/// What can be trusted, and what cannot with the reason.
fn offered(
    root: &Utf8Path,
    defined: &ChecksFile,
    wanted: &[WorkflowChecks],
    trusted: &[TrustRecord],
) -> (Vec<Offered>, Vec<(WorkflowId, CheckName, NotRunReason)>) {
    let (mut offered, mut not_offered) = (Vec::new(), Vec::new());
    for workflow in wanted {
        for check in &workflow.checks {
            let found = defined.get(check).ok_or(NotRunReason::Undefined);
            match found.and_then(|definition| resolve(root, definition)) {
                Ok(resolved) => {
                    let command = ResolvedCheck::command(&resolved, root, workflow.hash, check);
                    let is_trusted = trusted.iter().any(|own| own.command == command);
                    let workflow_id = workflow.workflow_id.clone();
                    offered.push(Offered { workflow_id, check: check.clone(), command, is_trusted });
                }
                Err(reason) => not_offered.push((workflow.workflow_id.clone(), check.clone(), reason)),
            }
        }
    }
    (offered, not_offered)
}

fn nothing_new(
    offered: &[Offered],
    not_offered: &[(WorkflowId, CheckName, NotRunReason)],
    wanted: &[WorkflowChecks],
) -> Result<(), Failure> {
    if !offered.is_empty() {
        output::toned(Tone::Good, "These are trusted already.");
        return Ok(());
    }
    if !not_offered.is_empty() {
        return Err(Failure::Call(format!("Nothing here can be trusted yet. Define it in `{CHECKS_FILE}`.")));
    }
    match wanted {
        [one] => Err(Failure::Call(format!("The workflow {} names no checks.", one.workflow_id))),
        _ => Err(Failure::Call("No workflow that can be started here names checks.".to_owned())),
    }
}

fn show(root: &Utf8Path, offered: &[Offered], not_offered: &[(WorkflowId, CheckName, NotRunReason)]) {
    output::notice(&format!("Workspace {root}"));
    let mut workflow = None;
    for own in offered {
        if workflow != Some(&own.workflow_id) {
            output::notice(&format!("\n{} ({})", own.workflow_id, own.command.workflow_hash));
            workflow = Some(&own.workflow_id);
        }
        let TrustedCommand { argv, program, directory, .. } = &own.command;
        let known = if own.is_trusted { "  (trusted already)" } else { "" };
        output::notice(&format!("  {}: {}{known}", own.check, in_shell(argv)));
        output::notice(&format!("      program {program}"));
        output::notice(&format!("      in {}", root.join(directory).as_str().trim_end_matches("/.")));
    }
    for (workflow, check, reason) in not_offered {
        let why = workrail_core::evidence::not_run(*reason);
        output::notice(&format!("\n{workflow} also names `{check}`, which would not run: {why}."));
    }
}

/// The words as a shell would take them, so that spaces are seen.
fn in_shell(argv: &[String]) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:@%+,".contains(c);
    let quoted = |word: &String| match !word.is_empty() && word.chars().all(is_plain) {
        true => word.clone(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    };
    argv.iter().map(quoted).collect::<Vec<_>>().join(" ")
}

fn list(format: Format) -> Result<(), Failure> {
    let file = TrustFile::of_user().map_err(|error| unusable(&error))?;
    let trusted = file.read().map_err(|error| unusable(&error))?;
    if format == Format::Json {
        output::json(&json!({ "file": file.path(), "trusted": trusted }));
        return Ok(());
    }
    if trusted.is_empty() {
        output::line("You have trusted no checks.");
        return Ok(());
    }
    let rows = trusted.iter().map(|own| {
        let TrustedCommand { workspace, check, argv, program, .. } = &own.command;
        vec![
            workspace.to_string(),
            own.workflow_id.to_string(),
            check.to_string(),
            in_shell(argv),
            program.to_string(),
        ]
    });
    output::table(&["workspace", "workflow", "check", "runs", "program"], rows);
    Ok(())
}

fn revoke(check: Option<&str>, format: Format) -> Result<(), Failure> {
    let root = root()?;
    let check = check.map(CheckName::parse).transpose().map_err(|error| Failure::Call(error.to_string()))?;
    let file = TrustFile::of_user().map_err(|error| unusable(&error))?;
    let is_meant = |own: &TrustRecord| {
        own.command.workspace == root && check.as_ref().is_none_or(|check| own.command.check == *check)
    };
    let removed = file.remove(is_meant).map_err(|error| unusable(&error))?;
    match format {
        Format::Json => output::json(&json!({ "file": file.path(), "revoked": removed })),
        Format::Text if removed.is_empty() => output::line("Nothing of this workspace was trusted."),
        Format::Text => {
            for own in &removed {
                output::line(&format!("No longer trusted: {} of {}", own.command.check, own.workflow_id));
            }
        }
    }
    Ok(())
}

fn propose(show: ShowOnly, format: Format) -> Result<(), Failure> {
    let root = root()?;
    let (path, text) = write_proposed(&root, show).map_err(|error| match error {
        ProposeError::Exists { .. } => {
            Failure::Call(format!("{error}. `workrail trust propose --print` shows what would be written."))
        }
        ProposeError::NotWritten { .. } => Failure::Environment(format!("{error}.")),
    })?;
    if format == Format::Json {
        let checks = proposed(&root).into_iter();
        let checks: Vec<Value> = checks.map(|own| json!({ "name": own.name, "argv": own.argv })).collect();
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
