//! Pages for what did not work: what is wrong, why, and what to do next.

use maud::{Markup, html};
use workrail_model::error::ErrorEnvelope;

use super::layout::{Viewer, document};
use super::ticked;
use crate::guard::{Refusal, Theme};

/// What the engine refused.
pub(crate) fn failed(error: &ErrorEnvelope, back: Option<&str>, viewer: Viewer<'_>) -> Markup {
    let next = error.suggestion_for_people.as_ref().unwrap_or(&error.suggestion);
    let body = html! {
        p { (ticked(&error.message)) }
        p { (ticked(next)) }
        p.meta { "Error code " code { (error.code.as_str()) } ": " code { "workrail explain " (error.code.as_str()) } }
        @if let Some(back) = back { p { a href=(back) { "Back" } } }
    };
    document("That did not work", None, None, viewer, &body)
}

/// A request that is not answered; it gets nothing that only the user may see.
pub(crate) fn refused(title: &str, reason: &str) -> Markup {
    document(title, None, None, stranger(), &html! { p { (ticked(reason)) } })
}

pub(crate) fn refusal_title(refusal: Refusal) -> &'static str {
    match refusal {
        Refusal::Host | Refusal::Origin | Refusal::CrossSite => "Not answered",
        Refusal::NoCookie | Refusal::Code => "Not let in",
        Refusal::FormToken => "Nothing was changed",
    }
}

/// The page that gives the cookie. It leads on by itself: after a redirect from elsewhere, a browser would not send
/// a strict cookie yet.
pub(crate) fn opened() -> Markup {
    html! {
        (maud::DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="refresh" content="0; url=/";
                title { "WorkRail" }
            }
            body { p { a href="/" { "Open the console" } } }
        }
    }
}

fn stranger() -> Viewer<'static> {
    Viewer { theme: Theme::System, form_token: "", done: None }
}
