//! Pending preferences: one small file per session, next to its log and never part of it (G64).
//!
//! The file holds those of all runs, so they are set and cleared under the session's lock. An advance holds that lock from
//! reading them until clearing them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use workrail_model::id::{RunId, SessionId};
use workrail_model::limits::CONTROL_BYTES_MAX;
use workrail_model::passkey::{PendingPreferences, PreferenceProof};
use workrail_model::preferences::Preferences;
use workrail_ports::file_system::{FileSystem, FsError, FsErrorKind, WritableFile};
use workrail_ports::pending_preferences::{PendingPreferencesReader, PendingPreferencesStore};

use crate::content::create_fresh;
use crate::layout;
use crate::store::LocalStore;

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ControlFile {
    v: u32,
    preferences: BTreeMap<RunId, Preferences>,
    /// The passkey signatures on the preferences.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    proofs: BTreeMap<RunId, PreferenceProof>,
}

type ByRun = BTreeMap<RunId, PendingPreferences>;

impl ControlFile {
    fn by_run(mut self) -> ByRun {
        self.preferences
            .into_iter()
            .map(|(run, preferences)| {
                (run, PendingPreferences { preferences, proof: self.proofs.remove(&run) })
            })
            .collect()
    }

    fn of(pending: ByRun) -> Self {
        let mut file = Self { v: 1, preferences: BTreeMap::new(), proofs: BTreeMap::new() };
        for (run, of_run) in pending {
            file.preferences.insert(run, of_run.preferences);
            file.proofs.extend(of_run.proof.map(|proof| (run, proof)));
        }
        file
    }
}

impl<F: FileSystem> LocalStore<F> {
    /// The pending preferences of a session; empty if the file is missing or damaged.
    fn pending_by_run(&self, session: SessionId) -> Result<ByRun, FsError> {
        Ok(self.readable_preferences(session)?.unwrap_or_default())
    }

    fn readable_preferences(&self, session: SessionId) -> Result<Option<ByRun>, FsError> {
        let bytes = match self.fs().read(&layout::pending_preferences(session), 0, CONTROL_BYTES_MAX) {
            Ok(bytes) => bytes,
            // An unreadable file may be intact, and may ask for less autonomy.
            Err(error) if error.kind == FsErrorKind::PermissionDenied => return Err(error),
            Err(error) if error.kind.is_verdict_on_file() => return Ok(None),
            Err(error) => return Err(error),
        };
        let file = serde_json::from_slice::<ControlFile>(&bytes).ok().filter(|file| file.v == 1);
        Ok(file.map(ControlFile::by_run))
    }

    fn write_preferences(&self, session: SessionId, pending: ByRun) -> Result<(), FsError> {
        let bytes = serde_json::to_vec(&ControlFile::of(pending))
            .expect("numbers, texts, ids and closed sets always serialise");
        let temp = layout::pending_preferences_temp(session);
        let mut file = create_fresh(self.fs(), &temp)?;
        file.append(&bytes)?;
        self.fs().rename(&temp, &layout::pending_preferences(session))
    }
}

impl<F: FileSystem> PendingPreferencesReader for LocalStore<F> {
    fn pending_preferences(
        &self,
        session: SessionId,
        run: RunId,
    ) -> Result<Option<PendingPreferences>, FsError> {
        Ok(self.pending_by_run(session)?.remove(&run))
    }

    fn has_unreadable_pending_preferences(&self, session: SessionId, is_run: &dyn Fn(RunId) -> bool) -> bool {
        let found = self.fs().stat(&layout::pending_preferences(session));
        let is_missing = found.is_err_and(|error| error.kind == FsErrorKind::NotFound);
        let is_readable = match self.readable_preferences(session) {
            Ok(Some(pending)) => pending.keys().all(|run| is_run(*run)),
            Ok(None) | Err(_) => false,
        };
        !is_missing && !is_readable
    }
}

impl<F: FileSystem> PendingPreferencesStore for LocalStore<F> {
    fn set_pending_preferences(
        &self,
        session: SessionId,
        pending: &BTreeMap<RunId, PendingPreferences>,
    ) -> Result<(), FsError> {
        let mut by_run = self.pending_by_run(session)?;
        by_run.extend(pending.iter().map(|(run, pending)| (*run, pending.clone())));
        self.write_preferences(session, by_run)
    }

    fn clear_pending_preferences(
        &self,
        session: SessionId,
        run: RunId,
        applied: &PendingPreferences,
    ) -> Result<(), FsError> {
        let mut by_run = self.pending_by_run(session)?;
        if by_run.get(&run) != Some(applied) {
            return Ok(());
        }
        by_run.remove(&run);
        if !by_run.is_empty() {
            return self.write_preferences(session, by_run);
        }
        match self.fs().remove_file(&layout::pending_preferences(session)) {
            Err(error) if error.kind != FsErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }
}
