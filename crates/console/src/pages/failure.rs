//! Error pages: what is wrong, why, and what to do next.

use maud::{Markup, html};
use workrail_model::error::{ErrorCode, ErrorEnvelope};
use workrail_model::team::Principal;
use workrail_model::text::clean;

use super::layout::{Frame, Viewer, document};
use super::ticked;
use crate::forms::ANSWER_PREFIX;
use crate::guard::{Rejection, Theme};
use crate::target::QueryPairs;

/// An error of the engine.
pub(crate) fn failed(error: &ErrorEnvelope, back: Option<&str>, viewer: Viewer<'_>) -> Markup {
    failure(error, back, viewer, &html! {})
}

/// A member of a team has neither a shell on the server's machine nor, perhaps, WorkRail on their own.
pub(crate) fn next_step<'a>(error: &'a ErrorEnvelope, member: Option<&Principal>) -> &'a str {
    if member.is_some() { error.suggestion_for_a_member() } else { error.suggestion_for_a_person() }
}

fn failure(error: &ErrorEnvelope, back: Option<&str>, viewer: Viewer<'_>, more: &Markup) -> Markup {
    let next = next_step(error, viewer.member);
    let is_missing = matches!(error.code, ErrorCode::SessionNotFound | ErrorCode::WorkflowNotFound);
    let title = if is_missing { "Not found" } else { "Not done" };
    let body = html! {
        p { (ticked(&error.message)) }
        p { (ticked(next)) }
        p.meta {
            "Error code " code { (error.code.as_str()) }
            @if viewer.member.is_none() { ": " code { "workrail explain " (error.code.as_str()) } }
        }
        @if let Some(back) = back { p { a href=(back) { "Back" } } }
        (more)
    };
    document(title, Frame::default(), viewer, &body)
}

/// An error of the engine, with the contents of the form, which a reloaded page would not have.
pub(crate) fn failed_form(
    error: &ErrorEnvelope,
    back: &str,
    form: &QueryPairs,
    viewer: Viewer<'_>,
) -> Markup {
    let typed: Vec<(&str, &str)> = form
        .iter()
        .filter(|(name, value)| {
            (["reason", "text"].contains(name) || name.starts_with(ANSWER_PREFIX)) && !value.trim().is_empty()
        })
        .collect();
    let more = html! {
        @if !typed.is_empty() {
            h2 { "What you typed" }
            @for (_, value) in typed { pre { (clean(value)) } }
        }
    };
    failure(error, Some(back), viewer, &more)
}

/// A refused request; the page shows nothing that only the user may see.
pub(crate) fn refused(title: &str, reason: &str, address: Option<&str>) -> Markup {
    let body = html! {
        p { (ticked(reason)) }
        @if let Some(address) = address { p { a href=(address) { "Open the page" } } }
    };
    document(title, Frame::default(), anonymous(), &body)
}

pub(crate) fn refusal_title(refusal: Rejection) -> &'static str {
    match refusal {
        Rejection::Host | Rejection::Origin | Rejection::CrossSite => "Not answered",
        Rejection::NoCookie | Rejection::Code => "No access",
        Rejection::FormToken => "Nothing was changed",
    }
}

/// The page that sets the cookie. It forwards by itself: after a redirect from another site, a browser would not send
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

fn anonymous() -> Viewer<'static> {
    Viewer { theme: Theme::System, form_token: "", done: None, member: None }
}
