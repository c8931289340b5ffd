//! The editor of a workflow's file: the text, what the compiler says about it, its plan and prompts, and what to insert.

use maud::{Markup, html};
use workrail_engine::compare::DiffLine;
use workrail_engine::edit::{
    CompiledText, Diagnostic, Insertion, InsertionKind, Severity, TrialReport, insertions,
};
use workrail_model::text::clean;

use super::compare::lines;
use super::layout::token;
use super::plan_graph::draw;
use super::workflows::source;
use super::{Page, Part, counted, ticked};
use crate::edit::{Editor, Shown};
use crate::state::Console;
use crate::target::{Target, WorkflowPage};

pub(crate) fn page(console: &Console, editor: &Editor) -> Page {
    let parts = vec![
        Part::new("editor", form(console, editor)),
        Part::new("outcome", outcome(editor)),
        Part::new("checked", checked(editor)),
        Part::new("builtins", builtins(&insertions())),
    ];
    Page { title: format!("Edit {}", editor.file.about.reference), parts }
}

/// What changes while somebody types: the line numbers, and what the compiler says.
pub(crate) fn fragments(editor: &Editor) -> Markup {
    html! {
        (numbers(editor))
        section id="checked" data-part { (checked(editor)) }
    }
}

fn form(console: &Console, editor: &Editor) -> Markup {
    let about = &editor.file.about;
    let address = Target::Edit(about.key).address();
    let is_editable = about.is_editable;
    html! {
        p.meta {
            (source(about.source_kind)) ", " code { (clean(&about.reference)) }
            @if let Some(id) = &editor.file.workflow_id {
                @let page = WorkflowPage { id: id.clone(), pinned: None };
                " · " a href={ (Target::Workflow(page).address()) "#versions" } { "Source, compiled and pinned" }
            }
        }
        @if !is_editable {
            div.banner.remark {
                strong { "Read-only." } " Files of this source are not edited here. "
                @if let Some(id) = &editor.file.workflow_id {
                    @let page = WorkflowPage { id: id.clone(), pinned: None };
                    a href={ (Target::Workflow(page).address()) "#workflow" } { "Copy it to a namespace of your own" }
                    " and edit the copy."
                }
            }
        }
        @if !editor.is_current() {
            div.banner { strong { "Changed on disk." } " The file is no longer the one that was loaded. "
                a href=(address) { "Load it again" } " (what you typed is lost)."
            }
        }
        form data-editor method="post" action=(address) {
            (token(console.guard.form_token()))
            input type="hidden" name="seen" value=(editor.seen);
            label for="text" { span.hidden { "Source" } }
            div.sheet {
                (numbers(editor))
                textarea id="text" name="text" rows="28" spellcheck="false" autocomplete="off" autocapitalize="off"
                    wrap="off" readonly[!is_editable] aria-describedby="problems" { "\n" (editor.text) }
            }
            div.actions {
                button type="submit" name="action" value="validate" { "Validate" }
                button type="submit" name="action" value="test" { "Run tests" }
                @if is_editable {
                    button type="submit" name="action" value="diff" { "Preview diff" }
                    button.primary type="submit" name="action" value="save" { "Save" }
                }
                @if let Some(compiled) = &editor.checked.compiled { (step_choice(editor, compiled)) }
                span.meta data-editor-state role="status" {}
            }
        }
    }
}

/// For browsers without script, where nobody knows the cursor.
fn step_choice(editor: &Editor, compiled: &CompiledText) -> Markup {
    html! {
        label { "Prompt of " select name="step" {
            @for own in &compiled.steps {
                option value=(own.step_id) selected[editor.step.as_ref() == Some(&own.step_id)] { (clean(&own.step_id)) }
            }
        } }
    }
}

/// The numbers of the lines; a line with a problem says so by a sign as well as by colour.
fn numbers(editor: &Editor) -> Markup {
    let count = editor.text.lines().count().max(1) + usize::from(editor.text.ends_with('\n'));
    let worst = |line: usize| {
        let own = editor.checked.diagnostics.problems.iter().filter(|own| own.line == line);
        own.map(|own| own.severity).min()
    };
    html! {
        div.numbers id="numbers" aria-hidden="true" {
            @for line in 1..=count {
                @match worst(line) {
                    Some(severity) => div class=(class(severity)) { (sign(severity)) (line) },
                    None => div { (line) },
                }
            }
        }
    }
}

fn class(severity: Severity) -> &'static str {
    match severity {
        Severity::Error => "bad",
        Severity::Warning => "warn",
        Severity::Hint => "quiet",
    }
}

fn sign(severity: Severity) -> &'static str {
    match severity {
        Severity::Error => "✕ ",
        Severity::Warning => "! ",
        Severity::Hint => "· ",
    }
}

fn word(severity: Severity) -> &'static str {
    match severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
        Severity::Hint => "hint",
    }
}

fn checked(editor: &Editor) -> Markup {
    let problems = &editor.checked.diagnostics.problems;
    let left_out = editor.checked.diagnostics.left_out;
    html! {
        div id="problems" role="status" {
            @if problems.is_empty() { p.good { "No problems found." } }
            @else { p { (counted(editor.checked.errors() as u64, "error", "errors")) ", " (counted((problems.len() - editor.checked.errors()) as u64, "other remark", "other remarks")) } }
        }
        ol.problems { @for own in problems { (problem(own, &editor.text)) } }
        @if left_out > 0 { p.quiet { (counted(left_out as u64, "more problem is", "more problems are")) " not listed." } }
        @if let Some(compiled) = &editor.checked.compiled {
            div.beside {
                section {
                    h2 { "Plan " span.count { (counted(compiled.steps.len() as u64, "step", "steps")) } }
                    div.scroll.path tabindex="0" role="region" aria-label="Plan of the workflow" { (draw(&compiled.plan)) }
                }
                section { (prompt(editor, compiled)) }
            }
            @if let Some(hash) = compiled.hash { p.meta { "Compiles to " code { (hash) } } }
        } @else { p.quiet { "The plan and the prompts appear when there are no errors." } }
    }
}

fn problem(own: &Diagnostic, text: &str) -> Markup {
    let line = text.lines().nth(own.line.saturating_sub(1)).unwrap_or_default();
    html! {
        li data-item class=(class(own.severity)) {
            button type="button" hidden data-with-script data-line=(own.line) { "Line " (own.line) }
            " " strong { (word(own.severity)) " in line " (own.line) } ": " span.said-of { (ticked(&own.message)) }
            @if !own.path.is_empty() { " " code { (clean(&own.path)) } }
            pre { span.number { (own.line) " " } (clean(line)) }
            p.why { (ticked(&own.why)) }
            p.fix { strong { "Fix: " } (ticked(&own.fix)) }
        }
    }
}

fn prompt(editor: &Editor, compiled: &CompiledText) -> Markup {
    let chosen = compiled.steps.iter().find(|own| editor.step.as_ref() == Some(&own.step_id));
    html! {
        h2 { "Prompt" }
        @match chosen.or(compiled.steps.first()) {
            None => p.quiet { "There is no step." },
            Some(own) => {
                p.meta { "Step " code { (clean(&own.step_id)) } ", as an agent reads it at the start" }
                pre tabindex="0" { (clean(&own.rendered)) }
            }
        }
    }
}

fn outcome(editor: &Editor) -> Markup {
    html! {
        @match &editor.shown {
            Shown::Nothing | Shown::Saved => {}
            Shown::Refused { message, next } => {
                div.banner role="alert" { strong { "Not saved." } " " (ticked(message)) " " (ticked(next)) }
            }
            Shown::Diff(found) => (difference(found)),
            Shown::Tested(Err(message)) => { h2 { "Tests" } p.warn { (ticked(message)) } }
            Shown::Tested(Ok(report)) => (tested(report)),
        }
    }
}

fn difference(found: &[DiffLine]) -> Markup {
    html! {
        h2 { "What would be saved" }
        @if found.is_empty() { p.quiet { "The text is the same as the file." } }
        @else {
            p.quiet { "Lines with − are in the file, lines with + in your text." }
            (lines(found, "Changes", ("file", "text")))
        }
    }
}

fn tested(report: &TrialReport) -> Markup {
    let steps = report.coverage.steps.values();
    let reached = steps.clone().filter(|own| own.taken).count();
    html! {
        h2 { "Tests" }
        ul.plain {
            @for run in &report.runs {
                li {
                    @if run.failures.is_empty() { strong.good { "passed" } } @else { strong.bad { "failed" } }
                    " " (clean(&run.name)) " " span.meta { (counted(run.steps.len() as u64, "step", "steps")) }
                    @if !run.failures.is_empty() { ul.plain { @for own in &run.failures { li { (ticked(own)) } } } }
                }
            }
        }
        p { "Reached " (reached) " of " (counted(steps.count() as u64, "step", "steps")) "." }
        @let missing = report.coverage.missing();
        @if !missing.is_empty() {
            p { "Not tried:" }
            ul.plain { @for own in &missing { li { (clean(own)) } } }
        }
    }
}

fn builtins(all: &[Insertion]) -> Markup {
    html! {
        h2 { "Builtins to insert" }
        @for kind in InsertionKind::ALL {
            details data-key={ "insert-" (kind.title()) } {
                summary { (kind.title()) }
                ul.plain {
                    @for own in all.iter().filter(|own| own.kind == kind) {
                        li {
                            button type="button" hidden data-with-script data-insert=(own.text) aria-label={ "Insert " (own.id) } { "Insert" }
                            " " code { (own.id) } " " (ticked(&own.purpose)) " " span.meta { "Belongs " (ticked(own.place)) "." }
                            details { summary { "More" } pre { (clean(&own.detail)) } p { "Inserts " code { (own.text) } } }
                        }
                    }
                }
            }
        }
    }
}
