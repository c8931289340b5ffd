//! The frame of every page: navigation, search, the theme switch, the help on keys.

use maud::{DOCTYPE, Markup, html};
use strum::VariantArray as _;
use workrail_model::digest::Sha256;
use workrail_model::team::Principal;
use workrail_model::text::clean;

use super::{Page, PagePart, ticked};
use crate::guard::Theme;
use crate::target::{FormOutcome, PageAddress, Tab};

/// What a page needs to know about its viewer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Viewer<'a> {
    pub(crate) theme: Theme,
    pub(crate) form_token: &'a str,
    pub(crate) done: Option<FormOutcome>,
    /// The logged-in member; `None` if no login is needed.
    pub(crate) member: Option<&'a Principal>,
}

/// The keys that the script knows.
const KEYS: [(&str, &str); 12] = [
    ("?", "this help"),
    ("/", "search"),
    ("j", "next item"),
    ("k", "previous item"),
    ("Enter", "open the item"),
    ("+ and -", "make the path of a run larger or smaller"),
    ("0", "the path at its usual size"),
    ("Arrows", "move the path, once it has the focus"),
    ("g n", "Now"),
    ("g w", "Workflows"),
    ("g s", "Settings"),
    ("g l", "Logs"),
];

pub(crate) fn whole(page: &Page, target: &PageAddress, viewer: Viewer<'_>) -> Markup {
    let address = target.address();
    let body = html! {
        @if let Some(done) = viewer.done { p.said role="status" { (ticked(done.message())) } }
        @for part in &page.parts { (section(part)) }
    };
    let frame = Frame { tab: Some(target.tab()), address: Some(&address), is_live: target.is_live() };
    document(&page.title, frame, viewer, &body)
}

/// A part, as on the page and in a live update.
pub(crate) fn section(part: &PagePart) -> Markup {
    html! { section id=(part.id) data-part data-seen=(part_digest(part)) { (part.body) } }
}

/// Identifies one rendering of a part.
pub(crate) fn part_digest(part: &PagePart) -> String {
    Sha256::of_parts(&[part.id.as_bytes(), part.body.0.as_bytes()]).hex()[..16].to_owned()
}

/// Where a page is among the others.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Frame<'a> {
    tab: Option<Tab>,
    /// Absent on pages that are not for the user, or that should not be returned to.
    address: Option<&'a str>,
    is_live: bool,
}

fn head(title: &str) -> Markup {
    html! {
        meta charset="utf-8";
        meta name="viewport" content="width=device-width, initial-scale=1";
        meta name="color-scheme" content="light dark";
        title { (title) " · WorkRail" }
        link rel="stylesheet" href="/assets/console.css";
        link rel="icon" href="/assets/icon.svg" type="image/svg+xml";
    }
}

/// A page for visitors who are not logged in: without links.
pub(super) fn bare(title: &str, body: &Markup) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" data-theme=(Theme::System.into_str()) {
            head { (head(title)) }
            body {
                header.top { span.brand { "WorkRail" } }
                main id="main" { h1 { (title) } (body) }
            }
        }
    }
}

pub(super) fn document(title: &str, frame: Frame<'_>, viewer: Viewer<'_>, body: &Markup) -> Markup {
    let title = clean(title);
    let Frame { tab, address, is_live } = frame;
    html! {
        (DOCTYPE)
        html lang="en" data-theme=(viewer.theme.into_str()) {
            head {
                (head(&title))
                script type="module" src="/assets/console.js" {}
            }
            body data-live=[address.filter(|_| is_live)] {
                a.skip href="#main" { "Skip to the content" }
                header.top {
                    a.brand href="/" { "WorkRail" }
                    nav aria-label="Pages" {
                        @for each in Tab::VARIANTS.iter().copied() {
                            a href=(each.address()) aria-current=[(tab == Some(each)).then_some("page")] { (each.into_str()) }
                        }
                    }
                    @if let Some(address) = address { (tools(viewer, address)) }
                }
                main id="main" {
                    h1 { (title) }
                    (body)
                }
                (help())
            }
        }
    }
}

/// What an open page says when its visitor is not let in any more.
fn no_access(viewer: Viewer<'_>) -> &'static str {
    match viewer.member {
        Some(_) => "Your login has ended: reload the page to log in again.",
        None => "The console was restarted: open the address that it printed.",
    }
}

fn tools(viewer: Viewer<'_>, address: &str) -> Markup {
    html! {
        span.live data-live-state data-no-access=(no_access(viewer)) role="status" {}
        @if address == "/" { button type="button" hidden data-notify { "Notify me" } }
        button.keys type="button" hidden data-with-script data-keys { kbd { "?" } " Keys" }
        @if let Some(member) = viewer.member {
            span.who { (clean(member.name.as_str())) " (" (member.role.as_str()) ")" }
            form.theme method="post" action="/logout" { (token(viewer.form_token)) button type="submit" { "Log out" } }
        }
        form.theme method="post" action="/theme" {
            (token(viewer.form_token))
            input type="hidden" name="back" value=(address);
            // A button for the next theme: a list that submits on selection surprises keyboard users.
            button type="submit" name="theme" value=(viewer.theme.next().into_str()) {
                "Theme: " (viewer.theme.into_str())
            }
        }
    }
}

/// Every form carries it.
pub(crate) fn token(token: &str) -> Markup {
    html! { input type="hidden" name="token" value=(token); }
}

fn help() -> Markup {
    html! {
        dialog id="help" aria-labelledby="help-title" {
            h2 id="help-title" { "Keys" }
            dl { @for (key, what) in KEYS { dt { kbd { (key) } } dd { (what) } } }
            p { label { input type="checkbox" data-keys-on checked; " Single keys act" } }
            form method="dialog" { button { "Close" } }
        }
    }
}
