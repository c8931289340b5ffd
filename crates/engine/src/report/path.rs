//! The run's path as inline SVG for the console: loops in brackets, folded parts as one line that opens, skipped steps
//! dashed. The core decides what is drawn.

use maud::{Markup, html};
use workrail_core::report::graph::{PointSymbol, point_symbol, remarks};
use workrail_core::report::path::{OpenParts, PathItem, PathLine, lines};
use workrail_core::report::{NodeReport, SkippedStep, branch_letter, words};
use workrail_model::event::{EdgeCauseKind, NodeKind};
use workrail_model::id::NodeId;

use crate::html::class_of;

const LINE_HEIGHT: usize = 30;
const LANE_WIDTH: usize = 26;
const BRACKET_WIDTH: usize = 10;
const MARGIN: usize = 20;
const RADIUS: usize = 7;
/// Longer titles are truncated in the drawing; the point itself shows them in full.
const TITLE_CHARS_MAX: usize = 60;
const CONDITION_CHARS_MAX: usize = 50;
const TEXT_WIDTH: usize = 560;

/// Link targets of the drawing's parts.
#[derive(Clone, Copy)]
pub struct PathAddresses<'a> {
    /// To a point.
    pub point: &'a dyn Fn(NodeId) -> String,
    /// To the same page with a part opened.
    pub open: &'a dyn Fn(NodeId) -> String,
    /// To the same page with a part folded.
    pub fold: &'a dyn Fn(NodeId) -> String,
}

impl std::fmt::Debug for PathAddresses<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PathAddresses").finish_non_exhaustive()
    }
}

/// The position of a line.
#[derive(Clone, Copy)]
struct At {
    x: usize,
    y: usize,
    text_x: usize,
}

/// The drawing. Shapes have end tags: in HTML an SVG element without one would contain everything after it.
pub fn draw(nodes: &[NodeReport], opened: &OpenParts, addresses: PathAddresses<'_>) -> Markup {
    let lines = lines(nodes, opened);
    let depth = lines.iter().map(|line| line.brackets.len()).max().unwrap_or(0);
    let lanes = lines.iter().map(|line| line.lane + 1).max().unwrap_or(1);
    let left = MARGIN + depth * BRACKET_WIDTH;
    let text_x = left + MARGIN + (lanes - 1) * LANE_WIDTH;
    let (width, height) = (text_x + TEXT_WIDTH, MARGIN * 2 + lines.len().saturating_sub(1) * LINE_HEIGHT);
    let point_at =
        |at: usize, lane: usize| At { x: left + lane * LANE_WIDTH, y: MARGIN + at * LINE_HEIGHT, text_x };
    html! {
        svg.graph viewBox={ "0 0 " (width) " " (height) } width=(width) height=(height) role="group"
            aria-label="The path of the run" data-pan {
            @for bracket in brackets(&lines) { (bracket) }
            @for edge in edges(&lines, nodes, &point_at) { (edge) }
            @for (at, line) in lines.iter().enumerate() { (shown(line, nodes, opened, addresses, point_at(at, line.lane))) }
        }
    }
}

/// A bracket next to every loop: from its first line to its last.
fn brackets(lines: &[PathLine]) -> Vec<Markup> {
    let mut drawn = Vec::new();
    let mut open: Vec<(&str, usize)> = Vec::new();
    let close = |level: usize, from: usize, to: usize| {
        let (x, top, bottom) = (
            MARGIN / 2 + level * BRACKET_WIDTH,
            MARGIN + from * LINE_HEIGHT - 10,
            MARGIN + to * LINE_HEIGHT + 10,
        );
        let d = format!("M{} {top}H{x}V{bottom}H{}", x + 6, x + 6);
        html! { path class="bracket" d=(d) {} }
    };
    for (at, line) in lines.iter().enumerate() {
        let same =
            open.iter().zip(&line.brackets).take_while(|((name, _), own)| *name == own.as_str()).count();
        while open.len() > same {
            if let Some((_, from)) = open.pop() {
                drawn.push(close(open.len(), from, at - 1));
            }
        }
        open.extend(line.brackets[same..].iter().map(|name| (name.as_str(), at)));
    }
    while let Some((_, from)) = open.pop() {
        drawn.push(close(open.len(), from, lines.len() - 1));
    }
    drawn
}

/// The lines between the points; the path on which the run continues is highlighted.
fn edges(lines: &[PathLine], nodes: &[NodeReport], point_at: &dyn Fn(usize, usize) -> At) -> Vec<Markup> {
    let mut drawn = Vec::new();
    // Where each lane was last drawn.
    let mut last: Vec<usize> = Vec::new();
    for (number, line) in lines.iter().enumerate() {
        let At { x, y, .. } = point_at(number, line.lane);
        let is_preferred = match &line.item {
            PathItem::Point(at) => nodes[*at].branch == 0 && nodes[*at].kind == NodeKind::Step,
            PathItem::Skipped { before, .. } => nodes[*before].branch == 0,
            PathItem::Rounds { first, .. } => nodes[*first].branch == 0,
            PathItem::Branch { .. } | PathItem::More(_) => false,
        };
        if line.starts && line.lane > 0 {
            let left = x - LANE_WIDTH;
            let from = last.get(line.lane - 1).copied().unwrap_or(y);
            let d = format!("M{left} {from}V{}Q{left} {y} {} {y}H{x}", y - 10, left + 10);
            drawn.push(html! { path.edge.side.preferred[is_preferred] d=(d) {} });
        } else if let Some(from) = last.get(line.lane) {
            let is_dashed = matches!(line.item, PathItem::More(_));
            drawn.push(html! { path.edge.preferred[is_preferred].skip[is_dashed] d={ "M" (x) " " (from) "V" (y) } {} });
        }
        last.truncate(line.lane);
        last.resize(line.lane + 1, y);
    }
    drawn
}

fn shown(
    line: &PathLine,
    nodes: &[NodeReport],
    opened: &OpenParts,
    addresses: PathAddresses<'_>,
    at: At,
) -> Markup {
    let At { x, y, text_x } = at;
    html! {
        @match &line.item {
            PathItem::Point(point_at) => {
                @let node = &nodes[*point_at];
                (point(node, &(addresses.point)(node.node_id), opened.shown == Some(node.node_id), at))
            }
            PathItem::Skipped { before, at: which } => (skipped(&nodes[*before].skipped[*which], at)),
            PathItem::Rounds { first, title, from, to, points } => {
                @let rounds = if from == to { format!("round {from}") } else { format!("rounds {from} to {to}") };
                @let text = format!("{}: {rounds}, {}", cut(title, TITLE_CHARS_MAX), counted(*points));
                (folded(&text, &(addresses.open)(nodes[*first].node_id), at))
            }
            PathItem::Branch { first, points } => {
                @let node = &nodes[*first];
                @let title = cut(&words::point(node), TITLE_CHARS_MAX / 2);
                @let text = format!("Branch {}: {}, begins with {title}", branch_letter(node.branch), counted(*points));
                (folded(&text, &(addresses.open)(node.node_id), at))
            }
            PathItem::More(count) => {
                circle.skipped cx=(x) cy=(y) r="3" {}
                text.quiet x=(text_x) y=(y + 4) { (counted(*count)) " not drawn" }
            }
        }
        @if let Some(part) = line.folds {
            a href=((addresses.fold)(part)) {
                title { "Fold" }
                text.fold x=(x - 4) y=(y - 10) { "▾" }
            }
        }
    }
}

fn counted(points: usize) -> String {
    if points == 1 { "1 point".to_owned() } else { format!("{points} points") }
}

fn cut(text: &str, chars_max: usize) -> String {
    let line = words::one_line(text);
    let mut short: String = line.chars().take(chars_max).collect();
    if short.len() < line.len() {
        short.push('…');
    }
    short
}

/// A folded part, which can be opened.
fn folded(text: &str, address: &str, At { x, y, text_x }: At) -> Markup {
    html! {
        a href=(address) {
            title { "Open" }
            rect.folded x=(x - RADIUS) y=(y - RADIUS) width=(RADIUS * 2) height=(RADIUS * 2) rx="3" {}
            text.fold x=(x - 4) y=(y + 4) { "▸" }
            text x=(text_x) y=(y + 4) { (text) }
        }
    }
}

fn skipped(step: &SkippedStep, At { x, y, text_x }: At) -> Markup {
    html! {
        g.ghost {
            title { "Skipped: it runs only if " (words::one_line(&step.condition)) }
            circle cx=(x) cy=(y) r=(RADIUS - 1) {}
            text x=(text_x) y=(y + 4) {
                (cut(&step.title, TITLE_CHARS_MAX / 2))
                tspan dx="8" { "skipped: runs only if " (cut(&step.condition, CONDITION_CHARS_MAX)) }
            }
        }
    }
}

fn point(node: &NodeReport, address: &str, is_shown: bool, At { x, y, text_x }: At) -> Markup {
    let class = match point_symbol(node) {
        PointSymbol::Tip => "tip",
        PointSymbol::Checkpoint => "checkpoint",
        PointSymbol::BranchEnd => "end",
        PointSymbol::Step => "passed",
    };
    let cause = node.reached_by.filter(|cause| match cause {
        EdgeCauseKind::IdempotentReplay | EdgeCauseKind::IntentionalFork | EdgeCauseKind::NonTipAdvance => {
            true
        }
        // The drawing itself already shows these.
        EdgeCauseKind::AckPending | EdgeCauseKind::CheckpointCreated => false,
    });
    let (top, bottom, left, right) = (y - RADIUS, y + RADIUS, x - RADIUS, x + RADIUS);
    html! {
        a href=(address) aria-current=[is_shown.then_some("true")] {
            title { (words::one_line(&words::point(node))) }
            @match node.kind {
                NodeKind::Step => circle class=(class) cx=(x) cy=(y) r=(RADIUS) {},
                NodeKind::Checkpoint => {
                    path class=(class) d=(format!("M{x} {top}L{right} {y}L{x} {bottom}L{left} {y}Z")) {}
                }
            }
            text x=(text_x) y=(y + 4) {
                tspan.number { (node.point) }
                tspan dx="8" { (cut(&words::point(node), TITLE_CHARS_MAX)) }
                @for (tone, remark) in remarks(node) { tspan class=(class_of(tone)) dx="8" { (remark) } }
                @if let Some(cause) = cause { tspan.quiet dx="8" { (words::cause(cause)) } }
            }
        }
    }
}
