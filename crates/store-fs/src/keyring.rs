//! The signing keys on disk, and the HTTP transport's secret: files of mode 0600 in a 0700 folder, all owned by this
//! user, and refused otherwise (G33, G75).

use data_encoding::{BASE64URL_NOPAD, HEXLOWER};
use serde::{Deserialize, Serialize};
use workrail_model::keyring::{HttpSecret, Keyring, SigningKey};
use workrail_model::limits::KEYRING_BYTES_MAX;
use workrail_model::strict_json;
use workrail_ports::backup::KeysCopy;
use workrail_ports::file_system::{
    FileKind, FileStat, FileSystem, FsError, FsErrorKind, FsOp, LockMode, RelPath,
};
use workrail_ports::keyring::{KeyringError, KeyringImport, KeyringStore, ReplacedKeyring};

use crate::content::write_temp;
use crate::store::{LOCK_WAIT, LocalStore};
use crate::{layout, suspect};

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct KeyringFile {
    v: u64,
    current: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    previous: Option<String>,
    /// Detects a damaged key; absent in keyrings of older builds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    check: Option<String>,
}

fn check_of(keyring: &Keyring) -> String {
    HEXLOWER.encode(&keyring.check())
}

/// Keys that another user can read or replace prove nothing (G33).
fn only_ours(path: &RelPath, stat: FileStat) -> Result<(), KeyringError> {
    match (stat.is_foreign, stat.others_may_access) {
        (true, _) => Err(KeyringError::ForeignOwner { path: path.to_string() }),
        (false, true) => Err(KeyringError::Exposed { path: path.to_string() }),
        (false, false) => Ok(()),
    }
}

impl<F: FileSystem> LocalStore<F> {
    fn random(&self, path: RelPath) -> Result<[u8; 32], KeyringError> {
        let mut bytes = [0; 32];
        self.entropy.fill(&mut bytes).map_err(|error| FsError {
            op: FsOp::CreateFile,
            path,
            kind: FsErrorKind::Io,
            detail: error.to_string(),
        })?;
        Ok(bytes)
    }

    fn fresh_key(&self) -> Result<SigningKey, KeyringError> {
        self.random(layout::keyring()).map(SigningKey::new)
    }

    /// The bytes of a file that only this user may access; `None` if it does not exist.
    fn read_private(&self, path: &RelPath) -> Result<Option<Vec<u8>>, KeyringError> {
        self.read_private_within(path, KEYRING_BYTES_MAX)
    }

    pub(crate) fn read_private_within(
        &self,
        path: &RelPath,
        bytes_max: u64,
    ) -> Result<Option<Vec<u8>>, KeyringError> {
        let invalid = |problem: String| KeyringError::Invalid { path: path.to_string(), problem };
        let stat = match self.fs().stat(path) {
            Ok(stat) => stat,
            Err(error) if error.kind == FsErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        // The permissions of a link say nothing.
        if stat.kind != FileKind::Regular {
            return Err(invalid("it is not a regular file".to_owned()));
        }
        only_ours(path, stat)?;
        // Anyone who can write to the folder could replace the keys.
        let folder = layout::keys_dir();
        only_ours(&folder, self.fs().stat(&folder)?)?;
        let bytes = self.fs().read(path, 0, bytes_max).map_err(|error| {
            if matches!(error.kind, FsErrorKind::WrongKind | FsErrorKind::TooLarge { .. }) {
                invalid(error.detail)
            } else {
                error.into()
            }
        })?;
        Ok(Some(bytes))
    }

    fn read_keyring(&self) -> Result<Option<Keyring>, KeyringError> {
        let path = layout::keyring();
        let named = path.to_string();
        let invalid = |problem: String| KeyringError::Invalid { path: named.clone(), problem };
        let Some(bytes) = self.read_private(&path)? else { return Ok(None) };
        let value = strict_json::parse(&bytes).map_err(|error| invalid(error.to_string()))?;
        match value.get("v").and_then(serde_json::Value::as_u64) {
            Some(1) => {}
            Some(version) => return Err(KeyringError::UnknownVersion { path: named, version }),
            None => return Err(invalid("`v` must be a version number".to_owned())),
        }
        let written: KeyringFile =
            serde_json::from_value(value).map_err(|error| invalid(error.to_string()))?;
        let key = |text: &str| {
            BASE64URL_NOPAD
                .decode(text.as_bytes())
                .ok()
                .and_then(|bytes| bytes.try_into().ok())
                .map(SigningKey::new)
                .ok_or_else(|| invalid("a key must be 32 bytes in base64url".to_owned()))
        };
        let previous = written.previous.as_deref().map(&key).transpose()?;
        let keyring = Keyring { current: key(&written.current)?, previous };
        if written.check.is_some_and(|check| check != check_of(&keyring)) {
            return Err(invalid("its keys do not match its `check`".to_owned()));
        }
        Ok(Some(keyring))
    }

    fn write_keyring(&self, keyring: &Keyring) -> Result<(), KeyringError> {
        let encode = |key: &SigningKey| BASE64URL_NOPAD.encode(key.bytes());
        let written = KeyringFile {
            v: 1,
            current: encode(&keyring.current),
            previous: keyring.previous.as_ref().map(encode),
            check: Some(check_of(keyring)),
        };
        let problem = |error: serde_json::Error| KeyringError::Invalid {
            path: layout::keyring().to_string(),
            problem: error.to_string(),
        };
        let mut bytes = serde_json::to_vec(&written).map_err(problem)?;
        bytes.push(b'\n');
        self.write_private(&layout::keyring_temp(), &layout::keyring(), &bytes)
    }

    pub(crate) fn write_private(
        &self,
        temp: &RelPath,
        path: &RelPath,
        bytes: &[u8],
    ) -> Result<(), KeyringError> {
        // Its name, too: another process may have just created it.
        suspect::make_folder(self.fs(), &layout::keys_dir())?;
        write_temp(self.fs(), temp, bytes)?;
        self.fs().rename(temp, path)?;
        suspect::sync_names(self.fs(), &layout::keys_dir())?;
        suspect::clear(self.fs(), &layout::keys_dir());
        self.fs().about_to_acknowledge();
        Ok(())
    }

    /// The process that wrote it may have died before it was durable, and tokens must survive a power cut.
    fn make_keyring_durable(&self, keyring: &Keyring) -> Result<(), KeyringError> {
        let folder = layout::keys_dir();
        if suspect::is_marked(self.fs(), &folder)? {
            return self.write_keyring(keyring);
        }
        let mut file = self.fs().open_append(&layout::keyring())?;
        suspect::sync_file(self.fs(), &folder, &mut file)?;
        suspect::sync_found_names(self.fs(), &folder)?;
        self.fs().sync_dir(&RelPath::root())?;
        Ok(())
    }

    /// Moves an unusable file of this folder aside; nothing is deleted except a link, which holds no keys.
    fn move_aside(&self, path: &RelPath, aside: fn(u64) -> RelPath) -> Result<Option<String>, KeyringError> {
        match self.fs().stat(path) {
            Err(error) if error.kind == FsErrorKind::NotFound => return Ok(None),
            Ok(stat) if stat.kind == FileKind::Other => {
                self.fs().remove_file(path)?;
                return Ok(None);
            }
            found => found?,
        };
        let is_free = |aside: &RelPath| match self.fs().stat(aside) {
            Err(error) if error.kind == FsErrorKind::NotFound => Ok(true),
            found => found.map(|_| false),
        };
        let mut number = 1;
        while !is_free(&aside(number))? {
            number += 1;
        }
        let aside = aside(number);
        self.fs().rename(path, &aside)?;
        Ok(Some(aside.to_string()))
    }

    /// The HTTP transport's secret on disk; `None` before it was created.
    pub fn http_secret(&self) -> Result<Option<HttpSecret>, KeyringError> {
        let path = layout::http_secret();
        let Some(bytes) = self.read_private(&path)? else { return Ok(None) };
        let parsed = std::str::from_utf8(&bytes).ok().and_then(|text| HttpSecret::parse(text.trim_end()));
        let problem = "it must be 32 bytes in base64url".to_owned();
        parsed.map(Some).ok_or(KeyringError::Invalid { path: path.to_string(), problem })
    }

    /// Like `http_secret`, creating the secret if there is none.
    pub fn http_secret_or_new(&self) -> Result<HttpSecret, KeyringError> {
        let _lock = self.lock_keyring()?;
        match self.http_secret()? {
            Some(secret) => Ok(secret),
            None => self.write_http_secret(),
        }
    }

    /// Replaces the secret with a new one. Running servers keep theirs until they are restarted.
    pub fn replace_http_secret(&self) -> Result<HttpSecret, KeyringError> {
        let _lock = self.lock_keyring()?;
        let folder = layout::keys_dir();
        only_ours(&folder, self.fs().stat(&folder)?)?;
        let path = layout::http_secret();
        // A rename replaces a file, but not a folder in its place.
        if self.fs().stat(&path).is_ok_and(|stat| stat.kind == FileKind::Directory) {
            self.move_aside(&path, layout::http_secret_aside)?;
        }
        self.write_http_secret()
    }

    fn write_http_secret(&self) -> Result<HttpSecret, KeyringError> {
        let secret = HttpSecret::new(self.random(layout::http_secret())?);
        let text = format!("{}\n", secret.reveal());
        self.write_private(&layout::http_secret_temp(), &layout::http_secret(), text.as_bytes())?;
        Ok(secret)
    }

    pub(crate) fn lock_keyring(&self) -> Result<F::Lock, KeyringError> {
        let folder = layout::keys_dir();
        if self.fs().stat(&folder).is_err_and(|error| error.kind == FsErrorKind::NotFound) {
            suspect::make_folder(self.fs(), &folder)?;
        }
        let lock = self.fs().lock(&layout::keyring_lock(), LockMode::Exclusive, LOCK_WAIT)?;
        lock.ok_or(KeyringError::Locked)
    }
}

impl<F: FileSystem> KeyringStore for LocalStore<F> {
    fn location(&self) -> &'static str {
        layout::KEYRING
    }

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

    fn replace(&self) -> Result<ReplacedKeyring, KeyringError> {
        let _lock = self.lock_keyring()?;
        // New keys cannot make a folder safe that other users control.
        let folder = layout::keys_dir();
        only_ours(&folder, self.fs().stat(&folder)?)?;
        let path = layout::keyring().to_string();
        match self.read_keyring() {
            Ok(Some(_)) => return Err(KeyringError::Usable { path }),
            Ok(None)
            | Err(
                KeyringError::Exposed { .. }
                | KeyringError::ForeignOwner { .. }
                | KeyringError::Invalid { .. }
                | KeyringError::UnknownVersion { .. },
            ) => {}
            // A file that this user may not read can still be moved aside; a failing disk does not justify that.
            Err(KeyringError::Io(error)) if error.kind == FsErrorKind::PermissionDenied => {}
            Err(other) => return Err(other),
        }
        let keyring = Keyring { current: self.fresh_key()?, previous: None };
        let moved_to = self.move_aside(&layout::keyring(), layout::keyring_aside)?;
        self.write_keyring(&keyring)?;
        Ok(ReplacedKeyring { keyring, moved_to })
    }
}

impl<F: FileSystem> KeyringImport for LocalStore<F> {
    fn adopt(&self, keys: &Keyring) -> Result<KeysCopy, KeyringError> {
        let _lock = self.lock_keyring()?;
        match self.read_keyring()? {
            None => {
                self.write_keyring(keys)?;
                Ok(KeysCopy::Copied)
            }
            Some(own) if own == *keys => {
                self.make_keyring_durable(&own)?;
                Ok(KeysCopy::Unchanged)
            }
            Some(_) => Ok(KeysCopy::TargetHasOthers),
        }
    }
}
