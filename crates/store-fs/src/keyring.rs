//! The signing keys on disk: 0600 in a 0700 folder, refused when others can read them (G33).

use data_encoding::BASE64URL_NOPAD;
use serde::{Deserialize, Serialize};
use workrail_model::keyring::{Keyring, SigningKey};
use workrail_model::limits::KEYRING_BYTES_MAX;
use workrail_model::strict_json;
use workrail_ports::file_system::{FileSystem, FsError, FsErrorKind, FsOp, LockMode};
use workrail_ports::keyring::{KeyringError, KeyringStore};

use crate::content::write_temp;
use crate::store::{LOCK_WAIT, LocalStore};
use crate::{layout, suspect};

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    v: u64,
    current: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    previous: Option<String>,
}

impl<F: FileSystem> LocalStore<F> {
    fn fresh_key(&self) -> Result<SigningKey, KeyringError> {
        let mut bytes = [0; 32];
        self.entropy.fill(&mut bytes).map_err(|error| FsError {
            op: FsOp::CreateFile,
            path: layout::keyring(),
            kind: FsErrorKind::Io,
            detail: error.to_string(),
        })?;
        Ok(SigningKey::new(bytes))
    }

    fn read_keyring(&self) -> Result<Option<Keyring>, KeyringError> {
        let path = layout::keyring();
        let named = path.to_string();
        let invalid = |problem: String| KeyringError::Invalid { path: named.clone(), problem };
        let stat = match self.fs().stat(&path) {
            Ok(stat) => stat,
            Err(error) if error.kind == FsErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        if stat.others_may_access {
            return Err(KeyringError::Exposed { path: named });
        }
        // Who may write to the folder could put other keys in place of these.
        let folder = layout::keys_dir();
        if self.fs().stat(&folder)?.others_may_access {
            return Err(KeyringError::Exposed { path: folder.to_string() });
        }
        let bytes = self.fs().read(&path, 0, KEYRING_BYTES_MAX).map_err(|error| {
            if matches!(error.kind, FsErrorKind::WrongKind | FsErrorKind::TooLarge { .. }) {
                invalid(error.detail)
            } else {
                error.into()
            }
        })?;
        let value = strict_json::parse(&bytes).map_err(|error| invalid(error.to_string()))?;
        match value.get("v").and_then(serde_json::Value::as_u64) {
            Some(1) => {}
            Some(version) => return Err(KeyringError::UnknownVersion { path: named, version }),
            None => return Err(invalid("`v` must be a version number".to_owned())),
        }
        let written: Written = serde_json::from_value(value).map_err(|error| invalid(error.to_string()))?;
        let key = |text: &str| {
            BASE64URL_NOPAD
                .decode(text.as_bytes())
                .ok()
                .and_then(|bytes| bytes.try_into().ok())
                .map(SigningKey::new)
                .ok_or_else(|| invalid("a key must be 32 bytes in base64url".to_owned()))
        };
        let previous = written.previous.as_deref().map(&key).transpose()?;
        Ok(Some(Keyring { current: key(&written.current)?, previous }))
    }

    fn write_keyring(&self, keyring: &Keyring) -> Result<(), KeyringError> {
        let encode = |key: &SigningKey| BASE64URL_NOPAD.encode(key.bytes());
        let written = Written {
            v: 1,
            current: encode(&keyring.current),
            previous: keyring.previous.as_ref().map(encode),
        };
        let problem = |error: serde_json::Error| KeyringError::Invalid {
            path: layout::keyring().to_string(),
            problem: error.to_string(),
        };
        let mut bytes = serde_json::to_vec(&written).map_err(problem)?;
        bytes.push(b'\n');
        write_temp(self.fs(), &layout::keyring_temp(), &bytes)?;
        self.fs().rename(&layout::keyring_temp(), &layout::keyring())?;
        suspect::sync_names(self.fs(), &layout::keys_dir())?;
        suspect::clear(self.fs(), &layout::keys_dir());
        self.fs().about_to_acknowledge();
        Ok(())
    }

    /// Whoever wrote it may have died before it was durable; tokens must outlive a power cut.
    fn make_keyring_durable(&self, keyring: &Keyring) -> Result<(), KeyringError> {
        let folder = layout::keys_dir();
        if suspect::is_marked(self.fs(), &folder)? {
            return self.write_keyring(keyring);
        }
        let mut file = self.fs().open_append(&layout::keyring())?;
        suspect::sync_file(self.fs(), &folder, &mut file)?;
        suspect::sync_names(self.fs(), &folder)?;
        Ok(())
    }

    fn lock_keyring(&self) -> Result<F::Lock, KeyringError> {
        let lock = self.fs().lock(&layout::keyring_lock(), LockMode::Exclusive, LOCK_WAIT)?;
        lock.ok_or(KeyringError::Locked)
    }
}

impl<F: FileSystem> KeyringStore for LocalStore<F> {
    fn load_or_create(&self) -> Result<Keyring, KeyringError> {
        let _lock = self.lock_keyring()?;
        if let Some(keyring) = self.read_keyring()? {
            self.make_keyring_durable(&keyring)?;
            return Ok(keyring);
        }
        let keyring = Keyring { current: self.fresh_key()?, previous: None };
        self.write_keyring(&keyring)?;
        Ok(keyring)
    }

    fn peek(&self) -> Result<Option<Keyring>, KeyringError> {
        self.read_keyring()
    }

    fn rotate(&self) -> Result<Keyring, KeyringError> {
        let _lock = self.lock_keyring()?;
        let fresh = self.fresh_key()?;
        let keyring = match self.read_keyring()? {
            Some(keyring) => keyring.rotated(fresh),
            None => Keyring { current: fresh, previous: None },
        };
        self.write_keyring(&keyring)?;
        Ok(keyring)
    }
}
