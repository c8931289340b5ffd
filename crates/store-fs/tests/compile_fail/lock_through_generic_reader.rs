//! A use case that asks for a reader cannot take the lock.

use workrail_model::id::SessionId;
use workrail_ports::session_store::{SessionReader, SessionStore};

fn lock<R: SessionReader>(reader: &R, session: SessionId) {
    let _ = SessionStore::lock(reader, session);
}

fn main() {}
