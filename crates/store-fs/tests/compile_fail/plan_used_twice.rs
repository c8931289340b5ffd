//! An append consumes its plan, so the same plan cannot be carried out twice.

use workrail_model::id::SessionId;
use workrail_model::plan::AppendPlan;
use workrail_ports::session_store::{LockedSession, SessionStore};
use workrail_store_fs::LocalStore;
use workrail_store_fs::disk::Disk;

fn append_twice(store: &LocalStore<Disk>, session: SessionId, plan: AppendPlan) {
    let mut locked = store.lock(session).unwrap();
    let _ = locked.append(plan);
    let _ = locked.append(plan);
}

fn main() {}
