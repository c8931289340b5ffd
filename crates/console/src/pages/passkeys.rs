//! The passkeys of the store: which are enrolled, why each was trusted, and forms that change them (G98).

use maud::{Markup, html};
use workrail_engine::passkeys::{Enrolment, KeyEnd, Passkeys, Trust, fingerprint};
use workrail_model::team::Act;
use workrail_model::text::clean;

use super::layout::token;
use super::{counted, table, ticked, time};
use crate::state::Console;
use crate::use_cases::EngineResult;

pub(super) fn body(console: &Console) -> EngineResult<Markup> {
    Ok(match console.use_cases.passkeys()? {
        Ok(keys) => shown(console, &keys),
        Err(damage) => html! {
            div.banner {
                strong { "The passkey log is damaged. " }
                (ticked(&format!("Damage: {damage}. No passkey is accepted until the log is restored from a backup: move the damaged file \
                                   (`keys/passkeys.jsonl` or `keys/passkeys.head`) out of the data directory, then run \
                                   `workrail store restore BACKUP`; restore a database with `pg_restore`. Without a backup, run \
                                   `workrail store passkeys reset`: it revokes all passkeys and sets the damaged log aside.")))
            }
        },
    })
}

fn shown(console: &Console, keys: &Passkeys) -> Markup {
    html! {
        p {
            "A passkey proves that a person decided: an agent with a shell can type a label, but not give a fingerprint. It \
             signs exactly what is decided, and the record keeps the signature."
        }
        @for at in keys.resets() {
            div.banner { strong { "All passkeys were reset" } " at a terminal, " (time(at)) ". This stays visible." }
        }
        @for enrolment in keys.enrolled() { (enrolled(console, enrolment)) }
        @if !keys.has_any_of(console.passkey_owner()) { p.quiet { @if console.is_of_team() { "You have no passkey enrolled." } @else { "No passkey is enrolled." } } }
        @if console.may(Act::Decide) {
            h2 { @if keys.has_any_of(console.passkey_owner()) { "Enrol another passkey" } @else { "Enrol a passkey" } }
            (enrol(console, keys))
        } @else { p.quiet { "Passkeys are for those who decide: approvers and admins." } }
        (ended(keys))
        p.meta {
            (ticked("All passkeys lost? Run `workrail store passkeys reset` at a terminal to revoke them. The reset \
                     stays in the log and in every later decision."))
        }
    }
}

fn enrolled(console: &Console, enrolment: &Enrolment) -> Markup {
    html! {
        article.card data-item {
            header {
                h3 { @if let Some(owner) = &enrolment.owner { (clean(owner.as_str())) ": " } (clean(enrolment.name.as_str())) }
                span.chip.good { "enrolled" }
                span.meta { (time(&enrolment.at)) ", " (trust(enrolment.trust)) }
            }
            p.meta { "Key " code { (fingerprint(&enrolment.public_key)) } }
            @if enrolment.owner.as_ref() == console.passkey_owner() { div.actions {
                form.inline method="post" action="/settings/passkeys/remove" data-passkey="sign" {
                    (token(console.form_token()))
                    input type="hidden" name="credential" value=(enrolment.credential);
                    button type="submit" aria-label={ "Remove " (clean(enrolment.name.as_str())) } { "Remove" }
                }
            } }
        }
    }
}

fn enrol(console: &Console, keys: &Passkeys) -> Markup {
    html! {
        form.filters method="post" action="/settings/passkeys/enrol" data-passkey="new" {
            (token(console.form_token()))
            label { span { "Name" } input type="text" name="name" required maxlength="60" placeholder="Laptop, fingerprint"; }
            @if keys.has_any_of(console.passkey_owner()) {
                label {
                    span { "In place of" }
                    select name="replaces" {
                        option value="" { "none: add it" }
                        @for enrolment in keys.enrolled_by(console.passkey_owner()) {
                            option value=(enrolment.credential) { (clean(enrolment.name.as_str())) }
                        }
                    }
                }
            }
            button.primary type="submit" { "Enrol" }
        }
        p.meta {
            @if keys.has_any_of(console.passkey_owner()) {
                "Your browser asks twice: for the new passkey, and for an enrolled one to confirm it."
            } @else {
                "The first passkey is trusted because no other passkey can confirm it. "
                @if console.is_of_team() { "Enrol it before the team begins to rely on approvals." }
                @else { "Enrol it before you let an agent use this machine." }
            }
            " Passkeys need JavaScript and the address " code { (console.origin()) } "."
        }
    }
}

fn ended(keys: &Passkeys) -> Markup {
    let before: Vec<&Enrolment> = keys.all().iter().filter(|enrolment| enrolment.ended.is_some()).collect();
    let row = |enrolment: &&Enrolment| {
        let how = match enrolment.ended {
            Some(KeyEnd::Removed) => "removed",
            Some(KeyEnd::Replaced) => "replaced",
            Some(KeyEnd::Reset) => "reset at a terminal",
            None => "enrolled",
        };
        vec![
            html! { (clean(enrolment.name.as_str())) },
            html! { code { (fingerprint(&enrolment.public_key)) } },
            html! { (time(&enrolment.at)) ", " (trust(enrolment.trust)) },
            html! { (how) },
        ]
    };
    html! {
        @if !before.is_empty() {
            h2 { "No longer accepted " span.count { (counted(before.len() as u64, "key", "keys")) } }
            (table(&["Name", "Key", "Enrolled", "Now"], before.iter().map(row)))
        }
    }
}

fn trust(trust: Trust) -> &'static str {
    match trust {
        Trust::FirstUse => "trusted as the first one",
        Trust::AfterRemoval => "trusted as the first one after the last was removed",
        Trust::AfterReset => "trusted as the first one after a reset",
        Trust::Agreed => "confirmed by an enrolled passkey",
    }
}
