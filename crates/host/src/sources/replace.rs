//! Replaces a workflow's file with an edited text, if it still is the file that the editor had (G100).

use camino::Utf8Path;
use workrail_model::digest::Sha256;
use workrail_model::discovery::Precedence;
use workrail_model::limits::WORKFLOW_SOURCE_BYTES_MAX;
use workrail_ports::workflow_source::Candidate;

use crate::{bounded, whole_file};

/// Why a file was not replaced.
#[derive(Debug, thiserror::Error)]
pub enum ReplaceError {
    #[error("`{0}` belongs to a source that is not edited here")]
    ReadOnly(String),
    #[error("`{0}` was changed on disk since it was loaded")]
    Changed(String),
    #[error("`{reference}` cannot be written: {source}")]
    Io { reference: String, source: std::io::Error },
}

/// Writes the file whole and durable, keeping its permissions. `seen` is the digest of the bytes that were edited.
///
/// Between the last look and the replacement another program may still write: its change is then lost, as with any editor.
pub fn replace(file: &Candidate, seen: Sha256, bytes: &[u8]) -> Result<(), ReplaceError> {
    let reference = || file.reference.clone();
    match file.precedence {
        Precedence::User | Precedence::Custom | Precedence::Project => {}
        Precedence::Bundled | Precedence::Plugin | Precedence::Git => {
            return Err(ReplaceError::ReadOnly(reference()));
        }
    }
    let io = |source: std::io::Error| ReplaceError::Io { reference: reference(), source };
    let path = Utf8Path::new(&file.place);
    // Follows no link, so what is replaced is the file itself.
    let now = bounded::read(path, WORKFLOW_SOURCE_BYTES_MAX).map_err(io)?;
    if Sha256::of(&now) != seen {
        return Err(ReplaceError::Changed(reference()));
    }
    whole_file::write_bytes(path, bytes).map_err(io)
}

/// The text of the test script beside a workflow's file; `None` when there is none.
pub fn test_script(file: &Candidate) -> Result<Option<String>, std::io::Error> {
    match bounded::read(&Utf8Path::new(&file.place).with_extension("test.toml"), WORKFLOW_SOURCE_BYTES_MAX) {
        Ok(bytes) => String::from_utf8(bytes).map(Some).map_err(std::io::Error::other),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}
