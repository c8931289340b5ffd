//! Content of a copy: what the target lacks is read and verified, and damaged content of the target is moved aside.

use std::collections::BTreeSet;

use workrail_model::digest::Sha256;
use workrail_model::event::Event;
use workrail_model::id::SessionId;
use workrail_model::plan::{Attachment, AttachmentKind, ContentKey};
use workrail_ports::backup::{CopyError, LostContent};
use workrail_ports::content::ContentError;
use workrail_ports::file_system::{FileSystem, FsError, FsErrorKind, LockMode};
use workrail_ports::session_store::StoreError;
use workrail_ports::upkeep::UpkeepError;

use super::copier::{BackupCopier, ContentCheck};
use super::{source_failed, target_failed};
use crate::content::{read_verified, set_aside, write_temp};
use crate::layout;
use crate::store::{LOCK_WAIT, LocalStore};
use crate::suspect;

impl<F: FileSystem> BackupCopier<'_, F> {
    /// Copies everything that these events refer to into the target, durably.
    pub(super) fn bring_content(&mut self, session: SessionId, events: &[Event]) -> Result<(), CopyError> {
        let mut folders = BTreeSet::new();
        for piece in events.iter().flat_map(|event| event.data.content_refs()) {
            if !self.sound.contains(&piece) && self.bring(session, piece)? {
                folders.insert(layout::content_dir(piece.0));
            }
        }
        for folder in folders {
            suspect::sync_names(self.target.fs(), &folder).map_err(target_failed)?;
        }
        Ok(())
    }

    /// Returns whether it was written.
    fn bring(&mut self, session: SessionId, piece: ContentKey) -> Result<bool, CopyError> {
        let (kind, digest) = piece;
        let found = self.found_in_target(piece)?;
        if found == CopyState::Intact {
            self.sound.insert(piece);
            return Ok(false);
        }
        let bytes = match read_verified(self.source.fs(), kind, digest) {
            Ok((_, bytes)) => bytes,
            Err(ContentError::Io(error)) if error.kind != FsErrorKind::PermissionDenied => {
                return Err(source_failed(error));
            }
            Err(_) => {
                let path = layout::content(kind, digest).to_string();
                self.report.lost_content.push(LostContent { path, session });
                return Ok(false);
            }
        };
        self.report.content.add(bytes.len() as u64);
        self.sound.insert(piece);
        if found == CopyState::Damaged {
            self.report.repaired.push(layout::content(kind, digest).to_string());
        }
        if self.check == ContentCheck::DryRun {
            return Ok(false);
        }
        self.put_content(piece, &bytes).map_err(target_failed)?;
        self.copied.push(piece);
        Ok(true)
    }

    fn found_in_target(&self, (kind, digest): ContentKey) -> Result<CopyState, CopyError> {
        match self.check {
            ContentCheck::ByName => {
                Ok(if self.named.contains(&(kind, digest)) { CopyState::Intact } else { CopyState::Absent })
            }
            ContentCheck::ByDigest | ContentCheck::DryRun => {
                match read_verified(self.target.fs(), kind, digest) {
                    Ok(_) if self.in_doubt.contains(&kind) => Ok(CopyState::Absent),
                    Ok(_) => Ok(CopyState::Intact),
                    Err(ContentError::Missing { .. }) => Ok(CopyState::Absent),
                    Err(ContentError::Io(error)) if error.kind != FsErrorKind::PermissionDenied => {
                        Err(CopyError::Target(StoreError::Io(error).into()))
                    }
                    Err(_) => Ok(CopyState::Damaged),
                }
            }
        }
    }

    fn put_content(&self, (kind, digest): ContentKey, bytes: &[u8]) -> Result<(), FsError> {
        let (fs, path) = (self.target.fs(), layout::content(kind, digest));
        let temp = layout::backup_content_temp(kind);
        write_temp(fs, &temp, bytes)?;
        // Intact content that is merely in doubt is replaced in place.
        if read_verified(fs, kind, digest).is_err() {
            set_aside(fs, kind, digest)?;
        }
        fs.rename(&temp, &path)
    }

    /// Repairs damaged content of the target that the source has, whichever session refers to it.
    pub(super) fn repair_damaged_content(&mut self) -> Result<(), CopyError> {
        for kind in AttachmentKind::ALL {
            let (mut wrote, target_fs) = (false, self.target.fs());
            for digest in self.target_content(kind)? {
                let piece = (kind, digest);
                if self.sound.contains(&piece) || self.found_in_target(piece)? != CopyState::Damaged {
                    continue;
                }
                let Ok((_, bytes)) = read_verified(self.source.fs(), kind, digest) else { continue };
                self.report.content.add(bytes.len() as u64);
                self.report.repaired.push(layout::content(kind, digest).to_string());
                if self.check != ContentCheck::DryRun {
                    self.put_content(piece, &bytes).map_err(target_failed)?;
                    self.copied.push(piece);
                    wrote = true;
                }
            }
            if wrote {
                suspect::sync_names(target_fs, &layout::content_dir(kind)).map_err(target_failed)?;
            }
        }
        Ok(())
    }

    /// After all sessions were copied, rewrites the content in doubt that no session brought (G14). Every sync of
    /// this run succeeded, so no doubt remains.
    pub(super) fn rewrite_content_in_doubt(&mut self) -> Result<(), CopyError> {
        if self.check == ContentCheck::DryRun {
            return Ok(());
        }
        for kind in std::mem::take(&mut self.in_doubt) {
            for digest in self.target_content(kind)? {
                if !self.sound.contains(&(kind, digest))
                    && let Ok((_, bytes)) = read_verified(self.target.fs(), kind, digest)
                {
                    self.put_content((kind, digest), &bytes).map_err(target_failed)?;
                    self.copied.push((kind, digest));
                }
            }
            let folder = layout::content_dir(kind);
            suspect::sync_names(self.target.fs(), &folder).map_err(target_failed)?;
            suspect::clear(self.target.fs(), &folder);
        }
        Ok(())
    }

    /// The target's content by file name, whatever kind of file it is.
    fn target_content(&self, kind: AttachmentKind) -> Result<Vec<Sha256>, CopyError> {
        let entries = match self.target.fs().list(&layout::content_dir(kind)) {
            Err(error) if error.kind == FsErrorKind::NotFound => Vec::new(),
            listed => listed.map_err(target_failed)?,
        };
        Ok(entries.iter().filter_map(|entry| layout::content_digest(kind, &entry.name)).collect())
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CopyState {
    Intact,
    Damaged,
    Absent,
}

/// Puts content in place under the locks of a restore; returns where the previous file was moved.
pub(crate) fn replace_content<F: FileSystem>(
    store: &LocalStore<F>,
    content: &Attachment,
) -> Result<Option<String>, UpkeepError> {
    let (fs, kind) = (store.fs(), content.kind());
    let _one_at_a_time =
        fs.lock(&layout::backup_lock(), LockMode::Exclusive, LOCK_WAIT)?.ok_or(UpkeepError::Busy)?;
    let _no_sweep = fs.lock(&layout::store_lock(), LockMode::Shared, LOCK_WAIT)?.ok_or(UpkeepError::Busy)?;
    let temp = layout::backup_content_temp(kind);
    write_temp(fs, &temp, content.bytes())?;
    let aside = set_aside(fs, kind, content.digest())?;
    fs.rename(&temp, &layout::content(kind, content.digest()))?;
    fs.sync_dir(&layout::content_dir(kind))?;
    fs.about_to_acknowledge();
    Ok(aside)
}
