//! Checks the licences of every package against the allow-list of `deny.toml`, without cargo-deny.
//!
//! `cargo deny` makes the full check (`./test --full`); this one catches a new licence in seconds.

use std::collections::BTreeSet;

use anyhow::{Context as _, Result, ensure};
use spdx::{Expression, ParseMode};

use crate::findings::Findings;
use crate::layers::Graph;

/// Old manifests write `MIT/Apache-2.0` for a choice; names must be SPDX identifiers.
const MODE: ParseMode = ParseMode { allow_slash_as_or_operator: true, ..ParseMode::STRICT };

/// The list `allow` in the section `[licenses]`.
pub(crate) fn allowed(deny_toml: &str) -> Result<BTreeSet<String>> {
    let policy: toml::Table = deny_toml.parse().context("deny.toml is not TOML")?;
    let list =
        policy.get("licenses").and_then(|section| section.get("allow")).and_then(toml::Value::as_array);
    let list = list.context("deny.toml has no list `allow` in [licenses]")?;
    let names: Option<BTreeSet<String>> = list.iter().map(|name| name.as_str().map(str::to_owned)).collect();
    let names = names.context("`allow` of deny.toml holds something that is not a text")?;
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
    let parsed = Expression::parse_mode(expression, MODE)?;
    Ok(parsed.evaluate(|term| allowed.contains(&term.to_string())))
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
        for wrong in ["[bans]\n", "[licenses]\nallow = []\n", "[licenses]\nallow = [1]\n", "[licenses"] {
            assert!(allowed(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_package_without_a_licence_or_with_a_forbidden_one_is_named() {
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
