//! The passkey log of a tenant, and separately the digest of its last line, which reveals a truncated or deleted log
//! (G98). Both change in one transaction.

use postgres_types::Type;
use workrail_model::digest::Sha256;
use workrail_model::limits::PASSKEY_LOG_BYTES_MAX;
use workrail_ports::file_system::FsOp;
use workrail_ports::keyring::KeyringError;
use workrail_ports::passkeys::{PasskeyLog, PasskeyLogError, PasskeyReader, StoredPasskeys};

use crate::error::StatementError;
use crate::keys;
use crate::open::PgStore;
use crate::transaction::{Purpose, Transaction};

const ERROR_PATH: &str = "passkey_log";

const SELECT: &str =
    "SELECT (SELECT bytes FROM workrail.passkey_log), (SELECT last_line FROM workrail.passkey_head)";

const STORE_LOG: &str = "INSERT INTO workrail.passkey_log (tenant, bytes) \
                         VALUES (current_setting('workrail.tenant'), $1) \
                         ON CONFLICT (tenant) DO UPDATE SET bytes = excluded.bytes";

const STORE_HEAD: &str = "INSERT INTO workrail.passkey_head (tenant, last_line) \
                          VALUES (current_setting('workrail.tenant'), $1) \
                          ON CONFLICT (tenant) DO UPDATE SET last_line = excluded.last_line";

const SET_ASIDE: &str = "INSERT INTO workrail.passkey_log_aside (tenant, sha256, bytes) \
                         VALUES (current_setting('workrail.tenant'), $1, $2) \
                         ON CONFLICT (tenant, sha256) DO NOTHING";

fn failed(op: FsOp, error: &StatementError) -> PasskeyLogError {
    PasskeyLogError::File(match error {
        StatementError::Locked => KeyringError::Locked,
        StatementError::Busy
        | StatementError::NoAnswer
        | StatementError::Local(_)
        | StatementError::Database(_) => KeyringError::Io(error.at(op, ERROR_PATH)),
    })
}

fn write_failed(error: StatementError) -> PasskeyLogError {
    failed(FsOp::Write, &error)
}

fn stored(transaction: &mut Transaction<'_>) -> Result<StoredPasskeys, StatementError> {
    let row = transaction.query_opt(SELECT, &[])?;
    Ok(row.map_or_else(StoredPasskeys::default, |row| StoredPasskeys {
        log: row.get::<_, Option<Vec<u8>>>(0).unwrap_or_default(),
        head: row.get(1),
    }))
}

/// The digest of the last line, as text.
fn head_of(log: &[u8]) -> Option<Vec<u8>> {
    let last = log.strip_suffix(b"\n")?.rsplit(|byte| *byte == b'\n').next()?;
    Some(Sha256::of(last).to_string().into_bytes())
}

fn store(transaction: &mut Transaction<'_>, log: &[u8]) -> Result<(), PasskeyLogError> {
    if log.len() as u64 > PASSKEY_LOG_BYTES_MAX {
        return Err(PasskeyLogError::Full);
    }
    transaction.query(STORE_LOG, &[(&log, Type::BYTEA)]).map_err(write_failed)?;
    if let Some(head) = head_of(log) {
        transaction.query(STORE_HEAD, &[(&head, Type::BYTEA)]).map_err(write_failed)?;
    }
    Ok(())
}

impl PgStore {
    /// Changes the log under the lock; returns once the change is durable.
    fn change_passkeys(
        &self,
        change: impl FnOnce(&mut Transaction<'_>, StoredPasskeys) -> Result<(), PasskeyLogError>,
    ) -> Result<(), PasskeyLogError> {
        let mut transaction = self.begin(Purpose::Writing).map_err(write_failed)?;
        transaction.batch(keys::LOCK).map_err(write_failed)?;
        let found = stored(&mut transaction).map_err(|error| failed(FsOp::Read, &error))?;
        change(&mut transaction, found)?;
        transaction.commit().map_err(write_failed)
    }
}

impl PasskeyReader for PgStore {
    fn passkey_log(&self) -> Result<StoredPasskeys, PasskeyLogError> {
        self.within(Purpose::Reading, stored).map_err(|error| failed(FsOp::Read, &error))
    }
}

impl PasskeyLog for PgStore {
    fn append_passkey(&self, seen: &StoredPasskeys, line: &[u8]) -> Result<(), PasskeyLogError> {
        self.change_passkeys(|transaction, found| match found.log == seen.log {
            true => store(transaction, &[&found.log, line].concat()),
            false => Err(PasskeyLogError::Changed),
        })
    }

    fn replace_passkeys(
        &self,
        damaged: &StoredPasskeys,
        sound_bytes: usize,
        line: &[u8],
    ) -> Result<(), PasskeyLogError> {
        self.change_passkeys(|transaction, found| {
            if found != *damaged {
                return Err(PasskeyLogError::Changed);
            }
            if !found.log.is_empty() {
                let digest = Sha256::of(&found.log);
                let parameters =
                    [(&digest.as_bytes().as_slice() as _, Type::BYTEA), (&found.log as _, Type::BYTEA)];
                transaction.query(SET_ASIDE, &parameters).map_err(write_failed)?;
            }
            let sound = found.log.get(..sound_bytes).unwrap_or_default();
            store(transaction, &[sound, line].concat())
        })
    }
}
