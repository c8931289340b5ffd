//! A caller that was given a reader cannot append, even if the value behind it could.

use workrail_model::plan::AppendPlan;
use workrail_ports::session_store::{LockedSession, SessionReader};

fn append(reader: &mut dyn SessionReader, plan: AppendPlan) {
    let _ = LockedSession::append(reader, plan);
}

fn main() {}
