//! Which files a step allows to be edited: globs over paths below the root of the repository (G106).

use workrail_model::compiled::EditRule;

/// Whether the step allows an edit of the file. `path` is relative to the root, with `/` between its parts.
pub(crate) fn allows(rule: &EditRule, path: &str) -> bool {
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty() && *part != ".").collect();
    // A path that leaves the root, or is none, is allowed by no glob.
    !parts.is_empty() && !parts.contains(&"..") && rule.allow.iter().any(|glob| fits(glob, &parts))
}

fn fits(glob: &str, path: &[&str]) -> bool {
    let glob = glob.strip_prefix("./").unwrap_or(glob);
    // A folder stands for everything in it.
    let whole = if glob.ends_with('/') { format!("{glob}**") } else { glob.to_owned() };
    let glob: Vec<&str> = whole.split('/').collect();
    parts_fit(&glob, path)
}

/// Row by row, so that no glob costs more than its length times that of the path.
fn parts_fit(glob: &[&str], path: &[&str]) -> bool {
    // `reached[n]`: the parts of the glob so far fit the first n parts of the path.
    let mut reached = vec![false; path.len() + 1];
    reached[0] = true;
    for part in glob {
        let mut next = vec![false; path.len() + 1];
        if *part == "**" {
            let mut open = false;
            for (place, is_reached) in reached.iter().enumerate() {
                open |= is_reached;
                next[place] = open;
            }
        } else {
            for (place, name) in path.iter().enumerate() {
                next[place + 1] = reached[place] && name_fits(part, name);
            }
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
                Some((place, taken)) => {
                    *taken += 1;
                    (at, read) = (*place + 1, *taken);
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
        EditRule { allow: globs.iter().map(|glob| (*glob).to_owned()).collect() }
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
    fn globs_fit(glob: &str, path: &str, expected: bool) {
        assert_eq!(allows(&rule(&[glob]), path), expected);
    }

    #[test]
    fn an_empty_list_allows_nothing() {
        assert!(!allows(&rule(&[]), "a"));
    }

    #[test]
    fn a_hostile_glob_is_decided_at_once() {
        let glob = format!("{}b", "**/*a*a*a*a*a*a/".repeat(30));
        let path = format!("{}c", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa/".repeat(60));
        assert!(!allows(&rule(&[&glob]), &path));
    }
}
