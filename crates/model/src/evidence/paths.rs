//! Bounded lists of paths: those that do not fit in an event are counted.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::limits::{EVIDENCE_PATH_BYTES_MAX, EVIDENCE_PATHS_MAX};
use crate::text::BoundedText;

/// A path relative to the root of the repository, separated by `/`.
pub(super) type EvidencePath = BoundedText<EVIDENCE_PATH_BYTES_MAX>;

/// Paths, as many as an event holds, and how many more there were.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", try_from = "WrittenPaths")]
#[schemars(with = "WrittenPaths")]
pub struct PathList {
    paths: Vec<EvidencePath>,
    #[serde(default, skip_serializing_if = "is_zero")]
    more: u64,
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct WrittenPaths {
    #[schemars(length(max = 50))]
    paths: Vec<EvidencePath>,
    #[serde(default)]
    more: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks by reference")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

impl TryFrom<WrittenPaths> for PathList {
    type Error = String;

    fn try_from(written: WrittenPaths) -> Result<Self, String> {
        let WrittenPaths { paths, more } = written;
        match paths.len() > EVIDENCE_PATHS_MAX {
            true => Err(format!("holds {} paths, at most {EVIDENCE_PATHS_MAX} are allowed", paths.len())),
            false => Ok(Self { paths, more }),
        }
    }
}

impl PathList {
    /// A path that is too long for an event is counted, not truncated: truncated, it would name another file.
    pub fn new(paths: impl IntoIterator<Item = impl Into<String>>) -> Self {
        let mut list = Self::default();
        for path in paths {
            match BoundedText::new(path) {
                Ok(path) if list.paths.len() < EVIDENCE_PATHS_MAX => list.paths.push(path),
                Ok(_) | Err(_) => list.more += 1,
            }
        }
        list
    }

    pub fn paths(&self) -> impl Iterator<Item = &str> {
        self.paths.iter().map(|path| path.as_str())
    }

    /// How many there were besides those listed.
    pub(crate) fn more(&self) -> u64 {
        self.more
    }

    pub fn total(&self) -> u64 {
        self.paths.len() as u64 + self.more
    }

    pub fn is_empty(&self) -> bool {
        self.total() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_beyond_the_limit_are_counted() {
        let many = (0..EVIDENCE_PATHS_MAX + 7).map(|n| format!("src/{n}.rs"));
        let list = PathList::new(many.chain(["x".repeat(EVIDENCE_PATH_BYTES_MAX + 1)]));
        assert_eq!((list.paths().count(), list.more()), (EVIDENCE_PATHS_MAX, 8));
        let mut written = serde_json::to_value(&list).unwrap();
        assert_eq!(serde_json::from_value::<PathList>(written.clone()).unwrap(), list);
        written["paths"].as_array_mut().unwrap().push("one".into());
        assert!(serde_json::from_value::<PathList>(written).is_err());
    }
}
