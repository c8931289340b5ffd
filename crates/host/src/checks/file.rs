//! `.workrail/checks.toml`: what each check of a project runs. Treated as untrusted input.

use std::collections::BTreeMap;

use camino::{Utf8Component, Utf8Path, Utf8PathBuf};
use serde::Deserialize;
use workrail_model::limits::{CHECKS_FILE_BYTES_MAX, EVIDENCE_ARGUMENT_BYTES_MAX, EVIDENCE_ARGUMENTS_MAX};
use workrail_model::name::CheckName;

use crate::bounded;

/// Below the root of the workspace.
pub const CHECKS_FILE: &str = ".workrail/checks.toml";

/// Why a project's checks cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChecksFileError {
    #[error("`{CHECKS_FILE}` does not exist")]
    Missing,
    #[error("`{CHECKS_FILE}` cannot be read: {0}")]
    Unreadable(String),
    #[error("`{CHECKS_FILE}` is not valid:\n{0}")]
    Invalid(String),
}

/// What a check runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckDefinition {
    /// The program and its arguments; never empty.
    pub argv: Vec<String>,
    /// Relative to the root, and lexically below it.
    pub directory: Utf8PathBuf,
}

pub type ChecksFile = BTreeMap<CheckName, CheckDefinition>;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CheckEntry {
    argv: Vec<String>,
    #[serde(default)]
    directory: Option<String>,
}

/// Reads the checks of the workspace with this root.
pub fn read(root: &Utf8Path) -> Result<ChecksFile, ChecksFileError> {
    let path = root.join(CHECKS_FILE);
    if let Some(folder) = path.parent().filter(|folder| folder.is_dir()) {
        // A linked folder would let another repository's file define checks for this one.
        let real =
            folder.canonicalize_utf8().map_err(|error| ChecksFileError::Unreadable(error.to_string()))?;
        if !real.starts_with(root) {
            return Err(ChecksFileError::Unreadable(
                "its folder is a link that leads out of the workspace".into(),
            ));
        }
    }
    let bytes = bounded::read(&path, CHECKS_FILE_BYTES_MAX).map_err(|error| {
        if error.kind() == std::io::ErrorKind::NotFound {
            ChecksFileError::Missing
        } else {
            ChecksFileError::Unreadable(error.to_string())
        }
    })?;
    let text =
        String::from_utf8(bytes).map_err(|_| ChecksFileError::Invalid("it is not UTF-8".to_owned()))?;
    parse(&text)
}

fn parse(text: &str) -> Result<ChecksFile, ChecksFileError> {
    let written: BTreeMap<String, CheckEntry> = toml::from_str(text).map_err(|error| {
        ChecksFileError::Invalid(format!(
            "{}\nEach check is a table with `argv` and, if it is not the root, `directory`:\n\n[test]\nargv = [\"cargo\", \"test\"]",
            error.to_string().trim_end()
        ))
    })?;
    let mut checks = ChecksFile::new();
    let mut problems = Vec::new();
    for (name, written) in written {
        let parsed = CheckName::parse(&name).map_err(|error| error.to_string());
        let defined = parsed.and_then(|parsed| Ok((parsed, definition(written)?)));
        match defined {
            Ok((name, definition)) => {
                checks.insert(name, definition);
            }
            Err(problem) => problems.push(format!("[{}] {problem}", shown(&name))),
        }
    }
    match problems.is_empty() {
        true => Ok(checks),
        false => Err(ChecksFileError::Invalid(problems.join("\n"))),
    }
}

/// An untrusted name, shortened and without control characters.
fn shown(name: &str) -> String {
    name.chars().filter(|c| !c.is_control()).take(64).collect()
}

fn definition(written: CheckEntry) -> Result<CheckDefinition, String> {
    let CheckEntry { argv, directory } = written;
    if argv.first().is_none_or(String::is_empty) {
        return Err("`argv` names no program; write it as [\"cargo\", \"test\"]".to_owned());
    }
    if argv.len() > EVIDENCE_ARGUMENTS_MAX {
        return Err(format!(
            "`argv` has {} arguments, at most {EVIDENCE_ARGUMENTS_MAX} are allowed",
            argv.len()
        ));
    }
    if argv.iter().any(|argument| argument.len() > EVIDENCE_ARGUMENT_BYTES_MAX) {
        return Err(format!("an argument is longer than {EVIDENCE_ARGUMENT_BYTES_MAX} bytes; use a script"));
    }
    // The person who reads it before trusting it must see all of it.
    if argv.iter().any(|argument| argument.chars().any(is_hidden)) {
        return Err("`argv` has control characters or others that are not shown; use a script".to_owned());
    }
    let directory = Utf8PathBuf::from(directory.unwrap_or_else(|| ".".to_owned()));
    let stays =
        directory.components().all(|part| matches!(part, Utf8Component::Normal(_) | Utf8Component::CurDir));
    if !stays || directory.as_str().is_empty() || directory.as_str().chars().any(is_hidden) {
        return Err("`directory` must be a path below the root of the workspace".to_owned());
    }
    Ok(CheckDefinition { argv, directory })
}

/// Control characters, and those that change how the text around them is shown.
pub(super) fn is_hidden(c: char) -> bool {
    c.is_control() || workrail_model::text::is_harmful(c)
}

#[cfg(test)]
mod tests {
    use test_case::test_case;

    use super::*;

    #[test]
    fn a_check_is_an_argv_and_a_directory() {
        let checks =
            parse("[test]\nargv = [\"cargo\", \"test\"]\n[lint]\nargv=[\"x\"]\ndirectory = \"web/app\"")
                .unwrap();
        let test = &checks[&CheckName::parse("test").unwrap()];
        assert_eq!(
            (test.argv.as_slice(), test.directory.as_str()),
            (&["cargo".to_owned(), "test".to_owned()][..], ".")
        );
        assert_eq!(checks[&CheckName::parse("lint").unwrap()].directory, "web/app");
    }

    #[test_case("[test]\nargv = []"; "no program")]
    #[test_case("[test]\nargv = [\"\"]"; "an empty program")]
    #[test_case("[test]\nargv = \"cargo test\""; "a command line")]
    #[test_case("[test]\nargv = [\"a\"]\nshell = true"; "an unknown key")]
    #[test_case("[test]\nargv = [\"a\"]\ndirectory = \"../x\""; "up")]
    #[test_case("[test]\nargv = [\"a\"]\ndirectory = \"/etc\""; "absolute")]
    #[test_case("[test]\nargv = [\"a\"]\ndirectory = \"\""; "nowhere")]
    #[test_case("[test]\nargv = [\"a\\u0007\"]"; "a control character")]
    #[test_case("[test]\nargv = [\"a\\u202Eb\"]"; "text that runs the other way")]
    #[test_case("[\"a/b\"]\nargv = [\"a\"]"; "a path as a name")]
    #[test_case("test = [\"cargo\"]"; "a list")]
    #[test_case("[test\n"; "no TOML")]
    fn invalid_definitions_are_refused(text: &str) {
        assert!(matches!(parse(text), Err(ChecksFileError::Invalid(_))));
    }

    #[test]
    fn every_problem_is_reported() {
        let text = "[test]\nargv = []\n[Lint]\nargv = [\"x\"]\n[build]\nargv = [\"x\"]\ndirectory = \"../x\"";
        let message = parse(text).unwrap_err().to_string();
        let lines: Vec<&str> = message.lines().collect();
        assert_eq!(
            lines,
            [
                "`.workrail/checks.toml` is not valid:",
                "[Lint] \"Lint\" is not a valid name of a check: lowercase letters, digits, `_`, `-`; 64 bytes at most",
                "[build] `directory` must be a path below the root of the workspace",
                "[test] `argv` names no program; write it as [\"cargo\", \"test\"]",
            ]
        );
    }

    #[test]
    fn too_many_arguments_are_refused() {
        let many = |count: usize| format!("[test]\nargv = [{}]", vec!["\"a\""; count].join(","));
        assert!(parse(&many(EVIDENCE_ARGUMENTS_MAX)).is_ok());
        assert!(parse(&many(EVIDENCE_ARGUMENTS_MAX + 1)).is_err());
    }

    #[test]
    fn links_and_large_files_are_not_read() {
        let folder = tempfile::tempdir().unwrap();
        let root = Utf8Path::from_path(folder.path()).unwrap().canonicalize_utf8().unwrap();
        assert_eq!(read(&root), Err(ChecksFileError::Missing));
        std::fs::create_dir(root.join(".workrail")).unwrap();
        std::fs::write(root.join("elsewhere"), "[test]\nargv = [\"a\"]").unwrap();
        std::os::unix::fs::symlink(root.join("elsewhere"), root.join(CHECKS_FILE)).unwrap();
        assert!(matches!(read(&root), Err(ChecksFileError::Unreadable(_))));
        std::fs::remove_file(root.join(CHECKS_FILE)).unwrap();
        let large = usize::try_from(CHECKS_FILE_BYTES_MAX).unwrap() + 1;
        std::fs::write(root.join(CHECKS_FILE), "#".repeat(large)).unwrap();
        assert!(matches!(read(&root), Err(ChecksFileError::Unreadable(_))));
    }

    #[test]
    fn a_folder_that_leads_outside_is_not_read() {
        let (folder, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let root = Utf8Path::from_path(folder.path()).unwrap().canonicalize_utf8().unwrap();
        std::fs::write(other.path().join("checks.toml"), "[test]\nargv = [\"a\"]").unwrap();
        std::os::unix::fs::symlink(other.path(), root.join(".workrail")).unwrap();
        assert!(matches!(read(&root), Err(ChecksFileError::Unreadable(_))));
    }
}
