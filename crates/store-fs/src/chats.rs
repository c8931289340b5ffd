//! Which run each chat on this machine works on: one small private file each, bounded, never truth (G108).
//!
//! Nothing here is synced or locked. If two hooks write at once, one wins; the next tool call restores what was lost.

use workrail_model::chat::{ChatKey, ChatRecord};
use workrail_model::time::Timestamp;
use workrail_ports::chats::ChatDirectory;
use workrail_ports::file_system::{FileSystem, FsError, RelPath, WritableFile};

use crate::content::create_fresh;
use crate::layout;
use crate::store::LocalStore;

/// A record holds ids and a path.
const RECORD_BYTES_MAX: u64 = 16 * 1024;
/// More chats than a user has open; at most 2 MiB.
const CHATS_MAX: usize = 128;

impl<F: FileSystem> LocalStore<F> {
    fn chat_at(&self, path: &RelPath) -> Option<ChatRecord> {
        let bytes = self.fs().read(path, 0, RECORD_BYTES_MAX).ok()?;
        let record: ChatRecord = serde_json::from_slice(&bytes).ok()?;
        (record.v == ChatRecord::VERSION).then_some(record)
    }

    fn chat_files(&self) -> Vec<(RelPath, Option<ChatRecord>)> {
        let entries = self.fs().list(&layout::chats()).unwrap_or_default();
        let ours = entries.iter().filter(|entry| layout::may_be_ours(&entry.name));
        let found = ours.filter_map(|entry| {
            let path = layout::chats().child(&entry.name)?;
            // A leftover of an interrupted write is not a record, and is removed first when there are too many.
            let record = if layout::is_temporary(&entry.name) { None } else { self.chat_at(&path) };
            Some((path, record))
        });
        found.collect()
    }

    /// Makes room for one more: unreadable records are removed first, then the least recently used.
    fn bound_chats(&self) {
        let mut files = self.chat_files();
        files.sort_by(|(_, a), (_, b)| used(a).cmp(&used(b)));
        for (path, _) in files.iter().take((files.len() + 1).saturating_sub(CHATS_MAX)) {
            // If removal fails, the next new chat tries again.
            let _ = self.fs().remove_file(path);
        }
    }
}

fn used(record: &Option<ChatRecord>) -> Option<&Timestamp> {
    record.as_ref().map(|record| &record.used_at)
}

impl<F: FileSystem> ChatDirectory for LocalStore<F> {
    fn chat(&self, key: ChatKey) -> Option<ChatRecord> {
        self.chat_at(&layout::chat(key))
    }

    fn remember_chat(&self, key: ChatKey, record: &ChatRecord) -> Result<(), FsError> {
        self.fs().create_dir(&layout::chats())?;
        if self.fs().stat(&layout::chat(key)).is_err() {
            self.bound_chats();
        }
        let temp = layout::chat_temp(key, std::process::id());
        let mut file = create_fresh(self.fs(), &temp)?;
        file.append(&serde_json::to_vec(record).expect("ids, texts and numbers always serialise"))?;
        self.fs().rename(&temp, &layout::chat(key))
    }

    fn chats(&self) -> Vec<ChatRecord> {
        let mut records: Vec<ChatRecord> =
            self.chat_files().into_iter().filter_map(|(_, record)| record).collect();
        records.sort_by(|a, b| b.used_at.cmp(&a.used_at));
        records
    }
}
