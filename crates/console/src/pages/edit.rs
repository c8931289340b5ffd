//! The editor of a workflow's file: the text, compiler messages, its plan and prompts, and what to insert.

use std::collections::BTreeMap;

use maud::{Markup, html};
use workrail_engine::compare::DiffLine;
use workrail_engine::edit::{
    CompiledText, Diagnostic, DiagnosticSeverity, Insertion, InsertionKind, TrialReport, insertions,
};
use workrail_model::text::clean;

use super::compare::lines;
use super::layout::token;
use super::plan_graph::draw;
use super::workflows::source;
use super::{Page, PagePart, counted, ticked};
use crate::edit::{EditAction, EditResult, Review, SaveProblem, WorkflowEditor};
use crate::state::Console;
use crate::target::{PageAddress, WorkflowPage};

/// The form's id: its save button is next to the review, outside the form.
const FORM: &str = "editor-form";
/// How much of a line with a problem is shown; a file may be one long line.
const EXCERPT_CHARS_MAX: usize = 160;
/// Line numbers are of no use in a longer file.
const NUMBERED_LINES_MAX: usize = 20_000;

pub(crate) fn page(console: &Console, editor: &WorkflowEditor) -> Page {
    let parts = vec![
        PagePart::new("editor", form(console, editor)),
        PagePart::new("outcome", outcome(editor)),
        PagePart::new("checked", checked(editor)),
        PagePart::new("plan", plan(editor)),
        PagePart::new("builtins", builtins(&insertions())),
    ];
    Page { title: format!("Edit {}", editor.file.about.reference), parts }
}

/// The parts that change while the user types: line numbers and compiler messages.
pub(crate) fn fragments(editor: &WorkflowEditor) -> Markup {
    html! {
        (numbers(editor))
        section id="checked" data-part { (checked(editor)) }
        section id="plan" data-part { (plan(editor)) }
    }
}

fn form(console: &Console, editor: &WorkflowEditor) -> Markup {
    let about = &editor.file.about;
    let address = PageAddress::Edit(about.key).address();
    let is_editable = about.is_editable;
    html! {
        p.meta {
            (source(about.source_kind)) ", " code { (clean(&about.reference)) }
            @if let Some(id) = &editor.file.workflow_id {
                @let page = WorkflowPage { id: id.clone(), pinned: None };
                " · " a href={ (PageAddress::Workflow(page).address()) "#versions" } { "Source, compiled and pinned" }
            }
        }
        @if !is_editable {
            div.banner.remark {
                strong { "Read-only." } " Files of this source are not edited here. "
                @if let Some(id) = &editor.file.workflow_id {
                    @let page = WorkflowPage { id: id.clone(), pinned: None };
                    a href={ (PageAddress::Workflow(page).address()) "#workflow" } { "Copy it to a namespace of your own" }
                    " and edit the copy."
                }
            }
        }
        @if !editor.is_current() {
            div.banner { strong { "Changed on disk." } " The file is no longer the one that was loaded. "
                a href=(address) { "Load it again" } " (what you typed is lost), or compare your text with it and save over it."
            }
        }
        // Scrolls to the button's result, which is below the text on a narrow screen.
        form id=(FORM) data-editor={ (address) "/check" } method="post" action={ (address) "#outcome" } {
            (token(console.form_token()))
            input type="hidden" name="seen" value=(editor.seen);
            label for="text" { span.hidden { "Source" } }
            div.sheet {
                (numbers(editor))
                textarea id="text" name="text" rows="28" spellcheck="false" autocomplete="off" autocapitalize="off"
                    wrap="off" readonly[!is_editable] aria-describedby="problems" { "\n" (editor.text) }
            }
            div.actions {
                @if is_editable {
                    @let (action, name) = match editor.is_current() {
                        true => (EditAction::Review, "Review and save"),
                        false => (EditAction::Rebase, "Compare with the file as it is now"),
                    };
                    button.primary type="submit" name="action" value=(action.into_str()) { (name) }
                }
                button type="submit" name="action" value=(EditAction::Test.into_str()) { "Run tests" }
                span data-without-script {
                    button type="submit" name="action" value=(EditAction::Validate.into_str()) { "Validate" }
                    @if let Some(compiled) = &editor.checked.compiled { (step_choice(editor, compiled)) }
                }
                span.meta data-editor-state role="status" {}
            }
        }
    }
}

/// For browsers without script, where the cursor position is unknown.
fn step_choice(editor: &WorkflowEditor, compiled: &CompiledText) -> Markup {
    html! {
        label { "Prompt of " select name="step" {
            @for step in &compiled.steps {
                option value=(step.step_id) selected[editor.step.as_ref() == Some(&step.step_id)] { (clean(&step.step_id)) }
            }
        } }
    }
}

/// The line numbers; a line with a problem has a sign as well as a colour.
fn numbers(editor: &WorkflowEditor) -> Markup {
    let count = editor.text.lines().count().max(1) + usize::from(editor.text.ends_with('\n'));
    let mut worst: BTreeMap<usize, &Diagnostic> = BTreeMap::new();
    // Errors come first.
    for problem in &editor.checked.diagnostics.problems {
        worst.entry(problem.line).or_insert(problem);
    }
    html! {
        div.numbers id="numbers" aria-hidden="true" {
            @for line in 1..=count.min(NUMBERED_LINES_MAX) {
                @match worst.get(&line) {
                    Some(own) => {
                        div class=(class(own.severity)) data-problem=(line)
                            title={ (clean(&own.message)) ". Fix: " (clean(&own.fix)) } { (sign(own.severity)) (line) }
                    }
                    None => div { (line) },
                }
            }
        }
    }
}

fn class(severity: DiagnosticSeverity) -> &'static str {
    match severity {
        DiagnosticSeverity::Error => "bad",
        DiagnosticSeverity::Warning => "warn",
        DiagnosticSeverity::Hint => "quiet",
    }
}

fn sign(severity: DiagnosticSeverity) -> &'static str {
    match severity {
        DiagnosticSeverity::Error => "✕ ",
        DiagnosticSeverity::Warning => "! ",
        DiagnosticSeverity::Hint => "· ",
    }
}

fn word(severity: DiagnosticSeverity) -> &'static str {
    match severity {
        DiagnosticSeverity::Error => "error",
        DiagnosticSeverity::Warning => "warning",
        DiagnosticSeverity::Hint => "hint",
    }
}

fn checked(editor: &WorkflowEditor) -> Markup {
    let problems = &editor.checked.diagnostics.problems;
    let left_out = editor.checked.diagnostics.left_out;
    let errors = editor.checked.errors();
    html! {
        h2.hidden { "Problems" }
        div id="problems" role="status" {
            @if problems.is_empty() { p.good { "No problems found." } }
            @else { p { (tally(errors, problems.len() - errors)) } }
        }
        ol.problems { @for item in problems { (problem(item, &editor.text)) } }
        @if left_out > 0 { p.quiet { (counted(left_out as u64, "more problem is", "more problems are")) " not listed." } }
    }
}

/// How many problems there are, such as `2 errors, 1 remark`.
fn tally(errors: usize, others: usize) -> String {
    let errors = counted(errors as u64, "error", "errors");
    match others {
        0 => errors,
        others => format!("{errors}, {}", counted(others as u64, "remark", "remarks")),
    }
}

/// The plan and the prompt at the cursor. While the user types, most texts have errors: the script then keeps the
/// result of the last text without errors.
fn plan(editor: &WorkflowEditor) -> Markup {
    html! {
        @if let Some(compiled) = &editor.checked.compiled {
            p.quiet hidden data-stale { "Of the last text without errors:" }
            section { (prompt(editor, compiled)) }
            section {
                h2 { "Plan " span.count { (counted(compiled.steps.len() as u64, "step", "steps")) } }
                div.scroll.path tabindex="0" role="region" aria-label="Plan of the workflow" { (draw(&compiled.plan)) }
            }
            @if let Some(hash) = compiled.hash { p.meta { "Compiles to " code { (hash) } } }
        } @else { p.quiet data-no-plan { "The plan and the prompts appear when there are no errors." } }
    }
}

fn problem(diagnostic: &Diagnostic, text: &str) -> Markup {
    let line = text.lines().nth(diagnostic.line.saturating_sub(1)).unwrap_or_default();
    html! {
        li data-item class=(class(diagnostic.severity)) {
            strong { (word(diagnostic.severity)) }
            span data-without-script { " in line " (diagnostic.line) }
            " " button type="button" hidden data-with-script data-line=(diagnostic.line) { "Line " (diagnostic.line) }
            " " span.said-of { (ticked(&diagnostic.message)) }
            @if !diagnostic.path.is_empty() { " " code { (clean(&diagnostic.path)) } }
            pre { span.number { (diagnostic.line) " " } (clean(&excerpt(line, diagnostic.column))) }
            p.why { (ticked(&diagnostic.why)) }
            p.fix { strong { "Fix: " } (ticked(&diagnostic.fix)) }
        }
    }
}

/// The text around a column, counted from 1: a file may be one long line.
fn excerpt(line: &str, column: usize) -> String {
    let start = column.saturating_sub(1 + EXCERPT_CHARS_MAX / 2);
    let is_short = line.chars().nth(EXCERPT_CHARS_MAX).is_none();
    if is_short {
        return line.to_owned();
    }
    let shown: String = line.chars().skip(start).take(EXCERPT_CHARS_MAX).collect();
    let before = if start > 0 { "…" } else { "" };
    let after = if line.chars().nth(start + EXCERPT_CHARS_MAX).is_some() { "…" } else { "" };
    format!("{before}{shown}{after}")
}

fn prompt(editor: &WorkflowEditor, compiled: &CompiledText) -> Markup {
    let chosen = compiled.steps.iter().find(|step| editor.step.as_ref() == Some(&step.step_id));
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

fn outcome(editor: &WorkflowEditor) -> Markup {
    html! {
        @match &editor.shown {
            EditResult::Nothing | EditResult::Saved => {}
            EditResult::NotSaved(save_problem) => (not_saved(save_problem)),
            EditResult::Review(review) => div data-review { (reviewed(editor, review)) },
            EditResult::Tested(Err(message)) => { h2 { "Tests" } p.warn { (ticked(message)) } }
            EditResult::Tested(Ok(report)) => (tested(report)),
        }
    }
}

fn not_saved(save_problem: &SaveProblem) -> Markup {
    html! {
        div.banner role="alert" { strong { "Not saved." } " " (ticked(&save_problem.message)) " " (ticked(&save_problem.next)) }
    }
}

/// What would change, and the button that saves exactly this.
fn reviewed(editor: &WorkflowEditor, review: &Review) -> Markup {
    let is_savable = review.save_problem.is_none() && !review.lines.is_empty();
    html! {
        @if let Some(save_problem) = &review.save_problem { (not_saved(save_problem)) }
        h2 { "What would be saved" }
        @if review.lines.is_empty() { p.quiet { "The text is the same as the file." } }
        @else if review.lines.contains(&DiffLine::OnlyLineEnds) {
            p.quiet { "Only line ends differ, or the end of the file." }
        } @else {
            p.quiet { "Lines with − are in the file, lines with + in your text." }
            (lines(&review.lines, "Changes", ("file", "text")))
        }
        @if is_savable {
            div.actions {
                input type="hidden" form=(FORM) name="reviewed" value=(review.reviewed);
                button.primary type="submit" form=(FORM) name="action" value=(EditAction::Save.into_str()) {
                    "Save " (clean(&editor.file.about.reference))
                }
            }
        }
    }
}

fn tested(report: &TrialReport) -> Markup {
    let steps = report.coverage.steps.values();
    let reached = steps.clone().filter(|step| step.taken).count();
    html! {
        h2 { "Tests" }
        ul.plain {
            @for run in &report.runs {
                li {
                    @if run.failures.is_empty() { strong.good { "passed" } } @else { strong.bad { "failed" } }
                    " " (clean(&run.name)) " " span.meta { (counted(run.steps.len() as u64, "step", "steps")) }
                    @if !run.failures.is_empty() { ul.plain { @for failure in &run.failures { li { (ticked(failure)) } } } }
                }
            }
        }
        p { "Reached " (reached) " of " (counted(steps.count() as u64, "step", "steps")) "." }
        @let missing = report.coverage.missing();
        @if !missing.is_empty() {
            p { "Not tried:" }
            ul.plain { @for name in &missing { li { (clean(name)) } } }
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
                    @for insertion in all.iter().filter(|entry| entry.kind == kind) {
                        li {
                            button type="button" hidden data-with-script data-insert=(insertion.text) aria-label={ "Insert " (insertion.id) } { "Insert" }
                            " " code { (insertion.id) } " " (ticked(&insertion.purpose)) " " span.meta { "Belongs " (ticked(insertion.location)) "." }
                            details { summary { "More" } pre { (clean(&insertion.detail)) } p { "Inserts " code { (insertion.text) } } }
                        }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_long_line_only_the_part_with_the_problem_is_shown() {
        assert_eq!(excerpt("{ \"id\": 1 }", 3), "{ \"id\": 1 }");
        let line = format!("{}\u{e9}here{}", "a".repeat(1000), "b".repeat(1000));
        for column in [1, 80, 1001, 2005, 9999] {
            assert!(excerpt(&line, column).chars().count() <= EXCERPT_CHARS_MAX + 2, "{column}");
        }
        let shown = excerpt(&line, 1001);
        assert!(shown.starts_with('…') && shown.ends_with('…') && shown.contains("\u{e9}here"), "{shown}");
        assert!(excerpt(&line, 1).starts_with("aaa"));
        assert!(excerpt(&line, 2005).ends_with("bbb"));
    }
}
