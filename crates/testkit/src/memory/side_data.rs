//! What the store in memory keeps next to the logs: keys, tokens, the activity number, caches, pending preferences.

use std::collections::BTreeMap;

use workrail_model::digest::Sha256;
use workrail_model::event::Activity;
use workrail_model::evidence::HookObservation;
use workrail_model::id::{AccessTokenId, RunId, SessionId};
use workrail_model::keyring::{Keyring, SigningKey};
use workrail_model::passkey::PendingPreferences;
use workrail_model::server::{LoggedCall, ServerRecord};
use workrail_model::team::AccessToken;
use workrail_model::time::Timestamp;
use workrail_ports::access::AccessTokens;
use workrail_ports::cache::{CachedProjection, IfAbsent, IndexRecord, ProjectionCache, SessionIndex};
use workrail_ports::environment::ActivityCounter;
use workrail_ports::file_system::FsError;
use workrail_ports::keyring::{KeyringError, KeyringStore, ReplacedKeyring};
use workrail_ports::observations::ObservationSpool;
use workrail_ports::passkeys::{PasskeyLog, PasskeyLogError, PasskeyReader, StoredPasskeys};
use workrail_ports::pending_preferences::{PendingPreferencesReader, PendingPreferencesStore};
use workrail_ports::servers::ServerDirectory;
use workrail_ports::session_store::StoreError;

use super::MemoryStore;
use crate::fixed;

impl KeyringStore for MemoryStore {
    fn location(&self) -> &'static str {
        "memory"
    }

    fn load_or_create(&self) -> Result<Keyring, KeyringError> {
        let data = &mut *self.data();
        let made = || Keyring { current: SigningKey::new(data.entropy.bytes()), previous: None };
        Ok(data.keyring.get_or_insert_with(made).clone())
    }

    fn peek(&self) -> Result<Option<Keyring>, KeyringError> {
        Ok(self.data().keyring.clone())
    }

    fn rotate(&self) -> Result<Keyring, KeyringError> {
        let data = &mut *self.data();
        let fresh = SigningKey::new(data.entropy.bytes());
        let rotated = match data.keyring.take() {
            Some(keyring) => keyring.rotated(fresh),
            None => Keyring { current: fresh, previous: None },
        };
        Ok(data.keyring.insert(rotated).clone())
    }

    fn replace(&self) -> Result<ReplacedKeyring, KeyringError> {
        let data = &mut *self.data();
        if data.keyring.is_some() {
            return Err(KeyringError::Usable { path: "keyring".to_owned() });
        }
        let keyring = Keyring { current: SigningKey::new(data.entropy.bytes()), previous: None };
        Ok(ReplacedKeyring { keyring: data.keyring.insert(keyring).clone(), moved_to: None })
    }
}

impl PasskeyReader for MemoryStore {
    fn passkey_log(&self) -> Result<StoredPasskeys, PasskeyLogError> {
        Ok(self.data().passkeys.clone())
    }
}

impl PasskeyLog for MemoryStore {
    fn append_passkey(&self, seen: &StoredPasskeys, line: &[u8]) -> Result<(), PasskeyLogError> {
        self.replace_passkeys(seen, seen.log.len(), line)
    }

    fn replace_passkeys(
        &self,
        damaged: &StoredPasskeys,
        sound_bytes: usize,
        line: &[u8],
    ) -> Result<(), PasskeyLogError> {
        let stored = &mut self.data().passkeys;
        if stored.log != damaged.log {
            return Err(PasskeyLogError::Changed);
        }
        stored.log.truncate(sound_bytes);
        stored.log.extend_from_slice(line);
        let last = line.strip_suffix(b"\n").unwrap_or(line);
        stored.head = Some(Sha256::of(last).to_string().into_bytes());
        Ok(())
    }
}

impl AccessTokens for MemoryStore {
    fn access_tokens(&self) -> Result<Vec<AccessToken>, KeyringError> {
        Ok(self.data().access_tokens.clone())
    }

    fn access_token(&self, id: AccessTokenId) -> Result<Option<AccessToken>, KeyringError> {
        Ok(self.data().access_tokens.iter().find(|token| token.id == id).cloned())
    }

    fn add_access_token(&self, token: &AccessToken) -> Result<(), KeyringError> {
        self.data().access_tokens.push(token.clone());
        Ok(())
    }

    fn revoke_access_token(&self, id: AccessTokenId, at: &Timestamp) -> Result<bool, KeyringError> {
        let mut data = self.data();
        let Some(token) = data.access_tokens.iter_mut().find(|token| token.id == id) else {
            return Ok(false);
        };
        token.revoked_at.get_or_insert_with(|| at.clone());
        Ok(true)
    }
}

impl ActivityCounter for MemoryStore {
    fn next(&self) -> Result<Activity, StoreError> {
        let mut data = self.data();
        data.activity += 1;
        Ok(fixed::activity(data.activity))
    }
}

impl ProjectionCache for MemoryStore {
    fn get(&self, session: SessionId, version: u32) -> Option<CachedProjection> {
        self.data().cache.get(&session).filter(|cached| cached.version == version).cloned()
    }

    fn put(&self, session: SessionId, projection: &CachedProjection) -> Result<(), FsError> {
        self.data().cache.insert(session, projection.clone());
        Ok(())
    }

    fn invalidate(&self, session: SessionId) -> Result<(), FsError> {
        self.data().cache.remove(&session);
        Ok(())
    }
}

impl SessionIndex for MemoryStore {
    fn index_records(&self, version: u32, is_present: &dyn Fn(SessionId) -> bool) -> Vec<IndexRecord> {
        let data = self.data();
        let present = data.index.iter().filter(|((of, session), _)| *of == version && is_present(*session));
        present.map(|(_, record)| record.clone()).collect()
    }

    fn add_to_index(&self, version: u32, records: &[IndexRecord], _: IfAbsent) {
        let keyed = records.iter().map(|record| ((version, record.session), record.clone()));
        self.data().index.extend(keyed);
    }
}

impl PendingPreferencesReader for MemoryStore {
    fn pending_preferences(
        &self,
        session: SessionId,
        run: RunId,
    ) -> Result<Option<PendingPreferences>, FsError> {
        Ok(self.data().pending_preferences.get(&(session, run)).cloned())
    }

    fn has_unreadable_pending_preferences(
        &self,
        _session: SessionId,
        _is_run: &dyn Fn(RunId) -> bool,
    ) -> bool {
        false
    }
}

impl ServerDirectory for MemoryStore {
    fn servers(&self) -> Result<Vec<ServerRecord>, FsError> {
        Ok(Vec::new())
    }

    fn calls(&self, _: usize) -> Result<Vec<LoggedCall>, FsError> {
        Ok(Vec::new())
    }
}

impl ObservationSpool for MemoryStore {
    fn leave_observation(
        &self,
        session: SessionId,
        run: RunId,
        seen: &HookObservation,
    ) -> Result<(), FsError> {
        self.data().observations.entry((session, run)).or_default().push(seen.clone());
        Ok(())
    }

    fn take_observations(&self, session: SessionId, run: RunId) -> Vec<HookObservation> {
        self.data().observations.get(&(session, run)).cloned().unwrap_or_default()
    }

    fn forget_observations(&self, session: SessionId, run: RunId, recorded: usize) -> Result<(), FsError> {
        if let Some(waiting) = self.data().observations.get_mut(&(session, run)) {
            waiting.drain(..recorded.min(waiting.len()));
        }
        Ok(())
    }
}

impl PendingPreferencesStore for MemoryStore {
    fn set_pending_preferences(
        &self,
        session: SessionId,
        pending: &BTreeMap<RunId, PendingPreferences>,
    ) -> Result<(), FsError> {
        let pending = pending.iter().map(|(run, pending)| ((session, *run), pending.clone()));
        self.data().pending_preferences.extend(pending);
        Ok(())
    }

    fn clear_pending_preferences(
        &self,
        session: SessionId,
        run: RunId,
        applied: &PendingPreferences,
    ) -> Result<(), FsError> {
        let mut data = self.data();
        if data.pending_preferences.get(&(session, run)) == Some(applied) {
            data.pending_preferences.remove(&(session, run));
        }
        Ok(())
    }
}
