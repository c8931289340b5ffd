//! What an admitted visitor asks for: pages, files and forms, and the answers.

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, to_bytes};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use tokio::task::spawn_blocking;
use tokio::time::{sleep, timeout};
use workrail_engine::SessionOrRun;
use workrail_model::digest::Sha256;
use workrail_model::error::{ErrorCode, ErrorEnvelope, Retry};
use workrail_model::id::{RunId, SessionId};
use workrail_model::team::Act;

use crate::asset::asset;
use crate::changes::{self, AdministrationForm, FormResult};
use crate::edit;
use crate::files::{self, DownloadKind};
use crate::forms::{self, RunFormAction, SessionAction, SessionFormResult};
use crate::guard::{Guard, Rejection, Theme};
use crate::held::HELD_FOR;
use crate::live::LiveUpdates;
use crate::pages::{self, Viewer};
use crate::passkeys::{self, Signing};
use crate::routes::{BODY_WAIT, own_page, page, refused, see_other};
use crate::state::Console;
use crate::target::{FormOutcome, PageAddress, QueryPairs, RunPage, file_key};
use crate::use_cases::{EngineResult, refusal};

/// The longest form holds a few answers or a reason.
const FORM_BYTES_MAX: usize = 512 * 1024;
/// A workflow's file as a form encodes it.
const EDIT_BYTES_MAX: usize = 4 * 1024 * 1024;

/// How long a visitor waits for a page.
const ANSWER_WAIT: Duration = Duration::from_secs(60);

/// Larger bundles are imported from the command line, which reads them as a stream.
const BUNDLE_BYTES_MAX: usize = 64 * 1024 * 1024;
const BUNDLE_WAIT: Duration = Duration::from_secs(60);
/// Where requests other than forms carry the token. A foreign page cannot send this header without a CORS preflight.
const TOKEN_HEADER: &str = "x-workrail-token";

/// One request of an admitted visitor.
pub(crate) struct AdmittedRequest {
    pub(crate) guard: Arc<Guard>,
    pub(crate) console: Arc<Console>,
    pub(crate) live: LiveUpdates,
}

impl AdmittedRequest {
    pub(crate) async fn get(self, path: &str, query: QueryPairs, headers: HeaderMap) -> Response {
        if let Some(asset) = asset(path) {
            return asset;
        }
        if let Some(path) = path.strip_prefix("/live").filter(|path| path.starts_with('/')) {
            return self.live.answer(&self.console, path, &query);
        }
        if let Some((about, kind)) = file(path, &query) {
            return self.download(about, kind, &headers).await;
        }
        match PageAddress::parse(path, &query) {
            Some(target) => self.show(target, &query, headers).await,
            None => self.failed(&not_found(), StatusCode::NOT_FOUND, "/", &headers),
        }
    }

    async fn show(self, target: PageAddress, query: &QueryPairs, headers: HeaderMap) -> Response {
        let (console, asked) = (Arc::clone(&self.console), target.clone());
        match blocking(move || pages::render(&console, &asked)).await {
            Ok(rendered) => {
                let viewer = self.viewer(&headers, query);
                page(StatusCode::OK, &pages::whole(&rendered, &target, viewer))
            }
            Err(error) => self.failed(&error, status(&error), "/", &headers),
        }
    }

    async fn download(self, about: SessionOrRun, kind: DownloadKind, headers: &HeaderMap) -> Response {
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

    pub(crate) async fn post(self, path: &str, headers: HeaderMap, body: Body) -> Response {
        if path == "/import" {
            return self.import(headers, body).await;
        }
        let bytes_max = if path.starts_with("/edit/") { EDIT_BYTES_MAX } else { FORM_BYTES_MAX };
        let Ok(Ok(bytes)) = timeout(BODY_WAIT, to_bytes(body, bytes_max)).await else {
            return (StatusCode::PAYLOAD_TOO_LARGE, "The form is too long, or did not arrive.\n")
                .into_response();
        };
        let Some(form) = QueryPairs::parse_form(&bytes) else {
            return (StatusCode::BAD_REQUEST, "The form is not UTF-8 text.\n").into_response();
        };
        if !form.get("token").is_some_and(|token| self.console.is_form_token(token)) {
            return refused(Rejection::FormToken);
        }
        let parts: Vec<&str> = path.split('/').skip(1).collect();
        if let Some(change) = AdministrationForm::parse(&parts) {
            return self.change(change, form, &headers).await;
        }
        match parts.as_slice() {
            ["passkeys", signing @ ..] => match Signing::parse(signing) {
                Some(signing) => self.challenge(signing, form).await,
                None => self.failed(&not_found(), StatusCode::NOT_FOUND, "/", &headers),
            },
            ["theme"] => self.set_theme(&form),
            ["logout"] => self.log_out(),
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
            ["run", run, action] => match (RunId::parse(run), RunFormAction::parse(action)) {
                (Ok(run), Some(action)) => self.act(run, action, form, &headers).await,
                _ => self.failed(&not_found(), StatusCode::NOT_FOUND, "/", &headers),
            },
            _ => self.failed(&not_found(), StatusCode::NOT_FOUND, "/", &headers),
        }
    }

    /// Answers a button of the editor; the text stays on the page unless it was saved.
    async fn edit(self, key: Sha256, form: QueryPairs, headers: &HeaderMap) -> Response {
        let target = PageAddress::Edit(key);
        let (console, asked) = (Arc::clone(&self.console), form.clone());
        let answered = blocking(move || {
            let editor = edit::carry_out(&console, key, &asked)?;
            Ok((matches!(editor.shown, edit::EditResult::Saved), pages::edit_page(&console, &editor)))
        });
        match answered.await {
            Ok((true, _)) => see_other(&target.address_after(FormOutcome::Saved)),
            Ok((false, rendered)) => {
                let viewer = self.viewer(headers, &QueryPairs::default());
                page(StatusCode::OK, &pages::whole(&rendered, &target, viewer))
            }
            // The file may be gone, with its source: then only this page has the text.
            Err(error) => self.failed_form(&error, &target.address(), &form, headers),
        }
    }

    /// The parts of the editor that change while the user types.
    async fn check_text(self, key: Sha256, form: QueryPairs, headers: &HeaderMap) -> Response {
        let console = Arc::clone(&self.console);
        match blocking(move || {
            edit::editor_from_form(&console, key, &form).map(|editor| pages::edit_fragments(&editor))
        })
        .await
        {
            Ok(fragments) => page(StatusCode::OK, &fragments),
            Err(error) => self.failed(&error, status(&error), &PageAddress::Edit(key).address(), headers),
        }
    }

    async fn change(self, change: AdministrationForm, form: QueryPairs, headers: &HeaderMap) -> Response {
        let console = Arc::clone(&self.console);
        let (back, asked) = (change.page(), change.clone());
        match blocking(move || changes::carry_out(&console, &asked, &form)).await {
            Ok(FormResult { done, address }) => see_other(&format!("{address}?done={}", done.into_str())),
            Err(error) => self.failed(&error, status(&error), &back, headers),
        }
    }

    async fn act(self, run: RunId, action: RunFormAction, form: QueryPairs, headers: &HeaderMap) -> Response {
        // Keeps the list's filters, or the selected point.
        let back = form.get("back").and_then(own_page).unwrap_or_else(|| PageAddress::Run(RunPage::of(run)));
        let (console, asked) = (Arc::clone(&self.console), form.clone());
        match blocking(move || forms::act(&console, run, action, &asked)).await {
            Ok(done) => see_other(&back.address_after(done)),
            Err(error) => self.failed_form(&error, &back.address(), &form, headers),
        }
    }

    /// The challenge that the script has signed; a refusal is one sentence for the user.
    async fn challenge(self, signing: Signing, form: QueryPairs) -> Response {
        let console = Arc::clone(&self.console);
        match blocking(move || passkeys::challenge(&console, signing, &form)).await {
            Ok(challenge) => {
                ([(header::CONTENT_TYPE, "application/json")], challenge.to_string()).into_response()
            }
            Err(error) => {
                let next = pages::next_step(&error, self.console.member());
                (status(&error), format!("{} {next}", error.message)).into_response()
            }
        }
    }

    async fn manage(
        self,
        session: SessionId,
        action: SessionAction,
        form: QueryPairs,
        headers: &HeaderMap,
    ) -> Response {
        let back = PageAddress::Session(session).address();
        let console = Arc::clone(&self.console);
        match blocking(move || forms::manage(&console, session, action, &form)).await {
            Ok(SessionFormResult { done, held }) => {
                if let Some(ticket) = held {
                    self.delete_later(session, ticket);
                }
                // The first page shows held deletions; the deleted session has no page.
                let to_home = matches!(done, FormOutcome::Held | FormOutcome::Undone | FormOutcome::Deleted);
                let back = if to_home { "/" } else { &back };
                see_other(&format!("{back}?done={}", done.into_str()))
            }
            Err(error) => self.failed(&error, status(&error), &back, headers),
        }
    }

    /// Carries out a deletion once it can no longer be undone.
    fn delete_later(&self, session: SessionId, ticket: u64) {
        let (console, live) = (self.console.beyond_request(), self.live.clone());
        tokio::spawn(async move {
            sleep(HELD_FOR).await;
            let _ = spawn_blocking(move || forms::delete_held(&console, session, ticket)).await;
            live.render_again();
        });
        self.live.render_again();
    }

    /// Accepts a bundle sent by the script; answers with the address of its page.
    async fn import(self, headers: HeaderMap, body: Body) -> Response {
        let token = headers.get(TOKEN_HEADER).and_then(|token| token.to_str().ok());
        if !token.is_some_and(|token| self.console.is_form_token(token)) {
            return (StatusCode::FORBIDDEN, Rejection::FormToken.reason()).into_response();
        }
        // Checked before reading: only admins may make the server hold a bundle.
        if !self.console.may(Act::Administer) {
            return (StatusCode::FORBIDDEN, "Only an admin can import.\n").into_response();
        }
        let Ok(Ok(bytes)) = timeout(BUNDLE_WAIT, to_bytes(body, BUNDLE_BYTES_MAX)).await else {
            let reason = "The bundle is too long for the console, or did not arrive. Use: workrail session import FILE\n";
            return (StatusCode::PAYLOAD_TOO_LARGE, reason).into_response();
        };
        let console = Arc::clone(&self.console);
        match blocking(move || console.use_cases.import(&bytes)).await {
            Ok(session) => {
                let address = PageAddress::Session(session).address();
                (StatusCode::OK, format!("{address}?done={}", FormOutcome::Imported.into_str()))
                    .into_response()
            }
            Err(error) => {
                let next = pages::next_step(&error, self.console.member());
                (StatusCode::CONFLICT, format!("{} {next}\n", error.message)).into_response()
            }
        }
    }

    fn log_out(&self) -> Response {
        let mut response = see_other("/");
        let cookie = self.guard.clear_login();
        response.headers_mut().extend(cookie.map(|cookie| (header::SET_COOKIE, cookie)));
        response
    }

    fn set_theme(&self, form: &QueryPairs) -> Response {
        let theme = Theme::parse(form.get("theme").unwrap_or_default());
        let back = form.get("back").and_then(own_page).map_or_else(|| "/".to_owned(), |page| page.address());
        let mut response = see_other(&back);
        let cookie = self.guard.set_theme(theme);
        response.headers_mut().extend(cookie.map(|cookie| (header::SET_COOKIE, cookie)));
        response
    }

    fn viewer(&self, headers: &HeaderMap, query: &QueryPairs) -> Viewer<'_> {
        Viewer {
            theme: self.guard.theme(headers),
            form_token: self.console.form_token(),
            done: query.done(),
            member: self.console.member(),
        }
    }

    /// A refused form, shown again with its contents.
    fn failed_form(
        &self,
        error: &ErrorEnvelope,
        back: &str,
        form: &QueryPairs,
        headers: &HeaderMap,
    ) -> Response {
        let viewer = self.viewer(headers, &QueryPairs::default());
        page(status(error), &pages::failed_form(error, back, form, viewer))
    }

    fn failed(&self, error: &ErrorEnvelope, status: StatusCode, back: &str, headers: &HeaderMap) -> Response {
        page(status, &pages::failed(error, Some(back), self.viewer(headers, &QueryPairs::default())))
    }
}

/// A file of a session: `/session/ID/NAME`, with `?run=ID` of one of its runs.
fn file(path: &str, query: &QueryPairs) -> Option<(SessionOrRun, DownloadKind)> {
    let parts: Vec<&str> = path.split('/').skip(1).collect();
    let ["session", session, name] = parts.as_slice() else { return None };
    let run = query.get("run").map(RunId::parse).transpose().ok()?;
    Some((SessionOrRun { session: SessionId::parse(session).ok()?, run }, name.parse().ok()?))
}

fn not_found() -> Box<ErrorEnvelope> {
    refusal(ErrorCode::ValidationError, "There is no such page.", "Start from the first page.")
}

fn status(error: &ErrorEnvelope) -> StatusCode {
    match (error.code, error.retry) {
        (ErrorCode::SessionNotFound | ErrorCode::WorkflowNotFound, _) => StatusCode::NOT_FOUND,
        (ErrorCode::StoreAccessDenied, _) => StatusCode::FORBIDDEN,
        (_, Retry::RetryableAfterMs { .. }) => StatusCode::SERVICE_UNAVAILABLE,
        (ErrorCode::ValidationError, _) => StatusCode::CONFLICT,
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

/// Runs work on a thread that may block on files. A panic there fails only this request, and the wait is bounded.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> EngineResult<T> + Send + 'static,
) -> EngineResult<T> {
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
