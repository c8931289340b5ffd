//! The routes: everything is behind the guard, and everything that reads the store runs on a blocking thread.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, Uri, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::any;
use maud::Markup;
use tokio::task::spawn_blocking;
use tokio::time::{sleep, timeout};
use workrail_engine::SessionOrRun;
use workrail_engine::html::STYLE;
use workrail_model::digest::Sha256;
use workrail_model::error::{ErrorCode, ErrorEnvelope, Retry};
use workrail_model::id::{RunId, SessionId};

use crate::administration::Administration;
use crate::changes::{self, Change, Changed};
use crate::edit;
use crate::files::{self, FileKind};
use crate::forms::{self, Action, Managed, SessionAction};
use crate::guard::{Guard, HEADERS, OPEN_PATH, Refusal, Secrets, Theme};
use crate::held::HELD_FOR;
use crate::live::{Changes, Ending};
use crate::pages::{self, Viewer};
use crate::passkeys::{self, Signing};
use crate::state::Console;
use crate::target::{Done, Query, RunPage, Target, file_key};
use crate::use_cases::{Answer, Environment, UseCases, refusal};

/// The longest form holds a few answers or a reason.
const FORM_BYTES_MAX: usize = 512 * 1024;
/// A workflow's file as a form encodes it.
const EDIT_BYTES_MAX: usize = 4 * 1024 * 1024;
/// How long a client may take for the body of a form.
const BODY_WAIT: Duration = Duration::from_secs(10);

/// How long anybody waits for a page.
const ANSWER_WAIT: Duration = Duration::from_secs(60);

/// Larger bundles are imported from the command line, which reads them as a stream.
const BUNDLE_BYTES_MAX: usize = 64 * 1024 * 1024;
const BUNDLE_WAIT: Duration = Duration::from_secs(60);
/// Where a request that is no form has the token. No foreign page can send this header without being asked for leave.
const TOKEN_HEADER: &str = "x-workrail-token";

const OWN_STYLE: &str = include_str!("assets/console.css");
const JAVASCRIPT: &str = "text/javascript; charset=utf-8";

/// A file of ours that a page loads, by its name beneath `/assets/`.
fn asset_named(name: &str) -> Option<(&'static str, String)> {
    let script = |text: &'static str| (JAVASCRIPT, text.to_owned());
    Some(match name {
        "console.css" => ("text/css; charset=utf-8", format!("{STYLE}\n{OWN_STYLE}")),
        "console.js" => script(include_str!("assets/console.js")),
        "live.js" => script(include_str!("assets/live.js")),
        "keys.js" => script(include_str!("assets/keys.js")),
        "decide.js" => script(include_str!("assets/decide.js")),
        "prepare.js" => script(include_str!("assets/prepare.js")),
        "pan.js" => script(include_str!("assets/pan.js")),
        "passkey.js" => script(include_str!("assets/passkey.js")),
        "edit.js" => script(include_str!("assets/edit.js")),
        "notify.js" => script(include_str!("assets/notify.js")),
        "icon.svg" => ("image/svg+xml", include_str!("assets/icon.svg").to_owned()),
        _ => return None,
    })
}

#[derive(Clone, Debug)]
struct Served {
    console: Arc<Console>,
    changes: Changes,
    port: u16,
}

/// The address that lets a browser in.
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
    ending: Ending,
) -> Router {
    let guard = Guard::new(bound, secrets);
    let console = Arc::new(Console::new(guard, use_cases, environment, administration));
    let changes = Changes::watch(&console, ending);
    let served = Served { console, changes, port: bound.port() };
    // The outer router has no routes, so that nothing is matched before the guard.
    let known = Router::new().fallback(any(answer)).with_state(served.clone());
    Router::new().fallback_service(known).layer(from_fn_with_state(served, guarded))
}

async fn guarded(State(served): State<Served>, request: Request, next: Next) -> Response {
    let admitted = served.console.guard.admit(request.method(), request.uri(), request.headers());
    let mut response = match admitted {
        Ok(()) => next.run(request).await,
        Err(refusal) => {
            tracing::warn!(?refusal, "a request was refused");
            let address = request.uri().path_and_query().map(|own| own.as_str()).and_then(own_page);
            refused_at(refusal, address.filter(|_| request.method() == Method::GET))
        }
    };
    for (name, value) in HEADERS {
        response.headers_mut().insert(name, value);
    }
    response
}

fn refused(refusal: Refusal) -> Response {
    refused_at(refusal, None)
}

/// A refusal; a link from elsewhere can be followed from here, where it is the user's own click.
fn refused_at(refusal: Refusal, target: Option<Target>) -> Response {
    let status = match refusal {
        Refusal::NoCookie | Refusal::Code => StatusCode::UNAUTHORIZED,
        Refusal::Host | Refusal::Origin | Refusal::CrossSite | Refusal::FormToken => StatusCode::FORBIDDEN,
    };
    let address = target.filter(|_| refusal == Refusal::CrossSite).map(|own| own.address());
    page(status, &pages::refused(pages::refusal_title(refusal), refusal.reason(), address.as_deref()))
}

fn page(status: StatusCode, markup: &Markup) -> Response {
    (status, [(header::CONTENT_TYPE, "text/html; charset=utf-8")], markup.0.clone()).into_response()
}

async fn answer(
    State(served): State<Served>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Body,
) -> Response {
    let query = Query::parse(uri.query().unwrap_or_default());
    match method {
        Method::GET | Method::HEAD => served.get(uri.path(), query, headers).await,
        Method::POST => served.post(uri.path(), headers, body).await,
        _ => (StatusCode::METHOD_NOT_ALLOWED, [(header::ALLOW, "GET, HEAD, POST")]).into_response(),
    }
}

impl Served {
    async fn get(self, path: &str, query: Query, headers: HeaderMap) -> Response {
        if path == OPEN_PATH {
            return self.open(&query, &headers);
        }
        if let Some((media_type, text)) = path.strip_prefix("/assets/").and_then(asset_named) {
            return ([(header::CONTENT_TYPE, media_type)], text).into_response();
        }
        if let Some(path) = path.strip_prefix("/live").filter(|path| path.starts_with('/')) {
            let stream = Target::parse(path, &query).filter(Target::is_live).map(|target| {
                let has = query.get("has").unwrap_or_default();
                self.changes.stream(Arc::clone(&self.console), target, has)
            });
            return match stream {
                Some(Some(stream)) => stream,
                Some(None) => (StatusCode::SERVICE_UNAVAILABLE, "Too many pages are open.\n").into_response(),
                None => StatusCode::NOT_FOUND.into_response(),
            };
        }
        if let Some((about, kind)) = file(path, &query) {
            return self.download(about, kind, &headers).await;
        }
        match Target::parse(path, &query) {
            Some(target) => self.show(target, &query, headers).await,
            None => self.failed(&not_found(), StatusCode::NOT_FOUND, "/", &headers),
        }
    }

    fn open(&self, query: &Query, headers: &HeaderMap) -> Response {
        if self.console.guard.has_cookie(headers) {
            return page(StatusCode::OK, &pages::opened());
        }
        let Some(fresh) = self.console.environment.secret() else {
            return (StatusCode::INTERNAL_SERVER_ERROR, "The system gave no randomness.\n").into_response();
        };
        let next = open_address(self.port, fresh.reveal());
        match self.console.guard.take_code(query.get("code").unwrap_or_default(), fresh) {
            Err(refusal) => refused(refusal),
            Ok(()) => {
                // A terminal that is stopped must not stop the console.
                let environment = Arc::clone(&self.console.environment);
                spawn_blocking(move || environment.notice(&format!("Opened. For another browser: {next}")));
                let mut response = page(StatusCode::OK, &pages::opened());
                response
                    .headers_mut()
                    .extend(self.console.guard.set_cookie().map(|cookie| (header::SET_COOKIE, cookie)));
                response
            }
        }
    }

    async fn show(self, target: Target, query: &Query, headers: HeaderMap) -> Response {
        let (console, asked) = (Arc::clone(&self.console), target.clone());
        match blocking(move || pages::render(&console, &asked)).await {
            Ok(rendered) => {
                let viewer = self.viewer(&headers, query);
                page(StatusCode::OK, &pages::whole(&rendered, &target, viewer))
            }
            Err(error) => self.failed(&error, status(&error), "/", &headers),
        }
    }

    async fn download(self, about: SessionOrRun, kind: FileKind, headers: &HeaderMap) -> Response {
        let console = Arc::clone(&self.console);
        let made = move || {
            let found = || console.use_cases.find(&about.session.to_string());
            files::made(&console, about, kind).map_err(|error| found().err().unwrap_or(error))
        };
        match blocking(made).await {
            Ok((bytes, name)) => {
                let disposition = format!("attachment; filename=\"{name}\"");
                let headers = [
                    (header::CONTENT_TYPE, kind.media_type().to_owned()),
                    (header::CONTENT_DISPOSITION, disposition),
                ];
                (headers, bytes).into_response()
            }
            Err(error) => self.failed(&error, status(&error), "/", headers),
        }
    }

    async fn post(self, path: &str, headers: HeaderMap, body: Body) -> Response {
        if path == "/import" {
            return self.import(headers, body).await;
        }
        let bytes_max = if path.starts_with("/edit/") { EDIT_BYTES_MAX } else { FORM_BYTES_MAX };
        let Ok(Ok(bytes)) = timeout(BODY_WAIT, to_bytes(body, bytes_max)).await else {
            return (StatusCode::PAYLOAD_TOO_LARGE, "The form is too long, or did not arrive.\n")
                .into_response();
        };
        let Some(form) = Query::parse_form(&bytes) else {
            return (StatusCode::BAD_REQUEST, "The form is not UTF-8 text.\n").into_response();
        };
        if let Err(refusal) = self.console.guard.check_form(form.get("token")) {
            return refused(refusal);
        }
        let parts: Vec<&str> = path.split('/').skip(1).collect();
        if let Some(change) = Change::parse(&parts) {
            return self.change(change, form, &headers).await;
        }
        match parts.as_slice() {
            ["passkeys", signing @ ..] => match Signing::parse(signing) {
                Some(signing) => self.challenge(signing, form).await,
                None => self.failed(&not_found(), StatusCode::NOT_FOUND, "/", &headers),
            },
            ["theme"] => self.set_theme(&form),
            ["edit", key] => match file_key(key) {
                Some(key) => self.edit(key, form, &headers).await,
                None => self.failed(&not_found(), StatusCode::NOT_FOUND, "/workflows", &headers),
            },
            ["edit", key, "check"] => match file_key(key) {
                Some(key) => self.check_text(key, form, &headers).await,
                None => self.failed(&not_found(), StatusCode::NOT_FOUND, "/workflows", &headers),
            },
            ["session", session, action] => match (SessionId::parse(session), SessionAction::parse(action)) {
                (Ok(session), Some(action)) => self.manage(session, action, form, &headers).await,
                _ => self.failed(&not_found(), StatusCode::NOT_FOUND, "/", &headers),
            },
            ["run", run, action] => match (RunId::parse(run), Action::parse(action)) {
                (Ok(run), Some(action)) => self.act(run, action, form, &headers).await,
                _ => self.failed(&not_found(), StatusCode::NOT_FOUND, "/", &headers),
            },
            _ => self.failed(&not_found(), StatusCode::NOT_FOUND, "/", &headers),
        }
    }

    /// Answers a button of the editor; what was typed stays on the page unless it was saved.
    async fn edit(self, key: Sha256, form: Query, headers: &HeaderMap) -> Response {
        let target = Target::Edit(key);
        let (console, asked) = (Arc::clone(&self.console), form.clone());
        let answered = blocking(move || {
            let editor = edit::carry_out(&console, key, &asked)?;
            Ok((matches!(editor.shown, edit::EditResult::Saved), pages::edit_page(&console, &editor)))
        });
        match answered.await {
            Ok((true, _)) => see_other(&target.address_after(Done::Saved)),
            Ok((false, rendered)) => {
                let viewer = self.viewer(headers, &Query::default());
                page(StatusCode::OK, &pages::whole(&rendered, &target, viewer))
            }
            // The file may be gone, with its source: then this page is the only place that has the text.
            Err(error) => self.failed_form(&error, &target.address(), &form, headers),
        }
    }

    /// The parts of the editor that change while the user types.
    async fn check_text(self, key: Sha256, form: Query, headers: &HeaderMap) -> Response {
        let console = Arc::clone(&self.console);
        match blocking(move || edit::typed(&console, key, &form).map(|editor| pages::edit_fragments(&editor)))
            .await
        {
            Ok(fragments) => page(StatusCode::OK, &fragments),
            Err(error) => self.failed(&error, status(&error), &Target::Edit(key).address(), headers),
        }
    }

    async fn change(self, change: Change, form: Query, headers: &HeaderMap) -> Response {
        let console = Arc::clone(&self.console);
        let (back, asked) = (change.page(), change.clone());
        match blocking(move || changes::carry_out(&console, &asked, &form)).await {
            Ok(Changed { done, address }) => see_other(&format!("{address}?done={}", done.as_str())),
            Err(error) => self.failed(&error, status(&error), &back, headers),
        }
    }

    async fn act(self, run: RunId, action: Action, form: Query, headers: &HeaderMap) -> Response {
        // A list stays filtered and a point chosen.
        let back = form.get("back").and_then(own_page).unwrap_or_else(|| Target::Run(RunPage::of(run)));
        let (console, asked) = (Arc::clone(&self.console), form.clone());
        match blocking(move || forms::act(&console, run, action, &asked)).await {
            Ok(done) => see_other(&back.address_after(done)),
            Err(error) => self.failed_form(&error, &back.address(), &form, headers),
        }
    }

    /// What the script is to have signed; a refusal is a sentence for the person.
    async fn challenge(self, signing: Signing, form: Query) -> Response {
        let console = Arc::clone(&self.console);
        match blocking(move || passkeys::challenge(&console, signing, &form)).await {
            Ok(challenge) => {
                ([(header::CONTENT_TYPE, "application/json")], challenge.to_string()).into_response()
            }
            Err(error) => (status(&error), format!("{} {}", error.message, error.suggestion)).into_response(),
        }
    }

    async fn manage(
        self,
        session: SessionId,
        action: SessionAction,
        form: Query,
        headers: &HeaderMap,
    ) -> Response {
        let back = Target::Session(session).address();
        let console = Arc::clone(&self.console);
        match blocking(move || forms::manage(&console, session, action, &form)).await {
            Ok(Managed { done, held }) => {
                if let Some(ticket) = held {
                    self.delete_later(session, ticket);
                }
                // The first page says what is held, and has no session that is gone.
                let leads_home = matches!(done, Done::Held | Done::Undone | Done::Deleted);
                let back = if leads_home { "/" } else { &back };
                see_other(&format!("{back}?done={}", done.as_str()))
            }
            Err(error) => self.failed(&error, status(&error), &back, headers),
        }
    }

    /// Carries out a deletion once it can no longer be undone.
    fn delete_later(&self, session: SessionId, ticket: u64) {
        let (console, changes) = (Arc::clone(&self.console), self.changes.clone());
        tokio::spawn(async move {
            sleep(HELD_FOR).await;
            let _ = spawn_blocking(move || forms::delete_held(&console, session, ticket)).await;
            changes.look_again();
        });
        self.changes.look_again();
    }

    /// Takes a bundle that the script sends as it is; the answer is where it leads.
    async fn import(self, headers: HeaderMap, body: Body) -> Response {
        let token = headers.get(TOKEN_HEADER).and_then(|token| token.to_str().ok());
        if let Err(refusal) = self.console.guard.check_form(token) {
            return (StatusCode::FORBIDDEN, refusal.reason()).into_response();
        }
        let Ok(Ok(bytes)) = timeout(BUNDLE_WAIT, to_bytes(body, BUNDLE_BYTES_MAX)).await else {
            let reason = "The bundle is too long for the console, or did not arrive. Use: workrail session import FILE\n";
            return (StatusCode::PAYLOAD_TOO_LARGE, reason).into_response();
        };
        let console = Arc::clone(&self.console);
        match blocking(move || console.use_cases.import(&bytes)).await {
            Ok(session) => {
                let address = Target::Session(session).address();
                (StatusCode::OK, format!("{address}?done={}", Done::Imported.as_str())).into_response()
            }
            Err(error) => {
                (StatusCode::CONFLICT, format!("{} {}\n", error.message, error.suggestion)).into_response()
            }
        }
    }

    fn set_theme(&self, form: &Query) -> Response {
        let theme = Theme::parse(form.get("theme").unwrap_or_default());
        let back = form.get("back").and_then(own_page).map_or_else(|| "/".to_owned(), |own| own.address());
        let mut response = see_other(&back);
        let cookie = self.console.guard.set_theme(theme);
        response.headers_mut().extend(cookie.map(|cookie| (header::SET_COOKIE, cookie)));
        response
    }

    fn viewer(&self, headers: &HeaderMap, query: &Query) -> Viewer<'_> {
        let guard = &self.console.guard;
        Viewer { theme: guard.theme(headers), form_token: guard.form_token(), done: query.done() }
    }

    /// A form that was refused; what was typed into it is shown again.
    fn failed_form(&self, error: &ErrorEnvelope, back: &str, form: &Query, headers: &HeaderMap) -> Response {
        let viewer = self.viewer(headers, &Query::default());
        page(status(error), &pages::failed_form(error, back, form, viewer))
    }

    fn failed(&self, error: &ErrorEnvelope, status: StatusCode, back: &str, headers: &HeaderMap) -> Response {
        page(status, &pages::failed(error, Some(back), self.viewer(headers, &Query::default())))
    }
}

/// A page of ours that a form names; nothing else is ever led to.
fn own_page(address: &str) -> Option<Target> {
    let (path, query) = address.split_once('?').unwrap_or((address, ""));
    Target::parse(path, &Query::parse(query))
}

fn see_other(address: &str) -> Response {
    // Addresses are made of ids and encoded words.
    let address = HeaderValue::from_str(address).unwrap_or_else(|_| HeaderValue::from_static("/"));
    (StatusCode::SEE_OTHER, [(header::LOCATION, address)]).into_response()
}

/// A file of a session: `/session/ID/NAME`, with `?run=ID` of one of its runs.
fn file(path: &str, query: &Query) -> Option<(SessionOrRun, FileKind)> {
    let parts: Vec<&str> = path.split('/').skip(1).collect();
    let ["session", session, name] = parts.as_slice() else { return None };
    let run = query.get("run").map(RunId::parse).transpose().ok()?;
    Some((SessionOrRun { session: SessionId::parse(session).ok()?, run }, FileKind::parse(name)?))
}

fn not_found() -> Box<ErrorEnvelope> {
    refusal(ErrorCode::ValidationError, "There is no such page.", "Start from the first page.")
}

fn status(error: &ErrorEnvelope) -> StatusCode {
    match (error.code, error.retry) {
        (ErrorCode::SessionNotFound | ErrorCode::WorkflowNotFound, _) => StatusCode::NOT_FOUND,
        (_, Retry::RetryableAfterMs { .. }) => StatusCode::SERVICE_UNAVAILABLE,
        (ErrorCode::ValidationError, _) => StatusCode::CONFLICT,
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

/// Runs on a thread that may wait for files. A panic there is this request's own problem, and nobody waits for ever.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Answer<T> + Send + 'static) -> Answer<T> {
    let failed = |message: &str, next: &str| Err(refusal(ErrorCode::InternalInvariant, message, next));
    match timeout(ANSWER_WAIT, spawn_blocking(work)).await {
        Ok(Ok(answer)) => answer,
        Ok(Err(panicked)) => {
            tracing::error!(%panicked, "a page could not be rendered");
            failed("The page could not be rendered.", "The terminal of the console shows why.")
        }
        Err(_) => failed("This takes too long.", "Try again later, or use the command line."),
    }
}
