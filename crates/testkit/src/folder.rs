//! Lists the contents of a folder, for tests that compare them before and after.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Every file and folder beneath a folder, by relative path. A missing folder is empty.
pub fn entries(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut open = vec![folder.to_owned()];
    while let Some(next) = open.pop().filter(|next| next.exists()) {
        for entry in fs::read_dir(&next).expect("a folder can be read") {
            let path = entry.expect("a folder can be read").path();
            found.push(path.strip_prefix(folder).expect("it is beneath the folder").to_owned());
            if path.is_dir() {
                open.push(path);
            }
        }
    }
    found.sort();
    found
}

/// Every file beneath a folder with its bytes, by relative path.
pub fn files(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    read(folder, entries(folder))
}

/// The same for a data directory, except what servers note about themselves: that is not truth (G83), and another
/// server may remove it meanwhile.
pub fn recorded(data: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut entries = entries(data);
    entries.retain(|path| !path.starts_with("servers") && !path.starts_with("logs"));
    read(data, entries)
}

fn read(folder: &Path, entries: Vec<PathBuf>) -> BTreeMap<PathBuf, Vec<u8>> {
    let files = entries.into_iter().filter(|path| !folder.join(path).is_dir());
    files
        .map(|path| {
            let bytes = fs::read(folder.join(&path)).expect("a file can be read");
            (path, bytes)
        })
        .collect()
}
