//! The plan of a workflow as a graph: steps in order, loops in brackets, steps with a condition dashed.

use maud::{Markup, html};
use workrail_model::discovery::{PlanEntry, PlanEntryKind};
use workrail_model::text::clean;

const LINE: usize = 30;
const MARGIN: usize = 20;
const BRACKET: usize = 10;
const RADIUS: usize = 7;
const TEXT_WIDTH: usize = 600;
const TITLE_CHARS_MAX: usize = 60;

/// The drawing; every step links to its entry below. Shapes have end tags, as SVG inside HTML requires.
pub(super) fn draw(plan: &[PlanEntry]) -> Markup {
    // `3.1.2` is two loops deep.
    let depth = |entry: &PlanEntry| entry.number.matches('.').count();
    let deepest = plan.iter().map(depth).max().unwrap_or(0);
    let x = MARGIN + deepest * BRACKET;
    let y = |at: usize| MARGIN + at * LINE;
    let text_x = x + MARGIN;
    let (width, height) = (text_x + TEXT_WIDTH, MARGIN + y(plan.len().saturating_sub(1)));
    html! {
        svg.graph viewBox={ "0 0 " (width) " " (height) } width=(width) height=(height) role="group" aria-label="The plan" {
            @if plan.len() > 1 { path class="edge preferred" d={ "M" (x) " " (y(0)) "V" (y(plan.len() - 1)) } {} }
            @for (at, entry) in plan.iter().enumerate() {
                @if entry.kind == PlanEntryKind::Loop {
                    @let last = at + plan[at + 1..].iter().take_while(|other| depth(other) > depth(entry)).count();
                    @let left = MARGIN / 2 + depth(entry) * BRACKET;
                    path class="bracket" d={ "M" (left + 6) " " (y(at) - 10) "H" (left) "V" (y(last) + 10) "H" (left + 6) } {}
                }
                (point(entry, (x, y(at)), text_x))
            }
        }
    }
}

fn point(entry: &PlanEntry, (x, y): (usize, usize), text_x: usize) -> Markup {
    let title: String = clean(&entry.title).chars().take(TITLE_CHARS_MAX).collect();
    let asks = entry.confirmation.is_some() || !entry.user_dependencies.is_empty();
    html! {
        a href={ "#step-" (entry.number) } {
            @match entry.kind {
                PlanEntryKind::Loop => rect.folded x=(x - RADIUS) y=(y - RADIUS) width=(RADIUS * 2) height=(RADIUS * 2) rx="3" {},
                PlanEntryKind::Step | PlanEntryKind::Parallel | PlanEntryKind::CapabilityProbe => {
                    circle.passed.conditional[entry.runs_if.is_some()] cx=(x) cy=(y) r=(RADIUS) {}
                }
            }
            text x=(text_x) y=(y + 4) {
                tspan.number { (entry.number) }
                tspan dx="8" { (title) }
                @if entry.kind == PlanEntryKind::Loop { tspan.quiet dx="8" { "loop" } }
                @if entry.runs_if.is_some() { tspan.quiet dx="8" { "conditional" } }
                @if asks { tspan.warn dx="8" { "may ask a person" } }
            }
        }
    }
}
