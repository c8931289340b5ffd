//! The address under which a team reaches a server: what a request must name, and the origin that browsers send (G115).

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use crate::loopback::ListenerNames;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    Http,
    Https,
}

impl Scheme {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Https => "https",
        }
    }

    fn usual_port(self) -> u16 {
        match self {
            Self::Http => 80,
            Self::Https => 443,
        }
    }
}

/// `https://workrail.example.com`, with a port if it is not the default.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublicUrl {
    scheme: Scheme,
    host: String,
    port: u16,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("write it as https://HOST or https://HOST:PORT, without a path")]
pub struct NotPublicUrl;

fn is_name(host: &str) -> bool {
    let is_label = |label: &str| {
        !label.is_empty()
            && label.len() <= 63
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
    };
    host.len() <= 253 && host.split('.').all(is_label)
}

fn is_host(host: &str) -> bool {
    let inner = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    inner.map_or_else(|| is_name(host), |inner| inner.parse::<std::net::Ipv6Addr>().is_ok())
}

impl FromStr for PublicUrl {
    type Err = NotPublicUrl;

    fn from_str(text: &str) -> Result<Self, NotPublicUrl> {
        let lower = text.trim_end_matches('/').to_ascii_lowercase();
        let (scheme, rest) = match lower.split_once("://") {
            Some(("https", rest)) => (Scheme::Https, rest),
            Some(("http", rest)) => (Scheme::Http, rest),
            Some(_) | None => return Err(NotPublicUrl),
        };
        let (host, port) = match rest.rsplit_once(':') {
            Some((host, port)) if !port.contains(']') => {
                let is_number = !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
                let port = port.parse().ok().filter(|port| is_number && *port != 0).ok_or(NotPublicUrl)?;
                (host, port)
            }
            Some(_) | None => (rest, scheme.usual_port()),
        };
        match is_host(host) {
            true => Ok(Self { scheme, host: host.to_owned(), port }),
            false => Err(NotPublicUrl),
        }
    }
}

impl fmt::Display for PublicUrl {
    /// As browsers write an origin: without the default port.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", self.scheme.as_str(), self.host)?;
        match self.port == self.scheme.usual_port() {
            true => Ok(()),
            false => write!(f, ":{}", self.port),
        }
    }
}

impl PublicUrl {
    /// The address of a server that only its own machine reaches.
    pub fn localhost(scheme: Scheme, port: u16) -> Self {
        Self { scheme, host: "localhost".to_owned(), port }
    }

    pub fn scheme(&self) -> Scheme {
        self.scheme
    }

    pub fn host(&self) -> &str {
        &self.host
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// Whether only this machine reaches the host, so that nothing sent to it needs encryption.
    pub fn is_loopback(&self) -> bool {
        let address = self.host.trim_matches(['[', ']']).parse::<IpAddr>();
        self.host == "localhost" || address.is_ok_and(|address| address.is_loopback())
    }

    /// What a request may send as its `Host`, and the one origin that is ours.
    pub fn names(&self) -> ListenerNames {
        let mut hosts = vec![format!("{}:{}", self.host, self.port)];
        if self.port == self.scheme.usual_port() {
            hosts.push(self.host.clone());
        }
        ListenerNames { hosts, origins: vec![self.to_string()] }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_one_origin_and_the_names_that_browsers_send() {
        let table = [
            ("https://workrail.example.com", "https://workrail.example.com", "workrail.example.com"),
            ("https://workrail.example.com/", "https://workrail.example.com", "workrail.example.com:443"),
            ("HTTPS://Workrail.Example.com:443", "https://workrail.example.com", "workrail.example.com"),
            ("https://w.example:8443", "https://w.example:8443", "w.example:8443"),
            ("http://localhost:80", "http://localhost", "localhost"),
            ("http://[::1]:8080", "http://[::1]:8080", "[::1]:8080"),
        ];
        for (text, origin, host) in table {
            let url: PublicUrl = text.parse().unwrap();
            assert_eq!(url.to_string(), origin);
            assert!(url.names().has_host(host) && url.names().has_origin(origin), "{text}");
            assert!(!url.names().has_host(&format!("{host}.evil.example")), "{text}");
        }
        assert!(!"https://w.example:8443".parse::<PublicUrl>().unwrap().names().has_host("w.example"));
    }

    /// Broke: `install` and `serve` had rules of their own, which differed for 127.0.0.2.
    #[test]
    fn loopback_is_one_name_and_the_loopback_addresses() {
        let is_loopback =
            |host: &str| format!("http://{host}:8080").parse::<PublicUrl>().unwrap().is_loopback();
        for host in ["localhost", "LOCALHOST", "127.0.0.1", "127.0.0.2", "127.255.0.1", "[::1]"] {
            assert!(is_loopback(host), "{host}");
        }
        for host in ["w.example", "localhost.w.example", "128.0.0.1", "[::2]", "10.0.0.1", "127.1", "0.0.0.0"]
        {
            assert!(!is_loopback(host), "{host}");
        }
    }

    #[test]
    fn an_address_that_is_not_a_plain_origin_is_refused() {
        for bad in [
            "",
            "workrail.example.com",
            "ftp://x",
            "https://",
            "https://x/path",
            "https://x?q",
            "https://user@x",
            "https://x:0",
            "https://x:",
            "https://x:99999",
            "https://x:+1",
            "https://x..y",
            "https://-x",
            "https://x y",
            "https://[::1",
        ] {
            assert_eq!(bad.parse::<PublicUrl>(), Err(NotPublicUrl), "{bad:?}");
        }
    }
}
