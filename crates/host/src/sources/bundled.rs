//! The workflows inside the binary.

/// Each file is listed once; a test compares the list with the folder.
macro_rules! embedded {
    ($($name:literal,)*) => {
        &[$((concat!($name, ".json"), include_str!(concat!("../../../../workflows/", $name, ".json"))),)*]
    };
}

/// File name and content, sorted by name.
pub(super) const ALL: &[(&str, &str)] = embedded![
    "wr.bug_investigation",
    "wr.code_review",
    "wr.coding_task",
    "wr.discovery",
    "wr.documentation",
    "wr.production_readiness",
    "wr.refactoring",
    "wr.research",
    "wr.routine-context-gathering",
    "wr.routine-design-review",
    "wr.routine-execution-simulation",
    "wr.routine-feature-implementation",
    "wr.routine-feedback-resolution",
    "wr.routine-final-verification",
    "wr.routine-hypothesis-challenge",
    "wr.routine-ideation",
    "wr.routine-parallel-work-partitioning",
    "wr.routine-philosophy-alignment",
    "wr.routine-plan-analysis",
    "wr.routine-plan-generation",
    "wr.routine-reviewer-family",
    "wr.routine-tension-driven-design",
    "wr.shaping",
    "wr.small_change",
    "wr.test_design",
    "wr.ticket_writing",
    "wr.workflow_authoring",
];

/// The prefix of locations inside the binary; no path starts with it.
pub(super) const LOCATION_PREFIX: &str = "bundled:";

pub(super) fn content(location: &str) -> Option<&'static str> {
    let name = location.strip_prefix(LOCATION_PREFIX)?;
    ALL.iter().find(|(other, _)| *other == name).map(|(_, content)| *content)
}

/// File name and content of every workflow inside the binary, sorted by name.
pub fn bundled() -> impl Iterator<Item = (&'static str, &'static str)> {
    ALL.iter().copied()
}

/// Whether a file is byte-identical to one that ships with this build.
pub fn is_bundled(bytes: &[u8]) -> bool {
    ALL.iter().any(|(_, content)| content.as_bytes() == bytes)
}
