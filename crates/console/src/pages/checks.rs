//! The checks of this workspace: what each command is, which are trusted, and forms that change it (G121).

use maud::{Markup, html};
use workrail_model::text::clean;

use super::attention::signing;
use super::layout::token;
use super::ticked;
use crate::administration::{ChecksInfo, OfferedCheck};
use crate::changes::SHOWN_CHECKS;
use crate::state::Console;

pub(super) fn body(console: &Console, found: &ChecksInfo) -> Markup {
    let has_new = found.offered.iter().any(|offer| !offer.is_trusted);
    html! {
        p {
            "Commands that WorkRail runs when an agent submits a step that names them. They come from "
            code { ".workrail/checks.toml" } " of " code { (clean(&found.workspace)) }
            ". For another workspace, start the console there."
        }
        @if found.offered.is_empty() { p.quiet { "No workflow that can be started here names a check that can run." } }
        @for offer in &found.offered { (offered(console, offer)) }
        @for (workflow, check, why) in &found.not_offered {
            p.warn { code { (clean(workflow)) } " also names " code { (clean(check)) } ", which would not run: " (clean(why)) "." }
        }
        @if has_new { (trust(console, found)) }
        @if !found.others.is_empty() { (others(console, found)) }
        p.meta {
            (ticked("If a run's workflow changed since it started, trust its checks at a terminal, with `workrail trust --run LABEL`. "))
            "What you trust is kept in " code { (clean(&found.file)) } "."
        }
    }
}

fn offered(console: &Console, check: &OfferedCheck) -> Markup {
    html! {
        article.card data-item {
            header {
                h3 { (clean(&check.check)) }
                @if check.is_trusted { span.chip.good { "trusted" } } @else { span.chip.warn { "not trusted" } }
                span.meta { (clean(&check.workflow)) " " code { (short(&check.workflow_hash)) } }
            }
            pre { code { (clean(&check.command)) } }
            p.meta { "Program " code { (clean(&check.program)) } " in " code { (clean(&check.folder)) } }
            @if check.is_trusted { div.actions { (revoke(console, &check.check)) } }
        }
    }
}

/// Runs that started with another version of a workflow still use these.
fn others(console: &Console, found: &ChecksInfo) -> Markup {
    html! {
        h2 { "Also trusted here" }
        p { "For other versions of a workflow, or with another command. Runs that are pinned to them run these." }
        @for (workflow, check, command) in &found.others {
            article.card data-item {
                header { h3 { (clean(check)) } span.chip.good { "trusted" } span.meta { (clean(workflow)) } }
                pre { code { (clean(command)) } }
                div.actions { (revoke(console, check)) }
            }
        }
    }
}

fn revoke(console: &Console, check: &str) -> Markup {
    html! {
        form.inline method="post" action="/settings/checks/revoke" {
            (token(console.form_token()))
            input type="hidden" name="check" value=(check);
            button type="submit" aria-label={ "Revoke trust in " (clean(check)) " for every workflow" } {
                "Revoke for every workflow"
            }
        }
    }
}

/// Enough of a hash to tell two versions apart.
fn short(hash: &str) -> String {
    hash.chars().take("sha256:".len() + 12).collect()
}

fn trust(console: &Console, found: &ChecksInfo) -> Markup {
    let signs = signing(console);
    html! {
        h2 { "Trust these commands" }
        p {
            "WorkRail runs exactly these commands, as you and without asking again. If a workflow, a command, its program or \
             its folder changes, you are asked again. An agent can change the code that they run."
        }
        @if signs.is_some() {
            form.filters method="post" action="/settings/checks/trust" data-passkey=[signs] {
                (token(console.form_token()))
                input type="hidden" name=(SHOWN_CHECKS) value=(found.digest);
                button.primary type="submit" { "Trust with a passkey" }
            }
        } @else {
            p.warn {
                "Trusting here needs a passkey, and none is enrolled. "
                a href="/settings/passkeys" { "Enrol one" }
                (ticked(", or run `workrail trust` in the workspace at a terminal."))
            }
        }
    }
}
