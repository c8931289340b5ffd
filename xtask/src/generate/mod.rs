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

use crate::generated_file::GeneratedFile;

/// Every generated file. A new one must be added here and nowhere else.
pub(crate) fn generated_files() -> Result<Vec<GeneratedFile>> {
    let mut files = schemas::generated_files()?;
    files.extend(authoring::generated_files()?);
    files.extend(library::generated_files()?);
    files.extend(tools::generated_files()?);
    files.push(events::generated_file()?);
    files.push(errors::generated_file());
    files.push(config::generated_file());
    files.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generated_file::MARK;

    #[test]
    fn every_file_is_marked_ends_with_one_line_feed_and_has_its_own_path() {
        let files = generated_files().unwrap();
        assert!(files.is_sorted_by(|a, b| a.path < b.path));
        for GeneratedFile { path, content } in &files {
            assert!(content.lines().take(2).any(|line| line.contains(MARK)), "{path}");
            assert!(content.ends_with('\n') && !content.ends_with("\n\n"), "{path}");
        }
    }

    #[test]
    fn generating_twice_gives_the_same_bytes() {
        assert_eq!(generated_files().unwrap(), generated_files().unwrap());
    }
}
