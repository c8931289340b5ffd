//! What was written into clients' files, and what was there before: kept in the data directory, outside every repository.
//!
//! A receipt says which bytes a file had before WorkRail was put into it and which it was left with. While the file still
//! has the latter, removing WorkRail gives the former back, byte for byte (G111).

use std::collections::BTreeSet;

use camino::{Utf8Path, Utf8PathBuf};
use serde::{Deserialize, Serialize};
use workrail_model::digest::Sha256;

use crate::{bounded, whole_file};

/// A longer original is not kept: such files are histories, which change all the time.
const ORIGINAL_BYTES_MAX: usize = 1024 * 1024;
/// A receipt has its original as an escaped string.
const RECEIPT_BYTES_MAX: u64 = 8 * 1024 * 1024;
/// Backups of one file; then the last name is used again.
const BACKUPS_MAX: usize = 9;

/// The folder of receipts and backups.
#[derive(Clone, Debug)]
pub struct Ledger {
    folder: Utf8PathBuf,
}

/// What a file was, and what it was left as.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Receipt {
    path: Utf8PathBuf,
    /// Absent when there was no file.
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
    /// In a data directory, which need not exist.
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

    /// A receipt that cannot be read is none: then only what mentions WorkRail is removed.
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
        // One that stays does no harm: it no longer fits the file.
        let _ = std::fs::remove_file(self.receipt_path(path));
    }

    fn folders_path(&self) -> Utf8PathBuf {
        self.folder.join("folders.json")
    }

    /// Folders that were made for files and not removed again.
    fn made_folders(&self) -> BTreeSet<Utf8PathBuf> {
        let bytes = bounded::read(&self.folders_path(), RECEIPT_BYTES_MAX).unwrap_or_default();
        serde_json::from_slice(&bytes).unwrap_or_default()
    }

    fn keep_folders(&self, folders: &BTreeSet<Utf8PathBuf>) -> std::io::Result<()> {
        whole_file::write_private(&self.folders_path(), &serde_json::to_string(folders)?)
    }

    /// Notes the folders that writing a file will make.
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

    /// Removes the folders above a removed file that were made for such files, unless something else is in them.
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

    /// Keeps the file as it was; returns where. The copy has the file's permissions.
    pub(super) fn back_up(&self, path: &Utf8Path, text: &str) -> std::io::Result<Utf8PathBuf> {
        let folder = self.folder.join("backups");
        let key = Self::key(path);
        let name = |number: usize| folder.join(format!("{key}.{number}"));
        let free = (1..BACKUPS_MAX).map(name).find(|path| !path.exists());
        let backup = free.unwrap_or_else(|| name(BACKUPS_MAX));
        whole_file::write_like(&backup, text, path)?;
        Ok(backup)
    }
}
