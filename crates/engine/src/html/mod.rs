//! Parts of HTML pages, used by reports and by the console.
//!
//! Markup is written with maud, which escapes every value. Untrusted texts also pass [`clean`], which replaces
//! characters that would reorder a line or hide in it. A page loads nothing and runs nothing.

use std::collections::BTreeMap;

use maud::{DOCTYPE, Markup, PreEscaped, html};
use workrail_core::compare::Difference;
use workrail_core::overview::Stage;
use workrail_core::report::PointName;
use workrail_core::report::sections::{Banner, Fact, FactRole, ReportSection, SpanTone, TextSpan};
use workrail_model::id::RunId;
use workrail_model::text::clean;

use crate::report::notes;

/// The style sheet of reports and of everything built from these parts.
pub const STYLE: &str = include_str!("style.css");
/// Nothing is loaded and nothing runs, whatever a browser finds on the page.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'";

/// Addresses to link to. What is not listed is shown as text.
#[derive(Clone, Debug, Default)]
pub struct PageLinks {
    /// Points of the shown run, by name.
    pub points: BTreeMap<PointName, String>,
    pub runs: BTreeMap<RunId, String>,
}

/// A whole page under a title.
pub(crate) fn page(title: &str, body: &Markup) -> Markup {
    let title = clean(title);
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="Content-Security-Policy" content=(POLICY);
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="referrer" content="no-referrer";
                title { (title) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                main {
                    h1 { (title) }
                    (body)
                }
            }
        }
    }
}

/// The class that gives a tone its colour.
pub(crate) fn class_of(tone: SpanTone) -> &'static str {
    match tone {
        SpanTone::Good => "good",
        SpanTone::Warning => "warn",
        SpanTone::Bad => "bad",
        SpanTone::Quiet => "quiet",
        SpanTone::Current => "here",
    }
}

pub(crate) fn toned(tone: SpanTone, text: &str) -> Markup {
    html! { span class=(class_of(tone)) { (clean(text)) } }
}

pub fn chip(tone: SpanTone, text: &str) -> Markup {
    html! { span class={ "chip " (class_of(tone)) } { (clean(text)) } }
}

/// A run's stage, by word and colour.
pub fn chip_of(stage: Stage) -> Markup {
    let tone = match stage {
        Stage::WaitsForPerson | Stage::Blocked | Stage::Unreadable => SpanTone::Bad,
        Stage::InProgress | Stage::NotesOnly | Stage::Closed => SpanTone::Quiet,
        Stage::CompleteWithGaps => SpanTone::Warning,
        Stage::Complete => SpanTone::Good,
    };
    chip(tone, stage.label())
}

/// The class that gives the difference between two sides its colour.
pub fn class_of_difference(difference: Difference) -> &'static str {
    match difference {
        Difference::Shared | Difference::Same => "quiet",
        Difference::Differs => "warn",
        Difference::OnlyA => "bad",
        Difference::OnlyB => "good",
    }
}

/// How a logged call ended: `ok`, `blocked`, or the error's code.
pub fn toned_outcome(outcome: &str) -> Markup {
    let tone = match outcome {
        "ok" => SpanTone::Good,
        "blocked" => SpanTone::Warning,
        _ => SpanTone::Bad,
    };
    toned(tone, outcome)
}

pub fn code(name: &str) -> Markup {
    html! { code { (clean(name)) } }
}

pub(crate) fn spans(spans: &[TextSpan], links: &PageLinks) -> Markup {
    html! { @for span in spans { (self::span(span, links)) } }
}

fn span(span: &TextSpan, links: &PageLinks) -> Markup {
    match span {
        TextSpan::Text(text) => html! { (clean(text)) },
        TextSpan::Strong(text) => html! { strong { (clean(text)) } },
        TextSpan::Toned(tone, text) => toned(*tone, text),
        TextSpan::Code(name) => code(name),
        TextSpan::Point(point) => linked(links.points.get(point), &point.to_string()),
        TextSpan::Run { label, run_id } => linked(links.runs.get(run_id), label),
    }
}

fn linked(address: Option<&String>, text: &str) -> Markup {
    html! {
        @match address {
            Some(address) => a href=(address) { (clean(text)) },
            None => (clean(text)),
        }
    }
}

pub fn banner(banner: &Banner) -> Markup {
    html! {
        div.banner.remark[banner.tone != SpanTone::Bad] {
            strong { (banner.name) } " " (clean(&banner.text))
        }
    }
}

/// Names and values in two columns, omitting names without a value; badges belong next to the heading
/// ([`badges`]).
pub fn facts(facts: &[Fact], links: &PageLinks) -> Markup {
    html! {
        dl.facts {
            @for fact in facts.iter().filter(|fact| fact.role == FactRole::Line && !fact.value.is_empty()) {
                dt { (clean(&fact.name)) } dd { (spans(&fact.value, links)) }
            }
        }
    }
}

pub fn badges(facts: &[Fact], links: &PageLinks) -> Markup {
    html! {
        @for fact in facts {
            @if let FactRole::Badge(tone) = fact.role {
                " " span class={ "chip " (class_of(tone)) } { (spans(&fact.value, links)) }
            }
        }
    }
}

/// A cell: Markdown by the agent or a person is rendered and, like notes, made inert.
fn cell_of(cell: &[TextSpan], links: &PageLinks) -> Markup {
    match cell {
        [TextSpan::Text(text)] if is_markdown(text) => {
            html! { div.cell { (PreEscaped(notes::render(text))) } }
        }
        cell => spans(cell, links),
    }
}

/// Whether a text contains Markdown markup.
fn is_markdown(text: &str) -> bool {
    let has_pair = |sign: &str| text.matches(sign).count() > 1;
    has_pair("`")
        || has_pair("**")
        || text.contains("](")
        || text.lines().any(|line| line.trim_start().starts_with("- "))
}

/// The rows of a section; the caller adds its title, because it knows the heading level.
pub fn table(section: &ReportSection, links: &PageLinks) -> Markup {
    html! {
        div.scroll {
            table.stacks {
                thead { tr { @for column in &section.columns { th { (clean(column)) } } } }
                tbody {
                    @for row in &section.rows {
                        tr {
                            @for (cell, column) in row.iter().zip(&section.columns) {
                                // On a narrow screen the column name is shown next to its value.
                                td data-column=(clean(column)) { (cell_of(cell, links)) }
                            }
                        }
                    }
                }
            }
        }
    }
}
