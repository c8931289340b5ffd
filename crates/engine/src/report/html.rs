//! A report as one HTML file: no script, nothing loaded, readable on screen and on paper, in light and dark.
//!
//! The report decides what is shown and what it is called; here it gets elements and classes. Only notes contain
//! untrusted markup, which `notes.rs` makes harmless.

use maud::{Markup, PreEscaped, html};
use workrail_core::report::sections::{self, Fact};
use workrail_core::report::words;
use workrail_core::report::{
    ArtifactView, Attempt, Body, BranchPosition, NodeReport, Report, ReportedOutput, RunReport, StepReport,
    Times, branch_letter, shown,
};
use workrail_model::event::NodeKind;
use workrail_model::id::AttemptId;
use workrail_model::text::clean;

use super::{notes, svg};
use crate::html::{PageLinks, badges, banner, chip, code, facts, page, spans, table, toned};

pub fn render(report: &Report) -> String {
    let addresses = report.runs.iter().map(|run| (run.run_id, format!("#{}", run.run_id)));
    let links = PageLinks { runs: addresses.collect(), ..PageLinks::default() };
    let body = html! {
        @for item in report.banners() { (banner(&item)) }
        @for (index, own) in report.runs.iter().enumerate() { (run(own, index == 0, &links)) }
        @if !report.notes.is_empty() {
            h2 { (sections::SESSION_NOTES) }
            @for note in &report.notes { (output(note, &links)) }
        }
        h2 { (sections::ABOUT) }
        (facts(&report.facts(Times::UTC), &links))
        footer { "Made by WorkRail from its event log; times are shown as they were recorded, in UTC." }
    };
    page(&words::title(report), &body).into_string()
}

fn run(run: &RunReport, is_first: bool, links: &PageLinks) -> Markup {
    let addresses = run.nodes.iter().map(|node| (node.point.clone(), format!("#{}", node.node_id)));
    let links = &PageLinks { points: addresses.collect(), ..links.clone() };
    let own = run.facts(Times::UTC);
    html! {
        h2 class=[is_first.then_some("first")] id=(run.run_id) {
            "Run " (clean(&run.label)) (badges(&own, links))
        }
        @if let Some((node, notes)) = run.outcome() {
            h3 { (sections::OUTCOME) }
            p.meta { (clean(&words::point(node))) }
            (output(notes, links))
        }
        (facts(&own, links))
        h3 { (sections::GRAPH) }
        div.scroll { (svg::draw(&run.nodes, &|node| format!("#{node}"))) }
        @for section in run.sections(Times::UTC) {
            h3 { (clean(&section.title)) }
            (table(&section, links))
        }
        h3 { (sections::STEPS) }
        @for item in &run.nodes { (node(item, links, None)) }
    }
}

/// A point with everything recorded there; the page already shows the content of the attempt `elsewhere`.
pub fn node(node: &NodeReport, links: &PageLinks, elsewhere: Option<AttemptId>) -> Markup {
    let is_indented = node.branch != 0 || node.kind == NodeKind::Checkpoint;
    html! {
        section.node.tip[node.branch_position == BranchPosition::Tip].indented[is_indented] id=(node.node_id) {
            header {
                span.no { (node.point) }
                h4 { (clean(&words::point(node))) }
                @if let Some((tone, text)) = words::branch_position(node) { (chip(tone, text)) }
            }
            (meta(node))
            (keys(sections::CONTEXT_SET, &node.context_keys, links))
            @for approval in &node.approvals {
                p class=(if approval.approved { "good" } else { "bad" }) { (clean(&words::approval(approval, Times::UTC))) }
            }
            @for item in &node.attempts { (attempt(item, links, elsewhere == Some(item.attempt_id))) }
            @if !node.saved.is_empty() {
                div.attempt {
                    p.head { (sections::SAVED) }
                    @for saved in &node.saved { (output(saved, links)) }
                }
            }
            @if !node.decisions.is_empty() {
                div.attempt {
                    p.head.quiet { (sections::DECISIONS) }
                    ul.plain.quiet { @for decision in &node.decisions { li { (spans(&sections::ticked(&decision.summary), links)) } } }
                }
            }
        }
    }
}

/// A point's origin, on one line.
fn meta(node: &NodeReport) -> Markup {
    html! {
        p.meta {
            @if let StepReport::Pending { step_id, .. } = &node.step { "step " (code(step_id.as_str())) " · " }
            @if let Some(cause) = node.reached_by { (words::cause(cause)) " · " }
            @if let Some(at) = &node.at { "reached " (shown(at)) " · " }
            @if node.branch != 0 { "branch " (branch_letter(node.branch)) " · " }
            (code(&node.link))
        }
    }
}

fn keys(name: &str, keys: &[String], links: &PageLinks) -> Markup {
    html! { @if !keys.is_empty() { p.meta { (name) ": " (spans(&sections::keys(keys), links)) } } }
}

fn attempt(attempt: &Attempt, links: &PageLinks, is_elsewhere: bool) -> Markup {
    let head = attempt.head(Times::UTC);
    let findings = attempt.findings();
    html! {
        div.attempt {
            p.head { (toned(head.tone, head.ending)) (spans(&head.rest, links)) }
            @if !findings.is_empty() {
                ul.plain { @for finding in &findings { li { (spans(finding, links)) } } }
            }
            (keys(sections::CONTEXT_SENT, &attempt.context_keys, links))
            @if is_elsewhere { p.quiet { "What was submitted is shown above, with the decision." } }
            @else { @for item in &attempt.outputs { (output(item, links)) } }
        }
    }
}

pub fn output(output: &ReportedOutput, links: &PageLinks) -> Markup {
    html! {
        p.meta { (spans(&output.caption(), links)) }
        @match &output.body {
            Body::Notes { markdown } => {
                div.notes.superseded[output.superseded] { (PreEscaped(notes::render(markdown))) }
            }
            Body::Artifact { artifact: own } => {
                div.artifact.superseded[output.superseded] { (shown_as(&own.shown, links)) }
            }
        }
    }
}

/// Notes as structured text with nothing active.
pub fn notes_of(markdown: &str) -> Markup {
    html! { div.notes { (PreEscaped(notes::render(markdown))) } }
}

/// An artifact's content: as tables if its contract has rows, else verbatim.
pub fn shown_as(shown: &ArtifactView, links: &PageLinks) -> Markup {
    html! {
        @match shown {
            ArtifactView::Tables { tables, fields } => {
                @if !fields.is_empty() { (facts(&fields.iter().map(Fact::from).collect::<Vec<_>>(), links)) }
                @for item in tables {
                    h5 { (clean(&item.title)) }
                    (table(&item.into(), links))
                }
            }
            ArtifactView::Json { value } => pre { (clean(&words::json(value))) },
            ArtifactView::Text { text } => pre { (clean(text)) },
            ArtifactView::Unreadable => p.warn { (sections::UNREADABLE_CONTENT) },
        }
    }
}
