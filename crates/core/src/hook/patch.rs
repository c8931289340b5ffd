//! The files that a patch in the `apply_patch` format writes.

/// The lines that name a file, as the hosts' own parsers accept them.
const HEADERS: [&str; 4] = ["*** Add File: ", "*** Update File: ", "*** Delete File: ", "*** Move to: "];

/// Every path that the patch names, in order.
pub(super) fn paths(patch: &str) -> Vec<String> {
    let named = |line: &str| {
        let line = line.trim();
        HEADERS.iter().find_map(|header| line.strip_prefix(header)).map(|path| path.trim().to_owned())
    };
    patch.lines().filter_map(named).collect()
}
