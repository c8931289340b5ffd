//! The passkey log of a tenant, and separately the digest of its last line, which reveals a truncated or deleted log
//! (G98). Both change in one transaction, together with the session whose decision a passkey signed (G97).

use postgres_types::Type;
use workrail_model::digest::Sha256;
use workrail_model::limits::PASSKEY_LOG_BYTES_MAX;
use workrail_ports::file_system::FsOp;
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
    PasskeyLogError::File(error.of_keys(op, ERROR_PATH))
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

fn store(transaction: &mut Transaction<'_>, log: &[u8]) -> Result<(), StatementError> {
    transaction.query(STORE_LOG, &[(&log, Type::BYTEA)])?;
    if let Some(head) = head_of(log) {
        transaction.query(STORE_HEAD, &[(&head, Type::BYTEA)])?;
    }
    Ok(())
}

/// A new log, and the old one if it has to be moved aside.
struct LogChange {
    log: Vec<u8>,
    aside: Option<Vec<u8>>,
}

impl PgStore {
    /// Changes the log under the lock. If this thread holds a session, the change is committed by the session's next
    /// write; otherwise at once.
    fn change_passkeys(
        &self,
        change: impl FnOnce(StoredPasskeys) -> Result<LogChange, PasskeyLogError>,
    ) -> Result<(), PasskeyLogError> {
        let changed = self.in_session_transaction(Purpose::Writing, |transaction| {
            transaction.batch(keys::LOCK)?;
            let change = match change(stored(transaction)?) {
                Ok(change) if change.log.len() as u64 > PASSKEY_LOG_BYTES_MAX => {
                    return Ok(Err(PasskeyLogError::Full));
                }
                Ok(change) => change,
                Err(refused) => return Ok(Err(refused)),
            };
            if let Some(aside) = change.aside {
                let digest = Sha256::of(&aside);
                let digest = digest.as_bytes().as_slice();
                transaction.query(SET_ASIDE, &[(&digest, Type::BYTEA), (&aside, Type::BYTEA)])?;
            }
            store(transaction, &change.log).map(Ok)
        });
        changed.map_err(write_failed)?
    }
}

impl PasskeyReader for PgStore {
    fn passkey_log(&self) -> Result<StoredPasskeys, PasskeyLogError> {
        self.in_transaction(Purpose::Reading, stored).map_err(|error| failed(FsOp::Read, &error))
    }
}

impl PasskeyLog for PgStore {
    fn append_passkey(&self, seen: &StoredPasskeys, line: &[u8]) -> Result<(), PasskeyLogError> {
        self.change_passkeys(|found| match found.log == seen.log {
            true => Ok(LogChange { log: [&found.log, line].concat(), aside: None }),
            false => Err(PasskeyLogError::Changed),
        })
    }

    fn replace_passkeys(
        &self,
        damaged: &StoredPasskeys,
        sound_bytes: usize,
        line: &[u8],
    ) -> Result<(), PasskeyLogError> {
        self.change_passkeys(|found| {
            if found != *damaged {
                return Err(PasskeyLogError::Changed);
            }
            let sound = found.log.get(..sound_bytes).unwrap_or_default();
            let log = [sound, line].concat();
            Ok(LogChange { log, aside: Some(found.log).filter(|aside| !aside.is_empty()) })
        })
    }
}
