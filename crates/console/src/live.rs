//! Live updates: one stream for each open page, which sends the parts that changed (G96).
//!
//! The store is polled a few times a second, and only while a page is open: an idle console does nothing. A write
//! changes the store's stamp before it is committed, so pages are rendered again a few times after each change; parts
//! that did not change are not sent.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::http::StatusCode;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use serde_json::json;
use tokio::sync::{Notify, mpsc, watch};
use tokio::task::spawn_blocking;
use tokio::time::sleep;
use tokio_stream::wrappers::ReceiverStream;
use workrail_model::error::ErrorCode;
use workrail_model::text::clean;

use crate::entry::NotLoggedIn;
use crate::pages::{self, Page, part_digest, section};
use crate::quota::{Exceeded, MemberQuota, MemberSlot};
use crate::state::Console;
use crate::target::{PageAddress, QueryPairs};
use crate::use_cases::{EngineResult, UseCases, refusal};

/// How often the store is polled while a page is open.
const POLL_EVERY: Duration = Duration::from_millis(200);
/// After a change, pages are rendered again at these polls.
const RENDERS_AFTER_CHANGE: [u32; 4] = [1, 3, 8, 25];
/// How many pages are kept up to date at once; each holds a connection.
const STREAMS_MAX: usize = 64;

/// Resolves when the server ends.
pub(crate) type StreamsEnd = watch::Receiver<()>;

/// Tells open pages that the store may have changed.
#[derive(Clone, Debug)]
pub(crate) struct LiveUpdates {
    renders: watch::Sender<u64>,
    /// Wakes the watcher when the first page is opened.
    opened: Arc<Notify>,
    streams: Arc<AtomicUsize>,
    /// The streams of each member.
    of_members: MemberQuota,
    ending: StreamsEnd,
}

impl LiveUpdates {
    /// Starts watching; must be called inside the runtime.
    pub(crate) fn watch(watched: Arc<dyn UseCases>, ending: StreamsEnd) -> Self {
        let live = Self {
            renders: watch::channel(0).0,
            opened: Arc::default(),
            streams: Arc::default(),
            of_members: MemberQuota::of_pages(),
            ending,
        };
        tokio::spawn(live.clone().run(watched));
        live
    }

    async fn run(mut self, watched: Arc<dyn UseCases>) {
        let mut ending = self.ending.clone();
        tokio::select! {
            () = self.poll(watched) => {}
            _ = ending.changed() => {}
        }
    }

    async fn poll(&mut self, watched: Arc<dyn UseCases>) {
        let mut last = None;
        let mut quiet: u32 = 0;
        loop {
            if self.renders.receiver_count() == 0 {
                self.opened.notified().await;
            }
            sleep(POLL_EVERY).await;
            let use_cases = Arc::clone(&watched);
            let now = spawn_blocking(move || use_cases.change_stamp()).await.unwrap_or_default();
            quiet = quiet.saturating_add(1);
            if now.is_none() || now != last {
                (last, quiet) = (now, 0);
            }
            if quiet == 0 || RENDERS_AFTER_CHANGE.contains(&quiet) {
                self.render_again();
            }
        }
    }

    /// Renders open pages again, after a change outside the store.
    pub(crate) fn render_again(&self) {
        self.renders.send_modify(|renders| *renders = renders.wrapping_add(1));
    }

    /// The changes of an open page for its script, if the page has any and the visitor may have another stream.
    pub(crate) fn answer(&self, console: &Console, path: &str, query: &QueryPairs) -> Response {
        let Some(target) = PageAddress::parse(path, query).filter(PageAddress::is_live) else {
            return StatusCode::NOT_FOUND.into_response();
        };
        match self.take_slot(console) {
            Ok(slot) => self.stream(console, target, query.get("has").unwrap_or_default(), slot),
            Err(exceeded) => exceeded.into_response(),
        }
    }

    fn take_slot(&self, console: &Console) -> Result<StreamSlot, Exceeded> {
        let of_member = console.member().map(|member| self.of_members.take(member).ok_or(Exceeded::Pages));
        StreamSlot::take(&self.streams, of_member.transpose()?).ok_or(Exceeded::AllPages)
    }

    /// A stream of a page's parts; `has` names the renderings that the page already has.
    fn stream(&self, console: &Console, target: PageAddress, has: &str, slot: StreamSlot) -> Response {
        let console = Arc::new(console.beyond_request());
        let (sender, receiver) = mpsc::channel(8);
        let mut sent = SentPage::with(has);
        let between =
            target.polls_between().map(|renders| POLL_EVERY * u32::try_from(renders).unwrap_or(u32::MAX));
        let mut renders = self.renders.subscribe();
        let mut ending = self.ending.clone();
        self.opened.notify_one();
        tokio::spawn(async move {
            let _slot = slot;
            loop {
                renders.mark_unchanged();
                let (console, target) = (Arc::clone(&console), target.clone());
                let rendered = match spawn_blocking(move || render_for(&console, &target)).await {
                    Ok(None) => return,
                    Ok(Some(rendered)) => Ok(rendered),
                    Err(panicked) => Err(panicked),
                };
                let Some(page) = rendered.ok().and_then(still_there) else {
                    // It cannot be rendered now: the next poll may succeed.
                    if !wait(&mut renders, &sender, &mut ending, between).await {
                        return;
                    }
                    continue;
                };
                for change in sent.changes(page) {
                    if sender.send(Ok::<_, Infallible>(Event::default().data(change))).await.is_err() {
                        return;
                    }
                }
                if !wait(&mut renders, &sender, &mut ending, between).await {
                    return;
                }
            }
        });
        Sse::new(ReceiverStream::new(receiver)).keep_alive(KeepAlive::default()).into_response()
    }
}

/// Renders a page for its visitor; `None` if their login has ended, which may happen while a page is open.
fn render_for(console: &Console, target: &PageAddress) -> Option<EngineResult<Page>> {
    match console.check_login() {
        Ok(()) => Some(pages::render(console, target)),
        Err(NotLoggedIn::InvalidLogin) => None,
        // If that is unknown, nothing is shown; the next poll may find out.
        Err(NotLoggedIn::Unavailable | NotLoggedIn::TokensUnusable) => {
            Some(Err(refusal(ErrorCode::StoreBusy, "Your login could not be checked.", "Reload the page.")))
        }
    }
}

/// What an open page has.
#[derive(Debug, Default)]
struct SentPage {
    /// The digest of each part as last rendered.
    parts: BTreeMap<&'static str, String>,
    /// The digests of the parts that the page began with.
    initial: Vec<String>,
    order: Vec<&'static str>,
    title: String,
}

impl SentPage {
    /// `has` names the parts that the page begins with.
    fn with(has: &str) -> Self {
        Self { initial: has.split(',').map(str::to_owned).collect(), ..Self::default() }
    }

    /// The messages that turn the open page into this one.
    fn changes(&mut self, page: Page) -> Vec<String> {
        let mut changes = Vec::new();
        let ids: Vec<&'static str> = page.parts.iter().map(|part| part.id).collect();
        // Forget parts that are gone, so that one that returns is sent again.
        self.parts.retain(|id, _| ids.contains(id));
        for part in page.parts {
            let digest = part_digest(&part);
            // The initial parts count until something else was sent: a part may change back.
            let is_news = match self.parts.get(part.id) {
                Some(last) => *last != digest,
                None => !self.initial.contains(&digest),
            };
            self.parts.insert(part.id, digest);
            if is_news {
                changes.push(json!({ "id": part.id, "html": section(&part).into_string() }).to_string());
            }
        }
        self.initial.clear();
        // Removes parts that are gone, and inserts new ones.
        if ids != self.order || page.title != self.title {
            changes.push(json!({ "order": ids, "title": clean(&page.title) }).to_string());
            (self.order, self.title) = (ids, page.title);
        }
        changes
    }
}

/// A rendered page, or a message if its subject is gone; `None` for a possibly temporary failure.
fn still_there(rendered: EngineResult<Page>) -> Option<Page> {
    match rendered {
        Ok(page) => Some(page),
        Err(error) if matches!(error.code, ErrorCode::SessionNotFound | ErrorCode::WorkflowNotFound) => {
            Some(pages::gone(&error))
        }
        Err(_) => None,
    }
}

/// Waits until there may be something new; returns whether the page is still open.
async fn wait(
    renders: &mut watch::Receiver<u64>,
    sender: &mpsc::Sender<Result<Event, Infallible>>,
    ending: &mut StreamsEnd,
    between: Option<Duration>,
) -> bool {
    let pause = async {
        match between {
            Some(between) => sleep(between).await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        changed = renders.changed() => changed.is_ok(),
        () = pause => true,
        () = sender.closed() => false,
        _ = ending.changed() => false,
    }
}

/// One of the streams that may be open at once.
#[derive(Debug)]
struct StreamSlot {
    streams: Arc<AtomicUsize>,
    /// `None` for the user who started the console.
    _of_member: Option<MemberSlot>,
}

impl StreamSlot {
    fn take(streams: &Arc<AtomicUsize>, of_member: Option<MemberSlot>) -> Option<Self> {
        let slot = Self { streams: Arc::clone(streams), _of_member: of_member };
        (streams.fetch_add(1, Ordering::AcqRel) < STREAMS_MAX).then_some(slot)
    }
}

impl Drop for StreamSlot {
    fn drop(&mut self) {
        self.streams.fetch_sub(1, Ordering::AcqRel);
    }
}
