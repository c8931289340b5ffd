//! Names proofs that cannot run on this machine, so that a run without them does not pass for a complete one.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::Path;

/// The variable with the file that collects what was skipped. Not `WORKRAIL_...`: `doctor` warns of unknown variables
/// with that prefix.
const FILE: &str = "PROOFS_SKIPPED_FILE";

/// Says that a proof cannot run here, and why. A test calls it before it returns early: the runner hides the output of
/// tests that pass, but `./test` lists what is in the file, and fails in continuous integration.
#[expect(clippy::print_stderr, reason = "a test that proves nothing says so")]
pub fn skip(proof: &str, why: &str) {
    eprintln!("skipped: {proof} ({why})");
    if let Some(file) = std::env::var_os(FILE).filter(|file| !file.is_empty()) {
        record(Path::new(&file), proof, why);
    }
}

/// Adds a line with one write, because other tests write at the same time.
fn record(path: &Path, proof: &str, why: &str) {
    let line = format!("{proof} ({why})\n");
    let opened = OpenOptions::new().create(true).append(true).open(path);
    let written = opened.and_then(|mut file| file.write_all(line.as_bytes()));
    written.unwrap_or_else(|error| panic!("{} cannot be written: {error}", path.display()));
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::record;

    #[test]
    fn every_skipped_proof_is_a_line_of_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("skipped");
        fs::write(&path, "before (it was there)\n").unwrap();
        record(&path, "a full disk", "no mount");
        record(&path, "kills", "no strace");
        let text = fs::read_to_string(&path).unwrap();
        assert_eq!(text, "before (it was there)\na full disk (no mount)\nkills (no strace)\n");
    }

    #[test]
    #[should_panic(expected = "cannot be written")]
    fn a_file_that_cannot_be_written_fails_the_test() {
        let folder = tempfile::tempdir().unwrap();
        record(folder.path(), "a full disk", "no mount");
    }
}
