//! Two branches, attempts or runs side by side; and what a run can be compared with.

use maud::{Markup, html};
use workrail_engine::compare::words::{self, ComparedFact};
use workrail_engine::compare::{
    ArtifactComparison, Comparison, DiffLine, Difference, FieldDifference, Side, StepComparison,
};
use workrail_engine::html::{class_of_difference, table};
use workrail_engine::report::RunReport;
use workrail_engine::sessions::RunRow;
use workrail_model::id::RunId;
use workrail_model::text::clean;

use super::{Page, PagePart, copyable, counted};
use crate::state::Console;
use crate::target::{ComparePage, ComparedRef, PageAddress, RunPage, run_address};
use crate::use_cases::EngineResult;

/// How many runs are offered; others can be compared at a terminal.
const RUNS_OFFERED: usize = 100;

pub(super) fn page(console: &Console, asked: &ComparePage) -> EngineResult<Page> {
    match &asked.b {
        Some(b) => compared(console, &asked.a, b),
        None => choices(console, &asked.a),
    }
}

fn compared(console: &Console, a: &ComparedRef, b: &ComparedRef) -> EngineResult<Page> {
    let found = console.use_cases.compare((a.run, &a.part), (b.run, &b.part))?;
    let parts = vec![
        PagePart::new("sides", sides(&found, a, b)),
        PagePart::new("continues", continues(&found)),
        PagePart::new("steps", steps(&found)),
        PagePart::new("rest", rest(&found)),
    ];
    let title = format!("{} and {}", words::side(&found.a), words::side(&found.b));
    Ok(Page { title, parts })
}

fn sides(found: &Comparison, a: &ComparedRef, b: &ComparedRef) -> Markup {
    let turned = PageAddress::Compare(ComparePage { a: b.clone(), b: Some(a.clone()) });
    let link = |side: &Side| RunPage { node: Some(side.end.node_id), ..RunPage::of(side.run_id) }.address();
    html! {
        @for side in [&found.a, &found.b] {
            @if let Some(damage) = side.health.damage() {
                div.banner { strong { "Damaged session." } " " (clean(&side.label)) ": " (clean(&damage)) }
            }
        }
        @for remark in &found.remarks { div.banner.remark { strong { "Note." } " " (clean(remark)) } }
        div.scroll {
            table.stacks.sides {
                thead { tr { th { span.hidden { "What" } } th { "A" } th { "B" } } }
                tbody {
                    @for (fact, a, b) in words::facts(found) {
                        tr.different[a != b] {
                            th scope="row" { (fact.as_str()) }
                            td data-column="A" { @if fact == ComparedFact::Run { a href=(link(&found.a)) { (clean(&a)) } } @else { (clean(&a)) } }
                            td data-column="B" { @if fact == ComparedFact::Run { a href=(link(&found.b)) { (clean(&b)) } } @else { (clean(&b)) } }
                        }
                    }
                }
            }
        }
        p {
            a href=(turned.address()) { "Swap A and B" } " · "
            a href=(PageAddress::Compare(ComparePage { a: a.clone(), b: None }).address()) { "Compare A with something else" }
        }
        p.quiet { "At a terminal: " code { "workrail compare " (clean(&found.a.reference)) " " (clean(&found.b.reference)) } }
    }
}

fn continues(found: &Comparison) -> Markup {
    let is_one = found.a.continue_at == found.b.continue_at;
    let shown = [("A", &found.a), ("B", &found.b)].into_iter().take(if is_one { 1 } else { 2 });
    html! {
        h2 { (words::continues(found)) }
        @for why in &found.why { p { (clean(why)) } }
        @for (name, side) in shown {
            @if let Some(call) = &side.next_call {
                h3 { @if is_one { "Continue" } @else { "Continue " (name) } }
                p.quiet { (words::continuation(side.continuation)) " Give an agent this call:" }
                (copyable(&super::call_text(call)))
            }
        }
    }
}

fn steps(found: &Comparison) -> Markup {
    html! {
        h2 { "Steps" }
        p { (words::counts(&found.counts)) }
        @for step in &found.steps { (self::step(step, found)) }
    }
}

fn step(step: &StepComparison, found: &Comparison) -> Markup {
    let link = |run: RunId, side: &workrail_engine::compare::StepSide| {
        let address = RunPage { node: Some(side.node_id), ..RunPage::of(run) }.address();
        html! { a href={ (address) "#node" } { (side.point) } " " (words::step_side(side)) }
    };
    let is_quiet = matches!(step.difference, Difference::Shared | Difference::Same);
    html! {
        article.card.step-of-two.quiet-card[is_quiet] data-item {
            header {
                h3 { (clean(&step.title)) }
                span class={ "chip " (class_of_difference(step.difference)) } { (words::difference(step.difference)) }
            }
            p.meta {
                @if let Some(side) = &step.a { span { "A: " (link(found.a.run_id, side)) } }
                @if step.a.is_some() && step.b.is_some() { " · " }
                @if let Some(side) = &step.b { span { "B: " (link(found.b.run_id, side)) } }
            }
            @if !step.notes.is_empty() { (lines(&step.notes, "Notes", ("A", "B"))) }
            @for item in &step.artifacts { (artifact(item)) }
            @if !step.assessments.is_empty() { h4 { "Assessments" } (fields(&step.assessments)) }
        }
    }
}

/// Lines of two texts: a sign and a word show which text a line belongs to, as well as its colour.
pub(super) fn lines(lines: &[DiffLine], label: &str, (a, b): (&'static str, &'static str)) -> Markup {
    let line = |class: &'static str, sign: &'static str, name: &'static str, text: &str| {
        html! { tr class=(class) { td.sign { span.hidden { (name) } span aria-hidden="true" { (sign) } } td { (clean(text)) } } }
    };
    html! {
        div.scroll tabindex="0" role="region" aria-label=(label) {
            table.diff {
                @for item in lines {
                    @match item {
                        DiffLine::Both { text } => (line("", "", "both", text)),
                        DiffLine::A { text } => (line("only-a", "−", a, text)),
                        DiffLine::B { text } => (line("only-b", "+", b, text)),
                        DiffLine::Skipped { lines } => {
                            (line("skipped", "", "", &format!("… {} …", counted(*lines, "equal line", "equal lines"))))
                        }
                        DiffLine::NotCompared { lines } => {
                            (line("skipped", "", "", &format!("{} not compared", counted(*lines, "further line is", "further lines are"))))
                        }
                        DiffLine::OnlyLineEnds => (line("skipped", "", "", "only line ends differ")),
                    }
                }
            }
        }
    }
}

fn artifact(artifact: &ArtifactComparison) -> Markup {
    html! {
        h4 { (clean(&words::artifact(artifact))) }
        @if !artifact.fields.is_empty() { (fields(&artifact.fields)) }
        @if artifact.fields_left_out > 0 {
            p.quiet { (counted(artifact.fields_left_out, "more field differs", "more fields differ")) }
        }
    }
}

fn fields(fields: &[FieldDifference]) -> Markup {
    let cell = |value: &Option<serde_json::Value>| {
        html! {
            @match value { Some(value) => (clean(&words::value(value))), None => span.quiet { "—" } }
        }
    };
    html! {
        div.scroll {
            table.stacks {
                thead { tr { th { "Field" } th { "A" } th { "B" } } }
                tbody {
                    @for field in fields {
                        tr {
                            td data-column="Field" { code { (clean(&words::field_name(field))) } }
                            td.only-a data-column="A" { (cell(&field.a)) }
                            td.only-b data-column="B" { (cell(&field.b)) }
                        }
                    }
                }
            }
        }
    }
}

fn rest(found: &Comparison) -> Markup {
    html! {
        @for section in found.sections() {
            h2 { (clean(&section.title)) }
            (table(&section, &workrail_engine::html::PageLinks::default()))
        }
    }
}

/// What a run can be compared with: its other branches, then other runs, those of the same workflow first.
fn choices(console: &Console, a: &ComparedRef) -> EngineResult<Page> {
    let found = console.use_cases.find(&a.run.to_string())?;
    let view = console.use_cases.show(found, None)?;
    let run = view.report.runs.iter().find(|run| run.run_id == a.run);
    let list = console.use_cases.sessions()?;
    let workflow = run.map(|run| &run.workflow.workflow_id);
    let others = list.runs.iter().filter(|row| row.run_id.is_some_and(|run| run != a.run));
    let (same, other): (Vec<&RunRow>, Vec<&RunRow>) =
        others.partition(|row| row.workflow_id.as_ref() == workflow);
    let left_out = (same.len() + other.len()).saturating_sub(RUNS_OFFERED);
    let rows: Vec<&RunRow> = same.into_iter().chain(other).take(RUNS_OFFERED).collect();
    let label = run.map(|run| run.label.clone()).unwrap_or_default();
    let body = html! {
        p { "A is " a href=(run_address(a.run)) { (clean(&label)) } ". Choose what to compare it with." }
        @if let Some(run) = run { (branches(run)) }
        h2 { "Other runs" }
        @if rows.is_empty() { p.quiet { "There is no other run." } }
        ul.choices { @for row in &rows { (choice(a, row)) } }
        @if left_out > 0 {
            p.quiet { (counted(left_out as u64, "older run is", "older runs are")) " not listed: " code { "workrail compare " (clean(&label)) " RUN" } }
        }
    };
    Ok(Page { title: format!("Compare {label}"), parts: vec![PagePart::new("choices", body)] })
}

fn choice(a: &ComparedRef, row: &RunRow) -> Markup {
    let b = row.run_id.map(ComparedRef::whole);
    let address = PageAddress::Compare(ComparePage { a: a.clone(), b }).address();
    html! {
        li data-item {
            a href=(address) { (clean(row.label.as_deref().unwrap_or_default())) }
            " " span.meta {
                @if let Some(id) = &row.workflow_id { (id) }
                @if let Some(goal) = &row.goal { " · " (clean(goal)) }
            }
        }
    }
}

fn branches(run: &RunReport) -> Markup {
    html! {
        @if run.branches.len() > 1 {
            h2 { "Branches of this run" }
            ul.choices { @for (text, address) in branch_links(run) { li data-item { a href=(address) { (clean(&text)) } } } }
        }
    }
}

/// Links that compare the current branch with each other one, by end points: letters may change later.
pub(super) fn branch_links(run: &RunReport) -> Vec<(String, String)> {
    let others = run.branches.iter().filter(|branch| !branch.preferred);
    let linked = others.filter_map(|branch| {
        let last = run.nodes.iter().find(|node| node.point == branch.last)?;
        let target = PageAddress::Compare(ComparePage {
            a: ComparedRef::whole(run.run_id),
            b: Some(ComparedRef::up_to(run.run_id, last.node_id)),
        });
        let letter = workrail_engine::report::branch_letter(branch.number);
        Some((format!("Compare with branch {letter} ({})", branch.last), target.address()))
    });
    linked.collect()
}

/// Links that compare the last attempt at a point with each earlier one.
pub(super) fn attempt_links(run: RunId, node: &workrail_engine::report::NodeReport) -> Vec<(String, String)> {
    let last = u32::try_from(node.attempts.len()).unwrap_or(u32::MAX);
    let linked = (1..last).map(|number| {
        let attempt = |number: u32| ComparedRef::attempt(run, node.node_id, number);
        let target = PageAddress::Compare(ComparePage { a: attempt(number), b: Some(attempt(last)) });
        (format!("Compare attempts {number} and {last}"), target.address())
    });
    linked.collect()
}
