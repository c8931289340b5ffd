//! Plugins: a folder whose manifest names its workflow files (G90).
//!
//! Only files named in the manifest are read, only beneath the folder, and never through a link.

use camino::{Utf8Path, Utf8PathBuf};
use serde::Deserialize;
use workrail_model::config::is_source_name;
use workrail_ports::workflow_source::SourceListing;

use super::health::SourceState;
use super::locate::normal;
use super::walk::{FILES_MAX, FolderWalk, Root, WalkStep};
use crate::bounded;

pub(super) const MANIFEST: &str = "workrail-plugin.json";
/// Enough for 10,000 long paths.
const MANIFEST_BYTES_MAX: u64 = 2 * 1024 * 1024;
const MANIFEST_VERSION: u32 = 1;

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Manifest {
    manifest_version: u32,
    name: String,
    workflows: Vec<String>,
}

/// Why a manifest cannot be used, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{problem}")]
pub struct ManifestProblem {
    pub problem: String,
    pub fix: &'static str,
    kind: ManifestProblemKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ManifestProblemKind {
    /// The manifest itself is wrong.
    Wrong,
    /// It could not be read; the files that it names are unseen.
    Unread,
    /// Nothing can be read now.
    Shortage,
}

/// The plugin's own name; checked before the plugin is registered.
pub fn plugin_name(folder: &Utf8Path) -> Result<String, ManifestProblem> {
    manifest(folder).map(|manifest| manifest.name)
}

fn manifest(folder: &Utf8Path) -> Result<Manifest, ManifestProblem> {
    let wrong = |problem: String, fix: &'static str| ManifestProblem {
        problem,
        fix,
        kind: ManifestProblemKind::Wrong,
    };
    let bytes = bounded::read(&folder.join(MANIFEST), MANIFEST_BYTES_MAX).map_err(|error| {
        let kind = match bounded::is_shortage(&error) {
            true => ManifestProblemKind::Shortage,
            false => ManifestProblemKind::Unread,
        };
        let fix = "name a folder that holds a `workrail-plugin.json`, a regular file";
        ManifestProblem { kind, ..wrong(format!("its `{MANIFEST}` cannot be read: {error}"), fix) }
    })?;
    let shape = "write {\"manifestVersion\": 1, \"name\": \"my-plugin\", \"workflows\": [\"flows/a.json\"]} and nothing else";
    let manifest: Manifest = serde_json::from_slice(&bytes).map_err(|error| {
        let reason: String = error.to_string().chars().filter(|c| !c.is_control()).take(200).collect();
        wrong(format!("its `{MANIFEST}` cannot be used: {reason}"), shape)
    })?;
    if manifest.manifest_version != MANIFEST_VERSION {
        let text = format!("its `{MANIFEST}` has version {}, this build reads 1", manifest.manifest_version);
        return Err(wrong(text, "update workrail, or write version 1"));
    }
    if !is_source_name(&manifest.name) {
        let fix = "use lower-case letters, digits, `-` and `_`, a letter first";
        return Err(wrong(format!("the `name` in its `{MANIFEST}` is not valid"), fix));
    }
    if manifest.workflows.len() > FILES_MAX {
        let text = format!("its `{MANIFEST}` names more than {FILES_MAX} files");
        return Err(wrong(text, "split the plugin"));
    }
    Ok(manifest)
}

/// Adds the files named in a plugin's manifest, and any problems with it.
pub(super) fn walk(walk: &mut FolderWalk<'_>, position: usize, folder: &Utf8PathBuf) -> SourceState {
    let unnamed = Root::plugin(position, folder, "");
    let usable = walk.usable(&unnamed);
    if usable != SourceState::Ok {
        return usable;
    }
    walk.folders.push(folder.clone());
    let mut manifest = match manifest(folder) {
        Ok(manifest) => manifest,
        Err(wrong) => {
            match wrong.kind {
                ManifestProblemKind::Wrong => {
                    walk.problem(&unnamed, folder.as_str(), wrong.problem, wrong.fix);
                }
                ManifestProblemKind::Unread => {
                    walk.unseen(&unnamed, folder.as_str(), wrong.problem, wrong.fix);
                }
                ManifestProblemKind::Shortage => walk.interrupt(folder.as_str(), &wrong.problem),
            }
            return SourceState::Unreadable;
        }
    };
    let root = Root::plugin(position, folder, &manifest.name);
    manifest.workflows.sort();
    manifest.workflows.dedup();
    for named in &manifest.workflows {
        if listed(walk, &root, named) == WalkStep::Stop {
            return SourceState::TooManyFiles;
        }
    }
    SourceState::Ok
}

fn listed(walk: &mut FolderWalk<'_>, root: &Root, named: &str) -> WalkStep {
    let shown: String =
        named.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).take(200).collect();
    let Some(relative) = normal(named) else {
        let text = "the manifest names a path that leads out of the plugin".to_owned();
        walk.problem(root, &shown, text, "name files from the plugin's folder, without `..`");
        return WalkStep::On;
    };
    if !relative.ends_with(".json") && !relative.ends_with(".jsonc") {
        let text = "the manifest names a file that is neither .json nor .jsonc".to_owned();
        walk.problem(root, &shown, text, "name workflow files only");
        return WalkStep::On;
    }
    let mut path = root.path.clone();
    let mut found = None;
    for part in relative.split('/') {
        path.push(part);
        match std::fs::symlink_metadata(&path) {
            Ok(metadata) if metadata.is_symlink() => {
                let text = "it is a symbolic link or below one, and links are not followed".to_owned();
                walk.problem(root, &shown, text, "put the file itself there");
                return WalkStep::On;
            }
            Ok(metadata) => {
                if metadata.is_dir() {
                    walk.folders.push(path.clone());
                }
                found = Some(metadata);
            }
            Err(error) => {
                let fix = "add the file, or take it out of `workflows` in workrail-plugin.json";
                if error.kind() == std::io::ErrorKind::NotFound {
                    let text = "the manifest names it, but it does not exist".to_owned();
                    walk.problem(root, &shown, text, fix);
                } else {
                    walk.unseen(root, &shown, format!("it cannot be read: {error}"), fix);
                }
                return WalkStep::On;
            }
        }
    }
    match found {
        Some(metadata) => walk.file(root, &path, &metadata),
        None => WalkStep::On,
    }
}

/// Lists the files of one plugin.
pub(super) fn list(position: usize, folder: &Utf8PathBuf) -> (SourceState, SourceListing) {
    let mut listing = SourceListing::default();
    let state = walk(&mut FolderWalk::new(&mut listing), position, folder);
    (state, listing)
}
