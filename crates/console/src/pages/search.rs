//! The notes of all sessions that hold some words.

use maud::html;
use workrail_model::text::clean;

use super::{Page, Part, time};
use crate::state::Console;
use crate::target::Target;
use crate::use_cases::Answer;

const HITS_MAX: usize = 50;

pub(super) fn page(console: &Console, words: &str) -> Answer<Page> {
    let form = html! {
        form.filters method="get" action="/search" role="search" {
            label { span.hidden { "Words" }
                input type="search" name="q" value=(words) placeholder="Words that a note has" data-search;
            }
            button type="submit" { "Search" }
        }
    };
    let mut parts = vec![Part::new("words", form)];
    if !words.is_empty() {
        let found = console.use_cases.search(words, HITS_MAX)?;
        let body = html! {
            h2 { "Notes " span.count { (found.hits.len() as u64 + found.left_out) } }
            @if found.hits.is_empty() { p.quiet { "No note has all of these words." } }
            @for hit in &found.hits {
                article.card data-item {
                    header {
                        h3 {
                            @match hit.run_id {
                                Some(run) => a href=(Target::Run { run, node: hit.node_id }.address()) {
                                    (hit.label.as_deref().unwrap_or("run"))
                                },
                                None => a href=(Target::Session(hit.session_id).address()) { "session notes" },
                            }
                        }
                        @if let Some(at) = &hit.at { (time(at)) }
                    }
                    p { (clean(&hit.excerpt)) }
                }
            }
            @if found.left_out > 0 { p.quiet { (found.left_out) " older notes are not shown." } }
            @if found.unreadable > 0 { p.warn { (found.unreadable) " sessions cannot be read and were not searched." } }
        };
        parts.push(Part::new("hits", body));
    }
    Ok(Page { title: "Search notes".to_owned(), parts })
}
