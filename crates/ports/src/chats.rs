//! Which runs the chats on this machine work on; used by hooks, never the source of truth (G108).

use workrail_model::chat::{ChatKey, ChatRecord};

use crate::file_system::FsError;

pub trait ChatDirectory: Send + Sync {
    /// The record of a chat; `None` if it is damaged or unreadable.
    fn chat(&self, key: ChatKey) -> Option<ChatRecord>;

    /// Stores a record, and evicts the least recently used ones beyond the limit.
    fn remember_chat(&self, key: ChatKey, record: &ChatRecord) -> Result<(), FsError>;

    /// All stored records, most recently used first.
    fn chats(&self) -> Vec<ChatRecord>;
}
