//! The run graph as inline SVG; the core's layout decides where points are drawn.

use maud::{Markup, html};
use workrail_core::report::graph::{GraphDetail, Point, PointSymbol, point_symbol, remarks, rows};
use workrail_core::report::{NodeReport, words};
use workrail_model::event::NodeKind;
use workrail_model::id::NodeId;

use crate::html::class_of;

const ROW_HEIGHT: usize = 30;
const LANE_WIDTH: usize = 26;
const MARGIN: usize = 20;
const RADIUS: usize = 7;
/// Longer titles are truncated in the drawing; the page below shows them in full.
const TITLE_CHARS_MAX: usize = 60;
const TEXT_WIDTH: usize = 560;

/// The drawing; every point links to its address.
///
/// Shapes have end tags: in HTML an SVG element without one would contain everything after it.
pub(super) fn draw(nodes: &[NodeReport], address: &dyn Fn(NodeId) -> String) -> Markup {
    let rows = rows(nodes, GraphDetail::Condensed);
    let lanes = rows.iter().map(|row| row.lane + 1).max().unwrap_or(1);
    let text_x = MARGIN * 2 + (lanes - 1) * LANE_WIDTH;
    let (width, height) = (text_x + TEXT_WIDTH, MARGIN * 2 + rows.len().saturating_sub(1) * ROW_HEIGHT);
    let (mut lines, mut points) = (Vec::new(), Vec::new());
    // Where each lane was last drawn.
    let mut last: Vec<usize> = Vec::new();
    for (index, row) in rows.iter().enumerate() {
        let (x, y) = (MARGIN + row.lane * LANE_WIDTH, MARGIN + index * ROW_HEIGHT);
        if row.starts {
            let left = x - LANE_WIDTH;
            let from = last.get(row.lane - 1).copied().unwrap_or(y);
            let (bend, turned) = (y - 10, left + 10);
            let path = format!("M{left} {from}V{bend}Q{left} {y} {turned} {y}H{x}");
            lines.push(html! { path class="edge side" d=(path) {} });
        } else if let Some(from) = last.get(row.lane) {
            let is_dashed = matches!(row.point, Point::LeftOut(_));
            lines.push(html! { path.edge.skip[is_dashed] d={ "M" (x) " " (from) "V" (y) } {} });
        }
        last.truncate(row.lane);
        last.resize(row.lane + 1, y);
        points.push(match row.point {
            Point::Node(at) => {
                let node = &nodes[at];
                point(node, &address(node.node_id), (x, y), text_x)
            }
            Point::LeftOut(count) => html! {
                circle.skipped cx=(x) cy=(y) r="3" {}
                text.quiet x=(text_x) y=(y + 4) { (count) " more" }
            },
        });
    }
    html! {
        svg.graph viewBox={ "0 0 " (width) " " (height) } width=(width) height=(height) role="group" aria-label="The run graph" {
            @for line in lines { (line) }
            @for point in points { (point) }
        }
    }
}

fn point(node: &NodeReport, address: &str, (x, y): (usize, usize), text_x: usize) -> Markup {
    let class = match point_symbol(node) {
        PointSymbol::Tip => "tip",
        PointSymbol::Checkpoint => "checkpoint",
        PointSymbol::BranchEnd => "end",
        PointSymbol::Step => "passed",
    };
    let (top, bottom, left, right) = (y - RADIUS, y + RADIUS, x - RADIUS, x + RADIUS);
    let title: String = words::one_line(&words::point(node)).chars().take(TITLE_CHARS_MAX).collect();
    html! {
        a href=(address) {
            @match node.kind {
                NodeKind::Step => circle class=(class) cx=(x) cy=(y) r=(RADIUS) {},
                NodeKind::Checkpoint => {
                    path class=(class) d=(format!("M{x} {top}L{right} {y}L{x} {bottom}L{left} {y}Z")) {}
                }
            }
            text x=(text_x) y=(y + 4) {
                tspan.number { (node.point) }
                tspan dx="8" { (title) }
                @for (tone, remark) in remarks(node) { tspan class=(class_of(tone)) dx="8" { (remark) } }
            }
        }
    }
}
