//! What is generated: schemas of the durable formats and the reference pages.
//!
//! Everything here is a pure function of types and constants of our crates: no clock, no environment, no random
//! order, so that two machines write the same bytes.

mod authoring;
mod config;
mod errors;
mod events;
mod library;
mod markdown;
mod schemas;
mod tools;

use anyhow::Result;

use crate::artifact::Artifact;

/// Every generated file. A new kind of artifact must be added here and nowhere else.
pub(crate) fn artifacts() -> Result<Vec<Artifact>> {
    let mut artifacts = schemas::artifacts()?;
    artifacts.extend(authoring::artifacts()?);
    artifacts.extend(library::artifacts()?);
    artifacts.extend(tools::artifacts()?);
    artifacts.push(events::artifact()?);
    artifacts.push(errors::artifact());
    artifacts.push(config::artifact());
    artifacts.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(artifacts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::artifact::MARK;

    #[test]
    fn every_artifact_is_marked_ends_with_one_line_feed_and_has_its_own_path() {
        let artifacts = artifacts().unwrap();
        assert!(artifacts.is_sorted_by(|a, b| a.path < b.path));
        for Artifact { path, content } in &artifacts {
            assert!(content.lines().take(2).any(|line| line.contains(MARK)), "{path}");
            assert!(content.ends_with('\n') && !content.ends_with("\n\n"), "{path}");
        }
    }

    #[test]
    fn generating_twice_gives_the_same_bytes() {
        assert_eq!(artifacts().unwrap(), artifacts().unwrap());
    }
}
