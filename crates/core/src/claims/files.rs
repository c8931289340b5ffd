//! What a handoff says about changed files, compared with the repository (G123, G124).
//!
//! This runs while the session's lock is held, and an artifact may hold any text: what is compared is bounded.

use std::collections::BTreeSet;
use std::iter::once;

use serde_json::Value;
use workrail_model::evidence::PathList;
use workrail_model::limits::EVIDENCE_PATH_BYTES_MAX;

use super::Contradiction;
use crate::builtins::CODING_HANDOFF_KIND;
use crate::contract::artifact_kind;
use crate::{edits, evidence};

/// The number of files that a handoff can name.
const NAMED_FILES_MAX: usize = 20;
/// How many beginnings of one text are compared as globs with every changed file.
const GLOBS_MAX: usize = 2;

pub(super) fn contradictions(artifact: &Value, changed: &[String]) -> Vec<Contradiction> {
    let named = artifact.get("filesChanged").filter(|_| artifact_kind(artifact) == CODING_HANDOFF_KIND);
    let Some(named) = named.and_then(Value::as_array) else { return Vec::new() };
    let changed = ChangedFiles::new(changed);
    let named = named.iter().filter_map(Value::as_str).take(NAMED_FILES_MAX);
    let named: Vec<NamedFile<'_>> =
        named.map(|text| NamedFile::find(text, |path| changed.has(path), |glob| changed.fit(glob))).collect();
    let unchanged = PathList::new(named.iter().filter(|file| !file.is_changed).map(|file| file.path));
    // A full list may have left files out.
    let unnamed = match named.len() < NAMED_FILES_MAX {
        true => PathList::new(changed.not_named(&named)),
        false => PathList::default(),
    };
    let statements = [
        (
            "filesChanged.named",
            "`filesChanged` names files that did not change since the run began",
            unchanged,
        ),
        (
            "filesChanged.left_out",
            "files changed since the run began that `filesChanged` does not name",
            unnamed,
        ),
    ];
    let found = statements.into_iter().filter(|(_, _, files)| !files.is_empty());
    found
        .map(|(about, what, files)| Contradiction {
            about: about.to_owned(),
            text: format!("Contradicted by the repository: {what}: {}.", evidence::paths(&files)),
        })
        .collect()
}

/// The files that changed since the run began.
struct ChangedFiles<'a> {
    files: &'a [String],
    sorted: BTreeSet<&'a str>,
}

impl<'a> ChangedFiles<'a> {
    fn new(files: &'a [String]) -> Self {
        Self { files, sorted: files.iter().map(String::as_str).collect() }
    }

    /// Whether a file of this name changed, or one in the folder of this name.
    fn has(&self, path: &str) -> bool {
        let name = plain_name(path);
        let folder = format!("{name}/");
        let first_in_folder = self.sorted.range(folder.as_str()..).next();
        self.sorted.contains(name) || first_in_folder.is_some_and(|file| file.starts_with(&folder))
    }

    fn fit(&self, glob: &str) -> bool {
        self.files.iter().any(|file| edits::covers(glob, file))
    }

    fn not_named(&self, named: &[NamedFile<'_>]) -> impl Iterator<Item = &'a str> {
        let (globs, names): (Vec<&str>, Vec<&str>) =
            named.iter().map(|file| file.path).partition(|path| is_glob(path));
        // The name of a file may have the signs of a glob.
        let names: BTreeSet<&str> = names.iter().chain(&globs).map(|path| plain_name(path)).collect();
        let is_named = move |file: &str| {
            let folders = file.match_indices('/').map(|(end, _)| &file[..end]);
            folders.chain(once(file)).any(|path| names.contains(path))
                || globs.iter().any(|glob| edits::covers(glob, file))
        };
        self.files.iter().map(String::as_str).filter(move |file| !is_named(file))
    }
}

/// A path as git shows it.
fn plain_name(path: &str) -> &str {
    let name = path.trim().trim_end_matches('/');
    name.strip_prefix("./").unwrap_or(name)
}

/// A longer text is no path, and would be compared with every changed file part by part.
fn is_glob(path: &str) -> bool {
    path.len() <= EVIDENCE_PATH_BYTES_MAX && path.contains(['*', '?'])
}

/// The path that a text names, and whether that file changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct NamedFile<'n> {
    path: &'n str,
    is_changed: bool,
}

impl<'n> NamedFile<'n> {
    /// Agents add remarks after a path: `src/a.rs (new)`, `src/a.rs: the flag`. A name may have such signs itself, so the
    /// longest beginning that is a changed file counts.
    fn find(text: &'n str, mut has: impl FnMut(&str) -> bool, mut fit: impl FnMut(&str) -> bool) -> Self {
        let path = |end: usize| text[..end].trim().trim_matches('`');
        let ends = text.match_indices([' ', ':', '(', '`']).map(|(end, _)| end);
        let ends = ends.take_while(|end| *end <= EVIDENCE_PATH_BYTES_MAX).chain(once(text.trim_end().len()));
        let paths: Vec<&str> = ends.map(path).filter(|path| !path.is_empty()).collect();
        let longest_name = paths.iter().rev().find(|path| has(path));
        let globs: Vec<&&str> = paths.iter().filter(|path| is_glob(path)).take(GLOBS_MAX).collect();
        let found = longest_name.or_else(|| globs.into_iter().rev().find(|path| fit(path)));
        match found {
            Some(path) => Self { path, is_changed: true },
            None => Self { path: paths.first().copied().unwrap_or_default(), is_changed: false },
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use serde_json::json;
    use test_case::test_case;

    use super::*;

    /// G124: remarks after a path are cut off, but not a part of the name of a file that changed.
    #[test]
    fn a_changed_file_may_have_spaces_and_signs_in_its_name() {
        let handoff = |named: &str| json!({ "kind": CODING_HANDOFF_KIND, "filesChanged": [named] });
        let found = |named: &str, changed: &str| contradictions(&handoff(named), &[changed.to_owned()]).len();
        assert_eq!(found("docs/my notes.md", "docs/my notes.md"), 0);
        assert_eq!(found("`docs/a (1).md`", "docs/a (1).md"), 0);
        assert_eq!(found("src/a.rs (new)", "src/a.rs"), 0);
        assert_eq!(found(" docs/my notes.md (new)", "docs/my notes.md"), 0);
        assert_eq!(found("`docs/my notes.md`: text", "docs/my notes.md"), 0);
        assert_eq!(found("docs/a (1).md: a (2)", "docs/a (1).md"), 0);
        assert_eq!(found("docs/my notes.md", "docs/other.md"), 2);
    }

    /// Else a handoff that names nothing else would agree with every repository.
    #[test]
    fn the_root_is_no_name_of_a_changed_file() {
        for root in [".", "/ (all)"] {
            let handoff = json!({ "kind": CODING_HANDOFF_KIND, "filesChanged": [root] });
            assert_eq!(contradictions(&handoff, &["a.rs".to_owned()]).len(), 2, "{root}");
        }
    }

    #[test]
    fn named_files_are_compared_with_the_repository() {
        let named = ["src/a.rs (new)", "docs", "src/gone.rs"];
        let handoff = json!({ "kind": CODING_HANDOFF_KIND, "filesChanged": named });
        let changed = ["src/a.rs", "docs/x.md", "src/b.rs"].map(str::to_owned);
        let found = contradictions(&handoff, &changed);
        let texts: Vec<&str> = found.iter().map(|claim| claim.text.as_str()).collect();
        assert_eq!(
            texts,
            [
                "Contradicted by the repository: `filesChanged` names files that did not change since the run began: src/gone.rs.",
                "Contradicted by the repository: files changed since the run began that `filesChanged` does not name: src/b.rs.",
            ]
        );
    }

    #[test_case("src/*.rs (all)", 0; "a glob with a remark")]
    #[test_case("src/**", 0; "everything below")]
    #[test_case("./src/", 0; "a folder")]
    #[test_case("src: everything", 0; "a folder with a remark")]
    #[test_case("src/a?.rs", 1; "a glob that leaves one out")]
    #[test_case("sr", 2; "the beginning of a name")]
    fn globs_and_folders_name_the_files_in_them(named: &str, wrong: usize) {
        let handoff = json!({ "kind": CODING_HANDOFF_KIND, "filesChanged": [named] });
        let changed = ["src/a.rs", "src/ab.rs"].map(str::to_owned);
        assert_eq!(contradictions(&handoff, &changed).len(), wrong);
    }

    /// G124: an artifact is compared while the session is locked, whatever it holds.
    #[test_case(" :(`"; "signs alone")]
    #[test_case("a "; "words")]
    #[test_case("* "; "globs")]
    fn a_long_text_is_compared_a_bounded_number_of_times(part: &str) {
        let text = part.repeat(100_000);
        let (names, globs) = (Cell::new(0), Cell::new(0));
        let count = |counter: &Cell<usize>| {
            counter.update(|count| count + 1);
            false
        };
        let file = NamedFile::find(&text, |_| count(&names), |_| count(&globs));
        assert!(!file.is_changed);
        assert!(names.get() <= EVIDENCE_PATH_BYTES_MAX + 2, "{}", names.get());
        assert!(globs.get() <= GLOBS_MAX, "{}", globs.get());
    }

    /// Broke: such a text has no signs at which it ends, and was compared as a whole with every changed file.
    #[test]
    fn a_text_that_is_longer_than_any_path_is_no_glob() {
        let text = "*/".repeat(EVIDENCE_PATH_BYTES_MAX);
        let is_compared = Cell::new(false);
        let file = NamedFile::find(&text, |_| false, |_| is_compared.replace(true));
        assert!(!file.is_changed && !is_compared.get());
        let handoff =
            json!({ "kind": CODING_HANDOFF_KIND, "filesChanged": ["*".repeat(EVIDENCE_PATH_BYTES_MAX + 1)] });
        assert_eq!(contradictions(&handoff, &["a.rs".to_owned()]).len(), 2);
    }

    /// A handoff with more is invalid, but it may still be recorded.
    #[test]
    fn only_as_many_files_are_compared_as_a_handoff_can_name() {
        let named: Vec<String> = (0..1000).map(|number| format!("src/{number}.rs")).collect();
        let handoff = json!({ "kind": CODING_HANDOFF_KIND, "filesChanged": named });
        let found = contradictions(&handoff, &["other.rs".to_owned()]);
        let [unchanged] = found.as_slice() else { panic!("a full list may have left files out: {found:?}") };
        assert_eq!(
            unchanged.text,
            "Contradicted by the repository: `filesChanged` names files that did not change since the run began: src/0.rs, \
             src/1.rs, src/2.rs, src/3.rs, src/4.rs and 15 more."
        );
    }
}
