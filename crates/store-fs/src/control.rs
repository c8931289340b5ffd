//! What a person asked of a session: one small file beside the log, never truth (G64).

use serde::{Deserialize, Serialize};
use workrail_model::id::SessionId;
use workrail_model::limits::CONTROL_BYTES_MAX;
use workrail_model::preferences::Preferences;
use workrail_ports::control::{SessionControl, WishReader};
use workrail_ports::file_system::{FileSystem, FsError, FsErrorKind, WritableFile};

use crate::content::create_fresh;
use crate::layout;
use crate::store::LocalStore;

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Wish {
    v: u32,
    preferences: Preferences,
}

impl<F: FileSystem> WishReader for LocalStore<F> {
    fn wished_preferences(&self, session: SessionId) -> Option<Preferences> {
        let bytes = self.fs().read(&layout::control(session), 0, CONTROL_BYTES_MAX).ok()?;
        let wish: Wish = serde_json::from_slice(&bytes).ok()?;
        (wish.v == 1).then_some(wish.preferences)
    }
}

impl<F: FileSystem> SessionControl for LocalStore<F> {
    fn wish_preferences(&self, session: SessionId, preferences: Preferences) -> Result<(), FsError> {
        // A number and two closed sets always serialise.
        let bytes = serde_json::to_vec(&Wish { v: 1, preferences }).expect("plain struct");
        let temp = layout::control_temp(session);
        let mut file = create_fresh(self.fs(), &temp)?;
        file.append(&bytes)?;
        self.fs().rename(&temp, &layout::control(session))
    }

    fn forget_wish(&self, session: SessionId) -> Result<(), FsError> {
        match self.fs().remove_file(&layout::control(session)) {
            Err(error) if error.kind != FsErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }
}
