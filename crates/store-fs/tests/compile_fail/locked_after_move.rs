//! A witness cannot be used after it was moved.

use workrail_model::id::SessionId;
use workrail_ports::session_store::{LockedSession, SessionStore};
use workrail_store_fs::disk::Disk;
use workrail_store_fs::{LocalStore, LockedLocalSession};

fn keep(_locked: LockedLocalSession<'_, Disk>) {}

fn read_after_move(store: &LocalStore<Disk>, session: SessionId) {
    let locked = store.lock(session).unwrap();
    keep(locked);
    let _ = locked.cursor();
}

fn main() {}
