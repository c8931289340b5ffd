//! Passkeys: assertions that do not count, and a log that cannot be used.

use workrail_core::passkey::{AssertionRefusal, LogDamage};
use workrail_ports::file_system::FsErrorKind;
use workrail_ports::keyring::KeyringError;
use workrail_ports::passkeys::PasskeyLogError;

use super::{Advice, BoxedError, clause, for_an_admin, invalid, io, keyring, sentence};

/// An assertion that is not valid proof.
pub(crate) fn passkey_refused(refusal: AssertionRefusal) -> BoxedError {
    invalid(
        format!("The passkey was not accepted: {refusal}. Nothing was recorded."),
        "Go back, load the page again and use a passkey that is listed under Settings, Passkeys.",
    )
}

pub(crate) fn passkey_log(cause: PasskeyLogError) -> BoxedError {
    match cause {
        PasskeyLogError::File(cause @ KeyringError::Locked) => keyring(cause),
        PasskeyLogError::File(KeyringError::Io(cause)) if cause.kind == FsErrorKind::Database => io(&cause),
        PasskeyLogError::File(cause) => invalid(
            format!("The passkey log cannot be used: {cause}. Nothing was recorded."),
            Advice::from(
                "Make it a plain file that only its owner may read, in a folder `keys` of the same owner (`chmod`, \
                 `chown`), or restore it from a backup. If it is lost, move it out of the data directory.",
            )
            .by_an_admin("check the owner and the permissions of the folder `keys` in the data directory"),
        ),
        PasskeyLogError::Changed | PasskeyLogError::Full => {
            invalid(format!("{}. Nothing was recorded.", sentence(&cause.to_string())), "Try again.")
        }
    }
}

/// An enrolment, a use, a removal or a reset that does not follow from the log.
pub(crate) fn passkey_log_not_changed(problem: &str) -> BoxedError {
    invalid(
        format!("Nothing was recorded in the passkey log: {problem}."),
        "Go back, load the page again and try it again.",
    )
}

/// A further key without the agreement of an enrolled one.
pub(crate) fn agreement_needed() -> BoxedError {
    invalid(
        "A passkey is enrolled, so another one needs its agreement. Nothing was recorded.".to_owned(),
        Advice::from(
            "Use the enrolled passkey when the browser asks for it. If all are lost: `workrail store passkeys reset` at a \
             terminal, which stays visible forever.",
        )
        .in_team(format!(
            "Use the enrolled passkey when the browser asks for it. If all are lost: {}",
            clause(&for_an_admin("`workrail store passkeys reset` revokes all passkeys, which stays visible forever"))
        )),
    )
}

const RESTORE_PASSKEYS: &str = "restore it from a backup (a data directory: move the damaged `keys/passkeys.jsonl` or \
                                `keys/passkeys.head` out, then run `workrail store restore BACKUP`; a database: \
                                `pg_restore`). Without a backup, run `workrail store passkeys reset` at a terminal: it \
                                revokes all passkeys and sets the damaged log aside";

/// A log that cannot be trusted.
pub(crate) fn passkey_log_damaged(damage: &LogDamage) -> BoxedError {
    invalid(
        format!("The passkey log is damaged ({damage}), so no passkey is accepted. Nothing was recorded."),
        Advice::from(format!("{}.", sentence(RESTORE_PASSKEYS))).by_an_admin(RESTORE_PASSKEYS),
    )
}
