//! The projection cache: a header with a digest, then the state; anything that does not match is discarded (G18).

use serde::{Deserialize, Serialize};
use workrail_model::digest::Sha256;
use workrail_model::id::SessionId;
use workrail_model::limits::CACHE_BYTES_MAX;
use workrail_model::manifest::Cursor;
use workrail_ports::cache::{CachedProjection, ProjectionCache};
use workrail_ports::file_system::{FileSystem, FsError, FsErrorKind, WritableFile};

use crate::content::create_fresh;
use crate::layout;
use crate::store::LocalStore;

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Header {
    v: u32,
    session_id: SessionId,
    projection_version: u32,
    cursor: Cursor,
    /// Covers the cursor and the state: a damaged cursor would make an intact log look damaged.
    sha256: Sha256,
}

fn digest(cursor: &Cursor, state: &[u8]) -> Sha256 {
    let cursor = serde_json::to_vec(cursor).expect("numbers and a digest always serialise");
    Sha256::of_parts(&[&cursor, state])
}

impl<F: FileSystem> ProjectionCache for LocalStore<F> {
    fn get(&self, session: SessionId, version: u32) -> Option<CachedProjection> {
        let mut state = self.fs().read(&layout::cache(session), 0, CACHE_BYTES_MAX).ok()?;
        let split = state.iter().position(|byte| *byte == b'\n')?;
        let header: Header = serde_json::from_slice(&state[..split]).ok()?;
        // In place: the state of a long session is megabytes, and allocating costs more than copying.
        state.drain(..=split);
        let fits = header.v == 1
            && header.session_id == session
            && header.projection_version == version
            && digest(&header.cursor, &state) == header.sha256;
        fits.then_some(CachedProjection { version, cursor: header.cursor, state })
    }

    fn put(&self, session: SessionId, projection: &CachedProjection) -> Result<(), FsError> {
        let header = Header {
            v: 1,
            session_id: session,
            projection_version: projection.version,
            cursor: projection.cursor,
            sha256: digest(&projection.cursor, &projection.state),
        };
        let mut bytes = serde_json::to_vec(&header).expect("numbers, an id and a digest always serialise");
        bytes.push(b'\n');
        bytes.extend_from_slice(&projection.state);
        self.fs().create_dir(&layout::cache_dir(session))?;
        let mut file = create_fresh(self.fs(), &layout::cache_temp(session))?;
        file.append(&bytes)?;
        self.fs().rename(&layout::cache_temp(session), &layout::cache(session))
    }

    fn invalidate(&self, session: SessionId) -> Result<(), FsError> {
        match self.fs().remove_file(&layout::cache(session)) {
            Err(error) if error.kind != FsErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }
}
