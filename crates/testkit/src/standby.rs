//! A cluster that only reads, as the standby of a primary that is gone.

use std::fs;
use std::os::unix::fs::chown;

use crate::home::{NOBODY, User};
use crate::postgres::Cluster;

impl Cluster {
    /// Kills the server and starts it again over the same data as a standby; returns once it accepts connections.
    pub fn restart_as_standby(&self) {
        self.kill();
        let signal = self.socket_folder().join("data/standby.signal");
        fs::write(&signal, "").expect("the cluster is ours");
        if User::find() == User::Nobody {
            chown(&signal, Some(NOBODY), Some(NOBODY)).expect("root may give files away");
        }
        self.restart();
        assert_eq!(self.sql("postgres", "SELECT pg_is_in_recovery()"), "t");
    }

    /// Makes a standby the primary; returns once it accepts writes.
    pub fn promote(&self) {
        assert_eq!(self.sql("postgres", "SELECT pg_promote()"), "t");
    }
}
