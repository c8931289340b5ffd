//! The workflows inside the binary.

/// File name and content, sorted by name.
pub(super) const ALL: &[(&str, &str)] = &[
    ("wr.bug_hunt.json", include_str!("../../../../workflows/wr.bug_hunt.json")),
    ("wr.small_change.json", include_str!("../../../../workflows/wr.small_change.json")),
];

/// What a place inside the binary starts with; no path does.
pub(super) const PLACE: &str = "bundled:";

pub(super) fn content(place: &str) -> Option<&'static str> {
    let name = place.strip_prefix(PLACE)?;
    ALL.iter().find(|(own, _)| *own == name).map(|(_, content)| *content)
}

/// Whether a file is, byte for byte, one that ships with this build.
pub fn is_bundled(bytes: &[u8]) -> bool {
    ALL.iter().any(|(_, content)| content.as_bytes() == bytes)
}
