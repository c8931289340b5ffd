//! What is compared: a run, one of its branches, the path up to a point, a point, or one attempt at it.
//!
//! Written after the run's name: `@b` is branch b, `@..7` the path up to point 7, `@7` point 7 alone, `@7:2` its second
//! attempt. Points are named as in `workrail tree`, or by the id of their node.

use std::fmt;

use schemars::JsonSchema;
use serde::Serialize;
use workrail_model::id::NodeId;

use crate::report::{PointName, branch_letter, branch_number};

/// A text that names no part of a run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`@{0}` is not a part of a run. Write @b for branch b, @7 for point 7, @7:2 for its second attempt, @..7 for the path \
     up to point 7"
)]
pub struct ReferenceError(pub String);

/// How much of a run is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Extent {
    /// Everything from the first point on.
    Path,
    /// One point, with the attempt that led on or the last one.
    Point,
    /// One attempt, counted from 1.
    Attempt { number: u32 },
}

/// Where a part of a run ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PartEnd {
    /// Where the run continues.
    Current,
    /// Where a branch ends; 0 is the current one.
    Branch(u64),
    Point(PointName),
    Node(NodeId),
}

/// A part of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunPart {
    pub extent: Extent,
    pub end: PartEnd,
}

impl RunPart {
    pub const WHOLE: Self = Self { extent: Extent::Path, end: PartEnd::Current };

    /// Splits `RUN@PART`; without a part it is the run on its current branch.
    pub fn split(text: &str) -> Result<(&str, Self), ReferenceError> {
        match text.split_once('@') {
            None => Ok((text, Self::WHOLE)),
            Some((run, part)) => Ok((run, Self::parse(part)?)),
        }
    }

    /// Parses the part after the `@`.
    pub(crate) fn parse(text: &str) -> Result<Self, ReferenceError> {
        let wrong = || ReferenceError(text.to_owned());
        if let Some(rest) = text.strip_prefix("..") {
            let end = point(rest).ok_or_else(wrong)?;
            return Ok(Self { extent: Extent::Path, end });
        }
        if let Some(branch) = branch_number(text) {
            return Ok(Self { extent: Extent::Path, end: PartEnd::Branch(branch) });
        }
        let (name, extent) = match text.split_once(':') {
            None => (text, Extent::Point),
            Some((name, number)) => {
                let number = number.parse().ok().filter(|number| *number > 0).ok_or_else(wrong)?;
                (name, Extent::Attempt { number })
            }
        };
        Ok(Self { extent, end: point(name).ok_or_else(wrong)? })
    }
}

fn point(text: &str) -> Option<PartEnd> {
    NodeId::parse(text).ok().map(PartEnd::Node).or_else(|| PointName::parse(text).map(PartEnd::Point))
}

impl fmt::Display for PartEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Current => f.write_str(&branch_letter(0)),
            Self::Branch(number) => f.write_str(&branch_letter(*number)),
            Self::Point(name) => write!(f, "{name}"),
            Self::Node(node) => write!(f, "{node}"),
        }
    }
}

/// Writes what `parse` reads.
impl fmt::Display for RunPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { extent, end } = self;
        match (extent, end) {
            (Extent::Path, PartEnd::Current | PartEnd::Branch(_)) => write!(f, "{end}"),
            (Extent::Path, PartEnd::Point(_) | PartEnd::Node(_)) => write!(f, "..{end}"),
            (Extent::Point, _) => write!(f, "{end}"),
            (Extent::Attempt { number }, _) => write!(f, "{end}:{number}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_parsed_as_it_is_displayed() {
        let node = NodeId::from_bits([7; 10]);
        for text in
            ["a", "b", "aa", "7", "7b", "7b+2", "7:2", "..7b", &format!("..{node}"), &format!("{node}:1")]
        {
            assert_eq!(RunPart::parse(text).map(|part| part.to_string()), Ok(text.to_owned()));
        }
        assert_eq!(RunPart::parse("7a").unwrap().to_string(), "7", "the current branch needs no letter");
    }

    #[test]
    fn a_text_that_names_no_part_is_refused() {
        for text in
            ["", "7:0", "7:x", "..", "..b", "7b+", "+1", "7_", "B", "-1", "node_x", "abcdefghijklmnop"]
        {
            assert!(RunPart::parse(text).is_err(), "{text}");
        }
    }
}
