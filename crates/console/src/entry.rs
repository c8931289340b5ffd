//! Logging in: with the printed code on one machine (G94), with a token in a team (G125).
//!
//! Unauthenticated requests are answered here and reach nothing else.

use std::slice;
use std::sync::Arc;
use std::time::Instant;

use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use tokio::task::spawn_blocking;
use tokio::time::{sleep, timeout};
use workrail_engine::credential_checks::{
    CheckStart, CredentialCheck, CredentialChecks, SentCredential, TooManyUnknown,
};
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
    /// The access tokens cannot be used until an administrator has acted.
    TokensUnusable,
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

impl From<TooManyUnknown> for EntryRefusal {
    fn from(TooManyUnknown: TooManyUnknown) -> Self {
        Self::TooManyUnknown
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

/// Where the members of a team log in. Limits what visitors without a known token or login cost.
#[derive(Clone)]
pub(crate) struct TeamEntry {
    pub(crate) logins: Arc<dyn Logins>,
    pub(crate) checks: CredentialChecks,
}

impl TeamEntry {
    /// The login that a browser carries instead of this token.
    async fn log_in(&self, token: &str) -> Result<String, EntryRefusal> {
        let token = SentCredential::parse(token).ok_or(NotLoggedIn::InvalidLogin)?;
        let check = self.begin_check(slice::from_ref(&token)).await?;
        let logins = Arc::clone(&self.logins);
        // The check ends with the lookup, also if the visitor has left.
        let lookup = move || {
            let made = logins.log_in(token.reveal());
            match &made {
                Ok(login) => {
                    check.accepted(&token);
                    if let Some(login) = SentCredential::parse(login) {
                        check.accepted(&login);
                    }
                }
                Err(NotLoggedIn::InvalidLogin) => check.refused(&token),
                Err(NotLoggedIn::Unavailable | NotLoggedIn::TokensUnusable) => {}
            }
            made
        };
        spawn_blocking(lookup).await.unwrap_or(Err(NotLoggedIn::Unavailable)).map_err(EntryRefusal::from)
    }

    /// The visitor who owns one of these cookies, and which it is.
    async fn visitor(
        &self,
        cookies: Vec<SentCredential>,
    ) -> Result<(LoggedIn, SentCredential), EntryRefusal> {
        let check = self.begin_check(&cookies).await?;
        let logins = Arc::clone(&self.logins);
        let lookup = move || {
            let mut why = NotLoggedIn::InvalidLogin;
            for cookie in cookies {
                match logins.visitor(cookie.reveal()) {
                    Ok(visitor) => {
                        check.accepted(&cookie);
                        return Ok((visitor, cookie));
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
        };
        spawn_blocking(lookup).await.unwrap_or(Err(NotLoggedIn::Unavailable)).map_err(EntryRefusal::from)
    }

    /// The lookup of credentials, once there is room for it: after a restart, the pages of all members reconnect at once.
    async fn begin_check(&self, credentials: &[SentCredential]) -> Result<CredentialCheck, TooManyUnknown> {
        let began = Instant::now();
        loop {
            match self.checks.begin(credentials, began.elapsed())? {
                CheckStart::Begun(check) => return Ok(check),
                CheckStart::Wait(pause) => sleep(pause).await,
            }
        }
    }
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
    let (Some(form), Some(entry)) = (form, &listener.entry) else {
        return (StatusCode::BAD_REQUEST, "The form is too long, or did not arrive.\n").into_response();
    };
    let back = form.get("back").and_then(own_page).map_or_else(|| "/".to_owned(), |page| page.address());
    match entry.log_in(form.get("access-token").unwrap_or_default().trim()).await {
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
pub(crate) fn not_logged_in(back: Option<&str>, why: EntryRefusal, attempt: LoginAttempt) -> Response {
    let message = match (why, attempt) {
        (EntryRefusal::TooManyUnknown, _) => {
            Some("Too many visitors are logging in at the same time. Try again in a moment.")
        }
        (EntryRefusal::NotLoggedIn(NotLoggedIn::Unavailable), _) => {
            Some("The store does not answer. Try again in a moment.")
        }
        (EntryRefusal::NotLoggedIn(NotLoggedIn::TokensUnusable), _) => Some(
            "This server cannot check tokens now. An administrator finds the cause with `workrail doctor` on the machine of \
             the server.",
        ),
        (EntryRefusal::NotLoggedIn(NotLoggedIn::InvalidLogin), LoginAttempt::Failed) => {
            Some("This token is not accepted. It may have expired or been revoked.")
        }
        (EntryRefusal::NotLoggedIn(NotLoggedIn::InvalidLogin), LoginAttempt::None) => None,
    };
    let (status, retry_after_s) = match why {
        EntryRefusal::NotLoggedIn(NotLoggedIn::InvalidLogin) => (StatusCode::UNAUTHORIZED, None),
        EntryRefusal::NotLoggedIn(NotLoggedIn::Unavailable) => (StatusCode::SERVICE_UNAVAILABLE, Some(5)),
        EntryRefusal::NotLoggedIn(NotLoggedIn::TokensUnusable) => (StatusCode::SERVICE_UNAVAILABLE, None),
        EntryRefusal::TooManyUnknown => (StatusCode::SERVICE_UNAVAILABLE, Some(1)),
    };
    let mut response = page(status, &pages::login(back, message));
    let header = retry_after_s.map(|seconds: u16| (header::RETRY_AFTER, HeaderValue::from(seconds)));
    response.headers_mut().extend(header);
    if why == EntryRefusal::TooManyUnknown {
        // The server's metrics name the reason.
        response.extensions_mut().insert(TooManyUnknown);
    }
    response
}

/// The console of the member who owns one of these cookies.
pub(crate) async fn visited(
    listener: &ListenerState,
    cookies: Vec<SentCredential>,
) -> Result<Console, EntryRefusal> {
    let entry = listener.entry.as_ref().ok_or(NotLoggedIn::InvalidLogin)?;
    let (visitor, cookie) = entry.visitor(cookies).await?;
    let LoggedIn { principal, form_token, use_cases } = visitor;
    let member = Some(Member::new(principal, Arc::clone(&entry.logins), cookie));
    Ok(Console::new(Arc::clone(&listener.shared), Visitor { use_cases, form_token, member }))
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

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::sync::mpsc::{Receiver, channel};
    use std::time::Duration;

    use tokio::runtime::Builder;
    use tokio::task::JoinSet;

    use super::*;

    /// Accepts one token at once, and finds the store gone for the login that it gave for it. A look for anybody else
    /// takes until the sender is dropped.
    struct OneMember(Mutex<Receiver<()>>);

    impl OneMember {
        fn stranger(&self) -> NotLoggedIn {
            let _ = self.0.lock().unwrap().recv();
            NotLoggedIn::InvalidLogin
        }
    }

    impl Logins for OneMember {
        fn log_in(&self, token: &str) -> Result<String, NotLoggedIn> {
            if token == "good" { Ok("good login".to_owned()) } else { Err(self.stranger()) }
        }

        fn visitor(&self, login: &str) -> Result<LoggedIn, NotLoggedIn> {
            Err(if login == "good login" { NotLoggedIn::Unavailable } else { self.stranger() })
        }
    }

    /// What a request with this token or cookie gets.
    async fn told(entry: TeamEntry, is_login: bool, credential: String) -> EntryRefusal {
        if is_login {
            return entry.log_in(&credential).await.expect_err("a stranger");
        }
        let cookies = vec![SentCredential::parse(&credential).unwrap()];
        entry.visitor(cookies).await.map(|(visitor, _)| visitor).expect_err("a stranger")
    }

    #[test]
    fn strangers_at_the_login_and_with_cookies_share_few_lookups_and_members_do_not_wait_for_them() {
        let (release, hold) = channel();
        let logins = Arc::new(OneMember(Mutex::new(hold)));
        let entry = TeamEntry { logins, checks: CredentialChecks::waiting(Duration::ZERO) };
        let runtime = Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            assert_eq!(entry.log_in("good").await.as_deref(), Ok("good login"));
            let mut strangers = JoinSet::new();
            for n in 0..100 {
                strangers.spawn(told(entry.clone(), n % 2 == 0, format!("random {n}")));
            }
            // All but the six that are being looked up, in whichever order they were run.
            for _ in 0..94 {
                let refused = strangers.join_next().await.unwrap().unwrap();
                assert_eq!(refused, EntryRefusal::TooManyUnknown);
            }
            assert!(entry.log_in("good").await.is_ok());
            let visited = told(entry.clone(), false, "good login".to_owned()).await;
            assert_eq!(visited, NotLoggedIn::Unavailable.into(), "it was looked up");
            drop(release);
            let looked_up = strangers.join_all().await;
            assert_eq!(looked_up, vec![NotLoggedIn::InvalidLogin.into(); 6]);
        });
    }

    #[test]
    fn a_token_that_is_longer_than_any_takes_no_lookup() {
        let logins = Arc::new(OneMember(Mutex::new(channel().1)));
        let entry = TeamEntry { logins, checks: CredentialChecks::waiting(Duration::ZERO) };
        let runtime = Builder::new_current_thread().build().unwrap();
        let _running: Vec<_> = (0..6)
            .map(|n| {
                let sent = SentCredential::parse(&format!("random {n}")).unwrap();
                runtime.block_on(entry.begin_check(&[sent])).unwrap()
            })
            .collect();
        let refused = |length: usize| runtime.block_on(entry.log_in(&"x".repeat(length))).unwrap_err();
        assert_eq!(refused(80), EntryRefusal::TooManyUnknown);
        assert_eq!(refused(4000), NotLoggedIn::InvalidLogin.into());
    }

    #[test]
    fn a_visitor_who_cannot_be_looked_up_learns_when_to_try_again() {
        let table = [
            (NotLoggedIn::InvalidLogin.into(), 401, None, false),
            (NotLoggedIn::Unavailable.into(), 503, Some("5"), false),
            (NotLoggedIn::TokensUnusable.into(), 503, None, false),
            (EntryRefusal::TooManyUnknown, 503, Some("1"), true),
        ];
        for (why, status, retry_after, is_counted) in table {
            let answer = not_logged_in(None, why, LoginAttempt::Failed);
            assert_eq!(answer.status(), status, "{why:?}");
            let header = answer.headers().get(header::RETRY_AFTER).map(|value| value.to_str().unwrap());
            assert_eq!(header, retry_after, "{why:?}");
            assert_eq!(answer.extensions().get::<TooManyUnknown>().is_some(), is_counted, "{why:?}");
        }
    }
}
