//! Proposes a first checks file from the build files in the repository.

use std::collections::BTreeMap;

use camino::{Utf8Path, Utf8PathBuf};
use serde_json::Value;
use workrail_model::name::CheckName;

use super::file::CHECKS_FILE;
use crate::{bounded, whole_file};

/// Build files are small; larger ones are ignored.
const BUILD_FILE_BYTES_MAX: u64 = 1024 * 1024;

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProposeError {
    #[error("{path} exists already")]
    Exists { path: Utf8PathBuf },
    #[error("{path} cannot be written: {problem}")]
    NotWritten { path: Utf8PathBuf, problem: String },
}

/// A check that fits the repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proposed {
    pub name: CheckName,
    pub argv: Vec<String>,
    /// The file it was derived from.
    pub because_of: &'static str,
}

/// What fits the repository with this root, by name. The first build file that has a command for a name wins.
pub fn proposed(root: &Utf8Path) -> Vec<Proposed> {
    let mut found = BTreeMap::new();
    for rule in [cargo, node, python, go, gradle, maven, make] {
        for check in rule(root) {
            found.entry(check.name.clone()).or_insert(check);
        }
    }
    found.into_values().collect()
}

fn text(root: &Utf8Path, file: &str) -> Option<String> {
    String::from_utf8(bounded::read(&root.join(file), BUILD_FILE_BYTES_MAX).ok()?).ok()
}

fn check(because_of: &'static str, name: &str, argv: &[&str]) -> Option<Proposed> {
    let argv = argv.iter().map(|word| (*word).to_owned()).collect();
    Some(Proposed { name: CheckName::parse(name).ok()?, argv, because_of })
}

fn cargo(root: &Utf8Path) -> Vec<Proposed> {
    if text(root, "Cargo.toml").is_none() {
        return Vec::new();
    }
    let file = "Cargo.toml";
    let checks = [
        check(file, "test", &["cargo", "test"]),
        check(file, "lint", &["cargo", "clippy", "--all-targets", "--", "-D", "warnings"]),
        check(file, "format", &["cargo", "fmt", "--check"]),
    ];
    checks.into_iter().flatten().collect()
}

/// Scripts with these names, run by the package manager whose lock file is present.
fn node(root: &Utf8Path) -> Vec<Proposed> {
    let Some(text) = text(root, "package.json") else { return Vec::new() };
    let scripts = serde_json::from_str::<Value>(&text).unwrap_or_default();
    let managers =
        [("pnpm-lock.yaml", "pnpm"), ("yarn.lock", "yarn"), ("bun.lock", "bun"), ("bun.lockb", "bun")];
    let has = |file: &str| root.join(file).is_file();
    let manager = managers.iter().find(|(file, _)| has(file)).map_or("npm", |(_, manager)| manager);
    let names = [
        ("test", "test"),
        ("lint", "lint"),
        ("typecheck", "typecheck"),
        ("type-check", "typecheck"),
        ("build", "build"),
    ];
    let present = names.iter().filter(|(script, _)| {
        // The placeholder that `npm init` writes is not a test.
        scripts["scripts"][script].as_str().is_some_and(|line| !line.contains("no test specified"))
    });
    present.filter_map(|(script, name)| check("package.json", name, &[manager, "run", script])).collect()
}

fn python(root: &Utf8Path) -> Vec<Proposed> {
    let project = text(root, "pyproject.toml").unwrap_or_default();
    let has = |file: &str| root.join(file).exists();
    let tests = project.contains("pytest") || has("pytest.ini") || has("conftest.py");
    let run = |program: &'static str| match has("uv.lock") {
        true => vec!["uv", "run", program],
        false => vec![program],
    };
    let mut checks = Vec::new();
    if tests {
        checks.extend(check("pyproject.toml", "test", &run("pytest")));
    }
    if project.contains("ruff") {
        let mut argv = run("ruff");
        argv.extend(["check", "."]);
        checks.extend(check("pyproject.toml", "lint", &argv));
    }
    if project.contains("mypy") {
        let mut argv = run("mypy");
        argv.push(".");
        checks.extend(check("pyproject.toml", "typecheck", &argv));
    }
    checks
}

fn go(root: &Utf8Path) -> Vec<Proposed> {
    if text(root, "go.mod").is_none() {
        return Vec::new();
    }
    let checks =
        [check("go.mod", "test", &["go", "test", "./..."]), check("go.mod", "lint", &["go", "vet", "./..."])];
    checks.into_iter().flatten().collect()
}

fn gradle(root: &Utf8Path) -> Vec<Proposed> {
    match root.join("gradlew").is_file() {
        true => check("gradlew", "test", &["./gradlew", "test"]).into_iter().collect(),
        false => Vec::new(),
    }
}

fn maven(root: &Utf8Path) -> Vec<Proposed> {
    match root.join("pom.xml").is_file() {
        true => check("pom.xml", "test", &["mvn", "--batch-mode", "test"]).into_iter().collect(),
        false => Vec::new(),
    }
}

fn make(root: &Utf8Path) -> Vec<Proposed> {
    let file = ["Makefile", "makefile", "GNUmakefile"].into_iter().find_map(|file| text(root, file));
    let Some(text) = file else { return Vec::new() };
    let has = |target: &str| {
        text.lines().any(|line| {
            let rest = line.strip_prefix(target).map(str::trim_start);
            rest.is_some_and(|rest| rest.starts_with(':') && !rest.starts_with(":="))
        })
    };
    let names = ["test", "lint", "build"];
    names
        .into_iter()
        .filter(|target| has(target))
        .filter_map(|target| check("Makefile", target, &["make", target]))
        .collect()
}

/// The text of a checks file with these checks.
fn written(checks: &[Proposed]) -> String {
    let mut text = "# Commands that checks of workflow steps run in this project: name, then program and \
                    arguments.\n# No shell, no variables. `directory` is relative to this repository; without \
                    it, its root.\n# Nothing runs until you trust it with `workrail trust`.\n"
        .to_owned();
    for check in checks {
        let argv: Vec<String> =
            check.argv.iter().map(|word| toml::Value::String(word.clone()).to_string()).collect();
        text.push_str(&format!(
            "\n# from {}\n[{}]\nargv = [{}]\n",
            check.because_of,
            check.name,
            argv.join(", ")
        ));
    }
    if checks.is_empty() {
        text.push_str("\n# [test]\n# argv = [\"make\", \"test\"]\n");
    }
    text
}

/// Writes a checks file, or only returns its path and text.
pub fn write_proposed(root: &Utf8Path, show: ShowOnly) -> Result<(Utf8PathBuf, String), ProposeError> {
    let path = root.join(CHECKS_FILE);
    let text = written(&proposed(root));
    if show == ShowOnly::Yes {
        return Ok((path, text));
    }
    if std::fs::symlink_metadata(&path).is_ok() {
        return Err(ProposeError::Exists { path });
    }
    match whole_file::write_public(&path, &text) {
        Ok(()) => Ok((path, text)),
        Err(error) => Err(ProposeError::NotWritten { path, problem: error.to_string() }),
    }
}

/// Whether to show the file instead of writing it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShowOnly {
    Yes,
    No,
}

#[cfg(test)]
mod tests {
    use super::super::file::read;
    use super::*;

    fn with(files: &[(&str, &str)]) -> (tempfile::TempDir, Utf8PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let root = Utf8Path::from_path(folder.path()).unwrap().canonicalize_utf8().unwrap();
        for (name, text) in files {
            std::fs::write(root.join(name), text).unwrap();
        }
        (folder, root)
    }

    fn in_words(files: &[(&str, &str)]) -> String {
        let (_folder, root) = with(files);
        let lines =
            proposed(&root).into_iter().map(|check| format!("{}: {}", check.name, check.argv.join(" ")));
        lines.collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn checks_are_proposed_from_the_build_files() {
        let cargo =
            "format: cargo fmt --check\nlint: cargo clippy --all-targets -- -D warnings\ntest: cargo test";
        assert_eq!(in_words(&[("Cargo.toml", "[package]")]), cargo);
        let scripts = r#"{"scripts": {"test": "vitest", "lint": "eslint .", "type-check": "tsc"}}"#;
        let pnpm = "lint: pnpm run lint\ntest: pnpm run test\ntypecheck: pnpm run type-check";
        assert_eq!(in_words(&[("package.json", scripts), ("pnpm-lock.yaml", "")]), pnpm);
        let python = [("pyproject.toml", "[tool.pytest]\n[tool.ruff]"), ("uv.lock", "")];
        assert_eq!(in_words(&python), "lint: uv run ruff check .\ntest: uv run pytest");
        assert_eq!(in_words(&[("go.mod", "module x")]), "lint: go vet ./...\ntest: go test ./...");
        let make = "VERSION := 1\ntest: build\n\tgo\nbuild:\n";
        assert_eq!(in_words(&[("Makefile", make)]), "build: make build\ntest: make test");
        let unset = r#"{"scripts": {"test": "echo \"Error: no test specified\" && exit 1"}}"#;
        assert_eq!(in_words(&[("package.json", unset)]), "");
    }

    #[test]
    fn a_written_checks_file_can_be_read_and_is_not_replaced() {
        let (_folder, root) = with(&[("Cargo.toml", "[package]")]);
        let (path, shown) = write_proposed(&root, ShowOnly::Yes).unwrap();
        assert!(!path.exists());
        let (_, text) = write_proposed(&root, ShowOnly::No).unwrap();
        assert_eq!(text, shown);
        assert_eq!(read(&root).unwrap().len(), 3);
        assert_eq!(write_proposed(&root, ShowOnly::No), Err(ProposeError::Exists { path }));
    }
}
