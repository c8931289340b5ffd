//! Who was given a reader cannot append, also when the value behind it could.

use workrail_model::plan::AppendPlan;
use workrail_ports::session_store::{LockedSession, SessionReader, SessionStore};

fn append(reader: &dyn SessionReader, plan: AppendPlan) {
    let _ = reader.append(plan);
}

fn main() {}
