//! One run: what it needs, its graph, and the point that is looked at with everything recorded there.

use maud::{Markup, html};
use workrail_engine::html::{Links, badges, banner, facts, table};
use workrail_engine::report::{NodeReport, Report, RunReport, draw_graph, render_node};
use workrail_engine::sessions::RunContinuation;
use workrail_model::id::{NodeId, RunId, SessionId};
use workrail_model::reply::NextCall;
use workrail_model::text::clean;

use super::attention::needs;
use super::{Page, Part, copyable};
use crate::files::downloads;
use crate::forms::From;
use crate::state::Console;
use crate::target::{Target, run_address};
use crate::use_cases::Answer;

pub(super) fn page(console: &Console, run: RunId, node: Option<NodeId>) -> Answer<Page> {
    let found = console.use_cases.find(&run.to_string())?;
    let view = console.use_cases.show(found)?;
    let session = found.session;
    let Some(own) = view.report.runs.iter().find(|own| own.run_id == run) else {
        return Ok(Page { title: "Run".to_owned(), parts: vec![Part::new("run", nothing(session))] });
    };
    let links = links(&view.report, own);
    let chosen = node.or(own.tip);
    let shown = own.nodes.iter().find(|node| Some(node.node_id) == chosen);
    let continuation = view.going_on.iter().find(|continuation| continuation.run_id == run);
    let address = |node: NodeId| format!("{}#node", Target::Run { run, node: Some(node) }.address());
    let mut parts = vec![
        Part::new("run", head(console, &view.report, own, &links)),
        Part::new(
            "graph",
            html! {
                h2 { "Path" }
                div.scroll { (draw_graph(&own.nodes, &address, chosen)) }
            },
        ),
    ];
    if let Some(shown) = shown {
        parts.push(Part::new("node", point(console, session, shown, &links)));
    }
    parts.push(Part::new("tables", tables(own, &links)));
    if let Some(continuation) = continuation {
        parts.push(Part::new("continue", going_on(continuation)));
    }
    let goal = own.goal.as_deref().map(|goal| format!(": {goal}")).unwrap_or_default();
    Ok(Page { title: format!("{}{goal}", own.label), parts })
}

fn nothing(session: SessionId) -> Markup {
    html! {
        p { "The part of the session that can be read does not have this run." }
        p { a href=(Target::Session(session).address()) { "Open the session" } }
    }
}

fn links(report: &Report, run: &RunReport) -> Links {
    let point = |node: &NodeReport| {
        let target = Target::Run { run: run.run_id, node: Some(node.node_id) };
        (node.point.clone(), format!("{}#node", target.address()))
    };
    let mut runs: std::collections::BTreeMap<RunId, String> =
        report.runs.iter().map(|own| (own.run_id, run_address(own.run_id))).collect();
    // A run alone does not list the one that it was started in.
    runs.extend(run.parent.iter().map(|parent| (parent.run_id, run_address(parent.run_id))));
    Links { points: run.nodes.iter().map(point).collect(), runs }
}

fn head(console: &Console, report: &Report, run: &RunReport, links: &Links) -> Markup {
    let own = run.facts();
    // A damaged session has no step that waits.
    let attention = match report.health.is_healthy() {
        true => console.use_cases.attention(report.session_id, run.run_id).ok().flatten(),
        false => None,
    };
    html! {
        @for own in report.banners() { (banner(&own)) }
        p { (badges(&own, links)) }
        @if let Some(attention) = &attention {
            article.card { (needs(console, run.run_id, attention, From::Run)) }
        }
        (facts(&own, links))
        p {
            a href=(Target::Session(report.session_id).address()) { "Session" }
            " · " (downloads(report.session_id, Some(run.run_id)))
        }
    }
}

fn point(console: &Console, session: SessionId, node: &NodeReport, links: &Links) -> Markup {
    let text = console.use_cases.step_text(session, node.node_id);
    html! {
        h2 { "Point " (node.point) }
        @match text {
            Ok(Some(text)) => {
                details data-key="prompt" {
                    summary { "Prompt as the agent gets it" }
                    pre { (clean(&text)) }
                }
            }
            Ok(None) => {}
            Err(error) => p.warn { (clean(&error.message)) },
        }
        (render_node(node, links))
    }
}

fn tables(run: &RunReport, links: &Links) -> Markup {
    html! {
        @for section in run.sections() {
            h2 { (clean(&section.title)) }
            (table(&section, links))
        }
    }
}

fn going_on(continuation: &RunContinuation) -> Markup {
    html! {
        @if let Some(call) = &continuation.next_call {
            h2 { "Continue from here" }
            p { "Give an agent this call. It returns the pending step and changes nothing by itself." }
            (copyable(&call_text(call)))
        }
        @if let Some(pending) = &continuation.pending_preferences {
            p { "Pending: " (pending.autonomy.as_str()) ", applied when the next step is completed." }
        }
    }
}

fn call_text(call: &NextCall) -> String {
    let arguments = serde_json::to_string_pretty(&call.arguments).unwrap_or_default();
    format!("{} {arguments}", call.tool)
}
