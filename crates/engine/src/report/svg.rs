//! The run graph as inline SVG; where things stand comes from the core's layout.

use std::fmt::Write as _;

use workrail_core::report::graph::{Extent, Point, blocked_attempts, rows};
use workrail_core::report::{NodeReport, Standing, StepReport, words};
use workrail_model::event::NodeKind;

use super::html::escaped;

const ROW_HEIGHT: usize = 30;
const LANE_WIDTH: usize = 26;
const MARGIN: usize = 20;
const RADIUS: usize = 7;
/// Longer titles are cut in the drawing; the page below has them whole.
const TITLE_CHARS_MAX: usize = 60;
const TEXT_WIDTH: usize = 560;

/// The drawing; `anchor` makes the address of a point on the page.
pub(super) fn draw(nodes: &[NodeReport], anchor: &dyn Fn(&NodeReport) -> String) -> String {
    let rows = rows(nodes, Extent::Condensed);
    let lanes = rows.iter().map(|row| row.lane + 1).max().unwrap_or(1);
    let text_x = MARGIN * 2 + (lanes - 1) * LANE_WIDTH;
    let (width, height) = (text_x + TEXT_WIDTH, MARGIN * 2 + rows.len().saturating_sub(1) * ROW_HEIGHT);
    let (mut lines, mut points) = (String::new(), String::new());
    // Where each lane was last drawn.
    let mut last: Vec<usize> = Vec::new();
    for (place, row) in rows.iter().enumerate() {
        let (x, y) = (MARGIN + row.lane * LANE_WIDTH, MARGIN + place * ROW_HEIGHT);
        if row.starts {
            let left = x - LANE_WIDTH;
            let from = last.get(row.lane - 1).copied().unwrap_or(y);
            let bend = y - 10;
            let _ = write!(
                lines,
                r#"<path class="edge side" d="M{left} {from}V{bend}Q{left} {y} {} {y}H{x}"/>"#,
                left + 10
            );
        } else if let Some(from) = last.get(row.lane) {
            let dashed = if matches!(row.point, Point::Skipped(_)) { " skip" } else { "" };
            let _ = write!(lines, r#"<path class="edge{dashed}" d="M{x} {from}V{y}"/>"#);
        }
        last.truncate(row.lane);
        last.resize(row.lane + 1, y);
        match row.point {
            Point::Node(at) => point(&mut points, &nodes[at], (x, y), text_x, anchor),
            Point::Skipped(count) => {
                let _ = write!(
                    points,
                    r#"<circle class="skipped" cx="{x}" cy="{y}" r="3"/><text class="quiet" x="{text_x}" y="{}">{count} more</text>"#,
                    y + 4
                );
            }
        }
    }
    format!(
        r#"<svg class="graph" viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img" aria-label="The run graph">{lines}{points}</svg>"#
    )
}

fn point(
    out: &mut String,
    node: &NodeReport,
    (x, y): (usize, usize),
    text_x: usize,
    anchor: &dyn Fn(&NodeReport) -> String,
) {
    let class = match (node.kind, node.standing) {
        (_, Standing::Tip) => "tip",
        (NodeKind::Checkpoint, _) => "checkpoint",
        (NodeKind::Step, Standing::BranchEnd) => "end",
        (NodeKind::Step, Standing::Passed) => "passed",
    };
    let shape = match node.kind {
        NodeKind::Step => format!(r#"<circle class="{class}" cx="{x}" cy="{y}" r="{RADIUS}"/>"#),
        NodeKind::Checkpoint => {
            let (top, bottom, left, right) = (y - RADIUS, y + RADIUS, x - RADIUS, x + RADIUS);
            format!(r#"<path class="{class}" d="M{x} {top}L{right} {y}L{x} {bottom}L{left} {y}Z"/>"#)
        }
    };
    let title: String = words::one_line(&words::point(node)).chars().take(TITLE_CHARS_MAX).collect();
    let blocked = match blocked_attempts(node) {
        0 => String::new(),
        count => format!(r#"<tspan class="warn" dx="8">{count} blocked</tspan>"#),
    };
    let goes_on = node.standing == Standing::Tip && node.step != StepReport::Complete;
    let tip = if goes_on { r#"<tspan class="here" dx="8">current</tspan>"# } else { "" };
    let _ = write!(
        out,
        r##"<a href="#{}">{shape}<text x="{text_x}" y="{}"><tspan class="number">{}</tspan><tspan dx="8">{}</tspan>{blocked}{tip}</text></a>"##,
        anchor(node),
        y + 4,
        node.number,
        escaped(&title)
    );
}
