//! The data of one simulated file: what is seen, what is durable, and the writes in between.
//!
//! Invariant: `seen` is `durable` with every change of `changes` applied in order.

use std::sync::Arc;

use super::choice::Fate;
use super::shared_bytes::SharedBytes;

#[derive(Clone, Debug)]
pub(super) enum ContentChange {
    Write { offset: usize, bytes: Arc<[u8]> },
    SetLen(usize),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SyncState {
    /// Not synced yet: a crash may keep it, part of it, or nothing of it.
    Pending,
    /// A sync of it failed: the kernel marked it clean, so no later sync writes it.
    Lost,
    /// Durable, but kept in the list because an earlier lost change leaves the order open.
    Synced,
}

#[derive(Clone, Debug, Default)]
pub(super) struct SimContent {
    durable: Arc<SharedBytes>,
    seen: Arc<SharedBytes>,
    changes: Vec<(ContentChange, SyncState)>,
}

impl SimContent {
    /// A file whose bytes are all durable.
    pub(super) fn settled(bytes: Arc<SharedBytes>) -> Self {
        Self { durable: bytes.clone(), seen: bytes, changes: Vec::new() }
    }

    pub(super) fn seen(&self) -> &Arc<SharedBytes> {
        &self.seen
    }

    pub(super) fn durable(&self) -> &Arc<SharedBytes> {
        &self.durable
    }

    pub(super) fn changes(&self) -> &[(ContentChange, SyncState)] {
        &self.changes
    }

    pub(super) fn append(&mut self, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        let seen = Arc::make_mut(&mut self.seen).bytes_mut();
        let change = ContentChange::Write { offset: seen.len(), bytes: bytes.into() };
        seen.extend_from_slice(bytes);
        self.changes.push((change, SyncState::Pending));
    }

    pub(super) fn set_len(&mut self, len: u64) {
        // The simulated disk is in memory: a greater length is the caller's mistake.
        let len = usize::try_from(len).expect("a simulated file fits into memory");
        if len == self.seen.bytes().len() {
            return;
        }
        Arc::make_mut(&mut self.seen).bytes_mut().resize(len, 0);
        self.changes.push((ContentChange::SetLen(len), SyncState::Pending));
    }

    pub(super) fn sync(&mut self) {
        for (_, sync_state) in &mut self.changes {
            match sync_state {
                SyncState::Pending => *sync_state = SyncState::Synced,
                SyncState::Lost | SyncState::Synced => {}
            }
        }
        if self.changes.iter().all(|(_, sync_state)| *sync_state == SyncState::Synced) {
            self.durable = self.seen.clone();
            self.changes.clear();
        }
    }

    /// The effect of a failed sync: the data is still seen, but will never be written.
    pub(super) fn lose_pending(&mut self) {
        for (_, sync_state) in &mut self.changes {
            match sync_state {
                SyncState::Pending => *sync_state = SyncState::Lost,
                SyncState::Lost | SyncState::Synced => {}
            }
        }
    }

    /// The bytes after a crash in which each change met its fate.
    pub(super) fn after(&self, fates: &[Fate]) -> Vec<u8> {
        let mut bytes = self.durable.bytes().to_vec();
        for ((change, _), fate) in self.changes.iter().zip(fates) {
            apply(&mut bytes, change, *fate);
        }
        bytes
    }
}

fn apply(bytes: &mut Vec<u8>, change: &ContentChange, fate: Fate) {
    match change {
        ContentChange::SetLen(len) => match fate {
            Fate::Kept => bytes.resize(*len, 0),
            // A length is one field of the inode: it has no parts.
            Fate::Dropped | Fate::Prefix(_) | Fate::Zeroed { .. } => {}
        },
        ContentChange::Write { offset, bytes: written } => {
            let (whole, data) = match fate {
                Fate::Dropped => return,
                Fate::Kept => (written.len(), written.len()),
                Fate::Prefix(len) => (len.min(written.len()), len.min(written.len())),
                Fate::Zeroed { from } => (written.len(), from.min(written.len())),
            };
            // A later write may be kept when an earlier one is not: the gap reads as zeros.
            let end = offset + whole;
            if bytes.len() < end {
                bytes.resize(end, 0);
            }
            bytes[*offset..offset + data].copy_from_slice(&written[..data]);
            bytes[offset + data..end].fill(0);
        }
    }
}
