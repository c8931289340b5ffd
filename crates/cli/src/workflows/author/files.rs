//! Finds and reads the files named on the command line: bounded, without following links.

use camino::{Utf8Path, Utf8PathBuf};
use workrail_model::limits::WORKFLOW_SOURCE_BYTES_MAX;

use crate::outcome::Failure;

/// More files than this suggest a wrong path rather than a library of workflows.
const FILES_MAX: usize = 10_000;
/// Deeper folders are not searched.
const DEPTH_MAX: usize = 32;

/// Reads a file for the compiler: up to one byte over the limit, so that the compiler reports it.
pub(super) fn read(path: &Utf8Path) -> Result<Vec<u8>, Failure> {
    use std::io::Read as _;
    let call = |error: std::io::Error| Failure::Usage(format!("`{path}` cannot be read: {error}"));
    let metadata = std::fs::metadata(path).map_err(call)?;
    if !metadata.is_file() {
        return Err(Failure::Usage(format!("`{path}` is not a regular file")));
    }
    let mut bytes = Vec::new();
    let file = std::fs::File::open(path).map_err(call)?;
    file.take(WORKFLOW_SOURCE_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(call)?;
    Ok(bytes)
}

/// The workflow files at a path: the file itself, or those beneath a folder, sorted.
pub(super) fn workflow_files(path: &Utf8Path) -> Result<Vec<Utf8PathBuf>, Failure> {
    let metadata = std::fs::metadata(path)
        .map_err(|error| Failure::Usage(format!("`{path}` cannot be read: {error}")))?;
    if !metadata.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let mut found = Vec::new();
    search(path, 0, &mut found)?;
    found.sort();
    Ok(found)
}

fn search(folder: &Utf8Path, depth: usize, found: &mut Vec<Utf8PathBuf>) -> Result<(), Failure> {
    if depth > DEPTH_MAX {
        return Ok(());
    }
    let entries = folder
        .read_dir_utf8()
        .map_err(|error| Failure::Usage(format!("`{folder}` cannot be read: {error}")))?;
    for entry in entries.filter_map(Result::ok) {
        // A link could lead back up: its target is searched only if it is named itself.
        let Ok(kind) = entry.file_type() else { continue };
        let path = entry.path();
        if kind.is_dir() {
            search(path, depth + 1, found)?;
        } else if kind.is_file() && matches!(path.extension(), Some("json" | "jsonc")) {
            found.push(path.to_owned());
        }
        if found.len() > FILES_MAX {
            return Err(Failure::Usage(format!("`{folder}` holds more than {FILES_MAX} workflow files")));
        }
    }
    Ok(())
}
