//! Checks dependencies, enabled features and licences, read from `cargo metadata`.

mod graph;
mod rules;
mod table;

use std::path::Path;

use anyhow::{Context as _, Result};

use crate::findings::Findings;
use crate::licences;

pub(crate) fn check(root: &Path) -> Result<Findings> {
    let graph = graph::load(root)?;
    let mut findings = rules::check(&graph);
    let policy = std::fs::read_to_string(root.join("deny.toml")).context("reading deny.toml")?;
    findings.extend(licences::check(&graph, &licences::allowed(&policy)?));
    Ok(findings)
}

pub(crate) use graph::Graph;

#[cfg(test)]
pub(crate) use graph::fake;
