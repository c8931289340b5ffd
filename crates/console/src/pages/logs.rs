//! Running servers and the calls they answered. A log contains no content (G83).

use maud::{Markup, html};
use workrail_engine::html::toned_outcome;
use workrail_model::server::{LoggedCall, ServerRecord, Transport};
use workrail_model::text::clean;

use super::{Page, PagePart, table, time};
use crate::state::Console;
use crate::target::Filters;
use crate::use_cases::EngineResult;

const CALLS_MAX: usize = 200;

pub(super) fn page(console: &Console) -> EngineResult<Page> {
    let servers = console.use_cases.servers()?;
    let calls = console.use_cases.calls(CALLS_MAX)?;
    let parts = vec![PagePart::new("servers", running(&servers)), PagePart::new("calls", answered(&calls))];
    Ok(Page { title: "Logs".to_owned(), parts })
}

fn running(servers: &[ServerRecord]) -> Markup {
    let row = |server: &ServerRecord| {
        vec![
            html! { (server.process_id) },
            html! { (transport(server.transport)) },
            html! { (clean(&server.version)) },
            time(&server.started_at),
        ]
    };
    html! {
        h2 { "Running servers " span.count { (servers.len()) } }
        @if servers.is_empty() { p.quiet { "No server is running. Clients start one when they need it." } }
        @else { (table(&["Process", "Transport", "Version", "Started"], servers.iter().map(row))) }
    }
}

fn transport(transport: Transport) -> &'static str {
    match transport {
        Transport::Stdio => "stdio",
        Transport::Http => "http",
    }
}

fn answered(calls: &[LoggedCall]) -> Markup {
    let row = |call: &LoggedCall| {
        vec![
            time(&call.at),
            html! { code { (call.tool.as_str()) } },
            toned_outcome(&call.outcome),
            html! { (duration(call.duration_us)) },
            html! {
                @if let Some(run) = call.run.as_deref() { a href=(Filters { words: run.to_owned(), ..Filters::default() }.address()) { (clean(run)) } }
            },
        ]
    };
    html! {
        h2 { "Calls" }
        @if calls.is_empty() { p.quiet { "No calls yet." } }
        @else {
            (table(&["Time", "Tool", "Outcome", "Duration", "Run"], calls.iter().map(row)))
            p.quiet { "The newest calls of each server. Their content is not logged." }
        }
    }
}

fn duration(us: u64) -> String {
    match us {
        0..1_000 => format!("{us} µs"),
        1_000..1_000_000 => format!("{} ms", us / 1_000),
        _ => format!("{}.{} s", us / 1_000_000, us / 100_000 % 10),
    }
}
