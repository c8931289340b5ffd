//! What the user asked of a session: one small file next to the log, never part of it (G64).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use workrail_model::id::{RunId, SessionId};
use workrail_model::limits::CONTROL_BYTES_MAX;
use workrail_model::passkey::{PreferenceProof, WishedPreferences};
use workrail_model::preferences::Preferences;
use workrail_ports::control::{SessionControl, WishReader};
use workrail_ports::file_system::{FileSystem, FsError, FsErrorKind, WritableFile};

use crate::content::create_fresh;
use crate::layout;
use crate::store::LocalStore;

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Wishes {
    v: u32,
    preferences: BTreeMap<RunId, Preferences>,
    /// The passkey signatures on the wishes.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    proofs: BTreeMap<RunId, PreferenceProof>,
}

type ByRun = BTreeMap<RunId, WishedPreferences>;

impl Wishes {
    fn by_run(mut self) -> ByRun {
        let wishes = self.preferences.into_iter();
        wishes
            .map(|(run, preferences)| {
                (run, WishedPreferences { preferences, proof: self.proofs.remove(&run) })
            })
            .collect()
    }

    fn of(wishes: ByRun) -> Self {
        let mut all = Self { v: 1, preferences: BTreeMap::new(), proofs: BTreeMap::new() };
        for (run, wished) in wishes {
            all.preferences.insert(run, wished.preferences);
            all.proofs.extend(wished.proof.map(|proof| (run, proof)));
        }
        all
    }
}

impl<F: FileSystem> LocalStore<F> {
    /// The user's wishes for a session; empty if the file is missing or damaged.
    fn wishes(&self, session: SessionId) -> Result<ByRun, FsError> {
        Ok(self.readable_wishes(session)?.unwrap_or_default())
    }

    fn readable_wishes(&self, session: SessionId) -> Result<Option<ByRun>, FsError> {
        let bytes = match self.fs().read(&layout::control(session), 0, CONTROL_BYTES_MAX) {
            Ok(bytes) => bytes,
            // An unreadable file may be intact, and may ask for less autonomy.
            Err(error) if error.kind == FsErrorKind::PermissionDenied => return Err(error),
            Err(error) if error.kind.is_verdict_on_file() => return Ok(None),
            Err(error) => return Err(error),
        };
        let wishes = serde_json::from_slice::<Wishes>(&bytes).ok().filter(|wishes| wishes.v == 1);
        Ok(wishes.map(Wishes::by_run))
    }

    fn write_wishes(&self, session: SessionId, wishes: ByRun) -> Result<(), FsError> {
        // Numbers, texts, ids and closed sets always serialise.
        let bytes = serde_json::to_vec(&Wishes::of(wishes)).expect("plain struct");
        let temp = layout::control_temp(session);
        let mut file = create_fresh(self.fs(), &temp)?;
        file.append(&bytes)?;
        self.fs().rename(&temp, &layout::control(session))
    }
}

impl<F: FileSystem> WishReader for LocalStore<F> {
    fn wished_preferences(
        &self,
        session: SessionId,
        run: RunId,
    ) -> Result<Option<WishedPreferences>, FsError> {
        Ok(self.wishes(session)?.remove(&run))
    }

    fn has_unreadable_wishes(&self, session: SessionId, is_run: &dyn Fn(RunId) -> bool) -> bool {
        let is_missing =
            self.fs().stat(&layout::control(session)).is_err_and(|error| error.kind == FsErrorKind::NotFound);
        let is_readable = match self.readable_wishes(session) {
            Ok(Some(wishes)) => wishes.keys().all(|run| is_run(*run)),
            Ok(None) | Err(_) => false,
        };
        !is_missing && !is_readable
    }
}

impl<F: FileSystem> SessionControl for LocalStore<F> {
    fn wish_preferences(
        &self,
        session: SessionId,
        run: RunId,
        wished: WishedPreferences,
    ) -> Result<(), FsError> {
        let mut wishes = self.wishes(session)?;
        wishes.insert(run, wished);
        self.write_wishes(session, wishes)
    }

    fn forget_wish(&self, session: SessionId, run: RunId) -> Result<(), FsError> {
        let mut wishes = self.wishes(session)?;
        wishes.remove(&run);
        if !wishes.is_empty() {
            return self.write_wishes(session, wishes);
        }
        match self.fs().remove_file(&layout::control(session)) {
            Err(error) if error.kind != FsErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }
}
