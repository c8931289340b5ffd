//! The signing keys of a tenant (G33). A rotation reaches every server with its next call.
//!
//! Whoever may read the tables as this role can read the keys: the database role is the trust domain.

use postgres::Row;
use postgres::types::Type;
use workrail_model::digest::Sha256;
use workrail_model::keyring::{Keyring, SigningKey};
use workrail_ports::file_system::{FsError, FsErrorKind, FsOp, RelPath};
use workrail_ports::keyring::{KeyringError, KeyringStore, ReplacedKeyring};

use crate::error::Failed;
use crate::open::PgStore;
use crate::transaction::{Purpose, Transaction};

const PLACE: &str = "keyring";
const VERSION: i64 = 1;
const ASIDE: &str = "workrail.keyring_aside";

const SELECT: &str = "SELECT v, current, previous, check_digest FROM workrail.keyring";

const STORE: &str = "INSERT INTO workrail.keyring (tenant, v, current, previous, check_digest) \
                     VALUES (current_setting('workrail.tenant'), $1, $2, $3, $4) \
                     ON CONFLICT (tenant) DO UPDATE SET v = excluded.v, current = excluded.current, \
                     previous = excluded.previous, check_digest = excluded.check_digest";

const MOVE_ASIDE: &str = "INSERT INTO workrail.keyring_aside (tenant, number, v, current, previous, check_digest) \
                          SELECT tenant, (SELECT count(*) + 1 FROM workrail.keyring_aside), v, current, previous, \
                          check_digest FROM workrail.keyring RETURNING number";

/// One change of the keys or passkeys at a time, per tenant, also before there are any.
pub(crate) const LOCK: &str = "SELECT pg_advisory_xact_lock(hashtextextended('workrail/keys/' || current_setting('workrail.tenant'), 0))";

fn failed(op: FsOp, failed: &Failed) -> KeyringError {
    match failed {
        Failed::Locked => KeyringError::Locked,
        Failed::Busy | Failed::Database(_) => KeyringError::Io(failed.at(op, PLACE)),
    }
}

/// The beginning of a digest of both keys, which leads back to neither.
fn check_of(keyring: &Keyring) -> Vec<u8> {
    let previous: &[u8] = keyring.previous.as_ref().map_or(&[], |key| key.bytes());
    Sha256::of_parts(&[b"workrail/keyring-check", keyring.current.bytes(), previous]).as_bytes()[..8].to_vec()
}

fn parse(row: &Row) -> Result<Keyring, KeyringError> {
    let path = || PLACE.to_owned();
    let invalid = |problem: &str| KeyringError::Invalid { path: path(), problem: problem.to_owned() };
    let version: i64 = row.get(0);
    if version != VERSION {
        return Err(KeyringError::UnknownVersion { path: path(), version: version.unsigned_abs() });
    }
    let key =
        |bytes: &[u8]| bytes.try_into().map(SigningKey::new).map_err(|_| invalid("a key must have 32 bytes"));
    let previous = row.get::<_, Option<&[u8]>>(2).map(key).transpose()?;
    let keyring = Keyring { current: key(row.get(1))?, previous };
    match row.get::<_, &[u8]>(3) == check_of(&keyring) {
        true => Ok(keyring),
        false => Err(invalid("the keys do not match their check")),
    }
}

fn store(transaction: &mut Transaction<'_>, keyring: &Keyring) -> Result<(), Failed> {
    let current = keyring.current.bytes().as_slice();
    let previous = keyring.previous.as_ref().map(|key| key.bytes().as_slice());
    let check = check_of(keyring);
    transaction.query(
        STORE,
        &[(&VERSION, Type::INT8), (&current, Type::BYTEA), (&previous, Type::BYTEA), (&check, Type::BYTEA)],
    )?;
    Ok(())
}

impl PgStore {
    fn fresh_key(&self) -> Result<SigningKey, KeyringError> {
        let mut bytes = [0; 32];
        self.entropy.fill(&mut bytes).map_err(|error| FsError {
            op: FsOp::CreateFile,
            path: RelPath::parse(PLACE).unwrap_or_else(RelPath::root),
            kind: FsErrorKind::Io,
            detail: error.to_string(),
        })?;
        Ok(SigningKey::new(bytes))
    }

    /// Changes the keys while nobody else does; acknowledged when it is durable.
    fn change<T>(
        &self,
        change: impl FnOnce(&mut Transaction<'_>, Option<&Row>) -> Result<T, KeyringError>,
    ) -> Result<T, KeyringError> {
        let write = |error: Failed| failed(FsOp::Write, &error);
        let mut transaction = self.begin(Purpose::Writing).map_err(write)?;
        transaction.batch(LOCK).map_err(write)?;
        let row = transaction.query_opt(SELECT, &[]).map_err(write)?;
        let changed = change(&mut transaction, row.as_ref())?;
        transaction.commit().map_err(|error| write(error.into()))?;
        Ok(changed)
    }
}

impl KeyringStore for PgStore {
    fn load_or_create(&self) -> Result<Keyring, KeyringError> {
        if let Some(keyring) = self.peek()? {
            return Ok(keyring);
        }
        let fresh = self.fresh_key()?;
        self.change(|transaction, row| match row {
            Some(row) => parse(row),
            None => {
                let keyring = Keyring { current: fresh, previous: None };
                store(transaction, &keyring).map_err(|error| failed(FsOp::Write, &error))?;
                Ok(keyring)
            }
        })
    }

    fn peek(&self) -> Result<Option<Keyring>, KeyringError> {
        let row = self.within(Purpose::Reading, |transaction| transaction.query_opt(SELECT, &[]));
        row.map_err(|error| failed(FsOp::Read, &error))?.as_ref().map(parse).transpose()
    }

    fn rotate(&self) -> Result<Keyring, KeyringError> {
        let fresh = self.fresh_key()?;
        self.change(|transaction, row| {
            let rotated = match row.map(parse).transpose()? {
                Some(keyring) => keyring.rotated(fresh),
                None => Keyring { current: fresh, previous: None },
            };
            store(transaction, &rotated).map_err(|error| failed(FsOp::Write, &error))?;
            Ok(rotated)
        })
    }

    fn replace(&self) -> Result<ReplacedKeyring, KeyringError> {
        let fresh = self.fresh_key()?;
        self.change(|transaction, row| {
            let write = |error: Failed| failed(FsOp::Write, &error);
            let mut moved_to = None;
            if let Some(row) = row {
                if parse(row).is_ok() {
                    return Err(KeyringError::Usable { path: PLACE.to_owned() });
                }
                let aside = transaction.query_opt(MOVE_ASIDE, &[]).map_err(write)?;
                moved_to = aside.map(|row| format!("{ASIDE}, number {}", row.get::<_, i64>(0)));
            }
            let keyring = Keyring { current: fresh, previous: None };
            store(transaction, &keyring).map_err(write)?;
            Ok(ReplacedKeyring { keyring, moved_to })
        })
    }
}
