//! The settings in effect, who set them, and what running servers do not know yet. Read only.

use maud::{Markup, html};
use workrail_model::config::{Applies, Key, Origin, Settings, differences};
use workrail_model::server::ServerRecord;
use workrail_model::text::clean;

use super::{Page, Part, ticked};
use crate::state::Console;
use crate::use_cases::Answer;

pub(super) fn page(console: &Console) -> Answer<Page> {
    let servers = console.use_cases.servers()?;
    let body = match console.environment.settings() {
        Ok(settings) => html! { (in_effect(&settings)) (restarts(&settings, &servers)) },
        Err(reason) => {
            html! { div.banner { strong { "The settings cannot be read." } " " (clean(&reason)) } }
        }
    };
    let data = html! {
        h2 { "Data" }
        dl.facts {
            dt { "Data directory" } dd { code { (clean(&console.environment.data_dir())) } }
            dt { "Version" } dd { (console.environment.version()) }
        }
        p {
            code { "workrail doctor" } " checks the whole installation; " code { "workrail store gc --dry-run" }
            " shows what clean-up would remove."
        }
    };
    Ok(Page {
        title: "Settings".to_owned(),
        parts: vec![Part::new("settings", body), Part::new("data", data)],
    })
}

fn in_effect(settings: &Settings) -> Markup {
    html! {
        p.quiet { "Change a setting with " code { "workrail config set NAME VALUE" } "." }
        div.scroll tabindex="0" {
            table {
                thead { tr { th { "Setting" } th { "Value" } th { "Set by" } th { "Takes effect" } } }
                tbody {
                    @for key in Key::ALL {
                        @let setting = settings.get(*key);
                        tr data-item {
                            td { code { (key.as_str()) } div.meta { (ticked(key.what())) } }
                            td { (clean(&setting.map_or_else(|| "(chosen automatically)".to_owned(), |own| own.value.to_string()))) }
                            td { (setting.map(|own| origin(own.origin)).unwrap_or("not set")) }
                            td { (applies(key.applies())) }
                        }
                    }
                }
            }
        }
    }
}

fn origin(origin: Origin) -> &'static str {
    match origin {
        Origin::Default => "default",
        Origin::File => "the settings file",
        Origin::Environment => "the environment",
    }
}

fn applies(applies: Applies) -> &'static str {
    match applies {
        Applies::Live => "with the next call",
        Applies::AtRestart(_) => "when the server restarts",
    }
}

fn restarts(settings: &Settings, servers: &[ServerRecord]) -> Markup {
    html! {
        @for server in servers {
            @let waiting: Vec<_> =
                differences(settings, &server.settings).into_iter().filter(|own| own.restart.is_some()).collect();
            @if !waiting.is_empty() {
                div.banner.remark {
                    strong { "Server " (server.process_id) " needs a restart." } " It does not know yet: "
                    @for (place, own) in waiting.iter().enumerate() {
                        @if place > 0 { ", " } code { (own.key.as_str()) }
                    }
                }
            }
        }
    }
}
