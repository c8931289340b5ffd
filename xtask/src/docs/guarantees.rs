//! Guarantee numbers: each cited one exists, and each one that is kept is cited in a test.
//!
//! In `docs/guarantees.md` a guarantee is a heading `### G12 What it says`; `(planned)` at the end of the heading
//! means that it is not kept yet. A test is a file beneath a folder `tests`, a file `tests.rs` or `*_tests.rs`, or what
//! follows the `#[cfg(test)]` of a module in a source file.

use std::collections::{BTreeMap, BTreeSet};

use crate::findings::Findings;
use crate::root::RepositoryFile;

const DOCUMENT: &str = "docs/guarantees.md";

/// This crate discusses guarantees in general, with invented numbers in its tests.
const NOT_SCANNED: &str = "xtask/";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum GuaranteeStatus {
    Kept,
    Planned,
}

pub(super) fn check(files: &[RepositoryFile]) -> Findings {
    let mut findings = Findings::default();
    let Some(document) = files.iter().find(|file| file.path == DOCUMENT) else {
        findings.problem(format!("{DOCUMENT} is missing"));
        return findings;
    };
    let declared = declared(&document.text, &mut findings);
    let (mut cited_by_code, mut cited_by_tests) = (BTreeSet::new(), BTreeSet::new());
    for file in files.iter().filter(|file| is_scanned(file)) {
        let first_test_line = first_test_line(file);
        for Citation { line, first, last } in citations(&file.text) {
            for number in BTreeSet::from([first, last]) {
                if !declared.contains_key(&number) {
                    findings.problem(format!(
                        "{}:{line} cites G{number}, which {DOCUMENT} does not have",
                        file.path
                    ));
                }
            }
            if !file.has_extension("md") {
                cited_by_code.extend(first..=last);
            }
            if first_test_line.is_some_and(|test| line >= test) {
                cited_by_tests.extend(first..=last);
            }
        }
    }
    for (number, status) in &declared {
        match status {
            GuaranteeStatus::Planned if cited_by_code.contains(number) => {}
            GuaranteeStatus::Planned => findings.note(format!("G{number} is planned and not cited yet")),
            GuaranteeStatus::Kept if cited_by_tests.contains(number) => {}
            GuaranteeStatus::Kept => findings.problem(format!(
                "G{number} is cited in no test: name it above the test that proves it, or mark it `(planned)`"
            )),
        }
    }
    findings
}

/// The line from which a file is a test; `None` if it has none.
fn first_test_line(file: &RepositoryFile) -> Option<usize> {
    if !file.has_extension("rs") {
        return None;
    }
    let (folders, name) = file.path.rsplit_once('/').unwrap_or(("", file.path.as_str()));
    let is_test = name == "tests.rs" || name.ends_with("_tests.rs");
    if is_test || folders.split('/').any(|folder| folder == "tests") {
        return Some(1);
    }
    // Other items that only tests use, and modules in other files, can come before ordinary code.
    let mut lines = file.text.lines().zip(file.text.lines().skip(1));
    let module = lines.position(|(attribute, item)| {
        attribute == "#[cfg(test)]" && item.starts_with("mod ") && item.ends_with('{')
    });
    module.map(|position| position + 1)
}

fn is_scanned(file: &RepositoryFile) -> bool {
    let known = ["rs", "md", "toml", "sh"].iter().any(|extension| file.has_extension(extension));
    known && file.path != DOCUMENT && file.path != "CHANGELOG.md" && !file.path.starts_with(NOT_SCANNED)
}

fn declared(text: &str, findings: &mut Findings) -> BTreeMap<u32, GuaranteeStatus> {
    let mut declared = BTreeMap::new();
    for heading in text.lines().filter_map(|line| line.strip_prefix("### G")) {
        let digits = heading.split(|c: char| !c.is_ascii_digit()).next().unwrap_or_default();
        let Ok(number) = digits.parse() else {
            findings.problem(format!("{DOCUMENT}: the heading `G{heading}` has no number"));
            continue;
        };
        let status =
            if heading.ends_with("(planned)") { GuaranteeStatus::Planned } else { GuaranteeStatus::Kept };
        if declared.insert(number, status).is_some() {
            findings.problem(format!("{DOCUMENT} has G{number} twice"));
        }
    }
    declared
}

/// `G7`, or `G10-G14` for a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Citation {
    line: usize,
    first: u32,
    last: u32,
}

fn citations(text: &str) -> Vec<Citation> {
    let mut found = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let mut rest = line;
        let mut before = ' ';
        while let Some(position) = rest.find('G') {
            before = rest[..position].chars().next_back().unwrap_or(before);
            let after = &rest[position + 1..];
            let starts = !is_word(before);
            before = 'G';
            rest = after;
            let Some((first, tail)) = number(after).filter(|_| starts) else { continue };
            let range =
                tail.strip_prefix('-').map(|tail| tail.strip_prefix('G').unwrap_or(tail)).and_then(number);
            let (last, tail) = range.filter(|(last, _)| *last > first).unwrap_or((first, tail));
            if !tail.chars().next().is_some_and(is_word) {
                found.push(Citation { line: index + 1, first, last });
            }
            before = '0';
            rest = tail;
        }
    }
    found
}

/// A leading number of one to three digits, and what follows it.
fn number(text: &str) -> Option<(u32, &str)> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    if !(1..=3).contains(&digits) {
        return None;
    }
    text[..digits].parse().ok().map(|number| (number, &text[digits..]))
}

fn is_word(character: char) -> bool {
    character.is_alphanumeric() || character == '_'
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, text: &str) -> RepositoryFile {
        RepositoryFile { path: path.to_owned(), text: text.to_owned() }
    }

    fn cited(text: &str) -> Vec<(u32, u32)> {
        citations(text).iter().map(|citation| (citation.first, citation.last)).collect()
    }

    #[test]
    fn citations_are_whole_words() {
        assert_eq!(cited("keeps it (G7), and G8."), [(7, 7), (8, 8)]);
        assert_eq!(cited("G10-G14 and G20-22"), [(10, 14), (20, 22)]);
        assert_eq!(cited("SG7 G7x G_7 G G1234 KG8 5G2 Go"), [(0, 0); 0]);
        assert_eq!(cited("GG7"), [(0, 0); 0]);
        assert_eq!(citations("\n\nG7")[0].line, 3);
    }

    #[test]
    fn an_unknown_number_is_reported_with_its_location() {
        let files = [file(DOCUMENT, "### G1 One\n"), file("crates/a/tests/t.rs", "//! (G1)\n//! (G2)\n")];
        assert_eq!(
            check(&files).problems(),
            ["crates/a/tests/t.rs:2 cites G2, which docs/guarantees.md does not have"]
        );
    }

    #[test]
    fn kept_guarantees_need_a_test_and_planned_ones_are_noted() {
        let files = [
            file(
                DOCUMENT,
                "### G1 One\n### G2 Two\n### G3 Three (planned)\n### G4 Four\n### G5 Five (planned)\n",
            ),
            file("docs/x.md", "G1 is nice\n"),
            file("crates/a/src/lib.rs", "//! G1, G5\n"),
            file("crates/a/tests/t.rs", "// G2-G2, G4\n"),
        ];
        let findings = check(&files);
        assert_eq!(
            findings.problems(),
            ["G1 is cited in no test: name it above the test that proves it, or mark it `(planned)`"]
        );
        assert_eq!(findings.notes(), ["G3 is planned and not cited yet"]);
    }

    #[test]
    fn tests_are_files_of_tests_and_modules_of_tests() {
        let starts = |path: &str, text: &str| first_test_line(&file(path, text));
        for path in
            ["crates/a/tests/t.rs", "crates/a/src/b/tests/c.rs", "crates/a/src/tests.rs", "src/b_tests.rs"]
        {
            assert_eq!(starts(path, ""), Some(1), "{path}");
        }
        let module = "//! What it is.\n\n#[cfg(test)]\nmod tests {\n}\n";
        assert_eq!(starts("crates/a/src/lib.rs", module), Some(3));
        for (path, text) in [
            ("crates/a/src/lib.rs", "#[cfg(test)]\nmod tests;\n\nfn a() {}\n"),
            ("crates/a/src/lib.rs", "#[cfg(test)]\npub(crate) const A: usize = 1;\n"),
            ("crates/tests_of_a/src/contests.rs", "fn a() {}\n"),
            ("crates/a/tests/notes.md", "text\n"),
            ("lib.rs", ""),
        ] {
            assert_eq!(starts(path, text), None, "{path}: {text}");
        }
    }

    #[test]
    fn a_number_used_twice_and_a_missing_document_are_reported() {
        assert_eq!(check(&[]).problems(), ["docs/guarantees.md is missing"]);
        let files = [file(DOCUMENT, "### G1 a\n### G1 b\n"), file("tests/a.rs", "G1")];
        assert_eq!(check(&files).problems(), ["docs/guarantees.md has G1 twice"]);
    }
}
