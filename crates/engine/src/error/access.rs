//! Errors about what a caller's role does not allow, and tokens that cannot be made or found.

use workrail_core::access;
use workrail_model::error::{ErrorCode, ErrorDetails, Retry};
use workrail_model::id::AccessTokenId;
use workrail_model::limits::ACCESS_TOKENS_MAX;
use workrail_model::retention::Ttl;
use workrail_model::team::{Act, Principal, Role};
use workrail_ports::file_system::FsErrorKind;
use workrail_ports::keyring::KeyringError;

use super::{Advice, BoxedError, KEYRING_ACCESS, envelope, invalid, keyring};

/// When a member that started too many sessions may start the next one.
const NEW_SESSION_RETRY_AFTER_MS: u64 = 1000;

fn in_words(act: Act) -> &'static str {
    match act {
        Act::Read => "read here",
        Act::Work => "start runs or complete steps",
        Act::Decide => "approve, reject, answer, close runs, change modes or keep sessions",
        Act::Administer => "delete, import, or change keys and tokens",
    }
}

pub(crate) fn not_allowed(principal: &Principal, act: Act) -> BoxedError {
    let roles: Vec<Role> = access::roles_allowed(act).collect();
    let message = format!(
        "{} has the role {}, which may not {}. Nothing was changed.",
        principal.name,
        principal.role.as_str(),
        in_words(act)
    );
    let named: Vec<&str> = roles.iter().map(|role| role.as_str()).collect();
    let next = format!("Ask someone with the role {}.", named.join(" or "));
    let mut refused = envelope(ErrorCode::StoreAccessDenied, Retry::NotRetryable, message, next.as_str());
    refused.details = Some(ErrorDetails::Access { role: principal.role, act, roles });
    refused
}

/// A member started too many sessions lately.
pub fn too_many_new_sessions(principal: &Principal) -> BoxedError {
    let message = format!(
        "{} started too many sessions lately; other calls are not limited by this. Nothing was started.",
        principal.name
    );
    let retry = Retry::RetryableAfterMs { after_ms: NEW_SESSION_RETRY_AFTER_MS };
    let instead = "If the work has a run already, continue that run instead.";
    envelope(ErrorCode::StoreBusy, retry, message, Advice::repeat_soon("").for_agents(instead))
}

/// The access tokens cannot be read or written. They are kept next to the signing keys, which have nothing to do with it.
pub(crate) fn access_tokens(cause: KeyringError) -> BoxedError {
    let (path, problem, remedy) = match &cause {
        KeyringError::Exposed { path } => {
            (path.clone(), "others have access to it".to_owned(), KEYRING_ACCESS.to_owned())
        }
        KeyringError::ForeignOwner { path } => {
            (path.clone(), "it belongs to another user".to_owned(), KEYRING_ACCESS.to_owned())
        }
        KeyringError::Invalid { path, problem } => (path.clone(), problem.clone(), new_tokens(path)),
        KeyringError::UnknownVersion { path, version } => (
            path.clone(),
            format!("it has version {version}, this build reads version 1"),
            "update WorkRail; the tokens are intact".to_owned(),
        ),
        KeyringError::Io(error) if error.kind == FsErrorKind::PermissionDenied => {
            (error.path.to_string(), error.detail.clone(), KEYRING_ACCESS.to_owned())
        }
        KeyringError::Locked
        | KeyringError::Usable { .. }
        | KeyringError::KeyNotGiven
        | KeyringError::OtherKey
        | KeyringError::Io(_) => return keyring(cause),
    };
    let message = format!(
        "The access tokens in `{path}` cannot be used: {problem}. A server lets no member in; the sessions and the signing \
         keys are not affected."
    );
    envelope(
        ErrorCode::StoreAccessTokensUnusable,
        Retry::NotRetryable,
        message,
        Advice::for_the_user(&remedy),
    )
}

/// Only digests of tokens are stored, and no backup of a data directory has them.
fn new_tokens(path: &str) -> String {
    match path.contains('/') {
        true => format!(
            "move `{path}` out of the data directory, then create a new token for each member with `workrail team token \
             create`. The earlier tokens stay invalid"
        ),
        false => format!("restore the rows of the table `workrail.{path}` with `pg_restore`"),
    }
}

pub(crate) fn token_never_valid() -> BoxedError {
    invalid(
        "A token that lasts no time would never be valid.".to_owned(),
        "Choose a longer time, such as 90d.",
    )
}

pub(crate) fn token_lasts_too_long(lasts: Ttl) -> BoxedError {
    let message = format!("A token that lasts {lasts} would end after the year 9999.");
    invalid(message, "Choose a shorter time, such as 90d.")
}

pub(crate) fn too_many_access_tokens() -> BoxedError {
    let message = format!("There are {ACCESS_TOKENS_MAX} usable tokens already.");
    invalid(message, "Revoke some that nobody uses: `workrail team token list` shows them.")
}

pub(crate) fn no_such_access_token(id: AccessTokenId) -> BoxedError {
    invalid(format!("There is no token {id}."), "`workrail team token list` shows all tokens.")
}
