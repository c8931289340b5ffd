//! Logging in: with the printed code on one machine (G94), with a token in a team (G125).
//!
//! Unauthenticated requests are answered here and reach nothing else.

use std::sync::Arc;

use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::http::{Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use tokio::task::spawn_blocking;
use tokio::time::timeout;
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
    let made = spawn_blocking(move || logins.log_in(&token)).await.unwrap_or(Err(NotLoggedIn::Unavailable));
    match made {
        Ok(login) => {
            let mut response = see_other(&back);
            let cookie = listener.guard.set_login(&login);
            response.headers_mut().extend(cookie.map(|cookie| (header::SET_COOKIE, cookie)));
            response
        }
        Err(why) => not_logged_in(Some(&back), why, LoginAttempt::Failed),
    }
}

/// Whether a token was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LoginAttempt {
    None,
    Failed,
}

/// The page that asks for a token, instead of a page that needs one.
pub(crate) fn not_logged_in(back: Option<&str>, why: NotLoggedIn, attempt: LoginAttempt) -> Response {
    let message = match (why, attempt) {
        (NotLoggedIn::Unavailable, _) => Some("The store does not answer. Try again in a moment."),
        (NotLoggedIn::InvalidLogin, LoginAttempt::Failed) => {
            Some("This token is not accepted. It may have expired or been revoked.")
        }
        (NotLoggedIn::InvalidLogin, LoginAttempt::None) => None,
    };
    let status = match why {
        NotLoggedIn::InvalidLogin => StatusCode::UNAUTHORIZED,
        NotLoggedIn::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
    };
    page(status, &pages::login(back, message))
}

/// The console of the member who owns one of these cookies.
pub(crate) async fn visited(listener: &ListenerState, cookies: Vec<String>) -> Result<Console, NotLoggedIn> {
    let (shared, logins) = (Arc::clone(&listener.shared), listener.logins.clone());
    let checked = spawn_blocking(move || {
        let logins = logins.ok_or(NotLoggedIn::InvalidLogin)?;
        let mut why = NotLoggedIn::InvalidLogin;
        for cookie in cookies {
            match logins.visitor(&cookie) {
                Ok(LoggedIn { principal, form_token, use_cases }) => {
                    let member = Some(Member::new(principal, Arc::clone(&logins), cookie));
                    return Ok(Console::new(shared, Visitor { use_cases, form_token, member }));
                }
                Err(refused) => why = refused,
            }
        }
        Err(why)
    });
    checked.await.unwrap_or(Err(NotLoggedIn::Unavailable))
}

/// A refusal by the guard as a page: a visitor who is not logged in is asked for a token.
pub(crate) fn refused_by(
    listener: &ListenerState,
    refusal: Rejection,
    address: Option<&str>,
) -> Option<Response> {
    let asks = refusal == Rejection::NoCookie && listener.guard.asks_for_login();
    asks.then(|| not_logged_in(address, NotLoggedIn::InvalidLogin, LoginAttempt::None))
}
