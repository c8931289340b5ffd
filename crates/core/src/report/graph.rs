//! The run graph: where each point is drawn, and the graph as text.
//!
//! A branch goes straight down in its lane. What leaves it is drawn one lane to the right before the branch
//! continues, so that the number of lanes depends on how deeply forks are nested and not on how many there
//! are. Only the ends of long straight stretches are drawn.

use std::collections::BTreeMap;

use workrail_model::event::NodeKind;
use workrail_model::id::NodeId;

use super::sections::SpanTone;
use super::{BranchPosition, NodeReport, Outcome, StepReport, words};

/// Only the ends of a longer straight stretch are drawn.
const STRETCH_MAX: usize = 9;
const STRETCH_ENDS: usize = 3;
/// Further branches from one point are counted, not drawn.
const WAYS_MAX: usize = 24;
/// Deeper forks are counted, not drawn.
const LANES_MAX: usize = 16;

/// How much is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GraphDetail {
    /// Bounded, however long or wide the run is.
    Condensed,
    Everything,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strokes {
    Unicode,
    Ascii,
}

/// What is drawn on a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Point {
    /// The index of the node in the run's list.
    Node(usize),
    /// This many points that are not drawn.
    LeftOut(usize),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GraphRow {
    pub lane: usize,
    /// Starts from the lane to its left; otherwise it continues in its own.
    pub starts: bool,
    pub point: Point,
    /// Which lanes continue below this row.
    pub below: Vec<bool>,
}

pub fn rows(nodes: &[NodeReport], detail: GraphDetail) -> Vec<GraphRow> {
    let mut rows = match detail {
        GraphDetail::Condensed => condensed(walk(nodes, WAYS_MAX, LANES_MAX), nodes),
        GraphDetail::Everything => walk(nodes, usize::MAX, usize::MAX),
    };
    let mut open: Vec<bool> = Vec::new();
    for row in rows.iter_mut().rev() {
        row.below.clone_from(&open);
        open.resize(row.lane + 1, false);
        open[row.lane] = !row.starts;
        if let Some(left) = row.lane.checked_sub(1).filter(|_| row.starts) {
            open[left] = true;
        }
    }
    rows
}

/// Every point in drawing order.
pub(super) fn walk(nodes: &[NodeReport], ways_max: usize, lanes_max: usize) -> Vec<GraphRow> {
    let indexes: BTreeMap<NodeId, usize> =
        nodes.iter().zip(0..).map(|(node, index)| (node.node_id, index)).collect();
    let mut children: Vec<Vec<usize>> = vec![Vec::new(); nodes.len()];
    let mut roots = Vec::new();
    for (index, node) in nodes.iter().enumerate() {
        match node.parent.and_then(|parent| indexes.get(&parent)) {
            Some(parent) => children[*parent].push(index),
            None => roots.push(index),
        }
    }
    // Number of points below each, including itself: parents come before their children.
    let mut sizes = vec![1_usize; nodes.len()];
    for index in (0..nodes.len()).rev() {
        sizes[index] += children[index].iter().map(|child| sizes[*child]).sum::<usize>();
    }
    let mut rows = Vec::new();
    // An explicit stack, because a run may be deeper than the call stack.
    let mut ahead: Vec<(Point, usize, bool)> =
        roots.iter().rev().map(|root| (Point::Node(*root), 0, false)).collect();
    while let Some((point, lane, starts)) = ahead.pop() {
        rows.push(GraphRow { lane, starts, point, below: Vec::new() });
        let Point::Node(index) = point else { continue };
        let straight =
            children[index].iter().copied().find(|child| stays_in_lane(&nodes[index], &nodes[*child]));
        ahead.extend(straight.map(|child| (Point::Node(child), lane, false)));
        let mut ways: Vec<usize> =
            children[index].iter().copied().filter(|child| Some(*child) != straight).collect();
        let drawn = if lane + 1 < lanes_max { ways_max.min(ways.len()) } else { 0 };
        let rest = ways.split_off(drawn);
        let skipped: usize = rest.iter().map(|way| sizes[*way]).sum();
        ahead.extend((skipped > 0).then_some((Point::LeftOut(skipped), lane + 1, true)));
        ahead.extend(ways.iter().rev().map(|way| (Point::Node(*way), lane + 1, true)));
    }
    rows
}

/// Whether a child is drawn in the lane of its parent.
fn stays_in_lane(parent: &NodeReport, child: &NodeReport) -> bool {
    // A checkpoint is a note on its step, unless the run continued from the checkpoint itself.
    let of_path = child.kind == NodeKind::Step || child.branch_position == BranchPosition::Tip;
    child.branch == parent.branch && (of_path || parent.kind == NodeKind::Checkpoint)
}

fn condensed(rows: Vec<GraphRow>, nodes: &[NodeReport]) -> Vec<GraphRow> {
    let plain = |row: &GraphRow| match row.point {
        Point::Node(index) => !row.starts && is_plain(&nodes[index]),
        Point::LeftOut(_) => false,
    };
    let mut condensed: Vec<GraphRow> = Vec::new();
    let mut stretch: Vec<GraphRow> = Vec::new();
    let flush = |stretch: &mut Vec<GraphRow>, condensed: &mut Vec<GraphRow>| {
        let skipped = stretch.len().saturating_sub(2 * STRETCH_ENDS);
        if stretch.len() <= STRETCH_MAX {
            condensed.append(stretch);
            return;
        }
        let tail = stretch.split_off(stretch.len() - STRETCH_ENDS);
        let lane = tail[0].lane;
        stretch.truncate(STRETCH_ENDS);
        condensed.append(stretch);
        condensed.push(GraphRow { lane, starts: false, point: Point::LeftOut(skipped), below: Vec::new() });
        condensed.extend(tail);
    };
    for row in rows {
        let follows = stretch.last().is_none_or(|last| last.lane == row.lane) && plain(&row);
        if !follows {
            flush(&mut stretch, &mut condensed);
        }
        if plain(&row) {
            stretch.push(row);
        } else {
            condensed.push(row);
        }
    }
    flush(&mut stretch, &mut condensed);
    condensed
}

/// A point with nothing but the step itself.
fn is_plain(node: &NodeReport) -> bool {
    node.branch_position == BranchPosition::Passed
        && blocked_attempts(node) == 0
        && node.kind == NodeKind::Step
}

fn blocked_attempts(node: &NodeReport) -> usize {
    node.attempts.iter().filter(|attempt| matches!(attempt.outcome, Outcome::Blocked { .. })).count()
}

/// The symbol for a point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PointSymbol {
    Step,
    Checkpoint,
    BranchEnd,
    Tip,
}

pub fn point_symbol(node: &NodeReport) -> PointSymbol {
    match (node.kind, node.branch_position) {
        (_, BranchPosition::Tip) => PointSymbol::Tip,
        (NodeKind::Checkpoint, _) => PointSymbol::Checkpoint,
        (NodeKind::Step, BranchPosition::BranchEnd) => PointSymbol::BranchEnd,
        (NodeKind::Step, BranchPosition::Passed) => PointSymbol::Step,
    }
}

/// The remarks about a point, besides its title.
pub fn remarks(node: &NodeReport) -> Vec<(SpanTone, String)> {
    let blocked = match blocked_attempts(node) {
        0 => None,
        1 => Some((SpanTone::Warning, "1 blocked attempt".to_owned())),
        count => Some((SpanTone::Warning, format!("{count} blocked attempts"))),
    };
    // The title of a complete tip already says so.
    let is_said = node.branch_position == BranchPosition::Tip && node.step == StepReport::Complete;
    let branch_position = words::branch_position(node).filter(|_| !is_said);
    blocked.into_iter().chain(branch_position.map(|(tone, text)| (tone, text.to_owned()))).collect()
}

/// A row as text: its lines, its symbol, and the text after it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GraphLine {
    pub strokes: String,
    pub text: String,
    pub point: Point,
}

/// The graph as lines of text.
pub fn drawn(rows: &[GraphRow], nodes: &[NodeReport], strokes: Strokes) -> Vec<GraphLine> {
    let [down, way, last, step, checkpoint, tip, end, gap] = match strokes {
        Strokes::Unicode => ["│ ", "├─", "╰─", "●", "◇", "◉", "○", "⋮"],
        Strokes::Ascii => ["| ", "|-", "`-", "*", "+", "@", "o", ":"],
    };
    let line = |row: &GraphRow| {
        let mut text = String::new();
        for lane in 0..row.lane {
            let continues = row.below.get(lane).copied().unwrap_or(false);
            let here = row.starts && lane + 1 == row.lane;
            text.push_str(match (here, continues) {
                (true, true) => way,
                (true, false) => last,
                (false, true) => down,
                (false, false) => "  ",
            });
        }
        let (symbol, label) = match row.point {
            Point::LeftOut(count) => (gap, format!("{count} more")),
            Point::Node(index) => {
                let node = &nodes[index];
                let symbol = match point_symbol(node) {
                    PointSymbol::Tip => tip,
                    PointSymbol::Checkpoint => checkpoint,
                    PointSymbol::BranchEnd => end,
                    PointSymbol::Step => step,
                };
                (symbol, point_text(node))
            }
        };
        text.push_str(symbol);
        GraphLine { strokes: text, text: label, point: row.point }
    };
    rows.iter().map(line).collect()
}

/// The title of a point and the remarks about it.
fn point_text(node: &NodeReport) -> String {
    let mut text = format!("{}. {}", node.point, words::one_line(&words::point(node)));
    for (_, remark) in remarks(node) {
        text.push_str(&format!(" · {remark}"));
    }
    text
}
