//! Decides which requests are answered: those of a browser of the user who started the console (G94) or of a
//! logged-in member of the team (G125), sent by one of the console's own pages.
//!
//! Every user of a machine reaches its loopback ports, and any page in a browser can send requests to them. So a
//! request must name this listener as its `Host`; it must not come from a foreign page, by `Origin` and
//! `Sec-Fetch-Site`; it must carry the cookie that only the printed one-time code gives; and a form must carry a token
//! that is in no cookie. Ports of one host share their cookies, so the cookie's name holds the port. A team's console
//! has a public name in place of the ports, and a login in place of the code.

use std::net::SocketAddr;
use std::sync::{Mutex, PoisonError};

use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, Uri, header};
use strum::{EnumString, IntoStaticStr};
use workrail_engine::LOGIN_SECONDS;
use workrail_engine::credential_checks::SentCredential;
use workrail_model::keyring::HttpSecret;
use workrail_model::loopback::{ListenerNames, SentHeader};
use workrail_model::public_url::Scheme;

/// The only page shown to a browser without the cookie, because it sets the cookie.
pub(crate) const OPEN_PATH: &str = "/open";
/// The page of a team's console that takes a token.
pub(crate) const LOGIN_PATH: &str = "/login";
/// The assets are not secret, and the login page needs them.
pub(crate) const ASSETS: &str = "/assets/";

/// The three secrets of one console. They are drawn when it starts and never stored on disk.
#[derive(Debug)]
pub struct Secrets {
    /// Part of the printed address; used once.
    pub code: HttpSecret,
    /// In the cookie.
    pub cookie: HttpSecret,
    /// In every form.
    pub form_token: HttpSecret,
}

/// The address of a team's console.
#[derive(Clone, Debug)]
pub struct TeamSite {
    /// The hosts that a request may name, and the origins that it may come from.
    pub names: ListenerNames,
    /// The origin as browsers write it.
    pub origin: String,
    pub scheme: Scheme,
    /// Part of the cookie's name where ports share cookies.
    pub port: u16,
}

#[derive(Debug)]
pub(crate) struct Guard {
    names: ListenerNames,
    scheme: Scheme,
    cookie_name: String,
    theme_cookie_name: String,
    login_method: LoginMethod,
}

/// How visitors prove who they are.
#[derive(Debug)]
enum LoginMethod {
    /// As the user who started the console, with the code that it printed.
    Code { cookie: HttpSecret, code: Mutex<HttpSecret> },
    /// As a member of a team, with a token.
    Login,
}

/// Who sent a request, according to its headers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    /// Anyone: gets only what needs no login.
    Everybody,
    /// The user who started the console.
    User,
    /// A visitor with one of these cookies; the store knows who owns them.
    Cookies(Vec<SentCredential>),
}

/// A browser sends one; any others were set by another site or local port.
const COOKIES_MAX: usize = 3;

/// Why a request is not answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rejection {
    Host,
    Origin,
    /// A page of another site sent the browser here.
    CrossSite,
    /// No cookie, or not the right one.
    NoCookie,
    /// The code was already used, or never valid.
    Code,
    /// A form without the token of this console.
    FormToken,
}

impl Rejection {
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
                "The form is from before the console was restarted, or from an earlier login. Nothing was changed. Load \
                 the page again and repeat it."
            }
        }
    }
}

impl Guard {
    pub(crate) fn new(bound: SocketAddr, code: HttpSecret, cookie: HttpSecret) -> Self {
        Self {
            names: ListenerNames::of(bound),
            scheme: Scheme::Http,
            cookie_name: format!("workrail-console-{}", bound.port()),
            theme_cookie_name: format!("workrail-theme-{}", bound.port()),
            login_method: LoginMethod::Code { cookie, code: Mutex::new(code) },
        }
    }

    pub(crate) fn of_team(site: TeamSite) -> Self {
        let TeamSite { names, scheme, port, .. } = site;
        let (cookie_name, theme_cookie_name) = match scheme {
            // Browsers accept such a name only from this very host, and only over TLS.
            Scheme::Https => ("__Host-workrail-login".to_owned(), "__Host-workrail-theme".to_owned()),
            Scheme::Http => (format!("workrail-login-{port}"), format!("workrail-theme-{port}")),
        };
        Self { names, scheme, cookie_name, theme_cookie_name, login_method: LoginMethod::Login }
    }

    /// Whole values are compared; a repeated header is refused.
    pub(crate) fn admit(
        &self,
        method: &Method,
        uri: &Uri,
        headers: &HeaderMap,
    ) -> Result<Admission, Rejection> {
        let host = sent(headers, header::HOST).once().filter(|host| self.names.has_host(host));
        let host = host.ok_or(Rejection::Host)?;
        if uri.authority().is_some_and(|authority| !authority.as_str().eq_ignore_ascii_case(host)) {
            return Err(Rejection::Host);
        }
        let is_get = *method == Method::GET;
        let is_opening =
            is_get && matches!(self.login_method, LoginMethod::Code { .. }) && uri.path() == OPEN_PATH;
        let is_login = matches!(self.login_method, LoginMethod::Login) && uri.path() == LOGIN_PATH;
        match sent(headers, HeaderName::from_static("sec-fetch-site")) {
            SentHeader::Absent | SentHeader::Once("same-origin" | "none") => {}
            // A file that redirects here, or a page of another local port: only the code matters.
            SentHeader::Once("cross-site" | "same-site") if is_opening => {}
            // A link to the form that asks for a token, which shows nothing else.
            SentHeader::Once("cross-site" | "same-site") if is_login && is_get => {}
            SentHeader::Once(_) | SentHeader::Unusable => return Err(Rejection::CrossSite),
        }
        match sent(headers, header::ORIGIN) {
            SentHeader::Once(origin) if self.is_own_origin(origin, host) => {}
            // Browsers send the origin with every posted form.
            SentHeader::Absent if is_get || *method == Method::HEAD => {}
            SentHeader::Once(_) | SentHeader::Absent | SentHeader::Unusable => {
                return Err(Rejection::Origin);
            }
        }
        let is_for_all =
            matches!(self.login_method, LoginMethod::Login) && is_get && uri.path().starts_with(ASSETS);
        if is_opening || is_login || is_for_all {
            return Ok(Admission::Everybody);
        }
        match &self.login_method {
            LoginMethod::Code { .. } if self.has_cookie(headers) => Ok(Admission::User),
            LoginMethod::Login => {
                let sent = cookies(headers, &self.cookie_name).filter_map(SentCredential::parse);
                let sent: Vec<_> = sent.take(COOKIES_MAX).collect();
                if sent.is_empty() { Err(Rejection::NoCookie) } else { Ok(Admission::Cookies(sent)) }
            }
            LoginMethod::Code { .. } => Err(Rejection::NoCookie),
        }
    }

    /// Whether one of our pages sent it. Locally, the page's host must match: hosts do not share cookies.
    fn is_own_origin(&self, origin: &str, host: &str) -> bool {
        match self.login_method {
            LoginMethod::Code { .. } => origin.eq_ignore_ascii_case(&format!("http://{host}")),
            LoginMethod::Login => self.names.has_origin(origin),
        }
    }

    /// Whether browsers log in with a token.
    pub(crate) fn asks_for_login(&self) -> bool {
        matches!(self.login_method, LoginMethod::Login)
    }

    pub(crate) fn has_cookie(&self, headers: &HeaderMap) -> bool {
        match &self.login_method {
            // A page on another local port can add a cookie of this name, but cannot remove the right one.
            LoginMethod::Code { cookie, .. } => {
                cookies(headers, &self.cookie_name).any(|sent| cookie.is(sent))
            }
            LoginMethod::Login => false,
        }
    }

    /// Consumes the code: `fresh` replaces it.
    pub(crate) fn take_code(&self, sent: &str, fresh: HttpSecret) -> Result<(), Rejection> {
        let LoginMethod::Code { code, .. } = &self.login_method else { return Err(Rejection::Code) };
        let mut code = code.lock().unwrap_or_else(PoisonError::into_inner);
        if !code.is(sent) {
            return Err(Rejection::Code);
        }
        *code = fresh;
        Ok(())
    }

    /// The header that lets a browser in until it is closed.
    pub(crate) fn set_cookie(&self) -> Option<HeaderValue> {
        let LoginMethod::Code { cookie, .. } = &self.login_method else { return None };
        self.cookie(&self.cookie_name, cookie.reveal(), None)
    }

    /// The header that logs a browser in.
    pub(crate) fn set_login(&self, login: &str) -> Option<HeaderValue> {
        self.cookie(&self.cookie_name, login, Some(LOGIN_SECONDS))
    }

    /// The header that logs a browser out.
    pub(crate) fn clear_login(&self) -> Option<HeaderValue> {
        self.cookie(&self.cookie_name, "", Some(0))
    }

    fn cookie(&self, name: &str, value: &str, seconds: Option<u64>) -> Option<HeaderValue> {
        let secure = match self.scheme {
            Scheme::Https => "; Secure",
            Scheme::Http => "",
        };
        let lasts = seconds.map(|seconds| format!("; Max-Age={seconds}")).unwrap_or_default();
        let cookie = format!("{name}={value}; Path=/; HttpOnly; SameSite=Strict{secure}{lasts}");
        HeaderValue::from_str(&cookie).ok()
    }

    pub(crate) fn theme(&self, headers: &HeaderMap) -> Theme {
        cookies(headers, &self.theme_cookie_name).next().map(Theme::parse).unwrap_or_default()
    }

    pub(crate) fn set_theme(&self, theme: Theme) -> Option<HeaderValue> {
        self.cookie(&self.theme_cookie_name, theme.into_str(), Some(31_536_000))
    }
}

/// Light or dark.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, IntoStaticStr, EnumString)]
#[strum(serialize_all = "snake_case", const_into_str)]
pub(crate) enum Theme {
    #[default]
    System,
    Light,
    Dark,
}

impl Theme {
    /// The theme that the switch selects next.
    pub(crate) fn next(self) -> Self {
        match self {
            Self::System => Self::Light,
            Self::Light => Self::Dark,
            Self::Dark => Self::System,
        }
    }

    pub(crate) fn parse(text: &str) -> Self {
        text.parse().unwrap_or_default()
    }
}

/// Sent with every response: only our own files load or run, nothing frames the page, nothing caches it.
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
    // Without any referrer, browsers would send forms with the origin `null`.
    (header::REFERRER_POLICY, HeaderValue::from_static("same-origin")),
    (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
    (HeaderName::from_static("cross-origin-opener-policy"), HeaderValue::from_static("same-origin")),
    (HeaderName::from_static("cross-origin-resource-policy"), HeaderValue::from_static("same-origin")),
];

/// The console's origin on a port, as browsers write it: without the default port.
pub(crate) fn origin_of(port: u16) -> String {
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
    pairs.filter(move |(other, _)| *other == name).map(|(_, value)| value)
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: &str = "http://localhost:4000";

    fn guard() -> Guard {
        let [code, cookie] = [1, 2].map(|n| HttpSecret::new([n; 32]));
        Guard::new("127.0.0.1:4000".parse().unwrap(), code, cookie)
    }

    fn admit(method: Method, uri: &str, headers: &[(&str, &str)]) -> Result<(), Rejection> {
        admission(&guard(), method, uri, headers).map(drop)
    }

    fn admission(
        guard: &Guard,
        method: Method,
        uri: &str,
        headers: &[(&str, &str)],
    ) -> Result<Admission, Rejection> {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(name.parse::<HeaderName>().unwrap(), value.parse().unwrap());
        }
        guard.admit(&method, &uri.parse().unwrap(), &map)
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
            (Method::GET, vec![], Err(Rejection::Host)),
            (Method::GET, vec![host], Err(Rejection::NoCookie)),
            (Method::GET, vec![("host", "evil.example:4000"), cookie], Err(Rejection::Host)),
            (Method::GET, vec![("host", "localhost:4001"), cookie], Err(Rejection::Host)),
            (Method::GET, vec![host, host, cookie], Err(Rejection::Host)),
            (Method::GET, vec![host, cookie, site("none")], Ok(())),
            (Method::GET, vec![host, cookie, site("same-origin")], Ok(())),
            (Method::GET, vec![host, cookie, site("same-site")], Err(Rejection::CrossSite)),
            (Method::GET, vec![host, cookie, site("cross-site")], Err(Rejection::CrossSite)),
            (Method::GET, vec![host, cookie, origin("http://evil.example")], Err(Rejection::Origin)),
            (Method::POST, vec![host, cookie], Err(Rejection::Origin)),
            (Method::POST, vec![host, cookie, origin(OWN)], Ok(())),
            (Method::POST, vec![host, cookie, origin("null")], Err(Rejection::Origin)),
            (Method::POST, vec![host, cookie, origin("http://localhost:4001")], Err(Rejection::Origin)),
            (Method::POST, vec![host, cookie, origin("http://127.0.0.1:4000")], Err(Rejection::Origin)),
            (Method::POST, vec![host, cookie, origin(OWN), origin(OWN)], Err(Rejection::Origin)),
            (Method::POST, vec![host, origin(OWN)], Err(Rejection::NoCookie)),
            (Method::DELETE, vec![host, cookie], Err(Rejection::Origin)),
        ];
        for (method, headers, expected) in table {
            assert_eq!(admit(method.clone(), "/", &headers), expected, "{method} {headers:?}");
        }
        assert_eq!(admit(Method::GET, "http://evil.example/", &[host, cookie]), Err(Rejection::Host));
    }

    #[test]
    fn only_the_page_with_the_code_is_shown_without_the_cookie() {
        let host = ("host", "localhost:4000");
        let foreign = ("sec-fetch-site", "cross-site");
        assert_eq!(admit(Method::GET, "/open?code=x", &[host, foreign]), Ok(()));
        assert_eq!(admit(Method::POST, "/open", &[host, ("origin", OWN)]), Err(Rejection::NoCookie));
        assert_eq!(admit(Method::GET, "/open/x", &[host]), Err(Rejection::NoCookie));
    }

    #[test]
    fn the_cookie_of_another_port_opens_nothing() {
        let secret = HttpSecret::new([2; 32]);
        let value = format!("workrail-console-4001={0}; workrail-console-400={0}", secret.reveal());
        let headers = [("host", "localhost:4000"), ("cookie", value.as_str())];
        assert_eq!(admit(Method::GET, "/", &headers), Err(Rejection::NoCookie));
    }

    #[test]
    fn a_code_is_used_once() {
        let guard = guard();
        let code = HttpSecret::new([1; 32]);
        let fresh = HttpSecret::new([9; 32]);
        assert_eq!(guard.take_code("", fresh.clone()), Err(Rejection::Code));
        assert_eq!(guard.take_code(code.reveal(), fresh.clone()), Ok(()));
        assert_eq!(guard.take_code(code.reveal(), fresh.clone()), Err(Rejection::Code));
        assert_eq!(guard.take_code(fresh.reveal(), code), Ok(()), "the next one is valid");
    }

    /// G125
    #[test]
    fn a_team_console_has_one_name_and_looks_up_whose_cookie_it_is() {
        let names = ListenerNames {
            hosts: vec!["w.example".to_owned(), "w.example:443".to_owned()],
            origins: vec!["https://w.example".to_owned()],
        };
        let origin = "https://w.example".to_owned();
        let guard = Guard::of_team(TeamSite { names, origin, scheme: Scheme::Https, port: 443 });
        let host = ("host", "w.example");
        let cookie = ("cookie", "__Host-workrail-login=abc");
        let too_long = format!("__Host-workrail-login={}", "x".repeat(400_000));
        let both = format!("{too_long}; __Host-workrail-login=abc");
        let own = ("origin", "https://w.example");
        let known = || Ok(Admission::Cookies(vec![SentCredential::parse("abc").unwrap()]));
        let table = [
            (Method::GET, "/", vec![host, cookie], known()),
            (Method::GET, "/", vec![("host", "w.example:443"), cookie], known()),
            (Method::POST, "/run/x/approve", vec![host, cookie, own], known()),
            (Method::GET, "/", vec![host, ("cookie", &both)], known()),
            (Method::GET, "/", vec![host, ("cookie", &too_long)], Err(Rejection::NoCookie)),
            (Method::GET, "/", vec![host], Err(Rejection::NoCookie)),
            (Method::GET, "/", vec![("host", "localhost"), cookie], Err(Rejection::Host)),
            (Method::POST, "/", vec![host, cookie], Err(Rejection::Origin)),
            (Method::POST, "/", vec![host, cookie, ("origin", "http://w.example")], Err(Rejection::Origin)),
            (Method::POST, "/login", vec![host, ("origin", "https://e.example")], Err(Rejection::Origin)),
            (
                Method::GET,
                "/",
                vec![host, cookie, ("sec-fetch-site", "cross-site")],
                Err(Rejection::CrossSite),
            ),
            (Method::GET, "/login", vec![host, ("sec-fetch-site", "cross-site")], Ok(Admission::Everybody)),
            (Method::POST, "/login", vec![host, own], Ok(Admission::Everybody)),
            (Method::GET, "/assets/console.css", vec![host], Ok(Admission::Everybody)),
            (Method::POST, "/assets/console.css", vec![host, own], Err(Rejection::NoCookie)),
            (Method::GET, "/open", vec![host], Err(Rejection::NoCookie)),
            (Method::GET, "/", vec![host, ("cookie", "workrail-login-443=abc")], Err(Rejection::NoCookie)),
        ];
        for (method, path, headers, expected) in table {
            assert_eq!(
                admission(&guard, method.clone(), path, &headers),
                expected,
                "{method} {path} {headers:?}"
            );
        }
        let set = guard.set_login("abc").unwrap();
        assert_eq!(
            set.to_str().unwrap(),
            "__Host-workrail-login=abc; Path=/; HttpOnly; SameSite=Strict; Secure; Max-Age=43200"
        );
    }
}
