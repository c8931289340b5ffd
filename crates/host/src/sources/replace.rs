//! Replaces a workflow's file with an edited text, if it is still the file that the editor read (G100).

use camino::Utf8Path;
use workrail_model::digest::Sha256;
use workrail_model::limits::WORKFLOW_SOURCE_BYTES_MAX;
use workrail_ports::workflow_source::CandidateFile;

use crate::{bounded, whole_file};

/// Why a file was not replaced.
#[derive(Debug, thiserror::Error)]
pub enum ReplaceError {
    #[error("`{0}` belongs to a source that is not edited here")]
    ReadOnly(String),
    #[error("`{0}` is write-protected")]
    WriteProtected(String),
    #[error("`{0}` was changed on disk since it was loaded")]
    Changed(String),
    #[error("`{reference}` cannot be written: {source}")]
    Io { reference: String, source: std::io::Error },
}

/// Writes the file atomically and durably, keeping its permissions. `seen` is the digest of the bytes that were edited.
///
/// Another program may still write between the last check and the replacement: its change is then lost, as with any
/// editor.
pub fn replace(file: &CandidateFile, seen: Sha256, bytes: &[u8]) -> Result<(), ReplaceError> {
    let reference = || file.reference.clone();
    if !file.precedence.is_editable() {
        return Err(ReplaceError::ReadOnly(reference()));
    }
    let io = |source: std::io::Error| ReplaceError::Io { reference: reference(), source };
    let path = Utf8Path::new(&file.location);
    // Does not follow links, so the file itself is replaced.
    let now = bounded::read(path, WORKFLOW_SOURCE_BYTES_MAX).map_err(io)?;
    // Replacing a file needs no write permission on it, but a user who removed that permission meant it.
    if std::fs::symlink_metadata(path).map_err(io)?.permissions().readonly() {
        return Err(ReplaceError::WriteProtected(reference()));
    }
    if Sha256::of(&now) != seen {
        return Err(ReplaceError::Changed(reference()));
    }
    whole_file::replace_not_following(path, bytes).map_err(io)
}

/// The text of the test script next to a workflow's file; `None` if there is none.
pub fn test_script(file: &CandidateFile) -> Result<Option<String>, std::io::Error> {
    match bounded::read(&Utf8Path::new(&file.location).with_extension("test.toml"), WORKFLOW_SOURCE_BYTES_MAX)
    {
        Ok(bytes) => String::from_utf8(bytes).map(Some).map_err(std::io::Error::other),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Replaces a file named on the command line, atomically and durably, keeping its permissions.
pub fn write_named(path: &Utf8Path, text: &str) -> std::io::Result<()> {
    whole_file::write(path, text)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use camino::Utf8PathBuf;
    use workrail_model::discovery::Precedence;

    use super::*;

    /// A file with the bytes `old`, as found by a source of this kind.
    fn file(precedence: Precedence) -> (tempfile::TempDir, CandidateFile) {
        let folder = tempfile::tempdir().unwrap();
        let location = Utf8PathBuf::from_path_buf(folder.path().join("team.a.json")).unwrap();
        fs::write(&location, "old").unwrap();
        let reference = "team.a.json".to_owned();
        let location = location.to_string();
        (
            folder,
            CandidateFile { precedence, folder_position: 0, reference, location, package: None, stamp: None },
        )
    }

    fn mode(path: &str, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn a_file_is_replaced_whole_and_keeps_its_permissions() {
        let (folder, file) = file(Precedence::Project);
        mode(&file.location, 0o640);
        replace(&file, Sha256::of(b"old"), b"new").unwrap();
        assert_eq!(fs::read(&file.location).unwrap(), b"new");
        assert_eq!(fs::metadata(&file.location).unwrap().permissions().mode() & 0o777, 0o640);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing else is left");
    }

    #[test]
    fn a_file_that_is_not_the_users_or_was_changed_or_is_protected_stays() {
        for precedence in [Precedence::Bundled, Precedence::Plugin, Precedence::Git] {
            let (_folder, file) = file(precedence);
            let refused = replace(&file, Sha256::of(b"old"), b"new");
            assert!(matches!(refused, Err(ReplaceError::ReadOnly(_))), "{precedence:?}: {refused:?}");
            assert_eq!(fs::read(&file.location).unwrap(), b"old");
        }
        let (_folder, file) = file(Precedence::User);
        let changed = replace(&file, Sha256::of(b"older"), b"new");
        assert!(matches!(changed, Err(ReplaceError::Changed(_))), "{changed:?}");
        mode(&file.location, 0o444);
        let protected = replace(&file, Sha256::of(b"old"), b"new");
        assert!(matches!(protected, Err(ReplaceError::WriteProtected(_))), "{protected:?}");
        assert_eq!(fs::read(&file.location).unwrap(), b"old");
        fs::remove_file(&file.location).unwrap();
        let gone = replace(&file, Sha256::of(b"old"), b"new");
        assert!(matches!(gone, Err(ReplaceError::Io { .. })), "{gone:?}");
        assert!(!fs::exists(&file.location).unwrap(), "nothing is made");
    }

    #[test]
    fn a_link_in_place_of_the_file_is_not_followed() {
        let (folder, file) = file(Precedence::User);
        let outside = folder.path().join("outside");
        fs::rename(&file.location, &outside).unwrap();
        symlink(&outside, &file.location).unwrap();
        let refused = replace(&file, Sha256::of(b"old"), b"new");
        assert!(matches!(refused, Err(ReplaceError::Io { .. })), "{refused:?}");
        // Also if it appears after the last check.
        whole_file::replace_not_following(Utf8Path::new(&file.location), b"new").unwrap();
        assert_eq!(fs::read(&outside).unwrap(), b"old");
        assert_eq!(fs::read(&file.location).unwrap(), b"new");
    }
}
