//! Which place in the store's layout a path has, as far as the write order is about it.

use workrail_ports::file_system::RelPath;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place<'p> {
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
    /// Temporaries, lock files, caches: nothing is lost with them.
    Elsewhere,
}

pub(super) fn place(path: &RelPath) -> Place<'_> {
    let parts: Vec<&str> = path.components().collect();
    match parts.as_slice() {
        ["sessions", session, "events", name] if is_segment(name) => Place::Segment { session },
        ["sessions", session, "manifest.jsonl"] => Place::Manifest { session },
        ["snapshots", name] | ["workflows", "pinned", name]
            if name.strip_suffix(".json").is_some_and(is_hex) =>
        {
            Place::Cas
        }
        ["blobs", name] if is_hex(name) => Place::Cas,
        ["sessions" | "snapshots" | "blobs" | "workflows" | "keys"]
        | ["workflows", "pinned"]
        | ["sessions", _, "events"] => Place::Directory,
        // A lock file or a temporary beside the sessions starts with a dot; a session id does not.
        ["sessions", session] if !session.starts_with('.') => Place::Directory,
        [.., "keyring" | "keyring.json"] => Place::Keyring,
        _ => Place::Elsewhere,
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
    fn paths_of_the_layout_are_known_and_others_are_not() {
        let table = [
            ("sessions/s_1/events/00000000-00000003.jsonl", Place::Segment { session: "s_1" }),
            ("sessions/s_1/events/00000000-00000003.jsonl.tmp", Place::Elsewhere),
            ("sessions/s_1/events/.tmp-1", Place::Elsewhere),
            ("sessions/s_1/manifest.jsonl", Place::Manifest { session: "s_1" }),
            ("sessions/s_1/manifest.jsonl.new", Place::Elsewhere),
            ("sessions/s_1/.lock", Place::Elsewhere),
            ("snapshots/00ff.json", Place::Cas),
            ("snapshots/00ff.json.tmp", Place::Elsewhere),
            ("blobs/00ff", Place::Cas),
            ("blobs/tmp-00ff", Place::Elsewhere),
            ("workflows/pinned/00ff.json", Place::Cas),
            ("keys/keyring.json", Place::Keyring),
            ("keyring.json", Place::Keyring),
            ("keys/.keyring.json.tmp", Place::Elsewhere),
            ("sessions", Place::Directory),
            ("sessions/s_1", Place::Directory),
            ("sessions/.lock", Place::Elsewhere),
            ("sessions/s_1/events", Place::Directory),
            ("workflows/pinned", Place::Directory),
            ("keys", Place::Directory),
            ("sessions/s_1/cache", Place::Elsewhere),
            ("activity", Place::Elsewhere),
        ];
        for (text, expected) in table {
            let path = RelPath::parse(text).expect("a test path is well-formed");
            assert_eq!(place(&path), expected, "{text}");
        }
    }
}
