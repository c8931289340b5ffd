//! The steps of one side: which points it covers, and which attempt at each is compared.

use std::collections::BTreeMap;

use workrail_model::event::NodeKind;
use workrail_model::id::{AttemptId, NodeId};
use workrail_model::name::{LoopId, StepId};

use super::build::Compared;
use super::reference::{Extent, PartEnd};
use crate::report::{Attempt, NodeReport, Outcome, RunReport, StepReport, branch_letter};

/// A part that a run does not have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnknownPart {
    #[error("the readable part of the session has no run {run}")]
    Run { run: String },
    #[error("run {label} has no branch {letter}; its branches: {branches}")]
    Branch { label: String, letter: String, branches: String },
    #[error("run {label} has no point {point}; `workrail tree {label} --all` names its points")]
    Point { label: String, point: String },
    #[error("point {point} of run {label} has no attempt {number}; it was tried {tried}")]
    Attempt { label: String, point: String, number: u32, tried: String },
}

/// Distinguishes steps that are done several times: the id, and the iterations of the loops around it.
pub(super) type StepKey = (StepId, Vec<(LoopId, u32)>);

/// A step of a side.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReachedStep<'a> {
    pub(super) node: &'a NodeReport,
    /// The attempt that is compared: the one that led on, or the last one.
    pub(super) attempt: Option<&'a Attempt>,
    pub(super) attempts: u64,
    pub(super) refused: u64,
}

impl ReachedStep<'_> {
    pub(super) fn key(&self) -> Option<StepKey> {
        let StepReport::Pending { step_id, .. } = &self.node.step else { return None };
        let rounds = self.node.rounds.iter().map(|round| (round.loop_id.clone(), round.iteration));
        Some((step_id.clone(), rounds.collect()))
    }
}

/// What a side covers.
#[derive(Debug)]
pub(super) struct Covered<'a> {
    /// Without the point at which the workflow is complete.
    pub(super) steps: Vec<ReachedStep<'a>>,
    pub(super) end: &'a NodeReport,
}

impl<'a> Covered<'a> {
    pub(super) fn of(compared: &Compared<'_>, run: &'a RunReport) -> Result<Self, UnknownPart> {
        let end = end(compared, run)?;
        let owned = OwnedPoints::of(run);
        match compared.part.extent {
            Extent::Path => {
                let mut path: Vec<NodeId> =
                    compared.subject.facts.ancestors(end.node_id).map(|node| node.node_id).collect();
                path.reverse();
                Ok(Self { steps: owned.along(&path), end })
            }
            Extent::Point => {
                let attempts = owned.attempts(end.node_id);
                let led_on = attempts.iter().rev().find(|attempt| is_advanced(attempt));
                let attempt = led_on.or(attempts.last()).copied();
                Ok(Self { steps: vec![reached(end, &attempts, attempt)], end })
            }
            Extent::Attempt { number } => {
                let attempts = owned.attempts(end.node_id);
                let index = usize::try_from(number).unwrap_or(usize::MAX) - 1;
                let attempt = attempts.get(index).copied().ok_or_else(|| UnknownPart::Attempt {
                    label: run.label.clone(),
                    point: end.point.to_string(),
                    number,
                    tried: times(attempts.len()),
                })?;
                let mut step = reached(end, &attempts, Some(attempt));
                (step.attempts, step.refused) = (1, u64::from(!is_advanced(attempt)));
                Ok(Self { steps: vec![step], end })
            }
        }
    }
}

fn times(count: usize) -> String {
    match count {
        0 => "never".to_owned(),
        1 => "once".to_owned(),
        many => format!("{many} times"),
    }
}

pub(super) fn is_advanced(attempt: &Attempt) -> bool {
    match attempt.outcome {
        Outcome::Advanced { .. } => true,
        Outcome::Blocked { .. } => false,
    }
}

fn end<'a>(compared: &Compared<'_>, run: &'a RunReport) -> Result<&'a NodeReport, UnknownPart> {
    let label = || run.label.clone();
    let at = |wanted: &dyn Fn(&NodeReport) -> bool| run.nodes.iter().find(|node| wanted(node));
    let no_point = |point: String| UnknownPart::Point { label: label(), point };
    match &compared.part.end {
        PartEnd::Current => {
            at(&|node| Some(node.node_id) == run.tip).ok_or_else(|| no_point("where it continues".to_owned()))
        }
        PartEnd::Branch(number) => {
            let branch = run.branches.iter().find(|branch| branch.number == *number);
            let found = branch.and_then(|branch| at(&|node| node.point == branch.last));
            found.ok_or_else(|| UnknownPart::Branch {
                label: label(),
                letter: branch_letter(*number),
                branches: run
                    .branches
                    .iter()
                    .map(|branch| branch_letter(branch.number))
                    .collect::<Vec<_>>()
                    .join(", "),
            })
        }
        PartEnd::Point(name) => at(&|node| node.point == *name).ok_or_else(|| no_point(name.to_string())),
        PartEnd::Node(id) => at(&|node| node.node_id == *id).ok_or_else(|| no_point(id.to_string())),
    }
}

/// Points by the step that owns them: a checkpoint belongs to its step, and an attempt may be made from it.
#[derive(Debug)]
struct OwnedPoints<'a> {
    nodes: BTreeMap<NodeId, &'a NodeReport>,
    owners: BTreeMap<NodeId, NodeId>,
    owned: BTreeMap<NodeId, Vec<&'a NodeReport>>,
}

impl<'a> OwnedPoints<'a> {
    fn of(run: &'a RunReport) -> Self {
        let mut points = Self { nodes: BTreeMap::new(), owners: BTreeMap::new(), owned: BTreeMap::new() };
        // A parent always comes before its children.
        for node in &run.nodes {
            let above = node.parent.and_then(|parent| points.owners.get(&parent).copied());
            let owner = match (node.kind, above) {
                (NodeKind::Checkpoint, Some(owner)) => owner,
                (NodeKind::Checkpoint, None) | (NodeKind::Step, _) => node.node_id,
            };
            points.nodes.insert(node.node_id, node);
            points.owners.insert(node.node_id, owner);
            points.owned.entry(owner).or_default().push(node);
        }
        points
    }

    /// All attempts at the step that a point belongs to, in the order of its points.
    fn attempts(&self, node: NodeId) -> Vec<&'a Attempt> {
        let owner = self.owners.get(&node).copied().unwrap_or(node);
        let points = self.owned.get(&owner).into_iter().flatten();
        points.flat_map(|point| &point.attempts).collect()
    }

    /// The steps of a path, each with the attempt that led to the next one; at the end, the last attempt.
    fn along(&self, path: &[NodeId]) -> Vec<ReachedStep<'a>> {
        let steps: Vec<NodeId> =
            path.iter().copied().filter(|node| self.owners.get(node) == Some(node)).collect();
        let mut found = Vec::new();
        for (index, step) in steps.iter().enumerate() {
            let Some(node) = self.nodes.get(step) else { continue };
            if node.step == StepReport::Complete {
                continue;
            }
            let attempts = self.attempts(*step);
            let next = steps.get(index + 1);
            let attempt = match next {
                Some(next) => attempts.iter().find(|attempt| led_to(attempt) == Some(*next)).copied(),
                None => attempts.iter().rev().find(|attempt| !is_advanced(attempt)).copied(),
            };
            let mut step = reached(node, &attempts, attempt);
            // Attempts that led elsewhere belong to other branches.
            step.attempts = step.refused + u64::from(attempt.is_some_and(is_advanced));
            found.push(step);
        }
        found
    }
}

/// The node that an attempt led to.
pub(super) fn led_to(attempt: &Attempt) -> Option<NodeId> {
    match attempt.outcome {
        Outcome::Advanced { to_node_id, .. } => Some(to_node_id),
        Outcome::Blocked { .. } => None,
    }
}

fn reached<'a>(
    node: &'a NodeReport,
    attempts: &[&'a Attempt],
    attempt: Option<&'a Attempt>,
) -> ReachedStep<'a> {
    let refused = attempts.iter().filter(|attempt| !is_advanced(attempt)).count() as u64;
    ReachedStep { node, attempt, attempts: attempts.len() as u64, refused }
}

/// Whether two steps are the same record: the same point, left by the same attempt.
pub(super) fn is_shared(a: &ReachedStep<'_>, b: &ReachedStep<'_>) -> bool {
    let attempt =
        |step: &ReachedStep<'_>| -> Option<AttemptId> { step.attempt.map(|attempt| attempt.attempt_id) };
    a.node.node_id == b.node.node_id && attempt(a) == attempt(b)
}
