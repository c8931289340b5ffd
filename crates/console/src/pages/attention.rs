//! What a run needs, in full, with the action next to it.

use maud::{Markup, html};
use workrail_engine::html::PageLinks;
use workrail_engine::passkeys::AskedProof;
use workrail_engine::report::{ArtifactView, render_artifact, render_notes};
use workrail_engine::sessions::Attention;
use workrail_engine::{Question, WaitingStep};
use workrail_model::blocker::Blocker;
use workrail_model::compiled::AcceptedValues;
use workrail_model::id::RunId;
use workrail_model::team::Act;
use workrail_model::text::{clean, truncate_with_marker};

use super::layout::token;
use super::ticked;
use crate::forms::ANSWER_PREFIX;
use crate::state::Console;
use crate::target::{SettingsPage, run_address};

/// How much is shown of the notes, of each artifact and of each context value; the end says if there is more.
const SHOWN_BYTES_MAX: usize = 64 * 1024;

/// A submission that can only be decided here is shown in full, however long it is.
fn shown_bytes_max(waiting: &WaitingStep) -> usize {
    match waiting.proof {
        AskedProof::Any => SHOWN_BYTES_MAX,
        AskedProof::Passkey | AskedProof::PasskeyToEnrol => usize::MAX,
    }
}

pub(super) fn needs(console: &Console, run: RunId, attention: &Attention, from: &str) -> Markup {
    match attention {
        Attention::Person(waiting) => person(console, run, waiting, from),
        Attention::Agent { step, blockers } => agent(console, run, step, blockers),
    }
}

fn person(console: &Console, run: RunId, waiting: &WaitingStep, from: &str) -> Markup {
    let asks_approval = waiting.questions.is_empty() && waiting.asks_approval;
    html! {
        p.step {
            strong { (clean(&waiting.title)) }
            @if asks_approval { " waits for your approval. The agent submitted:" } @else { " asks you. The agent submitted:" }
        }
        (submitted(console, run, waiting))
        @if let Some(who) = console.member().filter(|_| !console.may(Act::Decide)) {
            p.quiet { "Your role (" (who.role.as_str()) ") cannot decide. This waits for an approver or an admin." }
        } @else if asks_approval {
            @if waiting.proof == AskedProof::PasskeyToEnrol { (enrol_first(console)) }
            @else if waiting.proof == AskedProof::Passkey && signing(console).is_none() { (no_own_key(console)) }
            @else if let Some(reason) = refused_origin(console) {
                p.warn { "You cannot decide here: " (ticked(&reason)) }
            } @else if is_shown_whole(waiting) { (decision(console, run, waiting, from)) }
            @else {
                p.warn {
                    "What was submitted is too long to be shown here in full. Decide at a terminal: "
                    code { "workrail approve " (waiting.label) }
                }
            }
        } @else {
            (questions(console, run, waiting, from))
        }
    }
}

/// Why nothing can be decided here. A passkey proves the user, whichever process started the console.
fn refused_origin(console: &Console) -> Option<String> {
    console.environment.decision_origin().err().filter(|_| signing(console).is_none())
}

/// Whether the page shows everything that a decision is about (G95).
pub(crate) fn is_shown_whole(waiting: &WaitingStep) -> bool {
    let artifacts = waiting.artifacts.iter().map(|artifact| format!("{artifact:#}").len());
    let context = waiting.context.values().map(|value| value.to_string().len());
    let notes = waiting.notes.iter().map(String::len);
    notes.chain(artifacts).chain(context).all(|bytes| bytes <= shown_bytes_max(waiting))
}

/// What the agent submitted: a decision is about exactly this.
fn submitted(console: &Console, run: RunId, waiting: &WaitingStep) -> Markup {
    html! {
        @match &waiting.notes {
            Some(notes) => {
                @let notes = truncate_with_marker(notes, shown_bytes_max(waiting));
                (render_notes(&notes))
                // Markdown has text that is not rendered, such as titles of links.
                details data-key={ "notes-" (run) } { summary { "Notes as they were written" } pre { (clean(&notes)) } }
            }
            None => p.quiet { "The agent submitted no notes." },
        }
        (artifacts(console, run, waiting))
        @if !waiting.context.is_empty() {
            dl.facts {
                @for (key, value) in &waiting.context {
                    dt { code { (clean(key)) } }
                    dd { (clean(&truncate_with_marker(&value.to_string(), shown_bytes_max(waiting)))) }
                }
            }
        }
        @if let Some(earlier) = &waiting.earlier { p.warn { (earlier.replaced_text()) } }
    }
}

/// Tables if the contract has rows; also the submitted JSON, because a table can merge rows.
fn artifacts(console: &Console, run: RunId, waiting: &WaitingStep) -> Markup {
    if waiting.artifacts.is_empty() {
        return html! {};
    }
    let tables = console.use_cases.submitted(waiting, run).unwrap_or_default();
    html! {
        @for (index, artifact) in waiting.artifacts.iter().enumerate() {
            @let json = format!("{artifact:#}");
            @let json = truncate_with_marker(&json, shown_bytes_max(waiting));
            @match tables.get(index) {
                Some(own) if matches!(own.shown, ArtifactView::Tables { .. }) => {
                    p.meta { "Artifact " code { (clean(&own.artifact_kind)) } }
                    (render_artifact(&own.shown, &PageLinks::default()))
                    details data-key={ "json-" (run) "-" (index) } {
                        summary { "As it was submitted" }
                        pre { (clean(&json)) }
                    }
                }
                Some(_) | None => pre { (clean(&json)) },
            }
        }
    }
}

fn hidden(console: &Console, waiting: &WaitingStep, from: &str) -> Markup {
    html! {
        (token(console.form_token()))
        input type="hidden" name="seen" value=(waiting.fingerprint());
        input type="hidden" name="back" value=(from);
    }
}

fn decision(console: &Console, run: RunId, waiting: &WaitingStep, from: &str) -> Markup {
    let reason = format!("reason-{run}");
    let signs = signing(console);
    html! {
        div.actions {
            form method="post" action={ "/run/" (run) "/approve" } data-passkey=[signs] {
                (hidden(console, waiting, from))
                button.primary type="submit" aria-label={ "Approve " (waiting.label) } {
                    @if signs.is_some() { "Approve with a passkey" } @else { "Approve" }
                }
            }
            form.reject method="post" action={ "/run/" (run) "/reject" } data-passkey=[signs] {
                (hidden(console, waiting, from))
                label for=(reason) { "Reason, for the agent" }
                textarea id=(reason) name="reason" rows="2" {}
                button type="submit" aria-label={ "Reject " (waiting.label) } { "Reject" }
            }
        }
        @if signs.is_some() {
            p.meta {
                "Your passkey signs exactly what is shown here. The record keeps the signature, and "
                code { "workrail store verify" } " checks it."
            }
        } @else if let Some(who) = console.member() {
            p.meta {
                "Recorded under your name, " (clean(who.name.as_str())) ". It proves no more than your token. "
                a href=(SettingsPage::Passkeys.address()) { "Enrol a passkey" } " to prove it."
            }
        } @else {
            p.meta {
                "Recorded as decided in the console. This proves no more than a typed label: an agent with a shell could \
                 send the same form. " a href=(SettingsPage::Passkeys.address()) { "Enrol a passkey" } " to prove it."
            }
        }
    }
}

/// Marks forms that need a passkey's signature: all of them, once a passkey is enrolled.
pub(super) fn signing(console: &Console) -> Option<&'static str> {
    let keys = console.use_cases.passkeys().ok().and_then(Result::ok);
    keys.is_some_and(|keys| keys.has_any_of(console.passkey_owner())).then_some("sign")
}

/// The message if only a passkey counts and none is enrolled.
fn enrol_first(console: &Console) -> Markup {
    html! {
        p.warn {
            "Only a passkey counts here, and "
            @if console.is_of_team() { "you have none enrolled. " } @else { "none is enrolled. " }
            a href=(SettingsPage::Passkeys.address()) { "Enrol one" } ", then decide here."
        }
    }
}

/// The message if only a passkey counts and the visitor has none, or none is trusted.
fn no_own_key(console: &Console) -> Markup {
    match console.use_cases.passkeys() {
        Ok(Ok(_)) => enrol_first(console),
        Ok(Err(_)) | Err(_) => damaged_log(),
    }
}

/// The message if only a passkey counts and the passkey log cannot be trusted.
fn damaged_log() -> Markup {
    html! {
        p.warn {
            "Only a passkey counts here, and none is accepted: the passkey log is damaged. "
            a href=(SettingsPage::Passkeys.address()) { "What is wrong with it" } "."
        }
    }
}

fn questions(console: &Console, run: RunId, waiting: &WaitingStep, from: &str) -> Markup {
    html! {
        form.answer method="post" action={ "/run/" (run) "/answer" } data-passkey=[signing(console)] {
            (hidden(console, waiting, from))
            @for question in &waiting.questions {
                @let field = format!("answer-{run}-{}", question.key);
                div.question {
                    label for=(field) { (clean(&question.description)) " " code { (question.key) } }
                    (answer_field(question, &field))
                }
            }
            button.primary type="submit" { "Answer" }
            @if waiting.asks_approval { p.meta { "You can approve once this is answered." } }
        }
    }
}

/// The field for an answer: declared values are offered as a choice, and a secret is not shown.
fn answer_field(question: &Question, field: &str) -> Markup {
    let name = format!("{ANSWER_PREFIX}{}", question.key);
    let choice = |options: Vec<&str>| {
        html! {
            select id=(field) name=(name) {
                option value="" { "Choose" }
                @for item in options { option value=(item) { (clean(item)) } }
            }
        }
    };
    match &question.accepts {
        _ if question.is_secret => html! {
            input id=(field) name=(name) type="password" autocomplete="off";
            p.meta { "It is stored in the session as it is, readable for agents." }
        },
        Some(AcceptedValues::OneOf { values }) => choice(values.iter().map(String::as_str).collect()),
        Some(AcceptedValues::Boolean) => choice(vec!["true", "false"]),
        Some(AcceptedValues::Number) => {
            html! { input id=(field) name=(name) inputmode="decimal" autocomplete="off"; }
        }
        // A list is written as JSON.
        Some(AcceptedValues::Text | AcceptedValues::List { .. }) | None => {
            html! { textarea id=(field) name=(name) rows="1" {} }
        }
    }
}

fn agent(console: &Console, run: RunId, step: &str, blockers: &[Blocker]) -> Markup {
    html! {
        p.step { strong { (clean(step)) } " is blocked: the agent's last attempt was refused." }
        ul.plain {
            @for blocker in blockers {
                li {
                    (ticked(blocker.message.as_str())) " " code { (blocker.code.as_str()) }
                    @if let Some(fix) = &blocker.suggested_fix { div.fix { (ticked(fix.as_str())) } }
                }
            }
        }
        p {
            "The agent has this message. If its chat is gone, give a new one "
            a href={ (run_address(run)) "#continue" } { "the call that continues this run" }
            "."
            @if console.may(Act::Decide) {
                " If nobody will finish it, " a href={ (run_address(run)) "#close-reason" } { "close the run" } "."
            }
        }
    }
}
