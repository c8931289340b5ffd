//! Error pages: exactly one per code, and each says what, why and what to do.

use std::collections::BTreeSet;

use workrail_model::error::ErrorCode;

use crate::findings::Findings;
use crate::root::RepositoryFile;

const FOLDER: &str = "crates/model/codes/";

/// What an agent or a user needs in order to continue.
const PARTS: [&str; 3] = ["**What.**", "**Why it matters.**", "**What to do.**"];

pub(super) fn check(files: &[RepositoryFile]) -> Findings {
    let codes = ErrorCode::ALL.iter().map(|code| code.as_str()).collect();
    check_pages(&codes, files)
}

fn check_pages(codes: &BTreeSet<&str>, files: &[RepositoryFile]) -> Findings {
    let mut findings = Findings::default();
    let mut without_page = codes.clone();
    for file in files {
        let Some(code) = file.path.strip_prefix(FOLDER).and_then(|name| name.strip_suffix(".md")) else {
            continue;
        };
        if !codes.contains(code) {
            findings.problem(format!("{} is the page of no error code", file.path));
        }
        without_page.remove(code);
        if file.text.lines().next() != Some(&format!("# {code}")) {
            findings.problem(format!("{} must start with `# {code}`", file.path));
        }
        for part in PARTS.iter().filter(|part| !file.text.contains(**part)) {
            findings.problem(format!("{} has no `{part}`", file.path));
        }
    }
    for code in without_page {
        findings.problem(format!("{code} has no page {FOLDER}{code}.md"));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_and_codes_must_match_and_pages_must_be_complete() {
        let page = |name: &str, text: &str| RepositoryFile {
            path: format!("{FOLDER}{name}.md"),
            text: text.to_owned(),
        };
        let whole = "# A\n\n**What.** x\n\n**Why it matters.** y\n\n**What to do.** z\n";
        let files = [page("A", whole), page("OLD", "# OLD\n**What.**\n**Why it matters.**\n")];
        assert_eq!(
            check_pages(&["A", "NEW"].into(), &files).problems(),
            [
                "crates/model/codes/OLD.md is the page of no error code",
                "crates/model/codes/OLD.md has no `**What to do.**`",
                "NEW has no page crates/model/codes/NEW.md",
            ]
        );
    }
}
