//! Why a maintenance request by a person was not carried out (G24, G25).

use workrail_model::error::{Doubt, ErrorCode, ErrorDetails, Retry};
use workrail_model::health::{CorruptionReason, SessionHealth};
use workrail_model::id::SessionId;
use workrail_model::limits::LOCK_RETRY_AFTER_MS;
use workrail_ports::backup::CopyError;
use workrail_ports::file_system::{FsError, FsErrorKind};
use workrail_ports::session_store::StoreError;
use workrail_ports::upkeep::{Obstacle, SafeModeReason, UpkeepError};

use super::{
    Advice, BoxedError, advise, clause, envelope, health, invalid, io, remedy, sentence, store,
    unknown_reference,
};

/// Doubts named in one message; the others are counted.
const DOUBTS_SHOWN_MAX: usize = 5;

pub(crate) fn upkeep(cause: UpkeepError) -> BoxedError {
    match cause {
        UpkeepError::Kept { session } => {
            let first = format!("To delete it, run `workrail session unkeep {session}` first.");
            let advice = Advice::from(first).in_team("To delete it, stop keeping it on its page first.");
            invalid(format!("Session {session} is kept. Nothing was deleted."), advice)
        }
        UpkeepError::Changed { session } => envelope(
            ErrorCode::SessionLocked,
            Retry::RetryableAfterMs { after_ms: LOCK_RETRY_AFTER_MS },
            format!("Session {session} was used in the meantime. Nothing was changed."),
            Advice::from("Look at it again, then repeat the command.").in_team("Look at it again, then try again."),
        ),
        UpkeepError::Busy => envelope(
            ErrorCode::StoreBusy,
            Retry::RetryableAfterMs { after_ms: LOCK_RETRY_AFTER_MS },
            "Other processes kept writing to the store, and this command needs exclusive access for a moment."
                .to_owned(),
            Advice::from("Run the same command again in a moment. No session lost data.")
                .in_team("Try again in a moment. No session lost data."),
        ),
        UpkeepError::InDoubt(doubts) => safe_mode(&doubts),
        UpkeepError::NotRepairable { session, health: found } => not_repairable(session, &found),
        UpkeepError::NotCopied { .. } => envelope(
            ErrorCode::StoreIo,
            Retry::NotRetryable,
            format!("{}. Nothing was changed.", sentence(&cause.to_string())),
            "Make the file readable, or move it out of the data directory, then repeat the command.",
        ),
        UpkeepError::Store(StoreError::Locked { session }) => session_locked(session),
        UpkeepError::Store(StoreError::NotFound { session }) => unknown_reference(&session.to_string()),
        UpkeepError::Store(StoreError::Io(cause)) => upkeep_io(&cause),
        UpkeepError::Store(cause) => store(cause),
    }
}

/// A refusal whose cause is that something is in the place of a session's folder.
pub(crate) fn obstructed(mut refused: BoxedError, obstacle: &Obstacle) -> BoxedError {
    refused.message = format!("`{}`: {}. Nothing was changed.", obstacle.path, obstacle.problem);
    advise(&mut refused, obstacle.fix.as_str());
    refused
}

/// A failing disk, reported to a person who ran a command.
pub(crate) fn upkeep_io(cause: &FsError) -> BoxedError {
    let mut error = io(cause);
    if cause.kind != FsErrorKind::TooManyOpenFiles {
        error.message = format!("Disk error: {cause}. No session lost data.");
    }
    let fix = remedy(cause);
    let advice = Advice::from(format!("{fix}, then run the same command again.")).by_an_admin(&clause(fix));
    advise(&mut error, advice);
    error
}

/// For a command that found the session locked; agents' calls have their own code, about their token.
pub(crate) fn locked_for_command(session: SessionId, refused: BoxedError) -> BoxedError {
    if refused.code == ErrorCode::TokenSessionLocked { session_locked(session) } else { refused }
}

fn session_locked(session: SessionId) -> BoxedError {
    envelope(
        ErrorCode::SessionLocked,
        Retry::RetryableAfterMs { after_ms: LOCK_RETRY_AFTER_MS },
        format!("Another process is writing to session {session}. Nothing was changed."),
        Advice::from(
            "Run the same command again in a moment. If it persists, end the WorkRail process that hangs; in a data directory, \
             `workrail doctor` names the lock that is held.",
        )
        .in_team("Try again in a moment. If it persists, tell an admin of the team."),
    )
}

const SAY_AND_REPAIR: &str = "`workrail store verify` says what is wrong with each; `workrail store repair SESSION` repairs \
                              what can be repaired";

/// Why nothing is removed, or nothing more.
pub(crate) fn safe_mode(doubts: &[SafeModeReason]) -> BoxedError {
    let shown = doubts.iter().take(DOUBTS_SHOWN_MAX).map(|doubt| format!("{} ({})", doubt.what, doubt.why));
    let mut named = shown.collect::<Vec<_>>().join("; ");
    if doubts.len() > DOUBTS_SHOWN_MAX {
        named.push_str(&format!("; and {} more", doubts.len() - DOUBTS_SHOWN_MAX));
    }
    let mut error = envelope(
        ErrorCode::StoreSafeMode,
        Retry::NotRetryable,
        format!("No content was removed, because WorkRail cannot tell what these sessions need: {named}."),
        Advice::from(format!("{SAY_AND_REPAIR}. Then run `workrail store gc` again."))
            .by_an_admin(SAY_AND_REPAIR),
    );
    error.details = Some(ErrorDetails::Doubts(
        doubts.iter().map(|doubt| Doubt { subject: doubt.what.clone(), why: doubt.why.clone() }).collect(),
    ));
    error
}

/// What would be deleted is not what the user agreed to.
pub(crate) fn cleanup_changed() -> BoxedError {
    envelope(
        ErrorCode::ValidationError,
        Retry::NotRetryable,
        "What would be removed has changed since it was shown. Nothing was removed.".to_owned(),
        "Look at what would be removed now, then decide again.",
    )
}

fn from_a_copy(session: SessionId) -> Advice {
    let what = format!(
        "`workrail store restore BACKUP {session}` restores it from a backup of a data directory. In a database, delete it \
         with `workrail session delete {session}`, then take it from a copy: `workrail store copy COPY DATABASE --merge`. \
         Nothing was changed"
    );
    Advice::from(format!("{what}.")).by_an_admin(&what)
}

/// The target of a copy has sessions that did not come from the source.
pub(crate) fn foreign_target(count: usize, named: &[SessionId]) -> BoxedError {
    let named: Vec<String> = named.iter().map(ToString::to_string).collect();
    let more = if count > named.len() { ", ..." } else { "" };
    invalid(
        format!(
            "The target has sessions that are not in the source, or that continued there: {count} ({}{more}). Nothing was copied.",
            named.join(", ")
        ),
        "Name an empty store, or add `--merge` to copy the sessions next to them.",
    )
}

/// The bytes of the log are intact, but its very first events contradict each other.
pub(crate) fn nothing_to_keep(session: SessionId, damage: &str) -> BoxedError {
    let message = format!("Session {session} is damaged ({damage}), and no whole part of it can be kept.");
    envelope(ErrorCode::SessionCorrupt, Retry::NotRetryable, message, from_a_copy(session))
}

fn not_repairable(session: SessionId, found: &SessionHealth) -> BoxedError {
    let mut error = health(session, found);
    let (message, suggestion) = match found {
        SessionHealth::UnknownVersion { record, version } => (
            format!(
                "Session {session} is not damaged: it was written by a newer WorkRail ({record}, version {version})."
            ),
            Advice::from("Update WorkRail. A repair would lose what the newer version recorded."),
        ),
        SessionHealth::CorruptHead { reason: reason @ CorruptionReason::AccessDenied { .. } }
        | SessionHealth::CorruptTail { reason: reason @ CorruptionReason::AccessDenied { .. }, .. } => (
            format!(
                "Session {session} cannot be checked: {reason}. Nothing was changed, and nothing is given up."
            ),
            Advice::from(
                "Give this user read permission (`chmod u+r` on a file, `chmod u+rwx` on a folder), then run the same \
                 command again.",
            ),
        ),
        SessionHealth::CorruptHead { reason } => (
            format!(
                "Session {session} is damaged from its beginning ({reason}), and its first segment is not whole, so \
                 there is nothing to keep."
            ),
            from_a_copy(session),
        ),
        SessionHealth::CorruptTail { reason, .. } => (
            format!("Session {session} is damaged ({reason}), and no whole part of it can be kept."),
            from_a_copy(session),
        ),
        SessionHealth::Healthy => (
            format!("Session {session} has no damage that a repair could cut away."),
            Advice::from(format!("`workrail store verify {session}` says what else may be wrong.")),
        ),
    };
    error.message = message;
    advise(&mut error, suggestion);
    error
}

/// Why a backup or restore was not carried out.
pub(crate) fn copy(cause: CopyError) -> BoxedError {
    match cause {
        CopyError::NotABackup => invalid(
            "The folder contains files and is not a WorkRail backup. Nothing was written.".to_owned(),
            "Name an empty or a new folder, or the folder of an earlier backup.",
        ),
        CopyError::NewerBackup { version } => invalid(
            format!(
                "The backup has format version {version}, which this WorkRail does not know. Nothing was written."
            ),
            "Update WorkRail, or name another folder.",
        ),
        CopyError::Busy => envelope(
            ErrorCode::StoreBusy,
            Retry::RetryableAfterMs { after_ms: LOCK_RETRY_AFTER_MS },
            "Another backup, restore, import or `workrail store gc` is at work in one of the two stores."
                .to_owned(),
            "Run the same command again in a moment. Everything copied so far is kept.",
        ),
        CopyError::NotReadBack { path, detail } => envelope(
            ErrorCode::StoreIo,
            Retry::NotRetryable,
            format!("`{path}` was copied, but reading it back failed: {detail}. Do not rely on this copy."),
            "Check the disk that it was written to, then run the same command again.",
        ),
        CopyError::Source(StoreError::Io(cause)) => {
            let mut error = io(&cause);
            error.message = format!("The store that is copied could not be read: {cause}.");
            advise(&mut error, format!("{}, then run the same command again.", remedy(&cause)));
            error
        }
        CopyError::Source(cause) => upkeep(cause.into()),
        CopyError::Target(UpkeepError::Store(StoreError::Io(cause))) => {
            let mut error = io(&cause);
            error.message =
                format!("The copy could not be written: {cause}. Everything copied so far is intact.");
            let fix = remedy(&cause);
            advise(
                &mut error,
                format!("{fix}, then run the same command again; it continues where it stopped."),
            );
            error
        }
        CopyError::Target(cause) => upkeep(cause),
    }
}
