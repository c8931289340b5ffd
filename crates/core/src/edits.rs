//! Which files a step allows to be edited: globs over paths below the root of the repository (G106), and the scope that a run
//! declared (G123).

use serde_json::Value;
use workrail_model::compiled::EditRule;
use workrail_model::event::Context;

/// What a pending step allows to be edited.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AllowedEdits {
    /// The globs of the step.
    pub own: Vec<String>,
    pub declared: Option<DeclaredScope>,
}

/// The files that a run says it will change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeclaredScope {
    /// The context key that holds them.
    pub key: String,
    /// Files, folders or globs.
    pub files: Vec<String>,
}

impl AllowedEdits {
    /// A step's rule applied to the context at that point; `None` if it restricts nothing because the scope that it
    /// names is not declared.
    pub fn of(rule: &EditRule, context: &Context) -> Option<Self> {
        let declared = match &rule.scope {
            None => None,
            Some(key) => Some(DeclaredScope { key: key.clone(), files: declared_files(context.get(key)?)? }),
        };
        Some(Self { own: rule.allow.clone(), declared })
    }

    pub(crate) fn is_none_allowed(&self) -> bool {
        self.globs().next().is_none()
    }

    /// Everything that may change, for display.
    pub(crate) fn globs(&self) -> impl Iterator<Item = &str> {
        let declared = self.declared.iter().flat_map(|scope| &scope.files);
        self.own.iter().chain(declared).map(String::as_str)
    }

    /// Whether an edit of the file is allowed. `path` is relative to the root, with `/` between its parts.
    pub(crate) fn allows(&self, path: &str) -> bool {
        let Some(parts) = parts_of(path) else { return false };
        let mut declared = self.declared.iter().flat_map(|scope| &scope.files);
        self.own.iter().any(|glob| fits(glob, &parts))
            || declared.any(|glob| is_root(glob) || covers(glob, path))
    }
}

/// The texts of a list; `None` for anything else. Texts that cannot be a path are left out.
fn declared_files(value: &Value) -> Option<Vec<String>> {
    let texts: Option<Vec<&str>> = value.as_array()?.iter().map(Value::as_str).collect();
    let is_path = |path: &&str| path.len() <= DECLARED_BYTES_MAX && !path.chars().any(char::is_control);
    Some(texts?.into_iter().filter(is_path).map(str::to_owned).collect())
}

/// The same limit as for a glob in a step.
const DECLARED_BYTES_MAX: usize = 256;

/// `.` or `/`: as a scope, everything in the repository.
fn is_root(named: &str) -> bool {
    let named = named.trim();
    !named.is_empty() && named.split('/').all(|part| part.is_empty() || part == ".")
}

/// Whether a file is the one an agent named, matches its glob, or is in the folder it named, with or without a slash.
pub(crate) fn covers(named: &str, path: &str) -> bool {
    let named = named.trim().trim_end_matches('/');
    parts_of(path).is_some_and(|parts| fits(named, &parts) || fits(&format!("{named}/"), &parts))
}

/// The parts of a path; `None` if it leaves the root or is empty.
fn parts_of(path: &str) -> Option<Vec<&str>> {
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty() && *part != ".").collect();
    (!parts.is_empty() && !parts.contains(&"..")).then_some(parts)
}

fn fits(glob: &str, path: &[&str]) -> bool {
    let glob = glob.strip_prefix("./").unwrap_or(glob);
    // A folder means everything in it.
    let whole = if glob.ends_with('/') { format!("{glob}**") } else { glob.to_owned() };
    let glob: Vec<&str> = whole.split('/').collect();
    parts_fit(&glob, path)
}

/// Row by row, so that no glob costs more than its length times that of the path.
fn parts_fit(glob: &[&str], path: &[&str]) -> bool {
    // `reached[n]`: the parts of the glob so far match the first n parts of the path.
    let mut reached = vec![false; path.len() + 1];
    reached[0] = true;
    for part in glob {
        let mut next = vec![false; path.len() + 1];
        if *part == "**" {
            let mut open = false;
            for (index, is_reached) in reached.iter().enumerate() {
                open |= is_reached;
                next[index] = open;
            }
        } else {
            for (index, name) in path.iter().enumerate() {
                next[index + 1] = reached[index] && name_fits(part, name);
            }
        }
        if !next.contains(&true) {
            return false;
        }
        reached = next;
    }
    reached[path.len()]
}

/// `*` is any text without `/`, `?` one character.
fn name_fits(glob: &str, name: &str) -> bool {
    let (glob, name): (Vec<char>, Vec<char>) = (glob.chars().collect(), name.chars().collect());
    let (mut at, mut read) = (0, 0);
    let mut star = None;
    while read < name.len() {
        match glob.get(at) {
            Some('*') => {
                star = Some((at, read));
                at += 1;
            }
            Some(c) if *c == '?' || *c == name[read] => {
                at += 1;
                read += 1;
            }
            Some(_) | None => match &mut star {
                Some((index, taken)) => {
                    *taken += 1;
                    (at, read) = (*index + 1, *taken);
                }
                None => return false,
            },
        }
    }
    glob[at..].iter().all(|c| *c == '*')
}

/// What is wrong with a glob, as the end of a sentence; `None` for one that can be used.
pub(crate) fn problem(glob: &str) -> Option<&'static str> {
    if glob.starts_with('/') || glob.get(1..2) == Some(":") {
        return Some("it is absolute, and globs are relative to the root of the repository");
    }
    if glob.contains('\\') {
        return Some("it has a backslash; paths have `/` between their parts");
    }
    if glob.split('/').any(|part| part == "..") {
        return Some("it leaves the repository");
    }
    if glob.split('/').any(|part| part.contains("**") && part != "**") {
        return Some("`**` is a whole part of a path, as in `docs/**`");
    }
    None
}

#[cfg(test)]
mod tests {
    use test_case::test_case;

    use super::*;

    fn rule(globs: &[&str]) -> EditRule {
        EditRule { allow: globs.iter().map(|glob| (*glob).to_owned()).collect(), scope: None }
    }

    fn allows(rule: &EditRule, path: &str) -> bool {
        AllowedEdits::of(rule, &Context::default()).is_some_and(|allowed| allowed.allows(path))
    }

    #[test_case("docs/**", "docs/a/b.md", true)]
    #[test_case("docs/**", "docs", true; "the folder itself")]
    #[test_case("docs/", "docs/a/b.md", true)]
    #[test_case("docs/**", "src/docs/a.md", false)]
    #[test_case("**/*.md", "README.md", true)]
    #[test_case("**/*.md", "a/b/c.md", true)]
    #[test_case("*.md", "a/b.md", false; "a star stays in its folder")]
    #[test_case("src/*_test.?s", "src/x_test.rs", true)]
    #[test_case("src/*_test.?s", "src/x_test.s", false)]
    #[test_case("a*b*c", "aXbYbZc", true)]
    #[test_case("**", "any/thing", true)]
    #[test_case("**", "../outside", false)]
    #[test_case("./a.txt", "./a.txt", true)]
    fn globs_match_paths(glob: &str, path: &str, expected: bool) {
        assert_eq!(allows(&rule(&[glob]), path), expected);
    }

    #[test]
    fn an_empty_list_allows_nothing() {
        assert!(!allows(&rule(&[]), "a"));
    }

    fn scoped(declared: Value) -> Option<AllowedEdits> {
        let context = serde_json::from_value(serde_json::json!({ "scope": declared })).unwrap();
        let rule = EditRule { allow: vec!["docs/**".to_owned()], scope: Some("scope".to_owned()) };
        AllowedEdits::of(&rule, &context)
    }

    #[test_case("src/a.rs", true; "a file")]
    #[test_case("tests/deep/b.rs", true; "in a folder without a slash")]
    #[test_case("web/x.css", true; "a glob")]
    #[test_case("docs/plan.md", true; "what the step allows itself")]
    #[test_case("src/b.rs", false)]
    #[test_case("tests2/b.rs", false)]
    fn a_declared_scope_covers_its_files_and_folders(path: &str, expected: bool) {
        let allowed = scoped(serde_json::json!(["src/a.rs", "tests", "web/*.css"])).unwrap();
        assert_eq!(allowed.allows(path), expected);
    }

    #[test_case(".", true)]
    #[test_case("./", true)]
    #[test_case("/", true)]
    #[test_case("", false; "nothing")]
    #[test_case("/src", false; "another absolute path")]
    #[test_case("..", false; "the folder above")]
    fn only_the_root_as_a_scope_covers_everything(declared: &str, expected: bool) {
        let allowed = scoped(serde_json::json!([declared])).unwrap();
        assert_eq!(allowed.allows("src/deep/a.rs"), expected);
        assert!(!allowed.allows("../outside"));
    }

    #[test]
    fn an_undeclared_scope_restricts_nothing() {
        assert_eq!(scoped(Value::Null), None);
        assert_eq!(scoped(serde_json::json!([1])), None);
    }

    #[test]
    fn a_hostile_glob_is_matched_quickly() {
        let glob = format!("{}b", "**/*a*a*a*a*a*a/".repeat(30));
        let path = format!("{}c", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa/".repeat(60));
        assert!(!allows(&rule(&[&glob]), &path));
    }
}
