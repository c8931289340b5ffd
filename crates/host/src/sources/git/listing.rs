//! Reads the workflow files of a commit from git's object store: regular blobs only, within limits (G91).
//!
//! There is never a working tree, so none of the repository's links, filters or submodules can take effect.

use std::collections::{BTreeMap, BTreeSet};

use workrail_model::limits::WORKFLOW_SOURCE_BYTES_MAX;

use super::super::walk::{DEPTH_MAX, FILES_MAX, PROBLEMS_MAX};
use super::program::{Caps, Git, GitFailure};
use super::record::{BlobFile, BlobProblem};

/// Limit for all workflow files of a source together.
const BYTES_MAX: u64 = 64 * 1024 * 1024;

/// What a commit holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Tree {
    /// By path.
    pub(super) files: Vec<BlobFile>,
    pub(super) problems: Vec<BlobProblem>,
    bytes: u64,
}

/// One line of `git ls-tree -r -l -z`.
struct Entry<'a> {
    mode: &'a str,
    blob: &'a str,
    bytes: u64,
    path: &'a [u8],
}

impl Tree {
    /// Parses the listing of a tree.
    pub(super) fn parse(listing: &[u8]) -> Self {
        let mut tree = Self::default();
        for line in listing.split(|byte| *byte == 0).filter(|line| !line.is_empty()) {
            let Some(entry) = entry(line) else { continue };
            if !tree.take(&entry) {
                break;
            }
        }
        tree.files.sort();
        tree
    }

    /// Takes an entry; returns whether to continue with the listing.
    fn take(&mut self, entry: &Entry<'_>) -> bool {
        let Ok(path) = std::str::from_utf8(entry.path) else {
            let lossy = String::from_utf8_lossy(entry.path).into_owned();
            return self.problem(&lossy, "its name is not UTF-8", "rename it");
        };
        if path.split('/').any(|part| part.starts_with('.')) {
            return true;
        }
        if entry.mode == "160000" {
            let text = "it is a submodule, and submodules are never fetched";
            return self.problem(path, text, "register that repository as a source of its own");
        }
        if !path.ends_with(".json") && !path.ends_with(".jsonc") {
            return true;
        }
        if path.chars().any(char::is_control) {
            return self.problem(path, "its name holds a control character", "rename it");
        }
        if path.split('/').count() > DEPTH_MAX + 1 {
            let text = format!("it is nested deeper than {DEPTH_MAX} folders and is not read");
            return self.problem(path, &text, "move it up");
        }
        match entry.mode {
            "100644" | "100755" => {}
            "120000" => {
                return self.problem(
                    path,
                    "it is a link, and links are not followed",
                    "commit the file itself",
                );
            }
            _ => return self.problem(path, "it is not a regular file", "commit a regular file"),
        }
        if entry.bytes > WORKFLOW_SOURCE_BYTES_MAX {
            let text = format!("it has {} bytes, at most {WORKFLOW_SOURCE_BYTES_MAX} are read", entry.bytes);
            return self.problem(path, &text, "move long material into files that `references` point at");
        }
        self.bytes += entry.bytes;
        if self.files.len() >= FILES_MAX || self.bytes > BYTES_MAX {
            let text = format!(
                "more than {FILES_MAX} workflow files or {} MiB were found; this and the rest are left out",
                BYTES_MAX >> 20
            );
            self.problem(path, &text, "set `folder` to one that holds workflow files only");
            return false;
        }
        self.files.push(BlobFile {
            path: path.to_owned(),
            blob: entry.blob.to_owned(),
            bytes: entry.bytes,
            offset: 0,
        });
        true
    }

    fn problem(&mut self, path: &str, problem: &str, fix: &str) -> bool {
        if self.problems.len() < PROBLEMS_MAX {
            let path: String = path.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect();
            self.problems.push(BlobProblem { path, problem: problem.to_owned(), fix: fix.to_owned() });
        }
        true
    }
}

fn entry(line: &[u8]) -> Option<Entry<'_>> {
    let tab = line.iter().position(|byte| *byte == b'\t')?;
    let mut facts = std::str::from_utf8(&line[..tab]).ok()?.split_ascii_whitespace();
    let (mode, _kind, blob) = (facts.next()?, facts.next()?, facts.next()?);
    // A submodule has no size.
    let bytes = facts.next()?.parse().unwrap_or(0);
    is_blob_id(blob).then_some(Entry { mode, blob, bytes, path: &line[tab + 1..] })
}

/// Checked strictly because the id becomes a file name.
pub(super) fn is_blob_id(text: &str) -> bool {
    matches!(text.len(), 40 | 64) && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// All contents concatenated; sets each file's offset.
pub(super) fn contents(git: &Git, files: &mut [BlobFile], caps: &Caps) -> Result<Vec<u8>, GitFailure> {
    let mut offsets: BTreeMap<String, u64> = BTreeMap::new();
    if files.is_empty() {
        return Ok(Vec::new());
    }
    let blobs: BTreeSet<&str> = files.iter().map(|file| file.blob.as_str()).collect();
    let input = blobs.iter().flat_map(|blob| [blob, "\n"]).collect::<String>();
    let caps = Caps { printed: BYTES_MAX as usize + blobs.len() * 128, ..caps.clone() };
    let printed = git.run(&["cat-file", "--batch"], Some(input.into_bytes()), &caps)?;
    let mut rest = printed.as_slice();
    let mut contents = Vec::with_capacity(printed.len());
    let odd = || GitFailure::Failed("an object of the commit is missing".to_owned());
    for blob in &blobs {
        let end = rest.iter().position(|byte| *byte == b'\n').ok_or_else(odd)?;
        let head = std::str::from_utf8(&rest[..end]).map_err(|_| odd())?;
        let size = head.strip_prefix(blob).and_then(|facts| facts.strip_prefix(" blob "));
        let size: usize = size.and_then(|size| size.parse().ok()).ok_or_else(odd)?;
        let content = rest.get(end + 1..end + 1 + size).ok_or_else(odd)?;
        offsets.insert((*blob).to_owned(), contents.len() as u64);
        contents.extend_from_slice(content);
        rest = rest.get(end + 2 + size..).unwrap_or_default();
    }
    for file in files {
        file.offset = *offsets.get(&file.blob).ok_or_else(odd)?;
    }
    Ok(contents)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "0123456789abcdef0123456789abcdef01234567";

    fn listing(entries: &[(&str, &str, &[u8])]) -> Vec<u8> {
        let mut listing = Vec::new();
        for (mode, size, path) in entries {
            listing.extend_from_slice(format!("{mode} blob {ID} {size}\t").as_bytes());
            listing.extend_from_slice(path);
            listing.push(0);
        }
        listing
    }

    #[test]
    fn only_plain_files_within_the_size_limit_are_taken_and_the_rest_is_reported() {
        let tree = Tree::parse(&listing(&[
            ("100644", "      2", b"b.json"),
            ("100755", "2", b"a/x.jsonc"),
            ("100644", "2", b"readme.md"),
            ("100644", "2", b".github/x.json"),
            ("120000", "9", b"link.json"),
            ("160000", "-", b"modules/sub"),
            ("100644", "1000001", b"large.json"),
            ("100644", "2", b"odd\nname.json"),
            ("100644", "2", b"\xff.json"),
            ("100644", "2", b"a/b/c/d/e/f/g/h/i/j/k/l/m/n/o/p/q/r.json"),
        ]));
        let files: Vec<&str> = tree.files.iter().map(|file| file.path.as_str()).collect();
        assert_eq!(files, ["a/x.jsonc", "b.json"]);
        let problems: Vec<&str> = tree.problems.iter().map(|problem| problem.problem.as_str()).collect();
        let parts =
            ["a link", "a submodule", "1000001 bytes", "control character", "not UTF-8", "deeper than 16"];
        assert_eq!(problems.len(), parts.len(), "{problems:?}");
        for (problem, part) in problems.iter().zip(parts) {
            assert!(problem.contains(part), "{problem}");
        }
    }

    #[test]
    fn reaching_a_limit_ends_the_listing_and_is_reported() {
        let names: Vec<String> = (0..=FILES_MAX).map(|number| format!("{number:05}.json")).collect();
        let entries: Vec<(&str, &str, &[u8])> =
            names.iter().map(|name| ("100644", "1", name.as_bytes())).collect();
        let tree = Tree::parse(&listing(&entries));
        assert_eq!((tree.files.len(), tree.problems.len()), (FILES_MAX, 1));
        let large: Vec<(&str, &str, &[u8])> =
            names[..100].iter().map(|name| ("100644", "1000000", name.as_bytes())).collect();
        let tree = Tree::parse(&listing(&large));
        assert_eq!((tree.files.len(), tree.problems.len()), (67, 1));
    }
}
