//! A released session cannot be appended to.

use workrail_model::id::SessionId;
use workrail_model::plan::AppendPlan;
use workrail_ports::session_store::{LockedSession, SessionStore};
use workrail_store_fs::LocalStore;
use workrail_store_fs::disk::Disk;

fn append_after_release(store: &LocalStore<Disk>, session: SessionId, plan: AppendPlan) {
    let mut locked = store.lock(session).unwrap();
    drop(locked);
    let _ = locked.append(plan);
}

fn main() {}
