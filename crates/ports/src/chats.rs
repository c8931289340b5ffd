//! Which runs the chats of this machine work on; for hooks, never truth (G108).

use workrail_model::chat::{ChatKey, ChatRecord};

use crate::file_system::FsError;

pub trait ChatDirectory: Send + Sync {
    /// What is remembered of a chat. What is damaged or cannot be read is not.
    fn chat(&self, key: ChatKey) -> Option<ChatRecord>;

    /// Remembers it, and forgets those that were used longest ago when there are too many.
    fn remember_chat(&self, key: ChatKey, record: &ChatRecord) -> Result<(), FsError>;

    /// All that are remembered, the one used last first.
    fn chats(&self) -> Vec<ChatRecord>;
}
