//! How many connections each address holds, so that one client cannot use up those of a server (G115).
//!
//! Only a server that terminates TLS itself sees the addresses of its clients. Behind a proxy and on a plain loopback
//! port all connections have one address, so nothing is counted there.

use std::net::{IpAddr, Ipv4Addr};

use workrail_engine::slots::{HolderSlot, HolderSlots};

/// A quarter of what the server serves at once: room for an office whose clients share an address, and others are still
/// served while one address holds all that it may.
const PER_ADDRESS_MAX: usize = 64;

/// Connections by address.
#[derive(Clone, Debug)]
pub(crate) struct Peers(HolderSlots<Network>);

/// A connection that is counted until this is dropped.
pub(crate) type PeerSlot = HolderSlot<Network>;

/// What counts as one address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Network {
    V4(Ipv4Addr),
    /// The first 64 bits: a single machine can use every address behind them.
    V6([u16; 4]),
}

impl Default for Peers {
    fn default() -> Self {
        Self(HolderSlots::new(PER_ADDRESS_MAX))
    }
}

impl Peers {
    /// Counts a connection; `None` when its address holds as many as it may.
    pub(crate) fn take(&self, address: IpAddr) -> Option<PeerSlot> {
        self.0.take(Network::of(address))
    }
}

impl Network {
    fn of(address: IpAddr) -> Self {
        // A listener for both families sees IPv4 clients under mapped addresses, which all have one prefix.
        match address.to_canonical() {
            IpAddr::V4(address) => Self::V4(address),
            IpAddr::V6(address) => {
                let [a, b, c, d, ..] = address.segments();
                Self::V6([a, b, c, d])
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take(peers: &Peers, address: &str) -> Option<PeerSlot> {
        peers.take(address.parse().unwrap())
    }

    fn fill(peers: &Peers, address: &str) -> Vec<PeerSlot> {
        (0..PER_ADDRESS_MAX).map(|_| take(peers, address).unwrap()).collect()
    }

    #[test]
    fn an_address_holds_so_many_connections_and_others_their_own() {
        let peers = Peers::default();
        let mut open = fill(&peers, "192.0.2.1");
        assert!(take(&peers, "192.0.2.1").is_none(), "above the limit");
        assert!(take(&peers, "192.0.2.2").is_some(), "another address");
        open.pop();
        let last = take(&peers, "192.0.2.1");
        assert!(last.is_some(), "just below the limit, a closed connection makes room");
        assert!(take(&peers, "192.0.2.1").is_none(), "at the limit again");
    }

    #[test]
    fn an_ipv4_client_is_the_same_on_a_listener_of_both_families() {
        let peers = Peers::default();
        let _open = fill(&peers, "192.0.2.1");
        assert!(take(&peers, "::ffff:192.0.2.1").is_none());
        assert!(take(&peers, "::ffff:192.0.2.2").is_some(), "mapped addresses are not one prefix");
    }

    #[test]
    fn an_ipv6_client_is_its_prefix_of_64_bits() {
        let peers = Peers::default();
        let _open = fill(&peers, "2001:db8:0:1::1");
        assert!(take(&peers, "2001:db8:0:1:ffff:ffff:ffff:ffff").is_none());
        assert!(take(&peers, "2001:db8:0:2::1").is_some());
    }
}
