//! Finds the documents that a workflow refers to, only inside the workspace or the package.

use camino::{Utf8Component, Utf8Path};
use workrail_model::compiled::{ReferenceDeclaration, ResolveFrom};
use workrail_ports::workflow_source::{Located, SourceFile};
use workrail_ports::workspace::WorkspacePath;

pub(super) fn locate(
    declaration: &ReferenceDeclaration,
    source: &SourceFile,
    workspace: Option<&WorkspacePath>,
) -> Located {
    let base = match declaration.resolve_from {
        ResolveFrom::Workspace => workspace.map(WorkspacePath::as_str),
        ResolveFrom::Package => source.package.as_deref(),
    };
    base.and_then(|base| below(Utf8Path::new(base), &declaration.source)).unwrap_or(Located::Missing)
}

fn below(base: &Utf8Path, declared: &str) -> Option<Located> {
    let relative = normal(declared)?;
    // Compare real paths: a link may lead anywhere.
    let base = base.canonicalize_utf8().ok()?;
    let found = base.join(&relative).canonicalize_utf8().ok()?;
    let is_inside = found.starts_with(&base);
    let is_file = std::fs::symlink_metadata(&found).ok()?.is_file();
    (is_inside && is_file).then(|| Located::Found { relative, absolute: found.to_string() })
}

/// The path without `.`; `None` if it is absolute, leads upward or is empty.
pub(super) fn normal(declared: &str) -> Option<String> {
    let mut parts = Vec::new();
    for part in Utf8Path::new(declared).components() {
        match part {
            Utf8Component::Normal(name) => parts.push(name),
            Utf8Component::CurDir => {}
            Utf8Component::ParentDir | Utf8Component::RootDir | Utf8Component::Prefix(_) => return None,
        }
    }
    (!parts.is_empty() && !declared.chars().any(char::is_control)).then(|| parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use test_case::test_case;

    #[test_case("docs/a.md", Some("docs/a.md"))]
    #[test_case("./docs/./a.md", Some("docs/a.md"); "dots are dropped")]
    #[test_case("../a.md", None; "upward")]
    #[test_case("docs/../../a.md", None; "upward later")]
    #[test_case("/etc/passwd", None; "absolute")]
    #[test_case(".", None; "the folder itself")]
    #[test_case("", None; "nothing")]
    #[test_case("a\u{0}b", None; "nul")]
    fn a_declared_path_is_normalised_or_refused(declared: &str, expected: Option<&str>) {
        assert_eq!(normal(declared).as_deref(), expected);
    }
}
