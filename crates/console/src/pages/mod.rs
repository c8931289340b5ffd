//! The pages: each is a title and parts, and a part is what a live update replaces.

mod attention;
mod checks;
mod compare;
mod edit;
mod failure;
mod layout;
mod login;
mod logs;
mod now;
mod passkeys;
mod plan_graph;
mod run;
mod search;
mod session;
mod settings;
mod timeline;
mod workflows;

use maud::{Markup, html};
use workrail_engine::report::shown_time;
use workrail_model::error::ErrorEnvelope;
use workrail_model::reply::NextCall;
use workrail_model::text::clean;
use workrail_model::time::Timestamp;

pub(crate) use attention::is_shown_whole;
pub(crate) use edit::{fragments as edit_fragments, page as edit_page};
pub(crate) use failure::{failed, failed_form, next_step, opened, refusal_title, refused};
pub(crate) use layout::{Viewer, part_digest, section, whole};
pub(crate) use login::login;

use crate::state::Console;
use crate::target::PageAddress;
use crate::use_cases::EngineResult;

/// What a page shows.
#[derive(Clone, Debug)]
pub(crate) struct Page {
    pub(crate) title: String,
    pub(crate) parts: Vec<PagePart>,
}

/// A named piece of a page.
#[derive(Clone, Debug)]
pub(crate) struct PagePart {
    pub(crate) id: &'static str,
    pub(crate) body: Markup,
}

impl PagePart {
    fn new(id: &'static str, body: Markup) -> Self {
        Self { id, body }
    }
}

/// Shown on an open page whose subject no longer exists.
pub(crate) fn gone(error: &ErrorEnvelope) -> Page {
    let body = html! {
        div.banner { strong { "Not found." } " " (ticked(&error.message)) }
        p { a href="/" { "Open the first page" } }
    };
    Page { title: "Not found".to_owned(), parts: vec![PagePart::new("gone", body)] }
}

/// Renders a page from the current state of the store.
pub(crate) fn render(console: &Console, target: &PageAddress) -> EngineResult<Page> {
    match target {
        PageAddress::Now(filters) => now::page(console, filters),
        PageAddress::Session(session) => session::page(console, *session),
        PageAddress::Run(page) => run::page(console, page),
        PageAddress::Compare(page) => compare::page(console, page),
        PageAddress::Search { words } => search::page(console, words),
        PageAddress::Workflows(page) => workflows::list(console, page),
        PageAddress::Workflow(page) => workflows::detail(console, page),
        // Files belong to the machine, and members of a team have no access to them.
        PageAddress::Edit(key) => {
            console.administration()?;
            Ok(edit::page(console, &crate::edit::opened(console, *key)?))
        }
        PageAddress::Settings(page) => settings::page(console, *page),
        PageAddress::Logs => logs::page(console),
    }
}

/// A time; the script shows it relative to now.
fn time(at: &Timestamp) -> Markup {
    html! { time datetime=(at.as_str()) { (shown_time(at)) } }
}

/// One of our own texts, with names in backticks.
fn ticked(text: &str) -> Markup {
    html! {
        @for (index, part) in clean(text).split('`').enumerate() {
            @if index % 2 == 1 { code { (part) } } @else { (part) }
        }
    }
}

/// A number with what it counts.
fn counted(count: u64, one: &str, many: &str) -> String {
    if count == 1 { format!("1 {one}") } else { format!("{count} {many}") }
}

/// A table that scrolls separately on narrow screens.
fn table(columns: &[&str], rows: impl IntoIterator<Item = Vec<Markup>>) -> Markup {
    html! {
        div.scroll {
            table {
                thead { tr { @for column in columns { th { (column) } } } }
                tbody { @for row in rows { tr data-item { @for cell in row { td { (cell) } } } } }
            }
        }
    }
}

/// Text to copy, such as a call or a command.
fn copyable(text: &str) -> Markup {
    html! {
        div.copy {
            pre { code { (text) } }
            button type="button" data-copy hidden { "Copy" }
        }
    }
}

/// A call in the form in which agents receive it.
fn call_text(call: &NextCall) -> String {
    let arguments = serde_json::to_string_pretty(&call.arguments).unwrap_or_default();
    format!("{} {arguments}", call.tool)
}
