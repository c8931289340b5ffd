//! Licences of every package against the allow-list of `deny.toml`, without installing cargo-deny.
//!
//! `cargo deny` remains the full judge (`./test --full`); this catches a new licence in seconds.

use std::collections::BTreeSet;

use anyhow::{Context as _, Result, bail, ensure};

use crate::findings::Findings;
use crate::layers::Graph;

/// The list `allow` of the section `[licenses]`.
pub(crate) fn allowed(deny_toml: &str) -> Result<BTreeSet<String>> {
    let section = deny_toml.split("\n[licenses]").nth(1).context("deny.toml has no [licenses]")?;
    let section = section.split("\n[").next().unwrap_or_default();
    let list = section.split("\nallow = [").nth(1).context("[licenses] of deny.toml has no `allow`")?;
    let list = list.split(']').next().unwrap_or_default();
    let without_comments = list.lines().map(|line| line.split('#').next().unwrap_or_default());
    let names: BTreeSet<String> = without_comments
        .flat_map(|line| line.split(','))
        .map(|item| item.trim().trim_matches('"').to_owned())
        .filter(|item| !item.is_empty())
        .collect();
    ensure!(!names.is_empty(), "`allow` of deny.toml is empty");
    Ok(names)
}

pub(crate) fn check(graph: &Graph, allowed: &BTreeSet<String>) -> Findings {
    let mut findings = Findings::default();
    for package in &graph.packages {
        let Some(licence) = &package.licence else {
            findings.problem(format!("{} names no licence", package.id));
            continue;
        };
        match is_allowed(licence, allowed) {
            Ok(true) => {}
            Ok(false) => findings.problem(format!(
                "{} is under `{licence}`, which the list in deny.toml does not satisfy",
                package.id
            )),
            Err(error) => findings.problem(format!("{}: `{licence}` is not understood: {error}", package.id)),
        }
    }
    findings
}

/// Whether an SPDX expression can be satisfied with the allowed licences alone.
fn is_allowed(expression: &str, allowed: &BTreeSet<String>) -> Result<bool> {
    // Old manifests write `MIT/Apache-2.0` for a choice.
    let spaced = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let mut words = Words { words: spaced.split_whitespace().collect(), next: 0, allowed };
    let satisfied = words.any_of()?;
    ensure!(words.next == words.words.len(), "something follows the expression");
    Ok(satisfied)
}

/// Recursive descent over the words: OR binds weaker than AND, WITH belongs to its licence.
struct Words<'a> {
    words: Vec<&'a str>,
    next: usize,
    allowed: &'a BTreeSet<String>,
}

impl Words<'_> {
    fn take(&mut self, word: &str) -> bool {
        let found = self.words.get(self.next).is_some_and(|next| *next == word);
        self.next += usize::from(found);
        found
    }

    fn any_of(&mut self) -> Result<bool> {
        let mut satisfied = self.all_of()?;
        while self.take("OR") {
            satisfied |= self.all_of()?;
        }
        Ok(satisfied)
    }

    fn all_of(&mut self) -> Result<bool> {
        let mut satisfied = self.one()?;
        while self.take("AND") {
            satisfied &= self.one()?;
        }
        Ok(satisfied)
    }

    fn one(&mut self) -> Result<bool> {
        if self.take("(") {
            let satisfied = self.any_of()?;
            ensure!(self.take(")"), "a parenthesis is not closed");
            return Ok(satisfied);
        }
        let Some(licence) = self.words.get(self.next).copied() else { bail!("a licence is missing") };
        ensure!(!matches!(licence, "OR" | "AND" | "WITH" | ")"), "`{licence}` stands where a licence should");
        self.next += 1;
        if !self.take("WITH") {
            return Ok(self.allowed.contains(licence));
        }
        let exception = self.words.get(self.next).copied().context("an exception is missing after WITH")?;
        self.next += 1;
        Ok(self.allowed.contains(&format!("{licence} WITH {exception}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layers::fake::{external, graph};

    fn list() -> BTreeSet<String> {
        ["MIT", "Apache-2.0", "Unicode-3.0"].map(str::to_owned).into()
    }

    fn check_expression(expression: &str, expected: bool) {
        assert_eq!(is_allowed(expression, &list()).unwrap(), expected, "{expression}");
    }

    #[test]
    fn expressions_are_satisfied_or_not() {
        check_expression("MIT", true);
        check_expression("GPL-3.0-only", false);
        check_expression("MIT/GPL-3.0-only", true);
        check_expression("GPL-3.0-only OR MIT", true);
        check_expression("GPL-3.0-only AND MIT", false);
        check_expression("(MIT OR Apache-2.0) AND Unicode-3.0", true);
        check_expression("MIT OR Apache-2.0 AND GPL-3.0-only", true);
        check_expression("(MIT OR Apache-2.0) AND GPL-3.0-only", false);
        check_expression("Apache-2.0 WITH LLVM-exception", false);
        check_expression("Apache-2.0 WITH LLVM-exception OR MIT", true);
    }

    #[test]
    fn broken_expressions_are_errors() {
        for broken in ["", "MIT OR", "OR MIT", "(MIT", "MIT)", "MIT Apache-2.0", "MIT WITH"] {
            assert!(is_allowed(broken, &list()).is_err(), "{broken}");
        }
    }

    #[test]
    fn the_list_is_read_from_its_section_without_comments() {
        let text = "[bans]\nallow = [\"x\"]\n\n[licenses]\nconfidence-threshold = 0.9\nallow = [\n  \"MIT\", # ours\n  \
                    # \"GPL-3.0-only\"\n  \"ISC\",\n]\n\n[sources]\n";
        assert_eq!(allowed(text).unwrap(), ["ISC", "MIT"].map(str::to_owned).into());
        assert!(allowed("[bans]\n").is_err());
    }

    #[test]
    fn a_package_without_or_with_another_licence_is_named() {
        let mut none = external("none", &[], &[]);
        none.licence = None;
        let mut gpl = external("gpl", &[], &[]);
        gpl.licence = Some("GPL-3.0-only".to_owned());
        let findings = check(&graph(vec![none, gpl, external("fine", &[], &[])]), &list());
        assert_eq!(
            findings.problems(),
            [
                "none names no licence",
                "gpl is under `GPL-3.0-only`, which the list in deny.toml does not satisfy"
            ]
        );
    }
}
