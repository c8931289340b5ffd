//! What a process remembers about the sessions it wrote to, so that the next call reads only the tail.

use std::collections::{BTreeSet, VecDeque};

use workrail_model::event::Event;
use workrail_model::id::SessionId;
use workrail_model::manifest::Cursor;
use workrail_ports::file_system::FileStamp;

/// A memo holds 16 bytes per event of its session. Without a limit, a server with many chats would keep them all for
/// as long as it runs; a forgotten session only costs reading its saved keys again.
const MEMOS_MAX: usize = 64;

/// What a process has validated and knows to be durable, so that the next call reads only the tail.
#[derive(Debug)]
pub(crate) struct Memo {
    pub(crate) cursor: Cursor,
    pub(crate) keys: BTreeSet<[u8; 16]>,
    pub(crate) torn_bytes: u64,
    /// How many keys the session's cache file holds.
    pub(crate) keys_saved: usize,
    /// The stamp of the segments folder when it last held only committed segments.
    pub(crate) clean_folder: Option<FileStamp>,
}

impl Memo {
    pub(crate) fn new() -> Self {
        Self {
            cursor: Cursor::start(),
            keys: BTreeSet::new(),
            torn_bytes: 0,
            keys_saved: 0,
            clean_folder: None,
        }
    }

    /// Saved by another process; valid while the log has the group at the cursor.
    pub(crate) fn saved(cursor: Cursor, keys: BTreeSet<[u8; 16]>) -> Self {
        let keys_saved = keys.len();
        Self { cursor, keys, torn_bytes: 0, keys_saved, clean_folder: None }
    }

    pub(crate) fn remember(&mut self, events: &[Event]) {
        self.keys.extend(events.iter().map(|event| event.dedupe_key.fingerprint()));
    }
}

/// The memos of the most recently used sessions.
#[derive(Debug, Default)]
pub(crate) struct Memos(VecDeque<(SessionId, Memo)>);

impl Memos {
    pub(crate) fn take(&mut self, session: SessionId) -> Option<Memo> {
        let index = self.0.iter().position(|(other, _)| *other == session)?;
        self.0.remove(index).map(|(_, memo)| memo)
    }

    /// Keeps a memo as the newest, and drops the oldest one if there are too many.
    pub(crate) fn keep(&mut self, session: SessionId, memo: Memo) {
        self.take(session);
        self.0.push_back((session, memo));
        if self.0.len() > MEMOS_MAX {
            self.0.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session(number: usize) -> SessionId {
        let mut bits = [0; 10];
        bits[..8].copy_from_slice(&number.to_be_bytes());
        SessionId::from_bits(bits)
    }

    #[test]
    fn only_the_most_recently_used_sessions_are_remembered() {
        let mut memos = Memos::default();
        for number in 0..MEMOS_MAX {
            memos.keep(session(number), Memo::new());
        }
        // Used again: it is no longer the oldest.
        let memo = memos.take(session(0)).unwrap();
        memos.keep(session(0), memo);
        memos.keep(session(MEMOS_MAX), Memo::new());
        assert_eq!(memos.0.len(), MEMOS_MAX);
        assert!(memos.take(session(1)).is_none());
        assert!(memos.take(session(0)).is_some() && memos.take(session(MEMOS_MAX)).is_some());
    }
}
