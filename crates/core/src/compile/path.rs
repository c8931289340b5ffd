//! A path in the authored document, as in `steps[3].loop.maxIterations`.

use std::fmt;

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum PathSegment {
    Key(String),
    Index(usize),
}

#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct DocPath(Vec<PathSegment>);

impl DocPath {
    pub(super) fn root() -> Self {
        Self::default()
    }

    pub(super) fn new(segments: Vec<PathSegment>) -> Self {
        Self(segments)
    }

    #[must_use]
    pub(super) fn key(&self, key: &str) -> Self {
        let mut segments = self.0.clone();
        segments.push(PathSegment::Key(key.to_owned()));
        Self(segments)
    }

    #[must_use]
    pub(super) fn index(&self, index: usize) -> Self {
        let mut segments = self.0.clone();
        segments.push(PathSegment::Index(index));
        Self(segments)
    }

    pub(super) fn segments(&self) -> &[PathSegment] {
        &self.0
    }
}

impl fmt::Display for DocPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, segment) in self.0.iter().enumerate() {
            match segment {
                PathSegment::Key(key) if position == 0 => write!(f, "{key}")?,
                PathSegment::Key(key) => write!(f, ".{key}")?,
                PathSegment::Index(index) => write!(f, "[{index}]")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_shown_like_an_expression() {
        let path = DocPath::root().key("steps").index(3).key("loop").key("maxIterations");
        assert_eq!(path.to_string(), "steps[3].loop.maxIterations");
        assert_eq!(DocPath::root().to_string(), "");
    }
}
