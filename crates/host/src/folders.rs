//! Folders that a user names on the command line: their real path, and whether they are empty.

use std::io::ErrorKind;

use camino::{Utf8Path, Utf8PathBuf};

/// Whether a folder is missing or empty. The error names what is in its place.
pub fn is_empty_or_missing(path: &Utf8Path) -> std::io::Result<bool> {
    match std::fs::read_dir(path) {
        Ok(mut entries) => Ok(entries.next().is_none()),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(true),
        Err(error) => Err(error),
    }
}

pub fn is_folder(path: &Utf8Path) -> bool {
    std::fs::metadata(path).is_ok_and(|found| found.is_dir())
}

/// The path with links and dots resolved, even if its last parts do not exist yet.
pub fn resolved(path: &Utf8Path) -> std::io::Result<Utf8PathBuf> {
    let absolute = std::path::absolute(path)?;
    let absolute = Utf8PathBuf::from_path_buf(absolute)
        .map_err(|_| std::io::Error::new(ErrorKind::InvalidInput, "the path is not UTF-8"))?;
    let mut missing = Vec::new();
    let mut existing = absolute.as_path();
    loop {
        match existing.canonicalize_utf8() {
            Ok(found) => return Ok(missing.into_iter().rev().fold(found, |path, part| path.join(part))),
            Err(error) if error.kind() == ErrorKind::NotFound => {
                let (Some(parent), Some(name)) = (existing.parent(), existing.file_name()) else {
                    return Err(error);
                };
                missing.push(name);
                existing = parent;
            }
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_resolved_through_links_and_missing_parts() {
        let folder = tempfile::tempdir().unwrap();
        let root = Utf8Path::from_path(folder.path()).unwrap().canonicalize_utf8().unwrap();
        std::fs::create_dir(root.join("real")).unwrap();
        std::os::unix::fs::symlink(root.join("real"), root.join("link")).unwrap();
        assert_eq!(resolved(&root.join("link/a/b")).unwrap(), root.join("real/a/b"));
        assert_eq!(resolved(&root.join("real")).unwrap(), root.join("real"));
        assert!(is_empty_or_missing(&root.join("real")).unwrap());
        assert!(is_empty_or_missing(&root.join("none")).unwrap());
        std::fs::write(root.join("real/my file"), "").unwrap();
        assert!(!is_empty_or_missing(&root.join("real")).unwrap());
        assert!(is_empty_or_missing(&root.join("real/my file")).is_err());
    }
}
