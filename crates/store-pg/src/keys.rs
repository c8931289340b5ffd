//! The signing keys of a tenant (G33). A rotation takes effect on every server with its next call.
//!
//! Without a wrapping key, anyone who can read the tables as this role can read the keys: the database role is the
//! trust domain. With one, rows hold the keys encrypted (G119).

use postgres_types::Type;
use tokio_postgres::Row;
use workrail_model::keyring::{Keyring, SigningKey};
use workrail_ports::backup::KeysCopy;
use workrail_ports::file_system::{FsError, FsErrorKind, FsOp, RelPath};
use workrail_ports::keyring::{KeyringError, KeyringImport, KeyringStore, ReplacedKeyring};

use crate::connection::Parameter;
use crate::error::StatementError;
use crate::open::PgStore;
use crate::transaction::{Purpose, Transaction};
use crate::wrapping::KeySlot;

const ERROR_PATH: &str = "keyring";
/// The table, as errors name it.
const TABLE: &str = "workrail.keyring";
/// Unencrypted keys.
const PLAIN: i64 = 1;
/// Wrapped keys.
const WRAPPED: i64 = 2;
const ASIDE: &str = "workrail.keyring_aside";

const SELECT: &str = "SELECT v, current, previous, check_digest FROM workrail.keyring";

const STORE: &str = "INSERT INTO workrail.keyring (tenant, v, current, previous, check_digest) \
                     VALUES (current_setting('workrail.tenant'), $1, $2, $3, $4) \
                     ON CONFLICT (tenant) DO UPDATE SET v = excluded.v, current = excluded.current, \
                     previous = excluded.previous, check_digest = excluded.check_digest";

const MOVE_ASIDE: &str = "INSERT INTO workrail.keyring_aside (tenant, number, v, current, previous, check_digest) \
                          SELECT tenant, (SELECT count(*) + 1 FROM workrail.keyring_aside), v, current, previous, \
                          check_digest FROM workrail.keyring RETURNING number";

/// Serialises changes of keys and passkeys per tenant, even before there are any.
pub(crate) const LOCK: &str = "SELECT pg_advisory_xact_lock(hashtextextended('workrail/keys/' || current_setting('workrail.tenant'), 0))";

fn failed(op: FsOp, error: &StatementError) -> KeyringError {
    error.of_keys(op, ERROR_PATH)
}

/// The form in which keys are stored.
struct StoredKeys {
    version: i64,
    current: Vec<u8>,
    previous: Option<Vec<u8>>,
}

fn invalid(problem: &str) -> KeyringError {
    KeyringError::Invalid { path: TABLE.to_owned(), problem: problem.to_owned() }
}

impl PgStore {
    fn parse(&self, row: &Row) -> Result<Keyring, KeyringError> {
        let version: i64 = row.get(0);
        let key = |slot: KeySlot, bytes: &[u8]| {
            let bytes = match (version, &self.wrapping) {
                (PLAIN, _) => bytes.to_vec(),
                (_, Some(wrapping)) => {
                    wrapping.unwrap(&self.tenant, slot, bytes).ok_or(KeyringError::OtherKey)?
                }
                (_, None) => return Err(KeyringError::KeyNotGiven),
            };
            let key = bytes.try_into().map(SigningKey::new);
            key.map_err(|_| invalid("a key must have 32 bytes"))
        };
        if version != PLAIN && version != WRAPPED {
            let path = TABLE.to_owned();
            return Err(KeyringError::UnknownVersion { path, version: version.unsigned_abs() });
        }
        let previous =
            row.get::<_, Option<&[u8]>>(2).map(|bytes| key(KeySlot::Previous, bytes)).transpose()?;
        let keyring = Keyring { current: key(KeySlot::Current, row.get(1))?, previous };
        match row.get::<_, &[u8]>(3) == keyring.check() {
            true => Ok(keyring),
            false => Err(invalid("the keys do not match their check")),
        }
    }

    /// Converts the keys to a row.
    fn encoded(&self, keyring: &Keyring) -> Result<StoredKeys, KeyringError> {
        let in_slot = |slot: KeySlot, key: &SigningKey| match &self.wrapping {
            None => Ok(key.bytes().to_vec()),
            Some(wrapping) => {
                let wrapped = wrapping.wrap(&self.tenant, slot, self.random()?, key.bytes());
                wrapped.ok_or_else(|| invalid("they cannot be encrypted"))
            }
        };
        Ok(StoredKeys {
            version: if self.wrapping.is_some() { WRAPPED } else { PLAIN },
            current: in_slot(KeySlot::Current, &keyring.current)?,
            previous: keyring.previous.as_ref().map(|key| in_slot(KeySlot::Previous, key)).transpose()?,
        })
    }

    fn store(&self, transaction: &mut Transaction<'_>, keyring: &Keyring) -> Result<(), KeyringError> {
        let StoredKeys { version, current, previous } = self.encoded(keyring)?;
        let check = keyring.check().to_vec();
        let parameters: [Parameter<'_>; 4] = [
            (&version, Type::INT8),
            (&current, Type::BYTEA),
            (&previous, Type::BYTEA),
            (&check, Type::BYTEA),
        ];
        let written = transaction.query(STORE, &parameters);
        written.map(drop).map_err(|error| failed(FsOp::Write, &error))
    }

    /// Whether the keys in the database are encrypted; `None` if there are none yet.
    pub fn has_wrapped_keys(&self) -> Result<Option<bool>, KeyringError> {
        let row = self.in_transaction(Purpose::Reading, |transaction| transaction.query_opt(SELECT, &[]));
        let row = row.map_err(|error| failed(FsOp::Read, &error))?;
        Ok(row.map(|row| row.get::<_, i64>(0) == WRAPPED))
    }

    fn random<const LEN: usize>(&self) -> Result<[u8; LEN], KeyringError> {
        let mut bytes = [0; LEN];
        self.entropy.fill(&mut bytes).map_err(|error| FsError {
            op: FsOp::CreateFile,
            path: RelPath::parse(ERROR_PATH).unwrap_or_else(RelPath::root),
            kind: FsErrorKind::Io,
            detail: error.to_string(),
        })?;
        Ok(bytes)
    }

    fn fresh_key(&self) -> Result<SigningKey, KeyringError> {
        self.random().map(SigningKey::new)
    }

    /// Changes the keys under the lock; returns once the change is durable.
    fn change<T>(
        &self,
        change: impl FnOnce(&mut Transaction<'_>, Option<&Row>) -> Result<T, KeyringError>,
    ) -> Result<T, KeyringError> {
        let write = |error: StatementError| failed(FsOp::Write, &error);
        let mut transaction = self.begin(Purpose::Writing).map_err(write)?;
        transaction.batch(LOCK).map_err(write)?;
        let row = transaction.query_opt(SELECT, &[]).map_err(write)?;
        let changed = change(&mut transaction, row.as_ref())?;
        transaction.commit().map_err(write)?;
        Ok(changed)
    }
}

impl KeyringStore for PgStore {
    fn location(&self) -> &'static str {
        TABLE
    }

    fn load_or_create(&self) -> Result<Keyring, KeyringError> {
        if let Some(keyring) = self.peek()? {
            return Ok(keyring);
        }
        let fresh = self.fresh_key()?;
        self.change(|transaction, row| match row {
            Some(row) => self.parse(row),
            None => {
                let keyring = Keyring { current: fresh, previous: None };
                self.store(transaction, &keyring)?;
                Ok(keyring)
            }
        })
    }

    fn peek(&self) -> Result<Option<Keyring>, KeyringError> {
        let row = self.in_transaction(Purpose::Reading, |transaction| transaction.query_opt(SELECT, &[]));
        row.map_err(|error| failed(FsOp::Read, &error))?.as_ref().map(|row| self.parse(row)).transpose()
    }

    fn rotate(&self) -> Result<Keyring, KeyringError> {
        let fresh = self.fresh_key()?;
        self.change(|transaction, row| {
            let rotated = match row.map(|row| self.parse(row)).transpose()? {
                Some(keyring) => keyring.rotated(fresh),
                None => Keyring { current: fresh, previous: None },
            };
            self.store(transaction, &rotated)?;
            Ok(rotated)
        })
    }

    fn replace(&self) -> Result<ReplacedKeyring, KeyringError> {
        self.replace_unusable(EncryptedKeys::Stay)
    }

    fn replace_encrypted(&self) -> Result<ReplacedKeyring, KeyringError> {
        self.replace_unusable(EncryptedKeys::AreReplaced)
    }
}

/// What happens to keys that exist but cannot be decrypted here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EncryptedKeys {
    /// They are not lost: another machine has the key for them.
    Stay,
    AreReplaced,
}

impl PgStore {
    fn replace_unusable(&self, encrypted: EncryptedKeys) -> Result<ReplacedKeyring, KeyringError> {
        let fresh = self.fresh_key()?;
        self.change(|transaction, row| {
            let write = |error: StatementError| failed(FsOp::Write, &error);
            let mut moved_to = None;
            if let Some(row) = row {
                match (self.parse(row), encrypted) {
                    (Ok(_), _) => return Err(KeyringError::Usable { path: TABLE.to_owned() }),
                    (
                        Err(undecrypted @ (KeyringError::KeyNotGiven | KeyringError::OtherKey)),
                        EncryptedKeys::Stay,
                    ) => return Err(undecrypted),
                    (Err(_), EncryptedKeys::Stay | EncryptedKeys::AreReplaced) => {}
                }
                let aside = transaction.query_opt(MOVE_ASIDE, &[]).map_err(write)?;
                moved_to = aside.map(|row| format!("{ASIDE}, number {}", row.get::<_, i64>(0)));
            }
            let keyring = Keyring { current: fresh, previous: None };
            self.store(transaction, &keyring)?;
            Ok(ReplacedKeyring { keyring, moved_to })
        })
    }
}

impl KeyringImport for PgStore {
    fn adopt(&self, keys: &Keyring) -> Result<KeysCopy, KeyringError> {
        self.change(|transaction, row| match row.map(|row| self.parse(row)).transpose()? {
            None => {
                self.store(transaction, keys)?;
                Ok(KeysCopy::Copied)
            }
            Some(own) if own == *keys => Ok(KeysCopy::Unchanged),
            Some(_) => Ok(KeysCopy::TargetHasOthers),
        })
    }
}
