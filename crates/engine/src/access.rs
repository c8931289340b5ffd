//! Who may do what: every use case that changes something asks here first, and every record names its actor (G113,
//! G114).

use workrail_core::access::{self, TokenRefusal};
use workrail_model::error::ErrorEnvelope;
use workrail_model::id::AccessTokenId;
use workrail_model::keyring::HttpSecret;
use workrail_model::limits::ACCESS_TOKENS_MAX;
use workrail_model::name::PrincipalName;
use workrail_model::retention::Ttl;
use workrail_model::team::{AccessSecret, AccessToken, Act, Caller, PresentedToken, Role};
use workrail_model::time::Timestamp;
use workrail_ports::file_system::FsErrorKind;
use workrail_ports::keyring::KeyringError;

use crate::mint::random;
use crate::token::KeyUse;
use crate::{Engine, Store, error};

/// How long a browser stays logged in.
pub const LOGIN_SECONDS: u64 = 12 * 60 * 60;

/// A newly made token; its secret is stored nowhere else.
#[derive(Debug)]
pub struct MadeToken {
    pub token: AccessToken,
    pub presented: PresentedToken,
}

/// Why a token or a login is not accepted.
#[derive(Clone, Debug)]
pub enum AccessRefusal {
    /// Not a token, not one of this store, or with a wrong secret.
    Unknown,
    Expired,
    Revoked,
    /// The store cannot be read.
    Store(Box<ErrorEnvelope>),
}

/// Why a server cannot answer calls, with the cause for its log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotReady {
    /// The store does not answer.
    Store(String),
    /// The store answers, but its keyring cannot be used.
    Keys(String),
    /// The store answers, but no member can be let in.
    AccessTokens(String),
}

fn not_ready(cause: KeyringError, unusable: fn(KeyringError) -> NotReady) -> Result<(), NotReady> {
    match cause {
        // The store answers, but not to this user.
        KeyringError::Io(ref error) if error.kind == FsErrorKind::PermissionDenied => Err(unusable(cause)),
        KeyringError::Io(error) => Err(NotReady::Store(error.to_string())),
        // Another server is writing the file, so the store answers.
        KeyringError::Locked => Ok(()),
        KeyringError::Exposed { .. }
        | KeyringError::ForeignOwner { .. }
        | KeyringError::Invalid { .. }
        | KeyringError::UnknownVersion { .. }
        | KeyringError::KeyNotGiven
        | KeyringError::OtherKey
        | KeyringError::Usable { .. } => Err(unusable(cause)),
    }
}

impl From<TokenRefusal> for AccessRefusal {
    fn from(refusal: TokenRefusal) -> Self {
        match refusal {
            TokenRefusal::Unknown => Self::Unknown,
            TokenRefusal::Expired => Self::Expired,
            TokenRefusal::Revoked => Self::Revoked,
        }
    }
}

impl<S: Store> Engine<S> {
    /// Whether the caller may do this. The user who runs the program may do everything that the operating system and
    /// the database allow.
    pub fn may(&self, act: Act) -> bool {
        self.caller.role().is_none_or(|role| access::allows(role, act))
    }

    /// Refuses what the caller's role does not allow.
    pub(crate) fn permit(&self, act: Act) -> Result<(), Box<ErrorEnvelope>> {
        match &self.caller {
            Caller::Member { principal, .. } if !access::allows(principal.role, act) => {
                Err(error::not_allowed(principal, act))
            }
            Caller::Member { .. } | Caller::Owner(_) => Ok(()),
        }
    }

    /// Makes a token for a member of the team. The store keeps only its digest.
    pub fn make_access_token(
        &self,
        name: PrincipalName,
        role: Role,
        lasts: Ttl,
    ) -> Result<MadeToken, Box<ErrorEnvelope>> {
        self.permit(Act::Administer)?;
        if lasts.ms() == 0 {
            return Err(error::token_never_valid());
        }
        let now = self.environment.clock.now();
        let expires_at = now.plus_ms(lasts.ms()).ok_or_else(|| error::token_lasts_too_long(lasts))?;
        let usable =
            self.access_tokens()?.iter().filter(|token| access::check_valid(token, &now).is_ok()).count();
        if usable >= ACCESS_TOKENS_MAX {
            return Err(error::too_many_access_tokens());
        }
        let entropy = &*self.environment.entropy;
        let presented = PresentedToken {
            id: AccessTokenId::from_bits(random(entropy)?),
            secret: AccessSecret::new(random(entropy)?),
        };
        let token = AccessToken {
            id: presented.id,
            name,
            role,
            digest: presented.secret.digest(),
            created_at: now,
            expires_at,
            revoked_at: None,
        };
        self.store.add_access_token(&token).map_err(error::access_tokens)?;
        Ok(MadeToken { token, presented })
    }

    /// Every token, oldest first.
    pub fn access_tokens(&self) -> Result<Vec<AccessToken>, Box<ErrorEnvelope>> {
        self.permit(Act::Administer)?;
        self.store.access_tokens().map_err(error::access_tokens)
    }

    /// Revokes a token; every server refuses it from the next request on.
    pub fn revoke_access_token(&self, id: AccessTokenId) -> Result<(), Box<ErrorEnvelope>> {
        self.permit(Act::Administer)?;
        let now = self.environment.clock.now();
        match self.store.revoke_access_token(id, &now).map_err(error::access_tokens)? {
            true => Ok(()),
            false => Err(error::no_such_access_token(id)),
        }
    }

    /// Whether the store answers, and its keyring and its access tokens can be used.
    pub fn readiness(&self) -> Result<(), NotReady> {
        let keys = |cause: KeyringError| NotReady::Keys(cause.to_string());
        self.store.peek().map(drop).or_else(|cause| not_ready(cause, keys))?;
        // Whether the tokens can be read shows with any id.
        let any = AccessTokenId::from_bits([0; 10]);
        let tokens = |cause| NotReady::AccessTokens(error::access_tokens(cause).message);
        self.store.access_token(any).map(drop).or_else(|cause| not_ready(cause, tokens))
    }

    /// The caller whose token this is.
    pub fn authenticate(&self, text: &str) -> Result<Caller, AccessRefusal> {
        let sent = PresentedToken::parse(text).ok_or(AccessRefusal::Unknown)?;
        let stored = self.stored_token(sent.id)?;
        let principal = access::check(&sent, stored.as_ref(), &self.environment.clock.now())?;
        Ok(Caller::Member { principal, client: None })
    }

    fn stored_token(&self, id: AccessTokenId) -> Result<Option<AccessToken>, AccessRefusal> {
        self.store.access_token(id).map_err(|cause| AccessRefusal::Store(error::access_tokens(cause)))
    }

    /// Returns what a browser carries instead of a token, valid for some hours on every server with this store's keys.
    pub fn log_in(&self, text: &str) -> Result<String, AccessRefusal> {
        let Caller::Member { principal, .. } = self.authenticate(text)? else {
            return Err(AccessRefusal::Unknown);
        };
        self.signer.refresh(KeyUse::CreateIfNew).map_err(AccessRefusal::Store)?;
        let keyring = self.signer.keyring().ok_or(AccessRefusal::Unknown)?;
        Ok(access::mint_login(&keyring, principal.token_id, self.now_epoch_s() + LOGIN_SECONDS))
    }

    /// Who is logged in, and the token for their forms.
    pub fn logged_in(&self, login: &str) -> Result<(Caller, HttpSecret), AccessRefusal> {
        self.signer.refresh(KeyUse::ReadOnly).map_err(AccessRefusal::Store)?;
        let keyring = self.signer.keyring().ok_or(AccessRefusal::Unknown)?;
        let id = access::verify_login(&keyring, login, self.now_epoch_s()).ok_or(AccessRefusal::Unknown)?;
        let stored = self.stored_token(id)?.ok_or(AccessRefusal::Unknown)?;
        let principal = access::check_valid(&stored, &self.environment.clock.now())?;
        let form_token = HttpSecret::new(access::form_token(&keyring, login));
        Ok((Caller::Member { principal, client: None }, form_token))
    }

    pub(crate) fn now_epoch_s(&self) -> u64 {
        let now: Timestamp = self.environment.clock.now();
        now.epoch_ms().and_then(|ms| u64::try_from(ms / 1000).ok()).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use workrail_ports::file_system::{FsError, FsOp, RelPath};

    use super::*;

    /// Broke: a file without read permission was reported as a store that does not answer.
    #[test]
    fn a_file_that_this_user_may_not_read_is_not_a_store_that_does_not_answer() {
        let found = |kind| {
            let path = RelPath::parse("keys/access-tokens.json").unwrap();
            let error = FsError { op: FsOp::Read, path, kind, detail: "no".to_owned() };
            not_ready(KeyringError::Io(error), |_| NotReady::AccessTokens(String::new()))
        };
        let denied = found(FsErrorKind::PermissionDenied);
        assert!(matches!(denied, Err(NotReady::AccessTokens(_))), "{denied:?}");
        let failed = found(FsErrorKind::Io);
        assert!(matches!(failed, Err(NotReady::Store(_))), "{failed:?}");
    }
}
