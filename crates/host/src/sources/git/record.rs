//! What is known about a git source between fetches: which commit is served, since when, and what went wrong.

use camino::Utf8Path;
use serde::{Deserialize, Serialize};
use workrail_model::config::GitSource;

use crate::{bounded, whole_file};

/// Enough for 10,000 files with long paths.
const RECORD_BYTES_MAX: u64 = 16 * 1024 * 1024;
const VERSION: u32 = 1;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct FetchRecord {
    v: u32,
    pub(super) name: String,
    url: String,
    r#ref: Option<String>,
    folder: Option<String>,
    /// The commit whose files are listed below; absent before the first successful fetch.
    pub(super) commit: Option<String>,
    pub(super) fetched_at_ms: Option<u64>,
    pub(super) tried_at_ms: u64,
    /// Why the last attempt failed.
    pub(super) failure: Option<String>,
    /// Name of the file that holds the contents.
    pub(super) content: Option<String>,
    pub(super) files: Vec<BlobFile>,
    pub(super) problems: Vec<BlobProblem>,
}

/// A workflow file of the commit.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct BlobFile {
    /// Below the source's folder.
    pub(super) path: String,
    /// Git's blob id of its content.
    pub(super) blob: String,
    pub(super) bytes: u64,
    /// Offset of its content in the file that holds all of them.
    pub(super) offset: u64,
}

/// Something in the commit that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct BlobProblem {
    pub(super) path: String,
    pub(super) problem: String,
    pub(super) fix: String,
}

impl FetchRecord {
    pub(super) fn new(name: &str, source: &GitSource) -> Self {
        Self {
            v: VERSION,
            name: name.to_owned(),
            url: source.url.clone(),
            r#ref: source.r#ref.clone(),
            folder: source.folder.clone(),
            commit: None,
            fetched_at_ms: None,
            tried_at_ms: 0,
            failure: None,
            content: None,
            files: Vec::new(),
            problems: Vec::new(),
        }
    }

    /// The record of a source; a fresh one if there is none or its settings differ.
    pub(super) fn load(path: &Utf8Path, name: &str, source: &GitSource) -> Self {
        Self::try_load(path, name, source).unwrap_or_else(|_| Self::new(name, source))
    }

    /// The same; fails only if nothing can be read now, whatever the file holds.
    pub(super) fn try_load(path: &Utf8Path, name: &str, source: &GitSource) -> std::io::Result<Self> {
        let fresh = Self::new(name, source);
        let bytes = match bounded::read(path, RECORD_BYTES_MAX) {
            Ok(bytes) => Some(bytes),
            Err(error) if bounded::is_shortage(&error) => return Err(error),
            Err(_) => None,
        };
        let known: Option<Self> = bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok());
        let same = |known: &Self| {
            (known.v, &known.name, &known.url, &known.r#ref, &known.folder)
                == (fresh.v, &fresh.name, &fresh.url, &fresh.r#ref, &fresh.folder)
        };
        Ok(match known {
            Some(known) if same(&known) => known,
            Some(_) | None => fresh,
        })
    }

    pub(super) fn save(&self, path: &Utf8Path) -> std::io::Result<()> {
        let bytes = serde_json::to_vec(self).map_err(std::io::Error::other)?;
        whole_file::write_anew(path, &bytes)
    }
}
