//! Addresses of one run, and of comparisons.

use std::collections::BTreeSet;
use std::fmt;

use workrail_engine::compare::{Extent, PartEnd, RunPart};
use workrail_engine::report::OpenedParts;
use workrail_model::id::{NodeId, RunId};

use super::query::{QueryPairs, with_query};

/// How many parts of a path may be open at once; `all` opens more.
const OPEN_PARTS_MAX: usize = 100;

/// The two sides of a comparison; without `b`, the page offers what `a` can be compared with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ComparePage {
    pub(crate) a: ComparedRef,
    pub(crate) b: Option<ComparedRef>,
}

/// A part of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ComparedRef {
    pub(crate) run: RunId,
    pub(crate) part: RunPart,
}

impl ComparedRef {
    pub(crate) fn whole(run: RunId) -> Self {
        Self { run, part: RunPart::WHOLE }
    }

    pub(crate) fn up_to(run: RunId, node: NodeId) -> Self {
        Self { run, part: RunPart { extent: Extent::Path, end: PartEnd::Node(node) } }
    }

    /// Counted from 1.
    pub(crate) fn attempt(run: RunId, node: NodeId, number: u32) -> Self {
        Self { run, part: RunPart { extent: Extent::Attempt { number }, end: PartEnd::Node(node) } }
    }

    pub(super) fn parse(text: &str) -> Option<Self> {
        let (run, part) = RunPart::split(text).ok()?;
        Some(Self { run: RunId::parse(run).ok()?, part })
    }
}

impl fmt::Display for ComparedRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.part == RunPart::WHOLE {
            true => write!(f, "{}", self.run),
            false => write!(f, "{}@{}", self.run, self.part),
        }
    }
}

/// A run, its selected point, and the open parts of its path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RunPage {
    pub(crate) run: RunId,
    pub(crate) node: Option<NodeId>,
    pub(crate) open: BTreeSet<NodeId>,
    pub(crate) is_all_open: bool,
}

impl RunPage {
    pub(crate) fn of(run: RunId) -> Self {
        Self { run, node: None, open: BTreeSet::new(), is_all_open: false }
    }

    pub(super) fn parse(run: RunId, query: &QueryPairs) -> Self {
        let open = query.get("open").unwrap_or_default();
        Self {
            run,
            node: query.get("node").and_then(|node| NodeId::parse(node).ok()),
            open: open.split(',').filter_map(|node| NodeId::parse(node).ok()).take(OPEN_PARTS_MAX).collect(),
            is_all_open: open == "all",
        }
    }

    pub(crate) fn at(&self, node: NodeId) -> Self {
        Self { node: Some(node), ..self.clone() }
    }

    pub(crate) fn with_open(&self, part: NodeId) -> Self {
        let mut next = self.clone();
        next.open.insert(part);
        next
    }

    pub(crate) fn with_folded(&self, part: NodeId) -> Self {
        let mut next = Self { is_all_open: false, ..self.clone() };
        next.open.remove(&part);
        next
    }

    pub(crate) fn with_all(&self, is_all_open: bool) -> Self {
        Self { is_all_open, open: BTreeSet::new(), ..self.clone() }
    }

    pub(crate) fn opened(&self, shown: Option<NodeId>) -> OpenedParts {
        OpenedParts { all: self.is_all_open, parts: self.open.clone(), shown }
    }

    pub(crate) fn address(&self) -> String {
        let mut pairs = Vec::new();
        pairs.extend(self.node.map(|node| format!("node={node}")));
        let open: Vec<String> = self.open.iter().map(ToString::to_string).collect();
        match (self.is_all_open, open.is_empty()) {
            (true, _) => pairs.push("open=all".to_owned()),
            (false, false) => pairs.push(format!("open={}", open.join(","))),
            (false, true) => {}
        }
        with_query(&format!("/run/{}", self.run), &pairs.join("&"))
    }
}
