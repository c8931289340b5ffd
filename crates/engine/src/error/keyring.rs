//! Signing keys that cannot be used, and what the user can do about it.

use workrail_model::error::{ErrorCode, Retry};
use workrail_model::limits::LOCK_RETRY_AFTER_MS;
use workrail_ports::file_system::FsErrorKind;
use workrail_ports::keyring::KeyringError;

use super::advice::{Advice, sentence};
use super::{BoxedError, envelope, invalid, io};

pub(crate) fn keyring(cause: KeyringError) -> BoxedError {
    match &cause {
        KeyringError::Io(error) if error.kind == FsErrorKind::PermissionDenied => {
            unusable_keyring(&format!("the keyring cannot be used: {error}"), KEYRING_ACCESS)
        }
        KeyringError::Io(error) if error.kind == FsErrorKind::WrongKind => unusable_keyring(
            &format!("the folder of the signing keys cannot be used: {error}"),
            "move `keys` out of the data directory, then restore it from a backup or run `workrail store keys \
             new`",
        ),
        KeyringError::Io(error) => io(error),
        KeyringError::Locked => envelope(
            ErrorCode::StoreBusy,
            Retry::RetryableAfterMs { after_ms: LOCK_RETRY_AFTER_MS },
            format!("{}. Nothing was recorded.", sentence(&cause.to_string())),
            Advice::repeat_soon(""),
        ),
        KeyringError::Exposed { .. } => unusable_keyring(
            &cause.to_string(),
            "give the folder `keys` of the data directory mode 0700 and the files in it mode 0600",
        ),
        KeyringError::ForeignOwner { .. } => unusable_keyring(
            &cause.to_string(),
            "run WorkRail as the owner of the data directory, or give the folder `keys` and the files \
             in it to the user who runs WorkRail",
        ),
        KeyringError::Invalid { path, .. } | KeyringError::UnknownVersion { path, .. } => {
            unusable_keyring(&cause.to_string(), &remedy(path))
        }
        KeyringError::KeyNotGiven | KeyringError::OtherKey => {
            unusable_keyring(&cause.to_string(), ENCRYPTED_REMEDY)
        }
        KeyringError::Usable { .. } => invalid(
            format!("{}.", sentence(&cause.to_string())),
            "To sign with a fresh key, run `workrail store keys rotate`.",
        ),
    }
}

/// The keys may be intact: only access is missing, and new keys could not be written there either.
pub(super) const KEYRING_ACCESS: &str = "in the data directory, give the folder `keys` mode 0700 and the files in \
     it mode 0600 (`chmod 700 keys && chmod 600 keys/*`), owned by the user who runs WorkRail";

/// Both options; the sessions themselves need no keys.
fn remedy(path: &str) -> String {
    format!(
        "restore {path} from a backup, or run `workrail store keys new`. New keys revoke tokens in open chats; every \
         run can be found again"
    )
}

/// The keys are intact, and other machines may be using them.
const ENCRYPTED_REMEDY: &str = "give this machine the key that the others have: name its file with `key_file=/PATH` in the \
     address of the store or in `WORKRAIL_STORE_KEY_FILE`, then restart the servers of this machine. Only if the key is \
     lost everywhere, run `workrail store keys new --replace-encrypted`";

/// Sessions exist but the keyring does not: making a new one silently would invalidate every token without a word.
pub(crate) fn keyring_lost(location: &str) -> BoxedError {
    unusable_keyring(
        &format!("the keyring `{location}` is missing, but this store has sessions"),
        &remedy(location),
    )
}

fn unusable_keyring(what: &str, remedy: &str) -> BoxedError {
    let message = format!("{}. No token can be signed or checked; all sessions are intact.", sentence(what));
    envelope(ErrorCode::StoreKeyringUnusable, Retry::NotRetryable, message, Advice::for_the_user(remedy))
}
