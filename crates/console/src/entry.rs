//! Logging in: with the printed code on one machine (G94), with a token in a team (G125).
//!
//! Unauthenticated requests are answered here and reach nothing else.

use std::sync::Arc;
use std::time::Instant;

use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use tokio::task::spawn_blocking;
use tokio::time::{sleep, timeout};
use workrail_engine::credential_checks::{CredentialCheck, UNKNOWN_POLL, UNKNOWN_WAIT};
use workrail_model::keyring::HttpSecret;
use workrail_model::team::Principal;

use crate::asset::asset;
use crate::guard::{LOGIN_PATH, OPEN_PATH, Rejection};
use crate::pages;
use crate::routes::{BODY_WAIT, ListenerState, open_address, own_page, page, refused, see_other};
use crate::state::{Console, Member, Visitor};
use crate::target::QueryPairs;
use crate::use_cases::UseCases;

/// Room for a token and the page to return to.
const LOGIN_BYTES_MAX: usize = 4096;

/// Why a visitor is not logged in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotLoggedIn {
    /// No valid token or login. The response does not say what is wrong with it.
    InvalidLogin,
    /// The store is unavailable.
    Unavailable,
}

/// Why a visitor's request is not answered: with the form for a token, or a reason to try again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EntryRefusal {
    NotLoggedIn(NotLoggedIn),
    /// Too many tokens and logins that are not known yet are being looked up.
    TooManyUnknown,
}

impl From<NotLoggedIn> for EntryRefusal {
    fn from(why: NotLoggedIn) -> Self {
        Self::NotLoggedIn(why)
    }
}

/// A logged-in visitor.
pub struct LoggedIn {
    pub principal: Principal,
    /// Contained in every form of this login.
    pub form_token: HttpSecret,
    /// Everything is done in this visitor's name.
    pub use_cases: Arc<dyn UseCases>,
}

impl std::fmt::Debug for LoggedIn {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LoggedIn").field("principal", &self.principal).finish_non_exhaustive()
    }
}

/// Looks up the members of a team. Called for every request, on a thread that may block.
pub trait Logins: Send + Sync + 'static {
    /// The login that a browser carries instead of this token.
    fn log_in(&self, token: &str) -> Result<String, NotLoggedIn>;
    /// The visitor to whom a login belongs.
    fn visitor(&self, login: &str) -> Result<LoggedIn, NotLoggedIn>;
}

/// Answers requests that need no login, and refuses all others.
pub(crate) async fn open_to_all(listener: &ListenerState, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let query = QueryPairs::parse(parts.uri.query().unwrap_or_default());
    match (&parts.method, parts.uri.path()) {
        (&Method::GET, OPEN_PATH) => open(listener, &query, &parts.headers),
        (&Method::GET, LOGIN_PATH) => page(StatusCode::OK, &pages::login(query.get("back"), None)),
        (&Method::POST, LOGIN_PATH) => log_in(listener, body).await,
        (&Method::GET, path) => asset(path).unwrap_or_else(|| StatusCode::NOT_FOUND.into_response()),
        _ => StatusCode::METHOD_NOT_ALLOWED.into_response(),
    }
}

fn open(listener: &ListenerState, query: &QueryPairs, headers: &axum::http::HeaderMap) -> Response {
    if listener.guard.has_cookie(headers) {
        return page(StatusCode::OK, &pages::opened());
    }
    let Some(fresh) = listener.shared.environment.secret() else {
        return (StatusCode::INTERNAL_SERVER_ERROR, "The system gave no randomness.\n").into_response();
    };
    let next = open_address(listener.port, fresh.reveal());
    match listener.guard.take_code(query.get("code").unwrap_or_default(), fresh) {
        Err(refusal) => refused(refusal),
        Ok(()) => {
            // A stopped terminal must not block the console.
            let environment = Arc::clone(&listener.shared.environment);
            spawn_blocking(move || environment.notice(&format!("Opened. For another browser: {next}")));
            let mut response = page(StatusCode::OK, &pages::opened());
            response
                .headers_mut()
                .extend(listener.guard.set_cookie().map(|cookie| (header::SET_COOKIE, cookie)));
            response
        }
    }
}

async fn log_in(listener: &ListenerState, body: Body) -> Response {
    let form = match timeout(BODY_WAIT, to_bytes(body, LOGIN_BYTES_MAX)).await {
        Ok(Ok(bytes)) => QueryPairs::parse_form(&bytes),
        Ok(Err(_)) | Err(_) => None,
    };
    let (Some(form), Some(logins)) = (form, listener.logins.clone()) else {
        return (StatusCode::BAD_REQUEST, "The form is too long, or did not arrive.\n").into_response();
    };
    let back = form.get("back").and_then(own_page).map_or_else(|| "/".to_owned(), |page| page.address());
    let token = form.get("access-token").unwrap_or_default().trim().to_owned();
    let Some(check) = begin_check(listener, [token.as_str()]).await else {
        return not_logged_in(Some(&back), EntryRefusal::TooManyUnknown, LoginAttempt::Failed);
    };
    // The check ends with the lookup, also if the visitor has left.
    let lookup = move || {
        let made = logins.log_in(&token);
        match &made {
            Ok(login) => {
                check.accepted(&token);
                check.accepted(login);
            }
            Err(NotLoggedIn::InvalidLogin) => check.refused(&token),
            Err(NotLoggedIn::Unavailable) => {}
        }
        made
    };
    match spawn_blocking(lookup).await.unwrap_or(Err(NotLoggedIn::Unavailable)) {
        Ok(login) => {
            let mut response = see_other(&back);
            let cookie = listener.guard.set_login(&login);
            response.headers_mut().extend(cookie.map(|cookie| (header::SET_COOKIE, cookie)));
            response
        }
        Err(why) => not_logged_in(Some(&back), why.into(), LoginAttempt::Failed),
    }
}

/// The lookup of credentials, once there is room for it: after a restart, the pages of all members reconnect at once.
async fn begin_check<'c>(
    listener: &ListenerState,
    credentials: impl IntoIterator<Item = &'c str> + Clone,
) -> Option<CredentialCheck> {
    let began = Instant::now();
    loop {
        let check = listener.checks.begin(credentials.clone());
        if check.is_some() || began.elapsed() >= UNKNOWN_WAIT {
            return check;
        }
        sleep(UNKNOWN_POLL).await;
    }
}

/// Whether a token was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LoginAttempt {
    None,
    Failed,
}

/// The page that asks for a token, instead of a page that needs one.
pub(crate) fn not_logged_in(back: Option<&str>, why: EntryRefusal, attempt: LoginAttempt) -> Response {
    let message = match (why, attempt) {
        (EntryRefusal::TooManyUnknown, _) => {
            Some("Too many visitors are logging in at the same time. Try again in a moment.")
        }
        (EntryRefusal::NotLoggedIn(NotLoggedIn::Unavailable), _) => {
            Some("The store does not answer. Try again in a moment.")
        }
        (EntryRefusal::NotLoggedIn(NotLoggedIn::InvalidLogin), LoginAttempt::Failed) => {
            Some("This token is not accepted. It may have expired or been revoked.")
        }
        (EntryRefusal::NotLoggedIn(NotLoggedIn::InvalidLogin), LoginAttempt::None) => None,
    };
    let retry_after_s = match why {
        EntryRefusal::NotLoggedIn(NotLoggedIn::InvalidLogin) => None,
        EntryRefusal::NotLoggedIn(NotLoggedIn::Unavailable) => Some(5),
        EntryRefusal::TooManyUnknown => Some(1),
    };
    let Some(seconds) = retry_after_s else {
        return page(StatusCode::UNAUTHORIZED, &pages::login(back, message));
    };
    let mut response = page(StatusCode::SERVICE_UNAVAILABLE, &pages::login(back, message));
    response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    response
}

/// The console of the member who owns one of these cookies.
pub(crate) async fn visited(listener: &ListenerState, cookies: Vec<String>) -> Result<Console, EntryRefusal> {
    let (shared, logins) = (Arc::clone(&listener.shared), listener.logins.clone());
    let check = begin_check(listener, cookies.iter().map(String::as_str)).await;
    let check = check.ok_or(EntryRefusal::TooManyUnknown)?;
    let checked = spawn_blocking(move || {
        let logins = logins.ok_or(NotLoggedIn::InvalidLogin)?;
        let mut why = NotLoggedIn::InvalidLogin;
        for cookie in cookies {
            match logins.visitor(&cookie) {
                Ok(LoggedIn { principal, form_token, use_cases }) => {
                    check.accepted(&cookie);
                    let member = Some(Member::new(principal, Arc::clone(&logins), cookie));
                    return Ok(Console::new(shared, Visitor { use_cases, form_token, member }));
                }
                Err(refused) => {
                    if refused == NotLoggedIn::InvalidLogin {
                        check.refused(&cookie);
                    }
                    why = refused;
                }
            }
        }
        Err(why)
    });
    checked.await.unwrap_or(Err(NotLoggedIn::Unavailable)).map_err(EntryRefusal::from)
}

/// A refusal by the guard as a page: a visitor who is not logged in is asked for a token.
pub(crate) fn refused_by(
    listener: &ListenerState,
    refusal: Rejection,
    address: Option<&str>,
) -> Option<Response> {
    let asks = refusal == Rejection::NoCookie && listener.guard.asks_for_login();
    asks.then(|| not_logged_in(address, NotLoggedIn::InvalidLogin.into(), LoginAttempt::None))
}
