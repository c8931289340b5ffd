//! The passkey log on disk: next to the signing keys, 0600, replaced as a whole so that no line is partial (G98).
//!
//! `passkeys.head` names the last line. The line is written first, so the head is at most one line behind.

use workrail_model::digest::Sha256;
use workrail_model::limits::PASSKEY_LOG_BYTES_MAX;
use workrail_ports::file_system::FileSystem;
use workrail_ports::passkeys::{PasskeyLog, PasskeyLogError, PasskeyReader, StoredPasskeys};

use crate::layout;
use crate::store::LocalStore;

pub(crate) const HEAD_BYTES_MAX: u64 = 1024;

/// The content of the head file, which names the last line of a log.
pub(crate) fn head_of(log: &[u8]) -> Option<Vec<u8>> {
    let last = log.strip_suffix(b"\n")?.rsplit(|byte| *byte == b'\n').next()?;
    Some(format!("{}\n", Sha256::of(last)).into_bytes())
}

/// Whether a head names a line of the log.
pub(crate) fn names_a_line(head: &[u8], log: &[u8]) -> bool {
    let named = std::str::from_utf8(head).ok().and_then(|text| Sha256::parse(text.trim_end()).ok());
    named.is_some_and(|named| log.split(|byte| *byte == b'\n').any(|line| Sha256::of(line) == named))
}

impl<F: FileSystem> LocalStore<F> {
    fn write_passkeys(&self, log: &[u8]) -> Result<(), PasskeyLogError> {
        if log.len() as u64 > PASSKEY_LOG_BYTES_MAX {
            return Err(PasskeyLogError::Full);
        }
        self.write_private(&layout::passkeys_temp(), &layout::passkeys(), log)?;
        if let Some(head) = head_of(log) {
            self.write_private(&layout::passkeys_head_temp(), &layout::passkeys_head(), &head)?;
        }
        Ok(())
    }
}

impl<F: FileSystem> PasskeyReader for LocalStore<F> {
    fn passkey_log(&self) -> Result<StoredPasskeys, PasskeyLogError> {
        // The head is read first: a line written in between is then beyond it, which is not damage.
        let head = self.read_private_within(&layout::passkeys_head(), HEAD_BYTES_MAX)?;
        let log = self.read_private_within(&layout::passkeys(), PASSKEY_LOG_BYTES_MAX)?;
        Ok(StoredPasskeys { log: log.unwrap_or_default(), head })
    }
}

impl<F: FileSystem> PasskeyLog for LocalStore<F> {
    fn append_passkey(&self, seen: &StoredPasskeys, line: &[u8]) -> Result<(), PasskeyLogError> {
        let _lock = self.lock_keyring()?;
        let StoredPasskeys { mut log, .. } = self.passkey_log()?;
        if log != seen.log {
            return Err(PasskeyLogError::Changed);
        }
        log.extend_from_slice(line);
        self.write_passkeys(&log)
    }

    fn replace_passkeys(
        &self,
        damaged: &StoredPasskeys,
        sound_bytes: usize,
        line: &[u8],
    ) -> Result<(), PasskeyLogError> {
        let _lock = self.lock_keyring()?;
        if self.passkey_log()? != *damaged {
            return Err(PasskeyLogError::Changed);
        }
        if !damaged.log.is_empty() {
            let digest = Sha256::of(&damaged.log);
            self.write_private(&layout::passkeys_temp(), &layout::passkeys_aside(digest), &damaged.log)?;
        }
        let sound = damaged.log.get(..sound_bytes).unwrap_or_default();
        self.write_passkeys(&[sound, line].concat())
    }
}
