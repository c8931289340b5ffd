//! A witness cannot outlive the store whose lock it holds.

use workrail_model::id::SessionId;
use workrail_ports::session_store::SessionStore;
use workrail_store_fs::disk::Disk;
use workrail_store_fs::{LocalStore, LockedLocalSession};

fn keep_beyond_the_store(store: LocalStore<Disk>, session: SessionId) -> LockedLocalSession<'static, Disk> {
    store.lock(session).unwrap()
}

fn main() {}
