//! Content that cannot be used: which file, which runs need it, and how to restore it.

use workrail_core::label::RunLabel;
use workrail_core::project::{RunState, SessionState};
use workrail_model::error::{ErrorCode, ErrorDetails, Retry, TeamSuggestion};
use workrail_model::plan::AttachmentKind;
use workrail_model::reply::NextCall;
use workrail_ports::content::ContentError;

use super::{Advice, BoxedError, advise, chain, envelope, for_an_admin, io, sentence};

const REPAIR: &str = "`workrail store repair --all`, which recomputes the file or, with `--from BACKUP`, restores it \
                      from a backup";
const AFFECTED: &str = "`workrail store verify` names the sessions that need it";

/// How many runs an error names; beyond that it gives the number.
const RUNS_NAMED_MAX: usize = 8;

pub(crate) fn content(cause: ContentError) -> BoxedError {
    if let ContentError::Io(error) = &cause {
        return io(error);
    }
    damaged(&sentence(&chain(&cause)))
}

/// The recorded reply to a repeated call is lost. It cannot be recomputed, but the run continues without it.
pub(crate) fn lost_reply(cause: ContentError, next_call: NextCall) -> BoxedError {
    let mut error = content(cause);
    if error.code == ErrorCode::StoreContentDamaged {
        advise(
            &mut error,
            "Do not start over: this call was recorded before, only its stored reply is lost. Call continue_workflow \
             as below: it shows the step that followed with new tokens and changes nothing.",
        );
    }
    // The lost reply's node is known only where it was looked for.
    error.next_call = Some(next_call);
    error
}

/// A bundle is complete or not made at all; a backup takes what exists.
pub(crate) fn unexportable_content(cause: ContentError) -> BoxedError {
    let mut error = content(cause);
    if error.code == ErrorCode::StoreContentDamaged {
        advise(
            &mut error,
            Advice::from(format!(
                "Run {REPAIR}. If neither works, move the session (from a data directory only) with \
                 `workrail store backup FOLDER` and `workrail store restore FOLDER`: they copy everything but this \
                 file."
            ))
            .by_an_admin(&format!("run {REPAIR}")),
        );
    }
    error
}

/// Content that was stored once and that a new event refers to again.
pub(crate) fn lost_content(kind: AttachmentKind, digest: &str) -> BoxedError {
    let kind = match kind {
        AttachmentKind::Snapshot => "snapshot",
        AttachmentKind::Blob => "blob",
        AttachmentKind::Workflow => "pinned workflow",
    };
    damaged(&format!("The stored {kind} {digest} is missing or damaged"))
}

fn damaged(what: &str) -> BoxedError {
    let admin = for_an_admin(&format!("run {REPAIR}; {AFFECTED}"));
    envelope(
        ErrorCode::StoreContentDamaged,
        Retry::NotRetryable,
        format!("{what}. Nothing was changed."),
        Advice {
            suggestion: format!(
                "Do not start over: the record of the run is intact. Ask the user to run {REPAIR}; {AFFECTED}. Then \
                 send the same call again."
            ),
            for_people: Some(format!("Run {REPAIR}; {AFFECTED}. Then run the command again.")),
            in_team: Some(TeamSuggestion {
                suggestion: format!(
                    "Do not start over: the record of the run is intact. {admin} Then send the same call again."
                ),
                for_people: Some(admin),
                run: None,
            }),
        },
    )
}

/// Adds to an error about damaged content which of the session's runs need it.
pub(crate) fn naming_runs(mut error: BoxedError, facts: &SessionState) -> BoxedError {
    if error.code != ErrorCode::StoreContentDamaged || error.details.is_some() {
        return error;
    }
    let needs_it = |run: &&RunState| {
        error.message.contains(run.workflow_hash.digest().hex().as_str())
            || facts
                .nodes(run.run_id)
                .any(|node| error.message.contains(node.snapshot_ref.digest().hex().as_str()))
    };
    let affected: Vec<String> =
        facts.runs().filter(needs_it).map(|run| RunLabel::of(run.run_id).to_string()).collect();
    if affected.is_empty() {
        return error;
    }
    let named = &affected[..affected.len().min(RUNS_NAMED_MAX)];
    let more = match affected.len() - named.len() {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    error.message.push_str(&format!(" Runs of this session that need it: {}{more}.", named.join(", ")));
    error.details = Some(ErrorDetails::AffectedRuns { runs: named.to_vec(), run_count: affected.len() });
    error
}
