//! Listening on loopback: which addresses are reachable only from this machine, and which names a listener has (G75).
//!
//! A web page can point a name of its own at a loopback port (DNS rebinding), and can make a browser send requests to
//! it. It can forge neither the `Host` nor the `Origin` that the browser sends with them, so both are compared with the
//! names here. The agents' server and the console use the same names.

use std::net::{Ipv4Addr, SocketAddr};
use std::str::FromStr;

/// An address that is reachable only from this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoopbackAddress(SocketAddr);

/// The text is not a loopback address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotLoopback(String);

impl std::fmt::Display for NotLoopback {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for NotLoopback {}

impl FromStr for LoopbackAddress {
    type Err = NotLoopback;

    fn from_str(text: &str) -> Result<Self, NotLoopback> {
        let address = match text.strip_prefix("localhost:") {
            Some(port) => port.parse().ok().map(|port: u16| SocketAddr::from((Ipv4Addr::LOCALHOST, port))),
            None => text.parse().ok(),
        };
        let Some(address) = address else {
            return Err(NotLoopback("write it as 127.0.0.1:PORT; port 0 takes a free one".to_owned()));
        };
        if !address.ip().is_loopback() {
            return Err(NotLoopback(
                "other machines could reach it, and the server binds to loopback only; use 127.0.0.1:PORT"
                    .to_owned(),
            ));
        }
        Ok(Self(address))
    }
}

impl LoopbackAddress {
    /// The address of a port on 127.0.0.1; port 0 picks a free one.
    pub fn of_port(port: u16) -> Self {
        Self(SocketAddr::from((Ipv4Addr::LOCALHOST, port)))
    }

    pub fn socket_address(self) -> SocketAddr {
        self.0
    }
}

/// The names of one listener, as a `Host` and as an `Origin`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListenerNames {
    pub hosts: Vec<String>,
    pub origins: Vec<String>,
}

impl ListenerNames {
    /// The names of the listener that is bound to `address`.
    pub fn of(address: SocketAddr) -> Self {
        let port = address.port();
        let bound = match address {
            SocketAddr::V4(v4) => v4.ip().to_string(),
            SocketAddr::V6(v6) => format!("[{}]", v6.ip()),
        };
        let mut hosts = Vec::new();
        for name in ["localhost", "127.0.0.1", "[::1]", &bound] {
            hosts.push(format!("{name}:{port}"));
            if port == 80 {
                hosts.push(name.to_owned());
            }
        }
        let origins = hosts.iter().map(|host| format!("http://{host}")).collect();
        Self { hosts, origins }
    }

    /// The same for a listener that is reached over TLS.
    #[must_use]
    pub fn over_tls(self) -> Self {
        let origins = self.hosts.iter().map(|host| format!("https://{host}")).collect();
        Self { origins, ..self }
    }

    /// Compares whole values: parsing them first is how such checks have been bypassed.
    pub fn has_host(&self, host: &str) -> bool {
        self.hosts.iter().any(|known| known.eq_ignore_ascii_case(host))
    }

    pub fn has_origin(&self, origin: &str) -> bool {
        self.origins.iter().any(|known| known.eq_ignore_ascii_case(origin))
    }
}

/// A header that may occur once in a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SentHeader<'a> {
    Absent,
    Once(&'a str),
    /// Repeated, or not text: it is unknown which value was meant, so none is used.
    Unusable,
}

impl<'a> SentHeader<'a> {
    /// From every value sent under the name; `None` represents a value that is not text.
    pub fn of(mut values: impl Iterator<Item = Option<&'a str>>) -> Self {
        match (values.next(), values.next()) {
            (None, _) => Self::Absent,
            (Some(Some(value)), None) => Self::Once(value),
            (Some(_), Some(_)) | (Some(None), None) => Self::Unusable,
        }
    }

    /// The value of a header that was sent once.
    pub fn once(self) -> Option<&'a str> {
        match self {
            Self::Once(value) => Some(value),
            Self::Absent | Self::Unusable => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_that_is_repeated_or_not_text_is_not_used() {
        let of = |values: &[Option<&'static str>]| SentHeader::of(values.iter().copied());
        assert_eq!(of(&[]), SentHeader::Absent);
        assert_eq!(of(&[Some("a")]), SentHeader::Once("a"));
        for unusable in [&[Some("a"), Some("a")][..], &[None], &[None, Some("a")], &[Some("a"), None]] {
            assert_eq!(of(unusable), SentHeader::Unusable, "{unusable:?}");
        }
    }

    #[test]
    fn only_loopback_addresses_are_accepted() {
        for good in ["127.0.0.1:0", "127.1.2.3:80", "[::1]:4000", "localhost:4000"] {
            assert!(good.parse::<LoopbackAddress>().is_ok(), "{good}");
        }
        for bad in ["0.0.0.0:80", "[::]:80", "192.168.0.1:80", "10.0.0.1:0", "[::ffff:127.0.0.1]:80"] {
            let error = bad.parse::<LoopbackAddress>().unwrap_err().to_string();
            assert!(error.contains("other machines could reach it"), "{bad}: {error}");
        }
        for bad in
            ["", "4000", ":4000", "127.0.0.1", "localhost", "localhost:x", "evil.example:80", "127.1:80"]
        {
            let error = bad.parse::<LoopbackAddress>().unwrap_err().to_string();
            assert!(error.contains("127.0.0.1:PORT"), "{bad}: {error}");
        }
    }
}
