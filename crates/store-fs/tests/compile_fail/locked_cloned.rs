//! A witness cannot be copied: there is one per held lock.

use workrail_store_fs::Locked;
use workrail_store_fs::disk::Disk;

fn copy<'a>(locked: &Locked<'a, Disk>) -> Locked<'a, Disk> {
    locked.clone()
}

fn main() {}
