//! A witness cannot be copied: there is one per held lock.

use workrail_store_fs::LockedLocalSession;
use workrail_store_fs::disk::Disk;

fn copy<'a>(locked: &LockedLocalSession<'a, Disk>) -> LockedLocalSession<'a, Disk> {
    locked.clone()
}

fn main() {}
