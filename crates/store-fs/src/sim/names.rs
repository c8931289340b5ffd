//! The names of the simulated disk: directory tables, and the name operations not yet durable.
//!
//! Invariant: an inode has at most one name in a table (the port has no hard links).

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use super::content::SyncState;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Ino(pub(super) u64);

impl fmt::Debug for Ino {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{}", self.0)
    }
}

pub(super) type Name = Arc<str>;
pub(super) type Entries = BTreeMap<Name, Ino>;

/// A change of names that happens entirely or not at all.
#[derive(Clone, Debug)]
pub(super) enum NameOp {
    Link { dir: Ino, name: Name, ino: Ino },
    Unlink { dir: Ino, name: Name, ino: Ino },
    Rename { from_dir: Ino, from: Name, to_dir: Ino, to: Name, ino: Ino },
}

impl NameOp {
    fn keys(&self) -> Vec<(Ino, Name)> {
        match self {
            Self::Link { dir, name, .. } | Self::Unlink { dir, name, .. } => vec![(*dir, name.clone())],
            Self::Rename { from_dir, from, to_dir, to, .. } => {
                vec![(*from_dir, from.clone()), (*to_dir, to.clone())]
            }
        }
    }

    fn touches(&self, dir: Ino, name: &str) -> bool {
        self.keys().iter().any(|(held_by, key)| *held_by == dir && key.as_ref() == name)
    }

    pub(super) fn dirs(&self) -> Vec<Ino> {
        self.keys().into_iter().map(|(dir, _)| dir).collect()
    }
}

/// What every directory holds.
#[derive(Clone, Debug, Default)]
pub(super) struct DirectoryTable(BTreeMap<Ino, Arc<Entries>>);

impl DirectoryTable {
    pub(super) fn add_dir(&mut self, dir: Ino) {
        self.0.entry(dir).or_default();
    }

    pub(super) fn entries(&self, dir: Ino) -> Option<&Arc<Entries>> {
        self.0.get(&dir)
    }

    pub(super) fn put_entries(&mut self, dir: Ino, entries: Arc<Entries>) {
        self.0.insert(dir, entries);
    }

    pub(super) fn get(&self, dir: Ino, name: &str) -> Option<Ino> {
        self.0.get(&dir)?.get(name).copied()
    }

    pub(super) fn apply(&mut self, op: &NameOp) {
        match op {
            NameOp::Link { dir, name, ino } => self.insert(*dir, name, *ino),
            NameOp::Unlink { dir, name, .. } => {
                self.remove(*dir, name);
            }
            NameOp::Rename { from_dir, from, to_dir, to, ino } => {
                // If an earlier rename of the same inode was lost, the inode still has its older name.
                if self.remove(*from_dir, from) != Some(*ino) {
                    self.evict(*ino);
                }
                self.insert(*to_dir, to, *ino);
            }
        }
    }

    fn insert(&mut self, dir: Ino, name: &Name, ino: Ino) {
        Arc::make_mut(self.0.entry(dir).or_default()).insert(name.clone(), ino);
    }

    fn remove(&mut self, dir: Ino, name: &str) -> Option<Ino> {
        self.get(dir, name)?;
        Arc::make_mut(self.0.get_mut(&dir)?).remove(name)
    }

    fn evict(&mut self, ino: Ino) {
        for entries in self.0.values_mut() {
            if entries.values().any(|held| *held == ino) {
                Arc::make_mut(entries).retain(|_, held| *held != ino);
            }
        }
    }
}

#[derive(Clone, Debug)]
pub(super) struct PendingNameOp {
    pub(super) op: NameOp,
    pub(super) sync_state: SyncState,
    /// The directories that must still be synced.
    unsynced: Vec<Ino>,
}

/// The name operations that are not durable, in the order in which they were made.
#[derive(Clone, Debug, Default)]
pub(super) struct Journal(Vec<PendingNameOp>);

impl Journal {
    pub(super) fn push(&mut self, op: NameOp) {
        let unsynced = op.dirs();
        self.0.push(PendingNameOp { op, sync_state: SyncState::Pending, unsynced });
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &PendingNameOp> {
        self.0.iter()
    }

    /// How many operations a crash may keep or drop.
    pub(super) fn open_count(&self) -> usize {
        self.0.iter().filter(|pending| pending.sync_state != SyncState::Synced).count()
    }

    /// Settles all pending operations on one name: a test is about to set it durably.
    pub(super) fn settle(&mut self, dir: Ino, name: &str, durable: &mut DirectoryTable) {
        let open = self.0.iter().filter(|pending| pending.op.touches(dir, name));
        let dirs: BTreeSet<Ino> = open.flat_map(|pending| pending.op.dirs()).collect();
        for dir in dirs {
            self.sync(dir, durable);
        }
        self.0.retain(|pending| !pending.op.touches(dir, name));
    }

    pub(super) fn lose(&mut self, dir: Ino) {
        for pending in &mut self.0 {
            if pending.sync_state == SyncState::Pending && pending.unsynced.contains(&dir) {
                pending.sync_state = SyncState::Lost;
            }
        }
    }

    /// Makes the entries of `dir` durable, as far as no other directory has to be synced too.
    pub(super) fn sync(&mut self, dir: Ino, durable: &mut DirectoryTable) {
        let mut synced = vec![dir];
        while let Some(dir) = synced.pop() {
            let waiting = self.0.iter_mut().filter(|pending| pending.sync_state == SyncState::Pending);
            for pending in waiting.filter(|pending| pending.unsynced.contains(&dir)) {
                pending.unsynced.retain(|waiting| *waiting != dir);
                if pending.unsynced.is_empty() {
                    pending.sync_state = SyncState::Synced;
                    // A directory that is durably gone was empty: nothing can depend on it any more.
                    if let NameOp::Unlink { ino, .. } = pending.op {
                        synced.push(ino);
                    }
                }
            }
        }
        self.settle_synced(durable);
    }

    /// A synced operation leaves the journal unless an earlier open one concerns the same name.
    fn settle_synced(&mut self, durable: &mut DirectoryTable) {
        let mut open = BTreeSet::new();
        self.0.retain(|pending| {
            let keys = pending.op.keys();
            let settled =
                pending.sync_state == SyncState::Synced && keys.iter().all(|key| !open.contains(key));
            if settled {
                durable.apply(&pending.op);
            } else {
                open.extend(keys);
            }
            !settled
        });
    }

    /// The table after a crash that kept the open operations marked in `kept`, in order.
    pub(super) fn after(&self, durable: &DirectoryTable, kept: &[bool]) -> DirectoryTable {
        let mut table = durable.clone();
        let mut choices = kept.iter();
        for pending in &self.0 {
            let keep = match pending.sync_state {
                SyncState::Synced => true,
                // A choice made for another disk may be too short: operations it does not list are dropped.
                SyncState::Pending | SyncState::Lost => choices.next().copied().unwrap_or(false),
            };
            if keep {
                table.apply(&pending.op);
            }
        }
        table
    }
}
