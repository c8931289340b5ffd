//! `workrail compare`: two branches, attempts or runs side by side.

use workrail_core::compare::words::{self, ComparedFact};
use workrail_core::compare::{
    ArtifactComparison, Comparison, ContextComparison, DiffLine, Difference, FieldDifference, Side,
    StepComparison,
};
use workrail_core::report::ContextValues;
use workrail_core::report::words::{context_value, one_line, plain};

use super::warn_of_damage;
use crate::layout::wrapped;
use crate::outcome::{Failure, Format};
use crate::output::{self, Tone};
use crate::{name, wiring};

pub(super) const EXAMPLES: &str = "Examples:
  workrail compare amber-falcon blue-otter      two runs
  workrail compare amber-falcon @b              the current branch with branch b
  workrail compare amber-falcon@3:1 @3:2        two attempts at point 3
  workrail compare amber-falcon@..4 @..4b       two paths, each up to a point";

/// How many lines of notes are shown for a step that only one side has.
const LINES_OF_ONE_SIDE: usize = 6;

pub(super) fn run(a: &str, b: &str, context: bool, format: Format) -> Result<(), Failure> {
    let engine = wiring::read_only_default()?;
    let a = name::part(&engine, a, None)?;
    let b = name::part(&engine, b, Some(&a))?;
    let values = if context { ContextValues::Short } else { ContextValues::NotShown };
    let comparison = engine.compare(&a, &b, values)?;
    if format == Format::Json {
        output::json(&super::value(&comparison)?);
        return Ok(());
    }
    warn_of_damage(&comparison.a.health);
    if comparison.a.session_id != comparison.b.session_id {
        warn_of_damage(&comparison.b.health);
    }
    comparison.remarks.iter().for_each(|remark| wrap(Some(Tone::Warning), "", remark));
    super::show::warn_if_keys_unusable(&engine);
    heading(&comparison);
    steps(&comparison.steps);
    context_differences(&comparison.context);
    gaps(&comparison);
    continuing(&comparison);
    Ok(())
}

/// Prints text wrapped between words to the terminal's width; further lines are indented like the first.
fn wrap(tone: Option<Tone>, before: &str, text: &str) {
    let width = output::columns().map(|columns| columns.saturating_sub(before.chars().count()).max(20));
    for (index, line) in wrapped(text, width).iter().enumerate() {
        let start = if index == 0 { before.to_owned() } else { " ".repeat(before.chars().count()) };
        let line = cut(&format!("{start}{line}"));
        match tone {
            None => output::line(&line),
            Some(tone) => output::toned(tone, &line),
        }
    }
}

/// A word longer than the line is cut.
fn cut(line: &str) -> String {
    match output::columns() {
        Some(columns) => crate::layout::cut(line, columns).into_owned(),
        None => line.to_owned(),
    }
}

fn heading(comparison: &Comparison) {
    for (name, side) in [("A", &comparison.a), ("B", &comparison.b)] {
        wrap(Some(Tone::Heading), "", &format!("{name}  {}", words::side(side)));
    }
    output::line("");
    for (fact, a, b) in words::facts(comparison).into_iter().filter(|(fact, ..)| *fact != ComparedFact::Run) {
        let name = fact.as_str();
        if a == b {
            wrap(None, &format!("  {name:12}    "), &a);
        } else {
            wrap(None, &format!("  {name:12} A  "), &a);
            wrap(None, &format!("  {:12} B  ", ""), &b);
        }
    }
    output::line("");
    output::line(&words::counts(&comparison.counts));
}

fn steps(all: &[StepComparison]) {
    let mut rest = all;
    while let Some(first) = rest.first() {
        let folded = rest.iter().take_while(|step| step.difference == Difference::Shared).count();
        // One shared step takes no more room than the line that would replace it.
        if folded > 1 {
            let (from, to) = (&rest[0], &rest[folded - 1]);
            let point = |step: &StepComparison| {
                step.a.as_ref().map(|side| side.point.to_string()).unwrap_or_default()
            };
            let text = format!("{} shared steps, {} to {}", folded, point(from), point(to));
            output::toned(Tone::Quiet, &format!("\n  {text}"));
            rest = &rest[folded..];
        } else {
            step(first);
            rest = &rest[1..];
        }
    }
}

fn step(step: &StepComparison) {
    let point = |side: Option<&workrail_core::compare::StepSide>| side.map(|side| side.point.to_string());
    let (a, b) = (point(step.a.as_ref()), point(step.b.as_ref()));
    let points = match (&a, &b) {
        (Some(a), Some(b)) if a == b => a.clone(),
        (Some(a), Some(b)) => format!("{a} | {b}"),
        (Some(point), None) | (None, Some(point)) => point.clone(),
        (None, None) => String::new(),
    };
    let tone = match step.difference {
        Difference::Shared | Difference::Same => Tone::Quiet,
        Difference::Differs => Tone::Warning,
        Difference::OnlyA => Tone::Bad,
        Difference::OnlyB => Tone::Good,
    };
    output::line("");
    let head = format!("{points}. {} · {}", one_line(&step.title), words::difference(step.difference));
    wrap(Some(tone), "  ", &head);
    if step.difference == Difference::Shared {
        return;
    }
    for (name, side) in [("A", &step.a), ("B", &step.b)] {
        if let Some(side) = side {
            wrap(Some(Tone::Quiet), &format!("     {name}  "), &words::step_side(side));
        }
    }
    notes(step);
    step.artifacts.iter().for_each(artifact);
    step.assessments.iter().for_each(field);
}

fn notes(step: &StepComparison) {
    let has_one_side = matches!(step.difference, Difference::OnlyA | Difference::OnlyB);
    let most = if has_one_side { LINES_OF_ONE_SIDE } else { usize::MAX };
    for line in step.notes.iter().take(most) {
        match line {
            DiffLine::Both { text } => wrap(None, "       ", text),
            DiffLine::A { text } => wrap(Some(Tone::Bad), "     - ", text),
            DiffLine::B { text } => wrap(Some(Tone::Good), "     + ", text),
            DiffLine::Skipped { lines } => {
                output::toned(
                    Tone::Quiet,
                    &format!("       … {} …", output::counted(*lines, "equal line", "equal lines")),
                );
            }
            DiffLine::NotCompared { lines } => {
                let text = format!(
                    "{} not compared",
                    output::counted(*lines, "further line is", "further lines are")
                );
                wrap(Some(Tone::Warning), "       ", &text);
            }
            DiffLine::OnlyLineEnds => output::toned(Tone::Quiet, "       only line ends differ"),
        }
    }
    if step.notes.len() > most {
        let more = (step.notes.len() - most) as u64;
        output::toned(Tone::Quiet, &format!("       … {}", output::counted(more, "more line", "more lines")));
    }
}

fn artifact(artifact: &ArtifactComparison) {
    wrap(None, "     ", &words::artifact(artifact));
    artifact.fields.iter().for_each(field);
    if artifact.fields_left_out > 0 {
        let text = output::counted(artifact.fields_left_out, "more field differs", "more fields differ");
        output::toned(Tone::Quiet, &format!("       … {text}"));
    }
}

fn field(field: &FieldDifference) {
    wrap(None, "       ", &words::field_name(field));
    if let Some(value) = &field.a {
        wrap(Some(Tone::Bad), "       - ", &words::value(value));
    }
    if let Some(value) = &field.b {
        wrap(Some(Tone::Good), "       + ", &words::value(value));
    }
}

fn context_differences(all: &[ContextComparison]) {
    if all.is_empty() {
        return;
    }
    output::toned(Tone::Heading, "\nContext that differs");
    for entry in all {
        wrap(None, "  ", &format!("{} · {}", one_line(&entry.key), words::difference(entry.difference)));
        let is_shown = |value: &&workrail_core::report::ContextValue| {
            **value != workrail_core::report::ContextValue::NotShown
        };
        if let Some(value) = entry.a.as_ref().filter(is_shown) {
            wrap(Some(Tone::Bad), "     - ", &one_line(&context_value(value)));
        }
        if let Some(value) = entry.b.as_ref().filter(is_shown) {
            wrap(Some(Tone::Good), "     + ", &one_line(&context_value(value)));
        }
    }
}

fn gaps(comparison: &Comparison) {
    if comparison.gaps.is_empty() {
        return;
    }
    output::toned(Tone::Heading, "\nGaps");
    for gap in &comparison.gaps {
        let text = format!("{} · {} · {}", plain(&gap.severity), words::gap(gap), one_line(&gap.summary));
        wrap(None, "  ", &text);
    }
}

fn continuing(comparison: &Comparison) {
    output::toned(Tone::Heading, &format!("\n{}", words::continues(comparison)));
    comparison.why.iter().for_each(|why| wrap(None, "  ", why));
    let is_same_point = comparison.a.continue_at == comparison.b.continue_at;
    let sides = [("A", &comparison.a), ("B", &comparison.b)];
    for (name, side) in sides.into_iter().take(if is_same_point { 1 } else { 2 }) {
        call(if is_same_point { "it" } else { name }, side);
    }
}

fn call(name: &str, side: &Side) {
    let Some(call) = &side.next_call else { return };
    output::line("");
    let text = format!("To continue {name}, ask the agent to call {} with:", call.tool);
    wrap(None, "  ", &text);
    // A call is meant to be copied, so it is never wrapped.
    output::line(&format!("    {}", call.arguments_text()));
    wrap(Some(Tone::Quiet), "    ", words::continuation(side.continuation));
}
