//! Turns every failure into the one envelope: what is wrong, why it matters, what to do next (G70).
//!
//! No suggestion is destructive: no command that deletes, no file to remove (G71).

mod access;
mod advice;
mod bundle;
mod call;
mod content;
mod decision;
mod keyring;
mod passkey;
mod token;
mod upkeep;
mod workflow;

use serde_json::Value;
use workrail_core::project::FoldError;
use workrail_core::token::TokenError;
use workrail_model::error::{
    ErrorCode, ErrorDetails, ErrorEnvelope, Oversize, RefusedArgument, Retry, SizeMethod, WriteOutcome,
};
use workrail_model::health::SessionHealth;
use workrail_model::id::SessionId;
use workrail_model::limits::{IO_RETRY_AFTER_MS, LOCK_RETRY_AFTER_MS};
use workrail_model::reply::NextCall;
use workrail_model::tool::ToolName;
use workrail_ports::file_system::{FsError, FsErrorKind, FsOp};
use workrail_ports::session_store::StoreError;

pub use access::too_many_new_sessions;
pub(crate) use access::*;
pub(crate) use advice::at_site;
use advice::{Advice, clause, for_an_admin, sentence};
pub(crate) use bundle::*;
pub(crate) use call::*;
pub(crate) use content::*;
pub(crate) use decision::*;
pub(crate) use keyring::*;
pub(crate) use passkey::*;
pub(crate) use token::*;
pub(crate) use upkeep::*;
pub(crate) use workflow::*;

/// Longer than the names that people give.
const QUOTED_CHARS_MAX: usize = 80;

pub(crate) type BoxedError = Box<ErrorEnvelope>;

fn envelope(code: ErrorCode, retry: Retry, message: String, advice: impl Into<Advice>) -> BoxedError {
    let Advice { suggestion, for_people: suggestion_for_people, in_team } = advice.into();
    Box::new(ErrorEnvelope {
        code,
        message,
        retry,
        suggestion,
        suggestion_for_people,
        in_team,
        next_call: None,
        details: None,
    })
}

/// The beginning of a text from a call, for one line of a message.
pub(crate) fn quoted(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(QUOTED_CHARS_MAX).collect()
}

fn oversize(
    argument: Option<RefusedArgument>,
    measured_bytes: usize,
    max_bytes: usize,
    method: SizeMethod,
) -> ErrorDetails {
    ErrorDetails::Oversize(Oversize { argument, measured_bytes, max_bytes, method })
}

fn advise(error: &mut ErrorEnvelope, advice: impl Into<Advice>) {
    let Advice { suggestion, for_people, in_team } = advice.into();
    error.suggestion = suggestion;
    error.suggestion_for_people = for_people;
    error.in_team = in_team;
}

/// Replaces what an error tells agents.
pub(crate) fn advise_agents(error: &mut ErrorEnvelope, suggestion: String) {
    if let Some(team) = &mut error.in_team {
        team.suggestion.clone_from(&suggestion);
        team.run = None;
    }
    error.suggestion = suggestion;
}

/// Adds a last sentence to what an error tells agents.
pub(crate) fn also_advise_agents(error: &mut ErrorEnvelope, last: &str) {
    let in_team = error.in_team.iter_mut().map(|team| &mut team.suggestion);
    for suggestion in in_team.chain([&mut error.suggestion]) {
        suggestion.push(' ');
        suggestion.push_str(last);
    }
}

fn invalid(message: String, advice: impl Into<Advice>) -> BoxedError {
    envelope(ErrorCode::ValidationError, Retry::RetryableImmediate, message, advice)
}

/// A problem before anything was recorded.
pub(crate) fn internal(problem: &str) -> BoxedError {
    bug(format!("Internal error: {problem}. Nothing was recorded."))
}

/// Something that must hold and does not; it may be found after a record was made.
pub(crate) fn broken_invariant(invariant: &str) -> BoxedError {
    bug(format!("Internal error: violated invariant: {invariant}."))
}

fn bug(message: String) -> BoxedError {
    let advice = Advice {
        suggestion: "Repeat the call once; if it fails again, report it as a WorkRail bug.".to_owned(),
        for_people: Some("Run the command again; if it fails again, report it as a WorkRail bug.".to_owned()),
        in_team: None,
    };
    envelope(ErrorCode::InternalInvariant, Retry::RetryableImmediate, message, advice)
}

pub(crate) fn store(cause: StoreError) -> BoxedError {
    match &cause {
        StoreError::Locked { .. } => token(&TokenError::SessionLocked),
        StoreError::NotFound { session } => unknown_session(*session),
        StoreError::Unhealthy { session, health: found } => health(*session, found),
        StoreError::Io(FsError { op: FsOp::Write, kind: FsErrorKind::TooLarge { .. }, detail, .. }) => {
            session_full(detail)
        }
        StoreError::Busy => busy(),
        StoreError::Uncertain(error) => uncertain(error),
        StoreError::Io(error) => io(error),
        StoreError::MissingContent(error) => content(error.clone()),
        // The engine attaches everything new, so this was stored before.
        StoreError::Unattached { kind, digest } => lost_content(*kind, digest),
        StoreError::AlreadyExists { .. }
        | StoreError::Stale { .. }
        | StoreError::WrongSession { .. }
        | StoreError::DedupeConflict { .. } => internal(&cause.to_string()),
    }
}

const NEW_SESSION: &str = "Continue in a new session: start the workflow again without `parent` and `sessionToken`, and \
                           pass what the remaining steps need in `context`.";

/// The session has reached the size limit of its log: it can be read but not extended.
fn session_full(detail: &str) -> BoxedError {
    envelope(
        ErrorCode::StoreIo,
        Retry::NotRetryable,
        format!("This session's log is full: {detail}. Nothing was recorded; everything before is intact."),
        Advice::from(format!(
            "{NEW_SESSION} `workrail report` and `workrail session export` still read this session."
        ))
        .in_team(format!("{NEW_SESSION} read_run and the team's console still read this session.")),
    )
}

/// What a person can do about a failing disk.
fn remedy(cause: &FsError) -> &'static str {
    match cause.kind {
        FsErrorKind::NoSpace | FsErrorKind::Quota => "Free some disk space",
        FsErrorKind::ReadOnly => "Make the file system writable",
        FsErrorKind::PermissionDenied => {
            "Give the account that runs WorkRail access to the named file, and to the folder that contains it"
        }
        FsErrorKind::TooManyOpenFiles => "Close other programs or raise the limit of open files",
        FsErrorKind::WrongKind => {
            "Fix what `workrail store verify` reports (a file or folder was replaced by something of another kind)"
        }
        FsErrorKind::NotFound
        | FsErrorKind::AlreadyExists
        | FsErrorKind::TooLarge { .. }
        | FsErrorKind::Io => "Check the disk and the data directory",
        FsErrorKind::Database => "Check that the database of the store is running and can be reached",
    }
}

/// What failed, for the start of a message.
fn what_failed(cause: &FsError) -> &'static str {
    if cause.kind == FsErrorKind::Database { "Database error" } else { "Disk error" }
}

/// A store-wide lock could not be taken in time; nothing was started.
fn busy() -> BoxedError {
    envelope(
        ErrorCode::StoreBusy,
        Retry::RetryableAfterMs { after_ms: LOCK_RETRY_AFTER_MS },
        "Other processes are using the store, and the wait for them was too long. Nothing was recorded."
            .to_owned(),
        Advice::repeat_soon(""),
    )
}

/// The server shuts down while checks run; the message is for callers that still listen.
pub(crate) fn checks_interrupted() -> BoxedError {
    envelope(
        ErrorCode::StoreBusy,
        Retry::RetryableAfterMs { after_ms: LOCK_RETRY_AFTER_MS },
        "The server is shutting down, and the checks of this step were stopped. Nothing was recorded."
            .to_owned(),
        Advice::repeat_soon("The checks then run again.")
            .in_team("Send the same call again in a moment. The checks then run again."),
    )
}

const RECORDED_ONCE: &str = "If it was recorded, you get the recorded answer; nothing is recorded twice.";

/// The disk failed when everything except the commit was written: a later call finds it recorded, or records it.
fn uncertain(cause: &FsError) -> BoxedError {
    let mut error = io(cause);
    let advice = Advice::repeat_after_the_user(remedy(cause));
    // Whatever failed: the same call finds out, and completes the write (G13, G14).
    error.retry = Retry::RetryableAfterMs { after_ms: IO_RETRY_AFTER_MS };
    error.message = format!(
        "{}: {cause}. This call may have been recorded anyway; earlier work is intact.",
        what_failed(cause)
    );
    advise(&mut error, advice.for_agents(RECORDED_ONCE));
    error.details =
        Some(ErrorDetails::Outcome { outcome: WriteOutcome::Unknown, fix: remedy(cause).to_owned() });
    error
}

/// Whether a call that failed may have been recorded.
pub(crate) fn is_outcome_unknown(error: &ErrorEnvelope) -> bool {
    matches!(error.details, Some(ErrorDetails::Outcome { outcome: WriteOutcome::Unknown, .. }))
}

/// For a call that creates something under a new id: repeating it would create a second one, so the caller
/// checks first.
pub(crate) fn check_before_repeating(
    mut error: BoxedError,
    made: &str,
    repeat: &str,
    check_call: NextCall,
) -> BoxedError {
    let Some(ErrorDetails::Outcome { outcome: WriteOutcome::Unknown, fix }) = &error.details else {
        return error;
    };
    let fix = clause(fix);
    let in_team = for_an_admin(&fix);
    let first = "Do not send this call again yet: it could make a second one.";
    let check = format!(
        "call {} as below. If it finds {made}, continue with that. If it does not, {repeat}",
        check_call.tool
    );
    let advice = Advice::from(format!("{first} Tell the user: {fix}. Then {check}"));
    advise(&mut error, advice.in_team(format!("{first} {in_team} Then {check}")));
    error.retry = Retry::NotRetryable;
    // What was being made has a name only where it was made.
    error.next_call = Some(check_call);
    error
}

/// The start is recorded, but its reply could not be made. Repeated without a key, it would start a second run.
pub(crate) fn started_but_not_shown(mut error: BoxedError, label: &str) -> BoxedError {
    error.message =
        format!("Run {label} was started, but its first step cannot be shown now. {}", error.message);
    advise(&mut error, "Do not start it again: make the call below to continue the run.");
    // Any error can be the cause: the policy would follow its code, not the run that now exists.
    error.next_call = Some(NextCall::new(ToolName::ResumeSession, [("run", Value::from(label))]));
    error
}

/// What a failed disk operation means to a caller.
pub fn io(cause: &FsError) -> BoxedError {
    let next = remedy(cause);
    // Nothing is wrong with the disk; this ends when other files are closed.
    if cause.kind == FsErrorKind::TooManyOpenFiles {
        return envelope(
            ErrorCode::StoreBusy,
            Retry::RetryableAfterMs { after_ms: LOCK_RETRY_AFTER_MS },
            format!("Too many files are open: {cause}. Nothing was acknowledged; earlier work is intact."),
            Advice::repeat_soon_or(&clause(next)),
        );
    }
    let message =
        format!("{}: {cause}. Nothing was acknowledged; earlier work is intact.", what_failed(cause));
    let advice = Advice::repeat_after_the_user(next);
    envelope(ErrorCode::StoreIo, retry_after(cause.kind), message, advice)
}

/// A missing permission stays missing until a person grants it, and what was replaced stays replaced; the other causes
/// can end by themselves.
fn retry_after(kind: FsErrorKind) -> Retry {
    match kind {
        FsErrorKind::ReadOnly | FsErrorKind::PermissionDenied | FsErrorKind::WrongKind => Retry::NotRetryable,
        FsErrorKind::NotFound
        | FsErrorKind::AlreadyExists
        | FsErrorKind::NoSpace
        | FsErrorKind::Quota
        | FsErrorKind::TooManyOpenFiles
        | FsErrorKind::TooLarge { .. }
        | FsErrorKind::Database
        | FsErrorKind::Io => Retry::RetryableAfterMs { after_ms: IO_RETRY_AFTER_MS },
    }
}

const STOP: &str = "Stop working on this run.";

/// As far as is known, nothing is damaged.
const ACCESS_DENIED: &str = "give the user that runs WorkRail read permission for the named file or folder \
                             (`chmod u+r` on a file, `chmod u+rwx` on a folder). Nothing is lost";

pub(crate) fn health(session: SessionId, found: &SessionHealth) -> BoxedError {
    let (code, why) = match found {
        SessionHealth::Healthy => (ErrorCode::InternalInvariant, "it is healthy".to_owned()),
        SessionHealth::CorruptHead { reason } | SessionHealth::CorruptTail { reason, .. } => {
            (ErrorCode::SessionCorrupt, reason.to_string())
        }
        SessionHealth::UnknownVersion { record, version } => {
            (ErrorCode::SessionUnknownVersion, format!("{record} has version {version}"))
        }
    };
    let advice = match found {
        SessionHealth::UnknownVersion { .. } => {
            Advice::for_the_user("a newer version of WorkRail wrote this session; update WorkRail to continue it")
                .for_agents("After the update, send the same call again with the same arguments.")
        }
        denied if denied.is_access_denied() => Advice::for_the_user(ACCESS_DENIED),
        SessionHealth::CorruptTail { .. } => Advice::for_the_user(&format!(
            "the records before the damage are intact. `workrail store repair {session} --dry-run` shows what can be saved"
        ))
        .after(STOP),
        SessionHealth::Healthy => Advice::for_the_user("nothing was changed").after(STOP),
        SessionHealth::CorruptHead { .. } => {
            Advice::for_the_user(&format!("`workrail store repair {session} --dry-run` shows what can be saved"))
                .after(STOP)
        }
    };
    let message = format!("Session {session} cannot be continued: {why}. Nothing was changed.");
    let mut error = envelope(code, Retry::NotRetryable, message, advice);
    error.details = Some(ErrorDetails::Session(found.clone()));
    error
}

pub(crate) fn fold(session: SessionId, cause: &FoldError) -> BoxedError {
    envelope(
        ErrorCode::SessionCorrupt,
        Retry::NotRetryable,
        format!("Session {session} cannot be continued: {}. Nothing was changed.", chain(cause)),
        Advice::for_the_user(&format!("`workrail store repair {session} --dry-run` shows what can be saved"))
            .after(STOP),
    )
}

fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(inner) = source {
        text.push_str(": ");
        text.push_str(&inner.to_string());
        source = inner.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use workrail_core::decide::DecideError;
    use workrail_model::event::EventError;
    use workrail_model::plan::PlanError;
    use workrail_ports::file_system::RelPath;
    use workrail_ports::keyring::KeyringError;

    fn failed_sync() -> FsError {
        let (path, detail) = (RelPath::root(), "input/output error".to_owned());
        FsError { op: FsOp::Write, path, kind: FsErrorKind::Io, detail }
    }

    #[test]
    fn a_call_that_creates_something_says_to_check_before_repeating() {
        let check_call = || NextCall::new(ToolName::ResumeSession, [("run", Value::from("amber-falcon"))]);
        let unknown = store(StoreError::Uncertain(failed_sync()));
        assert!(matches!(unknown.retry, Retry::RetryableAfterMs { .. }), "an advance can be repeated");
        let unknown = check_before_repeating(unknown, "run amber-falcon", "start it again.", check_call());
        assert_eq!((unknown.retry, &unknown.next_call), (Retry::NotRetryable, &Some(check_call())));
        assert!(unknown.suggestion.starts_with("Do not send this call again yet"), "{}", unknown.suggestion);
        // A call that was certainly not recorded can be repeated as it is.
        let certain = store(StoreError::Io(failed_sync()));
        assert_eq!(check_before_repeating(certain.clone(), "", "", check_call()), certain);
    }

    #[test]
    fn only_a_person_can_end_a_missing_permission() {
        for kind in [FsErrorKind::PermissionDenied, FsErrorKind::ReadOnly, FsErrorKind::WrongKind] {
            let error = store(StoreError::Io(FsError { kind, ..failed_sync() }));
            assert_eq!((error.code, error.retry), (ErrorCode::StoreIo, Retry::NotRetryable), "{kind:?}");
            // The write is completed by the same call, whatever failed.
            let unknown = store(StoreError::Uncertain(FsError { kind, ..failed_sync() }));
            assert!(matches!(unknown.retry, Retry::RetryableAfterMs { .. }), "{kind:?}");
        }
        for kind in [FsErrorKind::NoSpace, FsErrorKind::Quota, FsErrorKind::Io, FsErrorKind::Database] {
            let error = store(StoreError::Io(FsError { kind, ..failed_sync() }));
            assert!(matches!(error.retry, Retry::RetryableAfterMs { .. }), "{kind:?}");
        }
    }

    /// Broke: agents were told to free disk space and to fix what `workrail store verify` reports.
    #[test]
    fn an_agent_is_not_told_to_fix_the_disk_itself() {
        for kind in [
            FsErrorKind::NoSpace,
            FsErrorKind::Quota,
            FsErrorKind::ReadOnly,
            FsErrorKind::PermissionDenied,
            FsErrorKind::TooManyOpenFiles,
            FsErrorKind::WrongKind,
            FsErrorKind::Io,
            FsErrorKind::Database,
        ] {
            let cause = FsError { kind, ..failed_sync() };
            let fix = clause(remedy(&cause));
            for error in [io(&cause), uncertain(&cause)] {
                let said = error.suggestion.to_lowercase();
                assert!(said.contains(&format!("tell the user: {}", fix.to_lowercase())), "{said}");
                assert!(!error.suggestion_for_a_person().contains("the user: "), "{kind:?}");
            }
        }
    }

    #[test]
    fn advice_for_people_names_commands() {
        let errors = [
            store(StoreError::Uncertain(failed_sync())),
            store(StoreError::Io(failed_sync())),
            store(StoreError::Io(FsError { kind: FsErrorKind::TooManyOpenFiles, ..failed_sync() })),
            store(StoreError::Busy),
            store(StoreError::Locked { session: SessionId::from_bits([1; 10]) }),
            keyring(KeyringError::Locked),
        ];
        for error in errors {
            let said = error.suggestion_for_a_person();
            assert!(said.to_lowercase().contains("run the command again"), "{said}");
            assert!(!said.contains("call") && !said.contains("token"), "{said}");
        }
        let denied =
            keyring(KeyringError::Io(FsError { kind: FsErrorKind::PermissionDenied, ..failed_sync() }));
        assert!(denied.suggestion.contains("0700") && !denied.suggestion.contains("keys new"));
        assert!(denied.suggestion_for_a_person().starts_with("In the data directory"));
    }

    #[test]
    fn a_broken_invariant_is_not_reported_as_the_problem_and_claims_nothing_about_records() {
        let error = broken_invariant("a run has a tip");
        assert_eq!(error.message, "Internal error: violated invariant: a run has a tip.");
        assert_eq!(error.code, ErrorCode::InternalInvariant);
        let error = internal("the saved state could not be read");
        assert_eq!(error.message, "Internal error: the saved state could not be read. Nothing was recorded.");
    }

    #[test]
    fn a_full_log_is_not_reported_as_a_disk_failure() {
        let path = RelPath::root();
        let kind = FsErrorKind::TooLarge { len: 1, max: 1 };
        let detail = "the manifest is full at record 7".to_owned();
        let error = store(StoreError::Io(FsError { op: FsOp::Write, path, kind, detail }));
        assert_eq!((error.code, error.retry), (ErrorCode::StoreIo, Retry::NotRetryable));
        assert!(error.message.contains("log is full: the manifest is full at record 7"), "{}", error.message);
        assert!(error.suggestion.contains("new session"), "{}", error.suggestion);
    }

    #[test]
    fn exhausted_event_numbers_are_reported_as_a_full_log() {
        let source = EventError::Field { field: "eventIndex".to_owned(), problem: "is beyond".to_owned() };
        let error = decide(&DecideError::Plan(PlanError::Event { position: 0, source }));
        assert_eq!((error.code, error.retry), (ErrorCode::StoreIo, Retry::NotRetryable));
    }
}
