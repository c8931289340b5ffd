//! The access tokens on disk: next to the signing keys, mode 0600, always replaced as a whole file (G113).

use serde::{Deserialize, Serialize};
use workrail_model::digest::Sha256;
use workrail_model::id::AccessTokenId;
use workrail_model::limits::ACCESS_TOKENS_BYTES_MAX;
use workrail_model::strict_json;
use workrail_model::team::AccessToken;
use workrail_model::time::Timestamp;
use workrail_ports::access::AccessTokens;
use workrail_ports::file_system::{FileKind, FileSystem};
use workrail_ports::keyring::KeyringError;

use crate::layout;
use crate::store::LocalStore;

const CHECK_LETTERS: usize = 16;

#[derive(Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct AccessFile {
    v: u64,
    tokens: Vec<AccessToken>,
    /// Detects a damaged token: the beginning of the digest of all of them. Absent in files of older builds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    check: Option<String>,
}

fn check_of(tokens: &[AccessToken]) -> Result<String, KeyringError> {
    let bytes = serde_json::to_vec(tokens).map_err(invalid)?;
    Ok(Sha256::of(&bytes).hex().chars().take(CHECK_LETTERS).collect())
}

fn invalid(problem: impl ToString) -> KeyringError {
    KeyringError::Invalid { path: layout::access_tokens().to_string(), problem: problem.to_string() }
}

fn bytes_of(tokens: &[AccessToken]) -> Result<Vec<u8>, KeyringError> {
    let file = AccessFile { v: 1, tokens: tokens.to_vec(), check: Some(check_of(tokens)?) };
    let mut bytes = serde_json::to_vec(&file).map_err(invalid)?;
    bytes.push(b'\n');
    Ok(bytes)
}

impl<F: FileSystem> LocalStore<F> {
    /// If they do not fit, those that can never be used again make room.
    fn write_access_tokens(&self, mut tokens: Vec<AccessToken>, now: &Timestamp) -> Result<(), KeyringError> {
        let is_too_long = |bytes: &[u8]| bytes.len() as u64 > ACCESS_TOKENS_BYTES_MAX;
        let mut bytes = bytes_of(&tokens)?;
        if is_too_long(&bytes) {
            let now = now.epoch_ms();
            tokens.retain(|token| token.revoked_at.is_none() && token.expires_at.epoch_ms() > now);
            bytes = bytes_of(&tokens)?;
        }
        if is_too_long(&bytes) {
            return Err(invalid("there are too many tokens"));
        }
        self.write_private(&layout::access_tokens_temp(), &layout::access_tokens(), &bytes)
    }
}

impl<F: FileSystem> AccessTokens for LocalStore<F> {
    fn access_tokens(&self) -> Result<Vec<AccessToken>, KeyringError> {
        let path = layout::access_tokens();
        // Neither the mode nor the owner of a link or a folder is what is wrong with it.
        if self.fs().stat(&path).is_ok_and(|stat| stat.kind != FileKind::Regular) {
            return Err(invalid("it is not a regular file"));
        }
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
        if let Some(check) = written.check
            && check != check_of(&written.tokens)?
        {
            return Err(invalid("its tokens do not match its `check`"));
        }
        Ok(written.tokens)
    }

    fn access_token(&self, id: AccessTokenId) -> Result<Option<AccessToken>, KeyringError> {
        Ok(self.access_tokens()?.into_iter().find(|token| token.id == id))
    }

    fn add_access_token(&self, token: &AccessToken) -> Result<(), KeyringError> {
        let _lock = self.lock_keyring()?;
        let mut tokens = self.access_tokens()?;
        tokens.push(token.clone());
        self.write_access_tokens(tokens, &token.created_at)
    }

    fn revoke_access_token(&self, id: AccessTokenId, at: &Timestamp) -> Result<bool, KeyringError> {
        let _lock = self.lock_keyring()?;
        let mut tokens = self.access_tokens()?;
        let Some(token) = tokens.iter_mut().find(|token| token.id == id) else { return Ok(false) };
        token.revoked_at.get_or_insert_with(|| at.clone());
        self.write_access_tokens(tokens, at).map(|()| true)
    }
}

#[cfg(test)]
mod tests {
    use workrail_model::digest::Sha256;
    use workrail_model::name::PrincipalName;
    use workrail_model::team::Role;
    use workrail_testkit::fixed::SeededEntropy;

    use super::*;
    use crate::sim::SimFs;

    fn token(number: u16, expires_in: &str) -> AccessToken {
        let [high, low] = number.to_be_bytes();
        AccessToken {
            id: AccessTokenId::from_bits([0, 0, 0, 0, 0, 0, 0, 0, high, low]),
            name: PrincipalName::parse("ada").unwrap(),
            role: Role::Agent,
            digest: Sha256::of(b"secret"),
            created_at: Timestamp::parse("2026-01-01T00:00:00.000Z").unwrap(),
            expires_at: Timestamp::parse(&format!("{expires_in}-01-01T00:00:00.000Z")).unwrap(),
            revoked_at: None,
        }
    }

    /// Broke: after some thousands of tokens no further one could be created, with the advice to remove all.
    #[test]
    fn tokens_that_can_no_longer_be_used_make_room_for_new_ones() {
        let disk = SimFs::new();
        let store = LocalStore::open(disk, Box::new(SeededEntropy::new(1)), "boot".to_owned()).unwrap();
        let usable = [token(0, "2027"), token(u16::MAX, "2027")];
        store.add_access_token(&usable[0]).unwrap();
        let created_at = usable[0].created_at.clone();
        let mut all =
            vec![usable[0].clone(), AccessToken { revoked_at: Some(created_at), ..token(1, "2027") }];
        let len = |tokens: &[AccessToken]| bytes_of(tokens).unwrap().len() as u64;
        let each = len(&usable) - len(&usable[..1]);
        let expired = (2..).map(|number| token(number, "2025"));
        all.extend(expired.take(usize::try_from(ACCESS_TOKENS_BYTES_MAX / each).unwrap()));
        while len(&all) > ACCESS_TOKENS_BYTES_MAX {
            all.pop();
        }
        let now = usable[0].created_at.clone();
        store.write_access_tokens(all.clone(), &now).unwrap();
        assert_eq!(store.access_tokens().unwrap(), all, "all of them fit");
        store.add_access_token(&usable[1]).unwrap();
        assert_eq!(store.access_tokens().unwrap(), usable);
        // Each revocation takes a little more room.
        store.write_access_tokens(all.clone(), &now).unwrap();
        let mut expired = all[2..].iter();
        while store.access_tokens().unwrap().len() == all.len() {
            assert!(store.revoke_access_token(expired.next().unwrap().id, &now).unwrap());
        }
        assert_eq!(store.access_tokens().unwrap(), usable[..1]);
    }
}
