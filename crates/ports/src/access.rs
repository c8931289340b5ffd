//! The access tokens of a store: added and revoked, never changed, and never themselves (G113).

use workrail_model::id::AccessTokenId;
use workrail_model::team::AccessToken;
use workrail_model::time::Timestamp;

use crate::keyring::KeyringError;

pub trait AccessTokens: Send + Sync {
    /// Every token, expired and revoked ones included, oldest first.
    fn access_tokens(&self) -> Result<Vec<AccessToken>, KeyringError>;

    fn access_token(&self, id: AccessTokenId) -> Result<Option<AccessToken>, KeyringError>;

    /// Adds a token, durably.
    fn add_access_token(&self, token: &AccessToken) -> Result<(), KeyringError>;

    /// Ends a token, durably; whether there is such a token. One that is revoked already keeps its time.
    fn revoke_access_token(&self, id: AccessTokenId, at: &Timestamp) -> Result<bool, KeyringError>;
}
