//! What was written into clients' files and what they held before: kept in the data directory, outside every
//! repository.
//!
//! A receipt records a file's bytes before WorkRail was added and after. While the file still has the latter, removing
//! WorkRail restores the former, byte for byte (G111).

use std::collections::BTreeSet;

use camino::{Utf8Path, Utf8PathBuf};
use serde::{Deserialize, Serialize};
use workrail_model::digest::Sha256;

use crate::{bounded, whole_file};

/// A longer original is not kept: such files are histories, which change all the time.
const ORIGINAL_BYTES_MAX: usize = 1024 * 1024;
/// A receipt contains its original as an escaped string.
const RECEIPT_BYTES_MAX: u64 = 8 * 1024 * 1024;
/// Backups per file; after that the last name is reused.
const BACKUPS_MAX: usize = 9;

/// The folder of receipts and backups.
#[derive(Clone, Debug)]
pub struct Ledger {
    folder: Utf8PathBuf,
}

/// A file's text before and after the change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Receipt {
    path: Utf8PathBuf,
    /// Absent if there was no file.
    pub(super) original: Option<String>,
    written: Sha256,
}

impl Receipt {
    pub(super) fn is_of(&self, text: &str) -> bool {
        self.written == Sha256::of(text.as_bytes())
    }
}

/// What a change does to the receipt of its file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ReceiptChange {
    Record { original: Option<String> },
    Forget,
}

impl ReceiptChange {
    /// For a file that held nothing of ours.
    pub(super) fn first(original: Option<&str>) -> Self {
        match original {
            Some(text) if text.len() > ORIGINAL_BYTES_MAX => Self::Forget,
            Some(_) | None => Self::Record { original: original.map(str::to_owned) },
        }
    }
}

impl Ledger {
    /// The ledger of a data directory, which need not exist.
    pub fn in_data_dir(data_dir: &Utf8Path) -> Self {
        Self { folder: data_dir.join("clients") }
    }

    pub(super) fn folder(&self) -> &Utf8Path {
        &self.folder
    }

    fn key(path: &Utf8Path) -> String {
        let name = path.file_name().unwrap_or_default().trim_start_matches('.');
        let digest = Sha256::of(path.as_str().as_bytes()).hex();
        format!("{name}-{}", digest.get(..12).unwrap_or_default())
    }

    fn receipt_path(&self, path: &Utf8Path) -> Utf8PathBuf {
        self.folder.join("receipts").join(format!("{}.json", Self::key(path)))
    }

    /// An unreadable receipt counts as none: then only what mentions WorkRail is removed.
    pub(super) fn receipt(&self, path: &Utf8Path) -> Option<Receipt> {
        let bytes = bounded::read(&self.receipt_path(path), RECEIPT_BYTES_MAX).ok()?;
        let receipt: Receipt = serde_json::from_slice(&bytes).ok()?;
        (receipt.path == path).then_some(receipt)
    }

    pub(super) fn record(
        &self,
        path: &Utf8Path,
        original: Option<&str>,
        written: &str,
    ) -> std::io::Result<()> {
        let receipt = Receipt {
            path: path.to_owned(),
            original: original.map(str::to_owned),
            written: Sha256::of(written.as_bytes()),
        };
        let text = serde_json::to_string(&receipt)?;
        whole_file::write_private(&self.receipt_path(path), &text)
    }

    pub(super) fn forget(&self, path: &Utf8Path) {
        // A leftover receipt does no harm: it no longer fits the file.
        let _ = std::fs::remove_file(self.receipt_path(path));
    }

    fn folders_path(&self) -> Utf8PathBuf {
        self.folder.join("folders.json")
    }

    /// Folders that were created for files and not removed again.
    fn made_folders(&self) -> BTreeSet<Utf8PathBuf> {
        let bytes = bounded::read(&self.folders_path(), RECEIPT_BYTES_MAX).unwrap_or_default();
        serde_json::from_slice(&bytes).unwrap_or_default()
    }

    fn keep_folders(&self, folders: &BTreeSet<Utf8PathBuf>) -> std::io::Result<()> {
        whole_file::write_private(&self.folders_path(), &serde_json::to_string(folders)?)
    }

    /// Records the folders that writing a file will create.
    pub(super) fn note_folders(&self, path: &Utf8Path) -> std::io::Result<()> {
        let missing: Vec<&Utf8Path> =
            path.ancestors().skip(1).take_while(|folder| !folder.exists()).collect();
        if missing.is_empty() {
            return Ok(());
        }
        let mut made = self.made_folders();
        made.extend(missing.into_iter().map(Utf8Path::to_owned));
        self.keep_folders(&made)
    }

    /// Removes folders above a removed file that were created for such files, unless they hold something else.
    pub(super) fn remove_folders(&self, path: &Utf8Path) -> std::io::Result<()> {
        let mut made = self.made_folders();
        let known = made.len();
        for folder in path.ancestors().skip(1) {
            if !made.contains(folder) || std::fs::remove_dir(folder).is_err() {
                break;
            }
            made.remove(folder);
        }
        if made.len() == known { Ok(()) } else { self.keep_folders(&made) }
    }

    /// Backs up the file and returns the path of the copy, which has the file's permissions.
    pub(super) fn back_up(&self, path: &Utf8Path, text: &str) -> std::io::Result<Utf8PathBuf> {
        let folder = self.folder.join("backups");
        let key = Self::key(path);
        let name = |number: usize| folder.join(format!("{key}.{number}"));
        let free = (1..BACKUPS_MAX).map(name).find(|path| !path.exists());
        let backup = free.unwrap_or_else(|| name(BACKUPS_MAX));
        whole_file::create_private_folder(&folder)?;
        whole_file::write_like(&backup, text, path)?;
        Ok(backup)
    }
}
