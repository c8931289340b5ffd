//! Machine-specific paths: a file that contains one was written for one machine.

use crate::findings::Findings;
use crate::root::RepositoryFile;

/// Written in two halves, so that this file does not contain what it looks for.
const FOLDERS: [&str; 2] = [concat!("/wo", "rk/"), concat!("/ro", "ot/")];
const HOMES: [&str; 2] = [concat!("/ho", "me/"), concat!("/Us", "ers/")];

/// Placeholder names in examples and tests.
const ANYONE: [&str; 4] = ["me", "someone", "user", "you"];

pub(super) fn check(files: &[RepositoryFile]) -> Findings {
    let mut findings = Findings::default();
    for file in files {
        for (index, line) in file.text.lines().enumerate() {
            if let Some(found) = machine_path(line) {
                findings.problem(format!("{}:{} holds the machine path `{found}`", file.path, index + 1));
            }
        }
    }
    findings
}

fn machine_path(line: &str) -> Option<String> {
    let folder = FOLDERS.iter().find(|folder| starts(line, folder).next().is_some());
    if let Some(folder) = folder {
        return Some((*folder).to_owned());
    }
    HOMES.iter().find_map(|home| {
        starts(line, home).find_map(|rest| {
            let (name, _) = rest.split_once('/')?;
            let is_name = !name.is_empty()
                && name
                    .bytes()
                    .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.'));
            (is_name && !ANYONE.contains(&name)).then(|| format!("{home}{name}/"))
        })
    })
}

/// The text after each absolute path that starts with `prefix`; a longer path or an address that merely contains it
/// does not count.
fn starts<'a>(line: &'a str, prefix: &'a str) -> impl Iterator<Item = &'a str> {
    line.match_indices(prefix).filter_map(move |(position, _)| {
        let before = line[..position].chars().next_back();
        let inside = before
            .is_some_and(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '/' | '~' | '}' | '$'));
        (!inside).then(|| &line[position + prefix.len()..])
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machine_paths_are_found() {
        for (folder, rest) in
            [(FOLDERS[0], "x"), (FOLDERS[1], ".cargo"), (HOMES[0], "ada/x"), (HOMES[1], "ada/x")]
        {
            let file = RepositoryFile { path: "a.md".to_owned(), text: format!("\nsee `{folder}{rest}`\n") };
            let findings = check(&[file]);
            assert!(findings.problems()[0].starts_with("a.md:2 holds the machine path"), "{folder}");
        }
    }

    #[test]
    fn longer_paths_addresses_and_examples_are_not() {
        let (work, home) = (FOLDERS[0], HOMES[0]);
        for line in [
            format!("https://example.org{work}1"),
            format!("my{work}x"),
            format!("..{work}x"),
            format!("{home}you/project"),
            format!("{home}<name>/project"),
            home.to_owned(),
        ] {
            assert_eq!(machine_path(&line), None, "{line}");
        }
    }
}
