//! Who is answered: a browser of the user who started the console, sent by one of the console's own pages (G94).
//!
//! Every user of a machine reaches its loopback ports, and any page in a browser can send requests to them. So a
//! request must name this listener as its `Host`; it must not come from a foreign page, by `Origin` and
//! `Sec-Fetch-Site`; it must carry the cookie that only the printed one-time code gives; and a form must carry a token
//! that is in no cookie. Ports of one host share their cookies, so the cookie's name holds the port.

use std::net::SocketAddr;
use std::sync::{Mutex, PoisonError};

use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, Uri, header};
use workrail_model::keyring::HttpSecret;
use workrail_model::loopback::{ListenerNames, SentHeader};

/// The one page that is shown to a browser without the cookie, because it gives the cookie.
pub(crate) const OPEN_PATH: &str = "/open";

/// The three secrets of one console. They are drawn when it starts and are nowhere on the disk.
#[derive(Debug)]
pub struct Secrets {
    /// In the address that is printed; used once.
    pub code: HttpSecret,
    /// In the cookie.
    pub cookie: HttpSecret,
    /// In every form.
    pub form_token: HttpSecret,
}

#[derive(Debug)]
pub(crate) struct Guard {
    names: ListenerNames,
    origin: String,
    cookie_name: String,
    theme_cookie_name: String,
    cookie: HttpSecret,
    form_token: HttpSecret,
    code: Mutex<HttpSecret>,
}

/// Why a request is not answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    Host,
    Origin,
    /// A page of another site sent the browser here.
    CrossSite,
    /// No cookie, or not the right one.
    NoCookie,
    /// The code was used before, or never valid.
    Code,
    /// A form without the token of this console.
    FormToken,
}

impl Refusal {
    /// What is wrong and what to do.
    pub(crate) fn reason(self) -> &'static str {
        match self {
            Self::Host => "The Host header does not name this console. Use the address that it printed.",
            Self::Origin => "The request was sent by a page of another origin.",
            Self::CrossSite => {
                "A link or a page of another site led here. Follow this link if you meant to come here."
            }
            Self::NoCookie => {
                "This browser has no access. Open the address with a code that `workrail console` printed in its terminal."
            }
            Self::Code => {
                "This code was used before, or belongs to another console. Use the newest address that \
                 `workrail console` printed in its terminal."
            }
            Self::FormToken => {
                "The form is from before the console was started again. Nothing was changed. Load the page again and \
                 repeat it."
            }
        }
    }
}

impl Guard {
    pub(crate) fn new(bound: SocketAddr, secrets: Secrets) -> Self {
        let Secrets { code, cookie, form_token } = secrets;
        Self {
            names: ListenerNames::of(bound),
            origin: origin_of(bound.port()),
            cookie_name: format!("workrail-console-{}", bound.port()),
            theme_cookie_name: format!("workrail-theme-{}", bound.port()),
            cookie,
            form_token,
            code: Mutex::new(code),
        }
    }

    /// The origin that passkeys are used under, as browsers write it.
    pub(crate) fn origin(&self) -> &str {
        &self.origin
    }

    pub(crate) fn form_token(&self) -> &str {
        self.form_token.reveal()
    }

    /// Whole values are compared; a header that is repeated is not the one that is wanted.
    pub(crate) fn admit(&self, method: &Method, uri: &Uri, headers: &HeaderMap) -> Result<(), Refusal> {
        let host = sent(headers, header::HOST).once().filter(|host| self.names.has_host(host));
        let host = host.ok_or(Refusal::Host)?;
        if uri.authority().is_some_and(|authority| !authority.as_str().eq_ignore_ascii_case(host)) {
            return Err(Refusal::Host);
        }
        let is_opening = *method == Method::GET && uri.path() == OPEN_PATH;
        match sent(headers, HeaderName::from_static("sec-fetch-site")) {
            SentHeader::Absent | SentHeader::Once("same-origin" | "none") => {}
            // A file that redirects here, or a page of another local port: the code is what counts.
            SentHeader::Once("cross-site" | "same-site") if is_opening => {}
            SentHeader::Once(_) | SentHeader::Unusable => return Err(Refusal::CrossSite),
        }
        match sent(headers, header::ORIGIN) {
            SentHeader::Once(origin) if origin.eq_ignore_ascii_case(&format!("http://{host}")) => {}
            // Browsers send the origin with every form that is posted.
            SentHeader::Absent if *method == Method::GET || *method == Method::HEAD => {}
            SentHeader::Once(_) | SentHeader::Absent | SentHeader::Unusable => return Err(Refusal::Origin),
        }
        if is_opening || self.has_cookie(headers) { Ok(()) } else { Err(Refusal::NoCookie) }
    }

    pub(crate) fn has_cookie(&self, headers: &HeaderMap) -> bool {
        // A page of another local port can add a cookie of this name, but not take the right one away.
        cookies(headers, &self.cookie_name).any(|sent| self.cookie.is(sent))
    }

    pub(crate) fn check_form(&self, token: Option<&str>) -> Result<(), Refusal> {
        match token {
            Some(token) if self.form_token.is(token) => Ok(()),
            Some(_) | None => Err(Refusal::FormToken),
        }
    }

    /// Uses the code up: `fresh` takes its place.
    pub(crate) fn take_code(&self, sent: &str, fresh: HttpSecret) -> Result<(), Refusal> {
        let mut code = self.code.lock().unwrap_or_else(PoisonError::into_inner);
        if !code.is(sent) {
            return Err(Refusal::Code);
        }
        *code = fresh;
        Ok(())
    }

    /// The header that lets a browser in until it is closed.
    pub(crate) fn set_cookie(&self) -> Option<HeaderValue> {
        let (name, secret) = (&self.cookie_name, self.cookie.reveal());
        HeaderValue::from_str(&format!("{name}={secret}; Path=/; HttpOnly; SameSite=Strict")).ok()
    }

    pub(crate) fn theme(&self, headers: &HeaderMap) -> Theme {
        cookies(headers, &self.theme_cookie_name).next().map(Theme::parse).unwrap_or_default()
    }

    pub(crate) fn set_theme(&self, theme: Theme) -> Option<HeaderValue> {
        let (name, theme) = (&self.theme_cookie_name, theme.as_str());
        let cookie = format!("{name}={theme}; Path=/; HttpOnly; SameSite=Strict; Max-Age=31536000");
        HeaderValue::from_str(&cookie).ok()
    }
}

/// Light or dark.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Theme {
    #[default]
    System,
    Light,
    Dark,
}

impl Theme {
    const ALL: [Self; 3] = [Self::System, Self::Light, Self::Dark];

    /// The one that the switch leads to.
    pub(crate) fn next(self) -> Self {
        match self {
            Self::System => Self::Light,
            Self::Light => Self::Dark,
            Self::Dark => Self::System,
        }
    }

    pub(crate) fn parse(text: &str) -> Self {
        Self::ALL.into_iter().find(|own| own.as_str() == text).unwrap_or_default()
    }

    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::Light => "light",
            Self::Dark => "dark",
        }
    }
}

/// What every answer carries: nothing runs or loads but our own files, nothing frames it, nothing keeps it.
pub(crate) const HEADERS: [(HeaderName, HeaderValue); 7] = [
    (
        header::CONTENT_SECURITY_POLICY,
        HeaderValue::from_static(
            "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
             form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
        ),
    ),
    (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
    (header::X_FRAME_OPTIONS, HeaderValue::from_static("DENY")),
    // Without any referrer browsers would send forms with the origin `null`.
    (header::REFERRER_POLICY, HeaderValue::from_static("same-origin")),
    (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
    (HeaderName::from_static("cross-origin-opener-policy"), HeaderValue::from_static("same-origin")),
    (HeaderName::from_static("cross-origin-resource-policy"), HeaderValue::from_static("same-origin")),
];

/// Browsers leave the usual port out.
fn origin_of(port: u16) -> String {
    match port {
        80 => "http://localhost".to_owned(),
        port => format!("http://localhost:{port}"),
    }
}

fn sent(headers: &HeaderMap, name: HeaderName) -> SentHeader<'_> {
    SentHeader::of(headers.get_all(name).iter().map(|value| value.to_str().ok()))
}

fn cookies<'a>(headers: &'a HeaderMap, name: &'a str) -> impl Iterator<Item = &'a str> {
    let sent = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
    let pairs = sent.flat_map(|value| value.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.filter(move |(own, _)| *own == name).map(|(_, value)| value)
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: &str = "http://localhost:4000";

    fn guard() -> Guard {
        let [code, cookie, form_token] = [1, 2, 3].map(|n| HttpSecret::new([n; 32]));
        Guard::new("127.0.0.1:4000".parse().unwrap(), Secrets { code, cookie, form_token })
    }

    fn admit(method: Method, uri: &str, headers: &[(&str, &str)]) -> Result<(), Refusal> {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(name.parse::<HeaderName>().unwrap(), value.parse().unwrap());
        }
        guard().admit(&method, &uri.parse().unwrap(), &map)
    }

    fn right_cookie() -> String {
        format!("workrail-console-4000={}", HttpSecret::new([2; 32]).reveal())
    }

    #[test]
    fn the_table_of_requests() {
        let cookie = right_cookie();
        let (host, cookie) = (("host", "localhost:4000"), ("cookie", cookie.as_str()));
        let site = |value| ("sec-fetch-site", value);
        let origin = |value| ("origin", value);
        let table = vec![
            (Method::GET, vec![host, cookie], Ok(())),
            (Method::GET, vec![], Err(Refusal::Host)),
            (Method::GET, vec![host], Err(Refusal::NoCookie)),
            (Method::GET, vec![("host", "evil.example:4000"), cookie], Err(Refusal::Host)),
            (Method::GET, vec![("host", "localhost:4001"), cookie], Err(Refusal::Host)),
            (Method::GET, vec![host, host, cookie], Err(Refusal::Host)),
            (Method::GET, vec![host, cookie, site("none")], Ok(())),
            (Method::GET, vec![host, cookie, site("same-origin")], Ok(())),
            (Method::GET, vec![host, cookie, site("same-site")], Err(Refusal::CrossSite)),
            (Method::GET, vec![host, cookie, site("cross-site")], Err(Refusal::CrossSite)),
            (Method::GET, vec![host, cookie, origin("http://evil.example")], Err(Refusal::Origin)),
            (Method::POST, vec![host, cookie], Err(Refusal::Origin)),
            (Method::POST, vec![host, cookie, origin(OWN)], Ok(())),
            (Method::POST, vec![host, cookie, origin("null")], Err(Refusal::Origin)),
            (Method::POST, vec![host, cookie, origin("http://localhost:4001")], Err(Refusal::Origin)),
            (Method::POST, vec![host, cookie, origin("http://127.0.0.1:4000")], Err(Refusal::Origin)),
            (Method::POST, vec![host, cookie, origin(OWN), origin(OWN)], Err(Refusal::Origin)),
            (Method::POST, vec![host, origin(OWN)], Err(Refusal::NoCookie)),
            (Method::DELETE, vec![host, cookie], Err(Refusal::Origin)),
        ];
        for (method, headers, expected) in table {
            assert_eq!(admit(method.clone(), "/", &headers), expected, "{method} {headers:?}");
        }
        assert_eq!(admit(Method::GET, "http://evil.example/", &[host, cookie]), Err(Refusal::Host));
    }

    #[test]
    fn only_the_page_with_the_code_is_shown_without_the_cookie() {
        let host = ("host", "localhost:4000");
        let foreign = ("sec-fetch-site", "cross-site");
        assert_eq!(admit(Method::GET, "/open?code=x", &[host, foreign]), Ok(()));
        assert_eq!(admit(Method::POST, "/open", &[host, ("origin", OWN)]), Err(Refusal::NoCookie));
        assert_eq!(admit(Method::GET, "/open/x", &[host]), Err(Refusal::NoCookie));
    }

    #[test]
    fn the_cookie_of_another_port_opens_nothing() {
        let secret = HttpSecret::new([2; 32]);
        let value = format!("workrail-console-4001={0}; workrail-console-400={0}", secret.reveal());
        let headers = [("host", "localhost:4000"), ("cookie", value.as_str())];
        assert_eq!(admit(Method::GET, "/", &headers), Err(Refusal::NoCookie));
    }

    #[test]
    fn a_code_is_used_once() {
        let guard = guard();
        let code = HttpSecret::new([1; 32]);
        let fresh = HttpSecret::new([9; 32]);
        assert_eq!(guard.take_code("", fresh.clone()), Err(Refusal::Code));
        assert_eq!(guard.take_code(code.reveal(), fresh.clone()), Ok(()));
        assert_eq!(guard.take_code(code.reveal(), fresh.clone()), Err(Refusal::Code));
        assert_eq!(guard.take_code(fresh.reveal(), code), Ok(()), "the next one is valid");
    }

    #[test]
    fn the_token_of_forms_is_neither_the_cookie_nor_the_code() {
        let guard = guard();
        assert_eq!(guard.check_form(Some(HttpSecret::new([3; 32]).reveal())), Ok(()));
        for other in [None, Some("")] {
            assert_eq!(guard.check_form(other), Err(Refusal::FormToken));
        }
        for other in [1, 2] {
            let secret = HttpSecret::new([other; 32]);
            assert_eq!(guard.check_form(Some(secret.reveal())), Err(Refusal::FormToken));
        }
    }
}
