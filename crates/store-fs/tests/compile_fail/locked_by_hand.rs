//! Only the store can create a witness: its fields are private.

use workrail_model::id::SessionId;
use workrail_store_fs::disk::Disk;
use workrail_store_fs::{LocalStore, LockedLocalSession};

fn forge(store: &LocalStore<Disk>, session: SessionId) -> LockedLocalSession<'_, Disk> {
    LockedLocalSession { store, session }
}

fn main() {}
