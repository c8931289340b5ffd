//! The dependency graph, reduced to what the rules need, so that tests can build one by hand.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use cargo_metadata::{CargoOpt, DependencyKind, Metadata, MetadataCommand};

use super::table::is_pure;

#[derive(Clone, Debug, Default)]
pub(crate) struct Graph {
    pub(crate) packages: Vec<Package>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Package {
    /// Unique: two versions of one name are two packages.
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) origin: Origin,
    pub(crate) dependencies: Vec<Dependency>,
    /// Features that are on in this build.
    pub(crate) features: Vec<String>,
    pub(crate) licence: Option<String>,
    /// Names of all direct and indirect dependencies when this package is built alone; known only for pure crates.
    /// The graph cannot tell, because it enables one crate's features for all.
    pub(crate) transitive: BTreeSet<String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Origin {
    Ours,
    #[default]
    External,
}

#[derive(Clone, Debug)]
pub(crate) struct Dependency {
    pub(crate) id: String,
    pub(crate) used: Used,
}

/// Where a dependency is used; build scripts count as shipped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Used {
    Shipped,
    InTests,
}

impl Graph {
    pub(crate) fn get(&self, id: &str) -> Option<&Package> {
        self.packages.iter().find(|package| package.id == id)
    }

    /// The direct dependencies of a package, for that use.
    pub(crate) fn direct<'a>(
        &'a self,
        package: &'a Package,
        used: Used,
    ) -> impl Iterator<Item = &'a Package> {
        package
            .dependencies
            .iter()
            .filter(move |dependency| dependency.used == used)
            .filter_map(|dependency| self.get(&dependency.id))
    }
}

/// The graph of the whole workspace with all features on.
pub(super) fn load(root: &Path) -> Result<Graph> {
    let metadata = MetadataCommand::new()
        .manifest_path(root.join("Cargo.toml"))
        .features(CargoOpt::AllFeatures)
        .exec()
        .context("reading cargo metadata")?;
    let mut graph = from_metadata(&metadata)?;
    for package in graph.packages.iter_mut().filter(|package| is_pure(&package.name)) {
        package.transitive = built_alone(root, &package.name)?;
    }
    Ok(graph)
}

fn built_alone(root: &Path, name: &str) -> Result<BTreeSet<String>> {
    let output = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .args(["tree", "--package", name, "--edges", "normal", "--prefix", "none", "--format", "{p}"])
        .current_dir(root)
        .output()
        .context("cargo tree cannot be started")?;
    ensure!(output.status.success(), "cargo tree: {}", String::from_utf8_lossy(&output.stderr).trim());
    let lines = String::from_utf8(output.stdout).context("cargo tree prints UTF-8")?;
    let names = lines.lines().filter_map(|line| line.split_whitespace().next());
    Ok(names.filter(|found| *found != name).map(str::to_owned).collect())
}

fn from_metadata(metadata: &Metadata) -> Result<Graph> {
    let resolve = metadata.resolve.as_ref().context("cargo metadata holds no resolved graph")?;
    let mut packages = Vec::with_capacity(resolve.nodes.len());
    for node in &resolve.nodes {
        let package = &metadata[&node.id];
        let ours = metadata.workspace_members.contains(&node.id);
        let mut dependencies = Vec::new();
        for dependency in &node.deps {
            for kind in &dependency.dep_kinds {
                let used =
                    if kind.kind == DependencyKind::Development { Used::InTests } else { Used::Shipped };
                dependencies.push(Dependency { id: dependency.pkg.repr.clone(), used });
            }
        }
        packages.push(Package {
            id: node.id.repr.clone(),
            name: package.name.to_string(),
            origin: if ours { Origin::Ours } else { Origin::External },
            dependencies,
            features: node.features.iter().map(ToString::to_string).collect(),
            licence: package.license.clone(),
            transitive: BTreeSet::new(),
        });
    }
    packages.sort_by(|a, b| a.id.cmp(&b.id));
    Ok(Graph { packages })
}

/// Graphs built by hand.
#[cfg(test)]
pub(crate) mod fake {
    use std::collections::BTreeSet;

    use super::{Dependency, Graph, Origin, Package, Used};

    pub(crate) fn ours(name: &str, shipped: &[&str], in_tests: &[&str]) -> Package {
        let edge = |used| move |name: &&str| Dependency { id: (*name).to_owned(), used };
        Package {
            id: name.to_owned(),
            name: name.to_owned(),
            origin: Origin::Ours,
            dependencies: shipped
                .iter()
                .map(edge(Used::Shipped))
                .chain(in_tests.iter().map(edge(Used::InTests)))
                .collect(),
            features: Vec::new(),
            licence: Some("MIT".to_owned()),
            transitive: BTreeSet::new(),
        }
    }

    pub(crate) fn external(name: &str, shipped: &[&str], features: &[&str]) -> Package {
        Package {
            origin: Origin::External,
            features: features.iter().map(|feature| (*feature).to_owned()).collect(),
            ..ours(name, shipped, &[])
        }
    }

    pub(crate) fn graph(packages: Vec<Package>) -> Graph {
        Graph { packages }
    }
}
