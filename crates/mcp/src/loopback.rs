//! Who may speak to the HTTP listener: programs of the user who runs it, and that meant to (G75).
//!
//! Every user of a machine reaches its loopback ports, so a request carries a secret that only this user can read.
//! A web page can make a browser send requests to a loopback port, and can point a name of its own at it (DNS
//! rebinding). It can forge neither the `Host` nor the `Origin` that the browser sends with them.

use std::net::{Ipv4Addr, SocketAddr};
use std::str::FromStr;

use axum::http::{HeaderMap, HeaderName, Uri, header};
use workrail_model::keyring::HttpSecret;

/// An address that only this machine reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoopbackAddress(SocketAddr);

/// Text that is not a loopback address.
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
    pub fn socket_address(self) -> SocketAddr {
        self.0
    }
}

/// What a client must show.
#[derive(Clone, Debug)]
pub enum Authentication {
    /// The secret of this user, in the header `Authorization: Bearer SECRET`.
    Bearer(HttpSecret),
    /// Nothing: whoever reaches the port is answered.
    None,
}

/// The names of one listener, as a `Host` and as an `Origin`, and what its clients must show.
#[derive(Clone, Debug)]
pub(crate) struct AllowList {
    pub(crate) hosts: Vec<String>,
    pub(crate) origins: Vec<String>,
    authentication: Authentication,
}

/// A request that is not answered, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AdmissionError {
    Host,
    Origin,
    /// No secret, or not the right one.
    Secret,
}

impl AdmissionError {
    pub(crate) fn reason(self) -> &'static str {
        match self {
            Self::Host => "Forbidden: the Host header is not the loopback address of this server\n",
            Self::Origin => "Forbidden: the Origin header is not this server's own\n",
            Self::Secret => {
                "Unauthorized: this server answers only requests that carry its secret.\nSend the header \
                 `Authorization: Bearer SECRET`. `workrail store keys http-secret` prints the secret; `workrail setup install \
                 --client CLIENT --http ADDRESS` sets a client up with it.\n"
            }
        }
    }
}

impl AllowList {
    /// The names of the listener that is bound to `address`.
    pub(crate) fn of(address: SocketAddr, authentication: Authentication) -> Self {
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
        Self { hosts, origins, authentication }
    }

    /// Compares whole values: parsing them first is where such checks have been outwitted.
    pub(crate) fn admit(&self, uri: &Uri, headers: &HeaderMap) -> Result<(), AdmissionError> {
        let host = only(headers, header::HOST).ok_or(AdmissionError::Host)?.ok_or(AdmissionError::Host)?;
        if !known(&self.hosts, host) {
            return Err(AdmissionError::Host);
        }
        if uri.authority().is_some_and(|authority| !known(&self.hosts, authority.as_str())) {
            return Err(AdmissionError::Host);
        }
        match only(headers, header::ORIGIN) {
            None => Err(AdmissionError::Origin),
            Some(Some(origin)) if !known(&self.origins, origin) => Err(AdmissionError::Origin),
            Some(_) => self.authenticated(headers),
        }
    }

    fn authenticated(&self, headers: &HeaderMap) -> Result<(), AdmissionError> {
        let secret = match &self.authentication {
            Authentication::Bearer(secret) => secret,
            Authentication::None => return Ok(()),
        };
        let sent = only(headers, header::AUTHORIZATION).flatten().and_then(|value| value.split_once(' '));
        match sent {
            Some((scheme, sent)) if scheme.eq_ignore_ascii_case("bearer") && secret.is(sent.trim()) => Ok(()),
            Some(_) | None => Err(AdmissionError::Secret),
        }
    }
}

fn known(list: &[String], value: &str) -> bool {
    list.iter().any(|known| known.eq_ignore_ascii_case(value))
}

/// The value of a header: `Some(None)` where it is absent, `None` where it is repeated or no text.
fn only(headers: &HeaderMap, name: HeaderName) -> Option<Option<&str>> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (None, _) => Some(None),
        (Some(value), None) => value.to_str().ok().map(Some),
        (Some(_), Some(_)) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn admit(address: &str, uri: &str, headers: &[(&str, &str)]) -> Result<(), AdmissionError> {
        admit_with(Authentication::None, address, uri, headers)
    }

    fn admit_with(
        authentication: Authentication,
        address: &str,
        uri: &str,
        headers: &[(&str, &str)],
    ) -> Result<(), AdmissionError> {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(name.parse::<HeaderName>().unwrap(), value.parse().unwrap());
        }
        AllowList::of(address.parse().unwrap(), authentication).admit(&uri.parse().unwrap(), &map)
    }

    #[test]
    fn the_table_of_hosts() {
        let table = [
            ("127.0.0.1:4000", true),
            ("localhost:4000", true),
            ("LocalHost:4000", true),
            ("[::1]:4000", true),
            ("127.0.0.1", false),
            ("localhost", false),
            ("127.0.0.1:4001", false),
            ("127.0.0.1:04000", false),
            ("127.0.0.2:4000", false),
            ("localhost.:4000", false),
            ("localhost:4000.evil.example", false),
            ("evil.example", false),
            ("evil.example:4000", false),
            ("127.0.0.1.evil.example:4000", false),
            ("user@127.0.0.1:4000", false),
            ("127.0.0.1:4000@evil.example", false),
            ("127.0.0.1:4000, evil.example", false),
            (" 127.0.0.1:4000", false),
            ("0.0.0.0:4000", false),
            ("2130706433:4000", false),
            ("[::ffff:127.0.0.1]:4000", false),
            ("::1:4000", false),
            ("", false),
        ];
        for (host, admitted) in table {
            let expected = if admitted { Ok(()) } else { Err(AdmissionError::Host) };
            assert_eq!(admit("127.0.0.1:4000", "/mcp", &[("host", host)]), expected, "{host:?}");
        }
        assert_eq!(admit("127.0.0.1:4000", "/mcp", &[]), Err(AdmissionError::Host));
        let twice = [("host", "127.0.0.1:4000"), ("host", "evil.example")];
        assert_eq!(admit("127.0.0.1:4000", "/mcp", &twice), Err(AdmissionError::Host));
    }

    #[test]
    fn the_table_of_origins() {
        let table = [
            ("http://127.0.0.1:4000", true),
            ("http://localhost:4000", true),
            ("http://[::1]:4000", true),
            ("https://localhost:4000", false),
            ("http://localhost", false),
            ("http://localhost:4001", false),
            ("http://evil.example", false),
            ("http://localhost:4000.evil.example", false),
            ("http://localhost:4000/", false),
            ("file://", false),
            ("null", false),
            ("", false),
        ];
        for (origin, admitted) in table {
            let expected = if admitted { Ok(()) } else { Err(AdmissionError::Origin) };
            let headers = [("host", "localhost:4000"), ("origin", origin)];
            assert_eq!(admit("127.0.0.1:4000", "/mcp", &headers), expected, "{origin:?}");
        }
        let twice = [
            ("host", "localhost:4000"),
            ("origin", "http://localhost:4000"),
            ("origin", "http://evil.example"),
        ];
        assert_eq!(admit("127.0.0.1:4000", "/mcp", &twice), Err(AdmissionError::Origin));
    }

    #[test]
    fn only_the_whole_secret_is_accepted() {
        let secret = HttpSecret::new([3; 32]);
        let own = secret.reveal().to_owned();
        let table = [
            (format!("Bearer {own}"), true),
            (format!("bearer {own}"), true),
            (format!("BEARER  {own}"), true),
            (own.clone(), false),
            ("Bearer".to_owned(), false),
            ("Bearer ".to_owned(), false),
            (format!("Basic {own}"), false),
            (format!("Bearer {own}x"), false),
            (format!("Bearer {}", &own[..own.len() - 1]), false),
            (format!("Bearer {}", own.to_lowercase()), false),
            (format!("Bearer x {own}"), false),
        ];
        let host = ("host", "127.0.0.1:4000");
        let admit = |headers: &[(&str, &str)]| {
            admit_with(Authentication::Bearer(secret.clone()), "127.0.0.1:4000", "/mcp", headers)
        };
        for (value, admitted) in &table {
            let expected = if *admitted { Ok(()) } else { Err(AdmissionError::Secret) };
            assert_eq!(admit(&[host, ("authorization", value)]), expected, "{value:?}");
        }
        assert_eq!(admit(&[host]), Err(AdmissionError::Secret));
        let right = format!("Bearer {own}");
        assert_eq!(
            admit(&[host, ("authorization", &right), ("authorization", &right)]),
            Err(AdmissionError::Secret),
            "a repeated header is refused"
        );
        // The secret does not make a foreign page or a rebound name welcome.
        let foreign = ("origin", "http://evil.example");
        assert_eq!(admit(&[host, foreign, ("authorization", &right)]), Err(AdmissionError::Origin));
        let rebound = ("host", "evil.example:4000");
        assert_eq!(admit(&[rebound, ("authorization", &right)]), Err(AdmissionError::Host));
    }

    #[test]
    fn the_address_in_the_request_line_counts_as_well() {
        let host = [("host", "127.0.0.1:4000")];
        assert_eq!(admit("127.0.0.1:4000", "http://127.0.0.1:4000/mcp", &host), Ok(()));
        assert_eq!(admit("127.0.0.1:4000", "http://evil.example/mcp", &host), Err(AdmissionError::Host));
    }

    #[test]
    fn the_bound_address_and_the_default_port_have_their_own_names() {
        assert_eq!(admit("127.0.0.2:4000", "/", &[("host", "127.0.0.2:4000")]), Ok(()));
        assert_eq!(admit("127.0.0.1:80", "/", &[("host", "localhost")]), Ok(()));
        let headers = [("host", "localhost"), ("origin", "http://localhost")];
        assert_eq!(admit("127.0.0.1:80", "/", &headers), Ok(()));
    }

    #[test]
    fn only_loopback_addresses_are_addresses() {
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
