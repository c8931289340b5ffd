//! The access tokens on disk: next to the signing keys, mode 0600, always replaced as a whole file (G113).

use serde::{Deserialize, Serialize};
use workrail_model::id::AccessTokenId;
use workrail_model::limits::ACCESS_TOKENS_BYTES_MAX;
use workrail_model::strict_json;
use workrail_model::team::AccessToken;
use workrail_model::time::Timestamp;
use workrail_ports::access::AccessTokens;
use workrail_ports::file_system::FileSystem;
use workrail_ports::keyring::KeyringError;

use crate::layout;
use crate::store::LocalStore;

#[derive(Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct AccessFile {
    v: u64,
    tokens: Vec<AccessToken>,
}

fn invalid(problem: impl ToString) -> KeyringError {
    KeyringError::Invalid { path: layout::access_tokens().to_string(), problem: problem.to_string() }
}

impl<F: FileSystem> LocalStore<F> {
    fn write_access_tokens(&self, tokens: Vec<AccessToken>) -> Result<(), KeyringError> {
        let mut bytes = serde_json::to_vec(&AccessFile { v: 1, tokens }).map_err(invalid)?;
        bytes.push(b'\n');
        if bytes.len() as u64 > ACCESS_TOKENS_BYTES_MAX {
            return Err(invalid("there are too many tokens"));
        }
        self.write_private(&layout::access_tokens_temp(), &layout::access_tokens(), &bytes)
    }
}

impl<F: FileSystem> AccessTokens for LocalStore<F> {
    fn access_tokens(&self) -> Result<Vec<AccessToken>, KeyringError> {
        let path = layout::access_tokens();
        let Some(bytes) = self.read_private_within(&path, ACCESS_TOKENS_BYTES_MAX)? else {
            return Ok(Vec::new());
        };
        let value = strict_json::parse(&bytes).map_err(invalid)?;
        match value.get("v").and_then(serde_json::Value::as_u64) {
            Some(1) => {}
            Some(version) => return Err(KeyringError::UnknownVersion { path: path.to_string(), version }),
            None => return Err(invalid("`v` must be a version number")),
        }
        let written: AccessFile = serde_json::from_value(value).map_err(invalid)?;
        Ok(written.tokens)
    }

    fn access_token(&self, id: AccessTokenId) -> Result<Option<AccessToken>, KeyringError> {
        Ok(self.access_tokens()?.into_iter().find(|token| token.id == id))
    }

    fn add_access_token(&self, token: &AccessToken) -> Result<(), KeyringError> {
        let _lock = self.lock_keyring()?;
        let mut tokens = self.access_tokens()?;
        tokens.push(token.clone());
        self.write_access_tokens(tokens)
    }

    fn revoke_access_token(&self, id: AccessTokenId, at: &Timestamp) -> Result<bool, KeyringError> {
        let _lock = self.lock_keyring()?;
        let mut tokens = self.access_tokens()?;
        let Some(token) = tokens.iter_mut().find(|token| token.id == id) else { return Ok(false) };
        token.revoked_at.get_or_insert_with(|| at.clone());
        self.write_access_tokens(tokens).map(|()| true)
    }
}
