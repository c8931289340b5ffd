//! The rules over the graph: every edge that the table does not allow is reported.

use super::graph::{Graph, Origin, Package, Used};
use super::table::{External, FEATURES, FeatureRule, FeatureState, IMPURE, LAYERS, Layer, Pure, TEST_ONLY};
use crate::findings::Findings;

pub(super) fn check(graph: &Graph) -> Findings {
    let mut findings = Findings::default();
    for package in graph.packages.iter().filter(|package| package.origin == Origin::Ours) {
        match LAYERS.iter().find(|layer| layer.name == package.name) {
            Some(layer) => check_package(graph, package, layer, &mut findings),
            None => findings.problem(format!(
                "{} is not in the table: say in ARCHITECTURE.md and xtask/src/layers/table.rs what it may use",
                package.name
            )),
        }
    }
    for rule in FEATURES {
        check_feature(graph, rule, &mut findings);
    }
    findings
}

fn check_package(graph: &Graph, package: &Package, layer: &Layer, findings: &mut Findings) {
    for dependency in graph.direct(package, Used::Shipped) {
        if dependency.origin == Origin::Ours {
            check_ours(package, layer, dependency, findings);
        } else {
            check_external(package, layer, dependency, findings);
        }
    }
    if let External::Only(pure) = layer.external {
        check_pure(package, &pure, findings);
    }
}

fn check_ours(package: &Package, layer: &Layer, dependency: &Package, findings: &mut Findings) {
    let (name, other) = (&package.name, &dependency.name);
    if other == TEST_ONLY {
        findings.problem(format!("{name} ships {other}, which is for [dev-dependencies] only"));
    } else if !layer.ours.contains(&other.as_str()) {
        let allowed =
            if layer.ours.is_empty() { "nothing of ours".to_owned() } else { layer.ours.join(", ") };
        findings.problem(format!("{name} must not depend on {other}; it may use {allowed}"));
    }
}

fn check_external(package: &Package, layer: &Layer, dependency: &Package, findings: &mut Findings) {
    let (name, other) = (&package.name, dependency.name.as_str());
    match layer.external {
        External::Any => {}
        External::NotImpure if IMPURE.contains(&other) => findings.problem(format!(
            "{name} must not depend on {other}: files, async and randomness come in through a port"
        )),
        External::NotImpure => {}
        External::Only(pure) if pure.crates.contains(&other) => {}
        External::Only(_) => findings.problem(format!(
            "{name} is pure and its list in xtask/src/layers/table.rs does not hold {other}"
        )),
    }
}

/// The dependencies of a pure crate must be pure too, and few.
fn check_pure(package: &Package, pure: &Pure, findings: &mut Findings) {
    for name in package.transitive.iter().map(String::as_str) {
        if IMPURE.contains(&name) && !pure.excused.contains(&name) {
            findings.problem(format!("{} is pure, but {name} is behind it", package.name));
        }
    }
    if package.transitive.len() > pure.transitive_max {
        findings.problem(format!(
            "{} is pure and may have {} packages behind it, it has {}",
            package.name,
            pure.transitive_max,
            package.transitive.len()
        ));
    }
}

fn check_feature(graph: &Graph, rule: &FeatureRule, findings: &mut Findings) {
    let FeatureRule { package, feature, wanted, reason } = rule;
    for found in graph.packages.iter().filter(|found| found.name == *package) {
        let on = found.features.iter().any(|name| name == feature);
        match (wanted, on) {
            (FeatureState::On, true) | (FeatureState::Off, false) => {}
            (FeatureState::On, false) => {
                findings.problem(format!("{} must have the feature `{feature}`: {reason}", found.id));
            }
            (FeatureState::Off, true) => {
                findings.problem(format!("{} must not have the feature `{feature}`: {reason}", found.id));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::graph::fake::{external, graph, ours};
    use super::*;

    fn problems(packages: Vec<Package>) -> Vec<String> {
        check(&graph(packages)).problems().to_vec()
    }

    #[test]
    fn the_edges_of_the_table_pass() {
        let packages = vec![
            ours("workrail-model", &["serde"], &["proptest"]),
            ours("workrail-core", &["workrail-model"], &["workrail-testkit"]),
            ours("workrail-ports", &["workrail-model"], &[]),
            ours("workrail-engine", &["workrail-core", "workrail-ports"], &["workrail-testkit", "tempfile"]),
            ours("workrail-testkit", &["workrail-engine"], &[]),
            ours("workrail", &["workrail-engine", "tokio"], &["workrail-testkit"]),
            external("serde", &[], &[]),
            external("proptest", &["tempfile"], &[]),
            external("tempfile", &[], &[]),
            external("tokio", &[], &[]),
            external("serde_json", &[], &["float_roundtrip"]),
        ];
        assert_eq!(problems(packages), [""; 0]);
    }

    #[test]
    fn an_edge_missing_from_the_table_is_reported() {
        let packages = vec![
            ours("workrail-core", &[], &[]),
            ours("workrail-engine", &[], &[]),
            ours("workrail-ports", &["workrail-core"], &[]),
            ours("workrail-store-fs", &["workrail-engine"], &[]),
        ];
        assert_eq!(
            problems(packages),
            [
                "workrail-ports must not depend on workrail-core; it may use workrail-model",
                "workrail-store-fs must not depend on workrail-engine; it may use workrail-model, workrail-ports",
            ]
        );
    }

    #[test]
    fn a_crate_missing_from_the_table_is_reported() {
        let found = problems(vec![ours("workrail-utils", &[], &[])]);
        assert!(found[0].starts_with("workrail-utils is not in the table"), "{found:?}");
    }

    #[test]
    fn shipping_the_testkit_is_reported_even_by_the_binary() {
        let packages = vec![ours("workrail", &["workrail-testkit"], &[]), ours("workrail-testkit", &[], &[])];
        assert_eq!(
            problems(packages),
            ["workrail ships workrail-testkit, which is for [dev-dependencies] only"]
        );
    }

    #[test]
    fn a_pure_crate_may_use_only_its_list() {
        let packages = vec![ours("workrail-model", &["regex"], &[]), external("regex", &[], &[])];
        assert_eq!(
            problems(packages),
            ["workrail-model is pure and its list in xtask/src/layers/table.rs does not hold regex"]
        );
    }

    #[test]
    fn an_impure_dependency_of_an_allowed_crate_is_reported() {
        let mut core = ours("workrail-core", &["sha2"], &[]);
        core.transitive = ["sha2", "deep", "tokio"].map(str::to_owned).into();
        let found = problems(vec![core, external("sha2", &[], &[])]);
        assert_eq!(found, ["workrail-core is pure, but tokio is behind it"]);
    }

    #[test]
    fn the_engine_may_not_use_async() {
        let packages = vec![ours("workrail-engine", &["tokio"], &[]), external("tokio", &[], &[])];
        assert_eq!(
            problems(packages),
            ["workrail-engine must not depend on tokio: files, async and randomness come in through a port"]
        );
    }

    #[test]
    fn features_that_change_hashes_are_reported_in_every_version() {
        let mut second = external("serde_json", &[], &["float_roundtrip", "arbitrary_precision"]);
        second.id = "serde_json@2".to_owned();
        let found = problems(vec![external("serde_json", &[], &["preserve_order"]), second]);
        assert_eq!(found.len(), 3, "{found:?}");
        assert!(found[0].starts_with("serde_json must have the feature `float_roundtrip`"));
        assert!(found[1].starts_with("serde_json must not have the feature `preserve_order`"));
        assert!(found[2].starts_with("serde_json@2 must not have the feature `arbitrary_precision`"));
    }

    #[test]
    fn a_pure_crate_stays_small() {
        let mut model = ours("workrail-model", &[], &[]);
        model.transitive = (0..41).map(|number| format!("dep{number}")).collect();
        assert_eq!(
            problems(vec![model]),
            ["workrail-model is pure and may have 40 packages behind it, it has 41"]
        );
    }
}
