//! The passkey log on disk: beside the signing keys, 0600, replaced as a whole so that a line is there or not (G98).

use workrail_model::limits::PASSKEY_LOG_BYTES_MAX;
use workrail_ports::file_system::FileSystem;
use workrail_ports::passkeys::{PasskeyLog, PasskeyLogError};

use crate::layout;
use crate::store::LocalStore;

impl<F: FileSystem> PasskeyLog for LocalStore<F> {
    fn passkey_log(&self) -> Result<Vec<u8>, PasskeyLogError> {
        let log = self.read_private_within(&layout::passkeys(), PASSKEY_LOG_BYTES_MAX)?;
        Ok(log.unwrap_or_default())
    }

    fn append_passkey(&self, seen_bytes: u64, line: &[u8]) -> Result<(), PasskeyLogError> {
        let _lock = self.lock_keyring()?;
        let mut log = self.passkey_log()?;
        if log.len() as u64 != seen_bytes {
            return Err(PasskeyLogError::Changed);
        }
        log.extend_from_slice(line);
        if log.len() as u64 > PASSKEY_LOG_BYTES_MAX {
            return Err(PasskeyLogError::Full);
        }
        self.write_private(&layout::passkeys_temp(), &layout::passkeys(), &log)?;
        Ok(())
    }
}
