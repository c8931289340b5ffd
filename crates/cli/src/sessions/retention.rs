//! `workrail session keep`, `unkeep` and `delete`: the user's decisions about one session (G25).

use std::process::ExitCode;

use clap::{Args, Subcommand};
use serde_json::json;
use workrail_core::report::words::one_line;
use workrail_engine::upkeep::SessionOverview;
use workrail_host::local_time::local;
use workrail_model::health::SessionHealth;

use crate::confirm::{self, UserConfirmation};
use crate::outcome::{self, EXIT_CODES, Failure, Format};
use crate::output::{self, Tone};
use crate::upkeep::bytes_shown;
use crate::{name, wiring};

#[derive(Debug, Subcommand)]
pub(crate) enum RetentionCommand {
    /// Protect a session: `store gc` and `session delete` will not remove it.
    #[command(after_help = format!("Examples:\n  workrail session keep amber-falcon\n\n{EXIT_CODES}"))]
    Keep(SessionArgument),
    /// Undo `keep`.
    #[command(after_help = format!("Examples:\n  workrail session unkeep amber-falcon\n\n{EXIT_CODES}"))]
    Unkeep(SessionArgument),
    /// Delete a session. Shows it and asks you to type its id or the label of one of its runs.
    #[command(after_help = format!(
        "The session's log is deleted at once and cannot be restored. Content that no other session needs is deleted \
         by the next `workrail store gc`.\n\nExamples:\n  workrail session delete amber-falcon\n  workrail session delete \
         sess_a7pgws9t9jhg9wjr --yes --json\n\n{EXIT_CODES}"
    ))]
    Delete {
        #[command(flatten)]
        named: SessionArgument,
        /// Do not ask for confirmation.
        #[arg(long)]
        yes: bool,
    },
}

#[derive(Debug, Args)]
pub(crate) struct SessionArgument {
    /// A session id, a run id, a prefix of one, or a run's two-word label.
    session: String,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(command: RetentionCommand) -> ExitCode {
    match command {
        RetentionCommand::Keep(named) => outcome::run(named.json, |format| keep(&named, format)),
        RetentionCommand::Unkeep(named) => outcome::run(named.json, |format| unkeep(&named, format)),
        RetentionCommand::Delete { named, yes } => {
            outcome::run(named.json, |format| delete(&named, UserConfirmation::given_if(yes), format))
        }
    }
}

fn keep(named: &SessionArgument, format: Format) -> Result<(), Failure> {
    let engine = wiring::open_existing_default()?;
    let session = name::session_or_run(&engine, &named.session)?.session;
    engine.keep(session)?;
    match format {
        Format::Json => output::json(&json!({ "sessionId": session, "isKept": true })),
        Format::Text => {
            output::toned(Tone::Good, &format!("Session {session} is now kept: it will not be deleted."))
        }
    }
    Ok(())
}

fn unkeep(named: &SessionArgument, format: Format) -> Result<(), Failure> {
    let engine = wiring::open_existing_default()?;
    let session = name::session_or_run(&engine, &named.session)?.session;
    engine.unkeep(session)?;
    match format {
        Format::Json => output::json(&json!({ "sessionId": session, "isKept": false })),
        Format::Text => {
            output::toned(
                Tone::Good,
                &format!("Session {session} is no longer kept: it can be deleted again."),
            );
        }
    }
    Ok(())
}

fn delete(named: &SessionArgument, confirmation: UserConfirmation, format: Format) -> Result<(), Failure> {
    let engine = wiring::open_existing_default()?;
    let session = name::exact(&engine, &named.session)?.session;
    let seen = engine.overview_for_removal(session)?;
    if format == Format::Text {
        show(&seen);
    }
    if !seen.is_kept {
        let answers: Vec<String> =
            seen.runs.iter().map(|run| run.label.clone()).chain([session.to_string()]).collect();
        confirm::confirm_by_typing(
            confirmation,
            "Type the session's id or a run's label to remove it for good:",
            &answers,
        )?;
    }
    let freed = engine.delete(&seen)?;
    match format {
        Format::Json => output::json(&json!({
            "sessionId": session, "deleted": true, "files": freed.files, "bytes": freed.bytes,
            "contentRemovedBy": "workrail store gc",
        })),
        Format::Text => {
            output::toned(
                Tone::Good,
                &format!(
                    "Deleted: {} {}, {}.",
                    freed.files,
                    wiring::store_kind()?.pieces(),
                    bytes_shown(freed.bytes)
                ),
            );
            output::line("Content that no other session needs is deleted by the next `workrail store gc`.");
        }
    }
    Ok(())
}

/// Enough to recognise the right one.
pub(super) fn show(seen: &SessionOverview) {
    output::toned(Tone::Heading, &format!("Session {}", seen.session_id));
    let worked_on = match &seen.last_worked_on {
        Some(at) => format!("last worked on {}", local(at)),
        None => "never worked on".to_owned(),
    };
    output::line(&format!("{} events, {worked_on}", seen.events));
    match &seen.health {
        SessionHealth::Healthy => {}
        SessionHealth::CorruptTail { .. }
        | SessionHealth::CorruptHead { .. }
        | SessionHealth::UnknownVersion { .. } => {
            output::toned(Tone::Warning, "It cannot be read completely; this is the readable part.");
        }
    }
    for run in &seen.runs {
        let status = run.status.map_or("status unknown", |status| status.in_words());
        output::line(&format!("Run {} · {} · {status}", run.label, run.workflow_id));
        if let Some(goal) = &run.goal {
            output::line(&format!("  Goal: {}", one_line(goal)));
        }
    }
}
