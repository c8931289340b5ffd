//! The run graph for a reader who can open and close parts of it: the path on which the run continues is drawn in full,
//! other branches and finished rounds of long loops are one line each until they are opened, and skipped steps
//! are where they would have been.
//!
//! `graph` decides where a point is drawn; this module decides what is drawn. Open parts are identified by the ids of
//! their first points, so that an address can contain them and a part stays open while the run grows.

use std::collections::BTreeSet;

use workrail_model::id::NodeId;

use super::graph::{GraphRow, walk};
use super::{BranchPosition, NodeReport, Round, graph};

/// The finished rounds of a loop with more points than this are folded.
const LOOP_POINTS_MAX: usize = 6;
/// Further branches from one point are counted, not drawn.
const WAYS_MAX: usize = 100;
/// Deeper forks are counted, not drawn.
const LANES_MAX: usize = 16;
/// The maximum number of lines; more would make a browser slow.
const LINES_MAX: usize = 3_000;
/// Loops nested deeper than this are not folded.
const LOOP_DEPTH_MAX: usize = 4;

/// What the reader has opened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OpenParts {
    /// Everything, regardless of the other fields.
    pub all: bool,
    /// The first points of the opened parts.
    pub parts: BTreeSet<NodeId>,
    /// The point that is shown: nothing that contains it is folded.
    pub shown: Option<NodeId>,
}

impl OpenParts {
    fn has(&self, part: NodeId) -> bool {
        self.all || self.parts.contains(&part)
    }
}

/// What a line shows. Indexes are those of the run's list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PathItem {
    Point(usize),
    /// The step at `at` among those skipped on the way to the point `before`.
    Skipped {
        before: usize,
        at: usize,
    },
    /// Finished rounds of a loop, folded.
    Rounds {
        first: usize,
        title: String,
        /// The first and the last round, counted from 1.
        from: u32,
        to: u32,
        points: usize,
    },
    /// A branch on which the run does not continue, folded.
    Branch {
        first: usize,
        points: usize,
    },
    /// This many points that are not drawn.
    More(usize),
}

/// One line of the drawing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathLine {
    pub lane: usize,
    /// Starts from the lane to its left; otherwise it continues in its own.
    pub starts: bool,
    pub item: PathItem,
    /// The loops around it, outermost first, each by what distinguishes it from the next loop of the same name.
    pub brackets: Vec<String>,
    /// The open part that begins here and can be folded.
    pub folds: Option<NodeId>,
}

/// The lines of a run.
pub fn lines(nodes: &[NodeReport], opened: &OpenParts) -> Vec<PathLine> {
    let rows = walk(nodes, WAYS_MAX, LANES_MAX);
    let mut lines = branches_folded(&rows, nodes, opened);
    for depth in 0..LOOP_DEPTH_MAX {
        lines = rounds_folded(lines, nodes, opened, depth);
    }
    let mut lines = with_skipped(lines, nodes);
    if lines.len() > LINES_MAX {
        let left_out = lines.len() - LINES_MAX;
        lines.drain(..left_out);
        let first = PathLine {
            lane: 0,
            starts: false,
            item: PathItem::More(left_out),
            brackets: Vec::new(),
            folds: None,
        };
        lines.insert(0, first);
    }
    lines
}

fn line_of(row: &GraphRow, nodes: &[NodeReport]) -> PathLine {
    let (item, brackets) = match row.point {
        graph::Point::Node(index) => (PathItem::Point(index), brackets(&nodes[index].rounds)),
        graph::Point::LeftOut(count) => (PathItem::More(count), Vec::new()),
    };
    PathLine { lane: row.lane, starts: row.starts, item, brackets, folds: None }
}

/// A nested loop is a different loop in each round of the outer one.
fn brackets(rounds: &[Round]) -> Vec<String> {
    let mut outer = String::new();
    let named = rounds.iter().map(|round| {
        let name = format!("{outer}{}", round.loop_id);
        outer = format!("{name}@{}/", round.iteration);
        name
    });
    named.collect()
}

/// Whether a fold may hide the point: not if the run continues there, and not if it is shown.
fn is_hideable(node: &NodeReport, opened: &OpenParts) -> bool {
    node.branch_position != BranchPosition::Tip && opened.shown != Some(node.node_id)
}

fn branches_folded(rows: &[GraphRow], nodes: &[NodeReport], opened: &OpenParts) -> Vec<PathLine> {
    let mut lines = Vec::new();
    let mut at = 0;
    while let Some(row) = rows.get(at) {
        let mut line = line_of(row, nodes);
        let is_inside = |other: &&GraphRow| other.lane > row.lane || other.lane == row.lane && !other.starts;
        let length = if row.starts { 1 + rows[at + 1..].iter().take_while(is_inside).count() } else { 1 };
        if let (true, graph::Point::Node(first)) = (row.starts && length > 1, row.point) {
            let part = nodes[first].node_id;
            let (mut points, mut may_fold) = (0, true);
            for other in &rows[at..at + length] {
                match other.point {
                    graph::Point::LeftOut(count) => points += count,
                    graph::Point::Node(index) => {
                        points += 1;
                        let node = &nodes[index];
                        may_fold &= node.branch != 0 && is_hideable(node, opened);
                    }
                }
            }
            if may_fold && !opened.has(part) {
                lines.push(PathLine { item: PathItem::Branch { first, points }, ..line });
                at += length;
                continue;
            }
            line.folds = may_fold.then_some(part);
        }
        lines.push(line);
        at += 1;
    }
    lines
}

/// A stretch of lines that is one round of a loop.
struct LoopRound {
    iteration: u32,
    lines: Vec<PathLine>,
    may_fold: bool,
}

/// Folds the finished rounds of long loops of one depth.
fn rounds_folded(
    lines: Vec<PathLine>,
    nodes: &[NodeReport],
    opened: &OpenParts,
    depth: usize,
) -> Vec<PathLine> {
    let mut folded = Vec::new();
    let mut rest = lines.into_iter().peekable();
    while let Some(line) = rest.next() {
        let Some((name, first)) = loop_at(&line, nodes, depth) else {
            folded.push(line);
            continue;
        };
        // The loop continues in its lane; what leaves it to the right is between its lines.
        let lane = line.lane;
        let mut own = vec![line];
        while let Some(next) = rest.next_if(|next| {
            next.lane > lane
                || next.lane == lane
                    && !next.starts
                    && loop_at(next, nodes, depth).is_some_and(|(other, _)| other == name)
        }) {
            own.push(next);
        }
        let title = nodes[first].rounds[depth].title.clone();
        folded.extend(fold_loop(own, nodes, opened, (depth, &title)));
    }
    folded
}

/// The loop of this depth that a point is in.
fn loop_at(line: &PathLine, nodes: &[NodeReport], depth: usize) -> Option<(String, usize)> {
    let PathItem::Point(index) = line.item else { return None };
    nodes[index].rounds.get(depth)?;
    line.brackets.get(depth).map(|name| (name.clone(), index))
}

fn fold_loop(
    lines: Vec<PathLine>,
    nodes: &[NodeReport],
    opened: &OpenParts,
    (depth, title): (usize, &str),
) -> Vec<PathLine> {
    let points = lines.iter().filter(|line| matches!(line.item, PathItem::Point(_))).count();
    if points <= LOOP_POINTS_MAX {
        return lines;
    }
    let mut rounds: Vec<LoopRound> = Vec::new();
    let lane = lines.first().map_or(0, |line| line.lane);
    for line in lines {
        let index = match line.item {
            PathItem::Point(index) => Some(index),
            PathItem::Skipped { .. }
            | PathItem::Rounds { .. }
            | PathItem::Branch { .. }
            | PathItem::More(_) => None,
        };
        let iteration = index
            .filter(|_| line.lane == lane)
            .and_then(|index| nodes[index].rounds.get(depth))
            .map(|round| round.iteration);
        let may_fold = index.is_none_or(|index| is_hideable(&nodes[index], opened));
        match (rounds.last_mut(), iteration) {
            (Some(last), None) => {
                last.may_fold &= may_fold;
                last.lines.push(line);
            }
            (Some(last), Some(own)) if own == last.iteration => {
                last.may_fold &= may_fold;
                last.lines.push(line);
            }
            (_, own) => {
                rounds.push(LoopRound { iteration: own.unwrap_or_default(), lines: vec![line], may_fold });
            }
        }
    }
    let mut folded = Vec::new();
    let mut stretch: Vec<LoopRound> = Vec::new();
    for round in rounds {
        if round.may_fold {
            stretch.push(round);
            continue;
        }
        folded.extend(fold_rounds(std::mem::take(&mut stretch), nodes, opened, (depth, title)));
        folded.extend(round.lines);
    }
    folded.extend(fold_rounds(stretch, nodes, opened, (depth, title)));
    folded
}

fn fold_rounds(
    rounds: Vec<LoopRound>,
    nodes: &[NodeReport],
    opened: &OpenParts,
    (depth, title): (usize, &str),
) -> Vec<PathLine> {
    let (from, to) =
        (rounds.first().map(|round| round.iteration), rounds.last().map(|round| round.iteration));
    let mut lines: Vec<PathLine> = rounds.into_iter().flat_map(|round| round.lines).collect();
    let points: usize = lines.iter().map(|line| points_of(&line.item)).sum();
    let Some((first, from, to)) = lines.first().and_then(|line| match line.item {
        PathItem::Point(index) => Some((index, from?, to?)),
        PathItem::Skipped { .. } | PathItem::Rounds { .. } | PathItem::Branch { .. } | PathItem::More(_) => {
            None
        }
    }) else {
        return lines;
    };
    let part = nodes[first].node_id;
    if opened.has(part) || points < 2 {
        if let Some(line) = lines.first_mut().filter(|_| points > 1) {
            line.folds = Some(part);
        }
        return lines;
    }
    let (lane, starts) = (lines[0].lane, lines[0].starts);
    let brackets = lines[0].brackets.iter().take(depth + 1).cloned().collect();
    let item = PathItem::Rounds { first, title: title.to_owned(), from: from + 1, to: to + 1, points };
    vec![PathLine { lane, starts, item, brackets, folds: None }]
}

fn points_of(item: &PathItem) -> usize {
    match item {
        PathItem::Point(_) => 1,
        PathItem::Skipped { .. } => 0,
        PathItem::Rounds { points, .. } | PathItem::Branch { points, .. } | PathItem::More(points) => *points,
    }
}

/// Inserts skipped steps before the point that came instead.
fn with_skipped(lines: Vec<PathLine>, nodes: &[NodeReport]) -> Vec<PathLine> {
    let mut whole: Vec<PathLine> = Vec::new();
    for mut line in lines {
        let before = match line.item {
            PathItem::Point(index) | PathItem::Rounds { first: index, .. } => Some(index),
            PathItem::Skipped { .. } | PathItem::Branch { .. } | PathItem::More(_) => None,
        };
        if let Some(before) = before {
            let around: Vec<String> = match whole.last() {
                Some(last) => {
                    let pairs = last.brackets.iter().zip(&line.brackets);
                    pairs
                        .take_while(|(above, below)| above == below)
                        .map(|(above, _)| above.clone())
                        .collect()
                }
                None => Vec::new(),
            };
            for at in 0..nodes[before].skipped.len() {
                let (item, brackets) = (PathItem::Skipped { before, at }, around.clone());
                whole.push(PathLine { lane: line.lane, starts: line.starts, item, brackets, folds: None });
                line.starts = false;
            }
        }
        whole.push(line);
    }
    whole
}
