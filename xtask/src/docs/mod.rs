//! Documents against code: guarantee numbers, links, error pages, machine paths.

mod codes;
mod guarantees;
mod links;
mod paths;

use std::path::Path;

use anyhow::Result;

use crate::findings::Findings;
use crate::root;

pub(crate) fn check(repository: &Path) -> Result<Findings> {
    let files = root::text_files(repository)?;
    let mut findings = guarantees::check(&files);
    findings.extend(links::check(repository, &files));
    findings.extend(codes::check(&files));
    findings.extend(paths::check(&files));
    Ok(findings)
}
