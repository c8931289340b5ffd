//! The routes: everything is behind the guard, and all reads of the store run on a blocking thread.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, Uri, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::any;
use axum::{Extension, Router};
use maud::Markup;
use workrail_engine::credential_checks::CredentialChecks;

use crate::administration::Administration;
use crate::entry::{self, LoginAttempt, Logins, TeamEntry};
use crate::guard::{Admission, Guard, HEADERS, OPEN_PATH, Rejection, Secrets, TeamSite, origin_of};
use crate::live::{LiveUpdates, StreamsEnd};
use crate::pages;
use crate::request::AdmittedRequest;
use crate::state::{Console, SharedConsole, Visitor};
use crate::target::{PageAddress, QueryPairs};
use crate::use_cases::{Environment, UseCases};

/// How long a client may take for the body of a form.
pub(crate) const BODY_WAIT: Duration = Duration::from_secs(10);

/// Shared by all requests to a listener.
#[derive(Clone)]
pub(crate) struct ListenerState {
    pub(crate) guard: Arc<Guard>,
    pub(crate) shared: Arc<SharedConsole>,
    /// For a team, where visitors log in with a token; `None` if the user who started the console uses a code.
    pub(crate) entry: Option<TeamEntry>,
    /// The user who started the console.
    user: Option<Visitor>,
    live: LiveUpdates,
    pub(crate) port: u16,
}

/// The address that admits a browser.
pub fn open_address(port: u16, code: &str) -> String {
    format!("http://localhost:{port}{OPEN_PATH}?code={code}")
}

/// The console of a listener. Must be called inside the runtime that serves it.
pub fn router(
    bound: SocketAddr,
    secrets: Secrets,
    use_cases: Arc<dyn UseCases>,
    environment: Arc<dyn Environment>,
    administration: Arc<dyn Administration>,
    ending: StreamsEnd,
) -> Router {
    let Secrets { code, cookie, form_token } = secrets;
    let guard = Guard::new(bound, code, cookie);
    let shared = SharedConsole::new(origin_of(bound.port()), environment, Some(administration));
    let live = LiveUpdates::watch(Arc::clone(&use_cases), ending);
    let user = Visitor { use_cases, form_token, member: None };
    guarded_router(ListenerState {
        guard: Arc::new(guard),
        shared: Arc::new(shared),
        entry: None,
        user: Some(user),
        live,
        port: bound.port(),
    })
}

/// The console of a team: every member logs in with a token and acts in their own name (G125). `watched` is only
/// asked whether the store has changed; `checks` is shared with the agents' routes. Must be called inside the runtime
/// that serves it.
pub fn team_router(
    site: TeamSite,
    logins: Arc<dyn Logins>,
    checks: CredentialChecks,
    watched: Arc<dyn UseCases>,
    environment: Arc<dyn Environment>,
    ending: StreamsEnd,
) -> Router {
    let shared = Arc::new(SharedConsole::new(site.origin.clone(), environment, None));
    let live = LiveUpdates::watch(watched, ending);
    let port = site.port;
    let guard = Arc::new(Guard::of_team(site));
    let entry = Some(TeamEntry { logins, checks });
    guarded_router(ListenerState { guard, shared, entry, user: None, live, port })
}

fn guarded_router(listener: ListenerState) -> Router {
    // The outer router has no routes, so nothing is matched before the guard runs.
    let routes = Router::new().fallback(any(answer)).with_state(listener.clone());
    Router::new().fallback_service(routes).layer(from_fn_with_state(listener, guarded))
}

async fn guarded(State(listener): State<ListenerState>, request: Request, next: Next) -> Response {
    let admission = listener.guard.admit(request.method(), request.uri(), request.headers());
    let address = request.uri().path_and_query().map(|path| path.as_str()).and_then(own_page);
    let address = address.filter(|_| request.method() == Method::GET);
    let admitted = match admission {
        Ok(Admission::Everybody) => Err(entry::open_to_all(&listener, request).await),
        Ok(Admission::User) => match listener.user.clone() {
            Some(user) => Ok((Console::new(Arc::clone(&listener.shared), user), request)),
            None => Err(refused(Rejection::NoCookie)),
        },
        Ok(Admission::Cookies(cookies)) => match entry::visited(&listener, cookies).await {
            Ok(console) => match console.for_request() {
                Ok(counted) => Ok((counted, request)),
                Err(exceeded) => Err(exceeded.into_response()),
            },
            Err(why) => {
                let back = address.map(|page| page.address());
                Err(entry::not_logged_in(back.as_deref(), why, LoginAttempt::None))
            }
        },
        Err(refusal) => {
            tracing::warn!(?refusal, "a request was refused");
            let back = address.as_ref().map(PageAddress::address);
            let asked = entry::refused_by(&listener, refusal, back.as_deref());
            Err(asked.unwrap_or_else(|| refused_at(refusal, address)))
        }
    };
    let mut response = match admitted {
        Ok((console, mut request)) => {
            request.extensions_mut().insert(Arc::new(console));
            next.run(request).await
        }
        Err(response) => response,
    };
    for (name, value) in HEADERS {
        response.headers_mut().insert(name, value);
    }
    response
}

pub(crate) fn refused(refusal: Rejection) -> Response {
    refused_at(refusal, None)
}

/// A refusal; a link from another site can be followed from here, as the user's own click.
fn refused_at(refusal: Rejection, target: Option<PageAddress>) -> Response {
    let status = match refusal {
        Rejection::NoCookie | Rejection::Code => StatusCode::UNAUTHORIZED,
        Rejection::Host | Rejection::Origin | Rejection::CrossSite | Rejection::FormToken => {
            StatusCode::FORBIDDEN
        }
    };
    let address = target.filter(|_| refusal == Rejection::CrossSite).map(|page| page.address());
    page(status, &pages::refused(pages::refusal_title(refusal), refusal.reason(), address.as_deref()))
}

pub(crate) fn page(status: StatusCode, markup: &Markup) -> Response {
    (status, [(header::CONTENT_TYPE, "text/html; charset=utf-8")], markup.0.clone()).into_response()
}

async fn answer(
    State(listener): State<ListenerState>,
    Extension(console): Extension<Arc<Console>>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Body,
) -> Response {
    let query = QueryPairs::parse(uri.query().unwrap_or_default());
    let served = AdmittedRequest { guard: listener.guard, console, live: listener.live };
    match method {
        Method::GET | Method::HEAD => served.get(uri.path(), query, headers).await,
        Method::POST => served.post(uri.path(), headers, body).await,
        _ => (StatusCode::METHOD_NOT_ALLOWED, [(header::ALLOW, "GET, HEAD, POST")]).into_response(),
    }
}

/// The page of ours that a form names; redirects lead nowhere else.
pub(crate) fn own_page(address: &str) -> Option<PageAddress> {
    let (path, query) = address.split_once('?').unwrap_or((address, ""));
    PageAddress::parse(path, &QueryPairs::parse(query))
}

pub(crate) fn see_other(address: &str) -> Response {
    // Addresses are made of ids and encoded words.
    let address = HeaderValue::from_str(address).unwrap_or_else(|_| HeaderValue::from_static("/"));
    (StatusCode::SEE_OTHER, [(header::LOCATION, address)]).into_response()
}
