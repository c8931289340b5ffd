//! Searches what was recorded in all sessions.

use maud::{Markup, html};
use workrail_engine::sessions::{Hit, RecordSearch};
use workrail_model::error::{ErrorCode, ErrorEnvelope};
use workrail_model::text::clean;

use super::{Page, PagePart, counted, ticked, time};
use crate::state::Console;
use crate::target::{PageAddress, RunPage};
use crate::use_cases::EngineResult;

const HITS_MAX: usize = 50;

pub(super) fn page(console: &Console, words: &str) -> EngineResult<Page> {
    let form = html! {
        form.filters method="get" action="/search" role="search" {
            label { span.hidden { "Words" }
                input type="search" name="q" value=(words) placeholder="Words from goals, notes, artifacts" data-search;
            }
            button type="submit" { "Search" }
        }
    };
    let mut parts = vec![PagePart::new("words", form)];
    if !words.is_empty() {
        let found = match console.use_cases.search(words, HITS_MAX) {
            Ok(found) => hits(&found),
            // The words are invalid: the user gets them back to correct them.
            Err(error) if error.code == ErrorCode::ValidationError => refused(&error),
            Err(error) => return Err(error),
        };
        parts.push(PagePart::new("hits", found));
    }
    Ok(Page { title: "Search".to_owned(), parts })
}

fn refused(error: &ErrorEnvelope) -> Markup {
    html! {
        p.warn { (ticked(&error.message)) }
        p { "Goals, notes, artifacts, labels and workflow names are searched for whole words." }
    }
}

fn hits(found: &RecordSearch) -> Markup {
    html! {
        h2 { "Notes " span.count { (found.hits.len() as u64 + found.left_out) } }
        @if found.hits.is_empty() { p.quiet { "No note has all of these words." } }
        @for hit in &found.hits { (hit_card(hit)) }
        @if found.left_out > 0 {
            p.quiet { (counted(found.left_out, "older note is", "older notes are")) " not shown." }
        }
        @if !found.unreadable.is_empty() {
            p.warn {
                (counted(found.unreadable.len() as u64, "session", "sessions")) " could not be read and searched:"
                @for session in &found.unreadable { " " a href=(PageAddress::Session(*session).address()) { (session) } }
            }
        }
    }
}

fn hit_card(hit: &Hit) -> Markup {
    let address = match hit.run_id {
        Some(run) => RunPage { node: hit.node_id, ..RunPage::of(run) }.address(),
        None => PageAddress::Session(hit.session_id).address(),
    };
    html! {
        article.card data-item {
            header {
                h3 { a href=(address) { (hit.label.as_deref().unwrap_or("session notes")) } }
                @if let Some(step) = &hit.step { span.meta { "step " code { (clean(step)) } } }
                @if let Some(at) = &hit.at { (time(at)) }
            }
            p { (clean(&without_markup(&hit.excerpt))) }
        }
    }
}

/// An excerpt is a piece of Markdown cut at any position, so its marks are removed rather than rendered.
fn without_markup(excerpt: &str) -> String {
    let marks = |c: char| matches!(c, '*' | '`' | '|' | '#' | '>' | '_' | '…');
    let words = excerpt.split_whitespace().map(|word| word.trim_matches(marks));
    let is_mark = |word: &str| word.chars().all(|c| matches!(c, '-' | ':' | '|' | '='));
    let words = words.filter(|word| !is_mark(word)).collect::<Vec<_>>().join(" ");
    let cut = |is_cut: bool| if is_cut { "…" } else { "" };
    format!("{}{words}{}", cut(excerpt.starts_with('…')), cut(excerpt.ends_with('…')))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_excerpt_is_shown_without_markdown_marks() {
        let excerpt =
            "…## Plan 1. Raise the **retry budget** | region | |---|---| | eu-1 | `deploy --revert` a - b…";
        assert_eq!(
            without_markup(excerpt),
            "…Plan 1. Raise the retry budget region eu-1 deploy --revert a b…"
        );
        assert_eq!(without_markup("> quoted _words_ snake_case"), "quoted words snake_case");
    }
}
