//! The repository: its location, and which of its files are ours.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};

/// The workspace folder, which contains this crate's folder.
pub(crate) fn find() -> Result<PathBuf> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().map(Path::to_path_buf).context("xtask is not in a workspace")
}

/// A text file of the repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RepositoryFile {
    /// Relative to the root, with `/`.
    pub(crate) path: String,
    pub(crate) text: String,
}

impl RepositoryFile {
    pub(crate) fn has_extension(&self, extension: &str) -> bool {
        Path::new(&self.path).extension().is_some_and(|found| found == extension)
    }
}

/// All text files that git tracks or would track, sorted by path. A new file is checked before its first commit, so
/// that a check gives the same result before and after.
pub(crate) fn text_files(root: &Path) -> Result<Vec<RepositoryFile>> {
    let output = Command::new("git")
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .current_dir(root)
        .output()
        .context("git cannot be started")?;
    ensure!(output.status.success(), "git ls-files: {}", String::from_utf8_lossy(&output.stderr).trim());
    let listed = String::from_utf8(output.stdout).context("git lists a path that is not UTF-8")?;
    let mut paths: Vec<&str> = listed.split('\0').filter(|path| !path.is_empty()).collect();
    paths.sort_unstable();
    paths.dedup();

    let mut files = Vec::with_capacity(paths.len());
    for path in paths {
        let on_disk = root.join(path);
        // Tracked but deleted files are no longer ours; a symbolic link has no text of its own.
        if !on_disk.symlink_metadata().is_ok_and(|meta| meta.is_file()) {
            continue;
        }
        let bytes = std::fs::read(&on_disk).with_context(|| format!("reading {path}"))?;
        if let Ok(text) = String::from_utf8(bytes) {
            files.push(RepositoryFile { path: path.to_owned(), text });
        }
    }
    Ok(files)
}
