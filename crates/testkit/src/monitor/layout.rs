//! The role of a path in the store's layout, as far as the write order depends on it.

use workrail_ports::file_system::RelPath;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FileRole<'p> {
    /// `sessions/<id>/events/<first>-<last>.jsonl`
    Segment { session: &'p str },
    /// `sessions/<id>/manifest.jsonl`
    Manifest { session: &'p str },
    /// `snapshots/<hex>.json`, `blobs/<hex>`, `workflows/pinned/<hex>.json`
    Cas,
    /// A file named `keyring` or `keyring.json`.
    Keyring,
    /// A directory that holds any of these.
    Directory,
    /// Temporaries, lock files, caches: losing them is harmless.
    Elsewhere,
}

pub(super) fn role_of(path: &RelPath) -> FileRole<'_> {
    let parts: Vec<&str> = path.components().collect();
    match parts.as_slice() {
        ["sessions", session, "events", name] if is_segment(name) => FileRole::Segment { session },
        ["sessions", session, "manifest.jsonl"] => FileRole::Manifest { session },
        ["snapshots", name] | ["workflows", "pinned", name]
            if name.strip_suffix(".json").is_some_and(is_hex) =>
        {
            FileRole::Cas
        }
        ["blobs", name] if is_hex(name) => FileRole::Cas,
        ["sessions" | "snapshots" | "blobs" | "workflows" | "keys"]
        | ["workflows", "pinned"]
        | ["sessions", _, "events"] => FileRole::Directory,
        // A lock file or a temporary among the sessions starts with a dot; a session id does not.
        ["sessions", session] if !session.starts_with('.') => FileRole::Directory,
        [.., "keyring" | "keyring.json"] => FileRole::Keyring,
        _ => FileRole::Elsewhere,
    }
}

fn is_segment(name: &str) -> bool {
    let numbers = name.strip_suffix(".jsonl").and_then(|stem| stem.split_once('-'));
    numbers.is_some_and(|(first, last)| is_number(first) && is_number(last))
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

fn is_hex(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_the_layout_are_recognised_and_others_are_not() {
        let table = [
            ("sessions/s_1/events/00000000-00000003.jsonl", FileRole::Segment { session: "s_1" }),
            ("sessions/s_1/events/00000000-00000003.jsonl.tmp", FileRole::Elsewhere),
            ("sessions/s_1/events/.tmp-1", FileRole::Elsewhere),
            ("sessions/s_1/manifest.jsonl", FileRole::Manifest { session: "s_1" }),
            ("sessions/s_1/manifest.jsonl.new", FileRole::Elsewhere),
            ("sessions/s_1/.lock", FileRole::Elsewhere),
            ("snapshots/00ff.json", FileRole::Cas),
            ("snapshots/00ff.json.tmp", FileRole::Elsewhere),
            ("blobs/00ff", FileRole::Cas),
            ("blobs/tmp-00ff", FileRole::Elsewhere),
            ("workflows/pinned/00ff.json", FileRole::Cas),
            ("keys/keyring.json", FileRole::Keyring),
            ("keyring.json", FileRole::Keyring),
            ("keys/.keyring.json.tmp", FileRole::Elsewhere),
            ("sessions", FileRole::Directory),
            ("sessions/s_1", FileRole::Directory),
            ("sessions/.lock", FileRole::Elsewhere),
            ("sessions/s_1/events", FileRole::Directory),
            ("workflows/pinned", FileRole::Directory),
            ("keys", FileRole::Directory),
            ("sessions/s_1/cache", FileRole::Elsewhere),
            ("activity", FileRole::Elsewhere),
        ];
        for (text, expected) in table {
            let path = RelPath::parse(text).expect("a test path is well-formed");
            assert_eq!(role_of(&path), expected, "{text}");
        }
    }
}
