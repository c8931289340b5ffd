//! The store's access tokens: added and revoked, never changed. The secrets themselves are never stored (G113).

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

    /// Revokes a token, durably. Returns whether the token exists; one that is already revoked keeps its revocation
    /// time.
    fn revoke_access_token(&self, id: AccessTokenId, at: &Timestamp) -> Result<bool, KeyringError>;
}
