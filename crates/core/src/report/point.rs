//! The names of a run's points: the numbers that replies use, so that people and agents mean the same step.

use std::collections::BTreeMap;
use std::fmt;

use schemars::JsonSchema;
use serde::Serialize;
use workrail_model::event::NodeKind;
use workrail_model::id::{NodeId, RunId};

use crate::project::SessionState;

/// The name of a point in its run: the number of its step on the current branch (`3`), on another branch with that
/// branch's letter (`3b`), and for a checkpoint its own number behind that of its step (`3+1`).
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(transparent)]
pub struct PointName(String);

impl PointName {
    pub(super) fn step(number: u64, branch: u64) -> Self {
        Self(match branch {
            0 => number.to_string(),
            other => format!("{number}{}", branch_letter(other)),
        })
    }

    /// Parses a displayed name; the letter of the current branch is also accepted.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (step, checkpoint) = match text.split_once('+') {
            None => (text, None),
            Some((step, number)) => (step, Some(number.parse().ok().filter(|number| *number > 0)?)),
        };
        let digits = step.bytes().take_while(u8::is_ascii_digit).count();
        let (number, letters) = step.split_at(digits);
        let branch = if letters.is_empty() { 0 } else { branch_number(letters)? };
        let step = Self::step(number.parse().ok()?, branch);
        Some(checkpoint.map_or_else(|| step.clone(), |number| Self::checkpoint(&step, number)))
    }

    fn checkpoint(step: &Self, number: usize) -> Self {
        Self(format!("{step}+{number}"))
    }
}

impl fmt::Display for PointName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The letter of a branch: `a` is the current one; after `z` comes `aa`.
pub fn branch_letter(branch: u64) -> String {
    let mut letters = Vec::new();
    let mut rest = branch + 1;
    while rest > 0 {
        rest -= 1;
        letters.push(char::from(b'a' + u8::try_from(rest % 26).unwrap_or_default()));
        rest /= 26;
    }
    letters.iter().rev().collect()
}

/// The branch that has these letters.
pub(crate) fn branch_number(letters: &str) -> Option<u64> {
    // More letters than any run has branches.
    let is_short = (1..=8).contains(&letters.len());
    if !is_short || !letters.bytes().all(|letter| letter.is_ascii_lowercase()) {
        return None;
    }
    let value = letters.bytes().fold(0, |sum: u64, letter| sum * 26 + u64::from(letter - b'a') + 1);
    Some(value - 1)
}

/// The names of all points of a run; `branches` holds the branch of each.
pub(super) fn names(
    facts: &SessionState,
    run: RunId,
    branches: &BTreeMap<NodeId, u64>,
) -> BTreeMap<NodeId, PointName> {
    let mut names: BTreeMap<NodeId, PointName> = BTreeMap::new();
    let mut checkpoints: BTreeMap<PointName, usize> = BTreeMap::new();
    for node in facts.nodes(run) {
        let branch = branches.get(&node.node_id).copied().unwrap_or_default();
        let step = PointName::step(node.step_number, branch);
        let name = match node.kind {
            NodeKind::Step => step,
            NodeKind::Checkpoint => {
                let count = checkpoints.entry(step.clone()).or_default();
                *count += 1;
                PointName::checkpoint(&step, *count)
            }
        };
        names.insert(node.node_id, name);
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn branches_have_letters_and_points_have_the_numbers_used_in_replies() {
        let letters: Vec<String> = [0, 1, 25, 26, 701, 702].map(branch_letter).to_vec();
        assert_eq!(letters, ["a", "b", "z", "aa", "zz", "aaa"]);
        assert_eq!(PointName::step(3, 0).to_string(), "3");
        assert_eq!(PointName::step(3, 1).to_string(), "3b");
        assert_eq!(PointName::checkpoint(&PointName::step(3, 1), 2).to_string(), "3b+2");
        assert!(letters.iter().map(|letter| branch_number(letter)).eq([0, 1, 25, 26, 701, 702].map(Some)));
    }
}
