//! Which programs may use the HTTP listener: those of the user who runs it, and only on purpose (G75).
//!
//! Every user of a machine can reach its loopback ports, so a request carries a secret that only this user can read.
//! A web page can make a browser send requests to a loopback port, and can point its own name at it (DNS rebinding),
//! but it can forge neither the `Host` nor the `Origin` that the browser sends.

use std::net::SocketAddr;

use axum::http::{HeaderMap, HeaderName, Uri, header};
use workrail_model::keyring::HttpSecret;
use workrail_model::loopback::{ListenerNames, SentHeader};

/// What a client must present.
#[derive(Clone, Debug)]
pub enum Authentication {
    /// The secret of this user, in the header `Authorization: Bearer SECRET`.
    Bearer(HttpSecret),
    /// Nothing: every client that reaches the port is served.
    None,
}

/// The names of one listener, and what its clients must present.
#[derive(Clone, Debug)]
pub(crate) struct AllowList {
    pub(crate) names: ListenerNames,
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
                 `Authorization: Bearer SECRET`. `workrail store keys http-secret` prints the secret; `workrail install \
                 --client CLIENT --http ADDRESS` sets a client up with it.\n"
            }
        }
    }
}

impl AllowList {
    /// The names of the listener bound to `address`.
    pub(crate) fn of(address: SocketAddr, authentication: Authentication) -> Self {
        Self { names: ListenerNames::of(address), authentication }
    }

    pub(crate) fn admit(&self, uri: &Uri, headers: &HeaderMap) -> Result<(), AdmissionError> {
        check_names(&self.names, uri, headers)?;
        self.authenticated(headers)
    }

    fn authenticated(&self, headers: &HeaderMap) -> Result<(), AdmissionError> {
        let secret = match &self.authentication {
            Authentication::Bearer(secret) => secret,
            Authentication::None => return Ok(()),
        };
        match bearer(headers) {
            Some(sent) if secret.is(sent) => Ok(()),
            Some(_) | None => Err(AdmissionError::Secret),
        }
    }
}

/// Whether a request names this listener, and comes from no web page or from its own.
pub(crate) fn check_names(
    names: &ListenerNames,
    uri: &Uri,
    headers: &HeaderMap,
) -> Result<(), AdmissionError> {
    let host = sent(headers, header::HOST).once().ok_or(AdmissionError::Host)?;
    if !names.has_host(host) {
        return Err(AdmissionError::Host);
    }
    if uri.authority().is_some_and(|authority| !names.has_host(authority.as_str())) {
        return Err(AdmissionError::Host);
    }
    match sent(headers, header::ORIGIN) {
        SentHeader::Unusable => Err(AdmissionError::Origin),
        SentHeader::Once(origin) if !names.has_origin(origin) => Err(AdmissionError::Origin),
        SentHeader::Absent | SentHeader::Once(_) => Ok(()),
    }
}

/// The bearer token of a request.
pub(crate) fn bearer(headers: &HeaderMap) -> Option<&str> {
    let (scheme, sent) = sent(headers, header::AUTHORIZATION).once()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then_some(sent.trim())
}

fn sent(headers: &HeaderMap, name: HeaderName) -> SentHeader<'_> {
    SentHeader::of(headers.get_all(name).iter().map(|value| value.to_str().ok()))
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
        // The secret does not admit a foreign page or a rebound name.
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
}
