//! Running servers and the calls they answered. A log holds no content (G83).

use maud::{Markup, html};
use workrail_engine::html::toned_outcome;
use workrail_model::server::{LoggedCall, ServerRecord, Transport};
use workrail_model::text::clean;

use super::{Page, Part, time};
use crate::state::Console;
use crate::use_cases::Answer;

const CALLS_MAX: usize = 200;

pub(super) fn page(console: &Console) -> Answer<Page> {
    let servers = console.use_cases.servers()?;
    let calls = console.use_cases.calls(CALLS_MAX)?;
    let parts = vec![Part::new("servers", running(&servers)), Part::new("calls", answered(&calls))];
    Ok(Page { title: "Logs".to_owned(), parts })
}

fn running(servers: &[ServerRecord]) -> Markup {
    html! {
        h2 { "Running servers " span.count { (servers.len()) } }
        @if servers.is_empty() { p.quiet { "No server runs. Clients start one when they need it." } }
        @else {
            div.scroll tabindex="0" {
                table {
                    thead { tr { th { "Process" } th { "Transport" } th { "Version" } th { "Started" } th { "Settings" } } }
                    tbody {
                        @for server in servers {
                            tr data-item {
                                td { (server.process_id) }
                                td { (transport(server.transport)) }
                                td { (clean(&server.version)) }
                                td { (time(&server.started_at)) }
                                td { code { (&server.applied_config_hash.hex()[..12]) } }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn transport(transport: Transport) -> &'static str {
    match transport {
        Transport::Stdio => "stdio",
        Transport::Http => "http",
    }
}

fn answered(calls: &[LoggedCall]) -> Markup {
    html! {
        h2 { "Calls" }
        @if calls.is_empty() { p.quiet { "No calls yet." } }
        @else {
            div.scroll tabindex="0" {
                table {
                    thead { tr { th { "Time" } th { "Tool" } th { "Outcome" } th { "Duration" } th { "Run" } } }
                    tbody {
                        @for call in calls {
                            tr {
                                td { (time(&call.at)) }
                                td { code { (call.tool.as_str()) } }
                                td { (toned_outcome(&call.outcome)) }
                                td { (duration(call.duration_us)) }
                                td { (clean(call.run.as_deref().unwrap_or_default())) }
                            }
                        }
                    }
                }
            }
            p.quiet { "The newest calls of each server. What was said in them is not logged." }
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
