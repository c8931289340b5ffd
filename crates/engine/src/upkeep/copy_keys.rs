//! What `store copy` does with signing keys and passkeys.

use workrail_ports::keyring::{KeyringError, KeyringImport};
use workrail_ports::upkeep::Upkeep;

use super::ApplyMode;
use super::backup::KeysResult;
use super::copy::{CopyFailure, PasskeysResult, StoreCopier, StoreCopyOptions};
use crate::{Store, error};

impl<S: Store + Upkeep + KeyringImport> StoreCopier<'_, S> {
    pub(super) fn keys(&mut self, options: StoreCopyOptions) -> Result<KeysResult, CopyFailure> {
        if !options.with_keys {
            return Ok(KeysResult::LeftOut);
        }
        let keys = match self.source.peek() {
            Ok(Some(keys)) => keys,
            Ok(None) => return Ok(KeysResult::SourceHasNone),
            Err(cause) => {
                self.unusable_keys(&cause);
                return Ok(KeysResult::SourceUnusable);
            }
        };
        Ok(match options.mode {
            ApplyMode::Real => self.target.adopt(&keys).map_err(error::keyring)?.into(),
            ApplyMode::DryRun => match self.target.peek().map_err(error::keyring)? {
                None => KeysResult::Copied,
                Some(own) if own == keys => KeysResult::Unchanged,
                Some(_) => KeysResult::TargetHasOthers,
            },
        })
    }

    fn unusable_keys(&mut self, cause: &KeyringError) {
        let fix = "`workrail store keys show` on the source says more. Copy again without keys, or once they can be used.";
        self.problem("signing keys", cause.to_string(), fix);
    }

    /// Copies the source's passkey log, if the target has none or only the beginning of it.
    pub(super) fn passkeys(&mut self, mode: ApplyMode) -> Result<PasskeysResult, CopyFailure> {
        let read = (self.source.passkey_log(), self.target.passkey_log());
        let (Ok(source), Ok(target)) = read else {
            let fix = "`workrail doctor` says what is wrong with it.";
            self.problem("passkeys", "the passkey log of one of the stores cannot be read", fix);
            return Ok(PasskeysResult::LeftOut);
        };
        if source.log.is_empty() && source.head.is_none() {
            return Ok(PasskeysResult::SourceHasNone);
        }
        let Some(rest) = source.log.strip_prefix(target.log.as_slice()) else {
            let fix =
                "Passkeys of the source are not accepted in the target; enrol them again in the console.";
            self.problem("passkeys", "the target has passkeys of its own", fix);
            return Ok(PasskeysResult::TargetHasOthers);
        };
        match (rest.is_empty(), mode) {
            (true, _) => return Ok(PasskeysResult::Unchanged),
            (false, ApplyMode::DryRun) => {}
            (false, ApplyMode::Real) => {
                self.target.append_passkey(&target, rest).map_err(error::passkey_log)?;
            }
        }
        Ok(PasskeysResult::Copied)
    }
}
