//! Guarantee numbers: each cited one exists, and each one that is kept is cited in code.
//!
//! In `docs/guarantees.md` a guarantee is a heading `### G12 What it says`; `(planned)` at the end of the heading
//! means that it is not kept yet.

use std::collections::{BTreeMap, BTreeSet};

use crate::findings::Findings;
use crate::root::SourceFile;

const DOCUMENT: &str = "docs/guarantees.md";

/// This crate discusses guarantees in general, with invented numbers in its tests.
const NOT_SCANNED: &str = "xtask/";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Status {
    Kept,
    Planned,
}

pub(super) fn check(files: &[SourceFile]) -> Findings {
    let mut findings = Findings::default();
    let Some(document) = files.iter().find(|file| file.path == DOCUMENT) else {
        findings.problem(format!("{DOCUMENT} is missing"));
        return findings;
    };
    let declared = declared(&document.text, &mut findings);
    let mut cited_by_code = BTreeSet::new();
    for file in files.iter().filter(|file| is_scanned(file)) {
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
        }
    }
    for (number, status) in &declared {
        match status {
            _ if cited_by_code.contains(number) => {}
            Status::Planned => findings.note(format!("G{number} is planned and not cited yet")),
            Status::Kept => findings.problem(format!("G{number} is cited by no code or test")),
        }
    }
    findings
}

fn is_scanned(file: &SourceFile) -> bool {
    let known = ["rs", "md", "toml", "sh"].iter().any(|extension| file.has_extension(extension));
    known && file.path != DOCUMENT && file.path != "CHANGELOG.md" && !file.path.starts_with(NOT_SCANNED)
}

fn declared(text: &str, findings: &mut Findings) -> BTreeMap<u32, Status> {
    let mut declared = BTreeMap::new();
    for heading in text.lines().filter_map(|line| line.strip_prefix("### G")) {
        let digits = heading.split(|c: char| !c.is_ascii_digit()).next().unwrap_or_default();
        let Ok(number) = digits.parse() else {
            findings.problem(format!("{DOCUMENT}: the heading `G{heading}` has no number"));
            continue;
        };
        let status = if heading.ends_with("(planned)") { Status::Planned } else { Status::Kept };
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

    fn file(path: &str, text: &str) -> SourceFile {
        SourceFile { path: path.to_owned(), text: text.to_owned() }
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
        let files = [file(DOCUMENT, "### G1 One\n"), file("crates/a/src/lib.rs", "//! (G1)\n//! (G2)\n")];
        assert_eq!(
            check(&files).problems(),
            ["crates/a/src/lib.rs:2 cites G2, which docs/guarantees.md does not have"]
        );
    }

    #[test]
    fn kept_guarantees_need_code_and_planned_ones_are_noted() {
        let files = [
            file(DOCUMENT, "### G1 One\n### G2 Two\n### G3 Three (planned)\n### G4 Four\n"),
            file("docs/x.md", "G1 is nice\n"),
            file("crates/a/tests/t.rs", "// G2-G2, G4\n"),
        ];
        let findings = check(&files);
        assert_eq!(findings.problems(), ["G1 is cited by no code or test"]);
        assert_eq!(findings.notes(), ["G3 is planned and not cited yet"]);
    }

    #[test]
    fn a_number_used_twice_and_a_missing_document_are_reported() {
        assert_eq!(check(&[]).problems(), ["docs/guarantees.md is missing"]);
        let files = [file(DOCUMENT, "### G1 a\n### G1 b\n"), file("a.rs", "G1")];
        assert_eq!(check(&files).problems(), ["docs/guarantees.md has G1 twice"]);
    }
}
