//! A use case that asks for a reader cannot append, whatever store it is given.

use workrail_model::plan::AppendPlan;
use workrail_ports::session_store::{LockedSession, SessionReader};

fn append<R: SessionReader>(reader: &mut R, plan: AppendPlan) {
    let _ = LockedSession::append(reader, plan);
}

fn main() {}
