//! The dedupe keys of long sessions, saved so that a new process need not read the whole log to append (G18).
//!
//! Keys distinguish a repeated plan from a new one (G8). They are saved with the cursor they belong to; if the log no
//! longer has the group at that cursor, it is read from the beginning.

use std::collections::BTreeSet;

use workrail_model::digest::Sha256;
use workrail_model::id::SessionId;
use workrail_model::limits::CACHE_BYTES_MAX;
use workrail_model::manifest::Cursor;
use workrail_ports::file_system::{FileSystem, FsError, WritableFile};

use crate::content::create_fresh;
use crate::layout;
use crate::memo::Memo;
use crate::store::LocalStore;

const HEADER: &[u8; 8] = b"WRKEYS01";
const KEY_BYTES: usize = 16;
/// Shorter logs are read as quickly as their keys.
const KEYS_MIN: usize = 512;
/// Saved again once this share of the keys is unsaved, so that saving costs a constant fraction of appending.
const UNSAVED_PART_MAX: usize = 8;

impl<F: FileSystem> LocalStore<F> {
    /// The saved keys of a session; `None` unless they are intact.
    pub(crate) fn saved_keys(&self, session: SessionId) -> Option<Memo> {
        let bytes = self.fs().read(&layout::saved_keys(session), 0, CACHE_BYTES_MAX).ok()?;
        let rest = bytes.strip_prefix(HEADER)?;
        let (digest, rest) = rest.split_first_chunk::<32>()?;
        if Sha256::from_bytes(*digest) != digest_of(session, rest) {
            return None;
        }
        let split = rest.iter().position(|byte| *byte == b'\n')?;
        let cursor: Cursor = serde_json::from_slice(&rest[..split]).ok()?;
        let (keys, []) = rest[split + 1..].as_chunks::<KEY_BYTES>() else { return None };
        // Every event has a key of its own.
        let keys: BTreeSet<[u8; KEY_BYTES]> = keys.iter().copied().collect();
        (keys.len() as u64 == cursor.next_event_index.get()).then(|| Memo::saved(cursor, keys))
    }

    /// Saves the keys of a long session once many are new. A failure only costs time.
    pub(crate) fn save_keys(&self, session: SessionId, memo: &mut Memo) {
        let unsaved = memo.keys.len().saturating_sub(memo.keys_saved);
        if unsaved >= KEYS_MIN.max(memo.keys.len() / UNSAVED_PART_MAX) {
            let _ = self.write_keys(session, memo);
            memo.keys_saved = memo.keys.len();
        }
    }

    fn write_keys(&self, session: SessionId, memo: &Memo) -> Result<(), FsError> {
        let mut body = serde_json::to_vec(&memo.cursor).expect("numbers and a digest always serialise");
        body.push(b'\n');
        body.extend(memo.keys.iter().flatten());
        self.fs().create_dir(&layout::cache_dir(session))?;
        let mut file = create_fresh(self.fs(), &layout::saved_keys_temp(session))?;
        file.append(&[HEADER, digest_of(session, &body).as_bytes().as_slice(), &body].concat())?;
        self.fs().rename(&layout::saved_keys_temp(session), &layout::saved_keys(session))
    }
}

/// Covers the session id, so that keys copied from another session do not match.
fn digest_of(session: SessionId, body: &[u8]) -> Sha256 {
    Sha256::of_parts(&[session.to_string().as_bytes(), body])
}
