//! Imports a whole session: content first, then the log in a hidden folder, then one rename (G80).
//!
//! A power cut or a kill at any moment leaves the session whole or absent. Leftovers of a killed import are never
//! read: the next import removes the folder, and the content is garbage like any other unreferenced content. The
//! store's lock is held from the first byte to the last fsync, so that no sweep removes the content.

use std::collections::BTreeSet;

use workrail_model::event::Activity;
use workrail_model::id::SessionId;
use workrail_model::limits::MANIFEST_BYTES_MAX;
use workrail_model::manifest::{Cursor, commit_group, group_bytes, segment_rel_path};
use workrail_model::plan::{Attachment, AttachmentKind, RawSegment};
use workrail_ports::archive::{SessionImport, StagedSession, check_continues};
use workrail_ports::file_system::{
    FileKind, FileSystem, FsError, FsErrorKind, LockMode, RelPath, WritableFile,
};
use workrail_ports::session_store::StoreError;

use crate::content::{put_in_place, write_temp};
use crate::store::{LOCK_WAIT, LocalStore};
use crate::{folder_tree, layout, load, repair, suspect};

/// What happens to a session that already has the id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Existing {
    /// It stays, and nothing is staged.
    Refuse,
    /// It is moved to `backups/`.
    Replace,
}

impl<F: FileSystem> SessionImport for LocalStore<F> {
    type Staged<'a> = StagedLocalImport<'a, F>;

    fn is_taken(&self, session: SessionId) -> Result<bool, StoreError> {
        match self.fs().stat(&layout::session(session)) {
            Ok(_) => Ok(true),
            Err(error) if error.kind == FsErrorKind::NotFound => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    fn stage(&self, session: SessionId) -> Result<StagedLocalImport<'_, F>, StoreError> {
        self.stage_over(session, Existing::Refuse)
    }

    fn newest_activity(&self) -> Result<Activity, StoreError> {
        self.counted_so_far()
    }

    fn raise_activity(&self, at_least: Activity) -> Result<(), StoreError> {
        self.raise_counter(at_least)
    }
}

impl<F: FileSystem> LocalStore<F> {
    /// Stages a session. The caller has locked one that it replaces.
    pub(crate) fn stage_over(
        &self,
        session: SessionId,
        existing: Existing,
    ) -> Result<StagedLocalImport<'_, F>, StoreError> {
        let fs = self.fs();
        let lock =
            |path: RelPath, mode| fs.lock(&path, mode, LOCK_WAIT)?.ok_or(StoreError::Locked { session });
        let import_lock = lock(layout::import_lock(), LockMode::Exclusive)?;
        let store_lock = lock(layout::store_lock(), LockMode::Shared)?;
        if existing == Existing::Refuse && self.is_taken(session)? {
            return Err(StoreError::AlreadyExists { session });
        }
        remove_leftovers(fs)?;
        let staged = StagedLocalImport {
            store: self,
            session,
            import_lock,
            store_lock,
            folders: BTreeSet::new(),
            cursor: Cursor::start(),
            manifest: Vec::new(),
            existing,
            published: false,
        };
        fs.create_dir(&layout::import())?;
        fs.create_dir(&layout::import_events())?;
        Ok(staged)
    }
}

/// Removes what a killed import left behind.
fn remove_leftovers<F: FileSystem>(fs: &F) -> Result<(), FsError> {
    for kind in AttachmentKind::ALL {
        folder_tree::ignore_absent(fs.remove_file(&layout::import_content_temp(kind)))?;
    }
    folder_tree::remove(fs, &layout::import())
}

/// A session being imported. If it is dropped before it is published, it is removed again.
pub struct StagedLocalImport<'a, F: FileSystem> {
    store: &'a LocalStore<F>,
    session: SessionId,
    #[expect(dead_code, reason = "held for its drop, which releases the lock")]
    import_lock: F::Lock,
    #[expect(dead_code, reason = "held for its drop, which releases the lock")]
    store_lock: F::Lock,
    /// Content folders with names that are not durable yet.
    folders: BTreeSet<RelPath>,
    cursor: Cursor,
    /// Written last, when everything it attests is durable.
    manifest: Vec<u8>,
    existing: Existing,
    published: bool,
}

impl<F: FileSystem> StagedLocalImport<'_, F> {
    /// The manifest of the segments staged so far.
    pub(crate) fn manifest_bytes(&self) -> &[u8] {
        &self.manifest
    }

    /// Publishes it; the session that had its id is moved to the returned path. If killed between the two moves, the
    /// session is in `backups/` only: no reader sees a mixture, and staging it again restores it.
    pub(crate) fn publish_over(mut self) -> Result<Option<RelPath>, StoreError> {
        self.write_log()?;
        let aside = self.move_replaced_aside()?;
        self.make_visible().inspect_err(|_| {
            if let Some(aside) = &aside {
                let _ = self.store.fs().rename(aside, &layout::session(self.session));
            }
        })?;
        Ok(aside)
    }

    /// Moves the session that this one replaces to `backups/`, durably, if there is one.
    fn move_replaced_aside(&self) -> Result<Option<RelPath>, StoreError> {
        if self.existing == Existing::Refuse {
            return Ok(None);
        }
        let fs = self.store.fs();
        suspect::make_folder(fs, &layout::backups())?;
        let aside = layout::backup(self.session, repair::next_number(fs, self.session)?);
        let home = layout::session(self.session);
        match fs.stat(&home)?.kind {
            FileKind::Directory => fs.rename(&home, &aside)?,
            // A backup must be a folder.
            FileKind::Regular => {
                suspect::make_folder(fs, &aside)?;
                if let Some(inside) = aside.child(home.file_name()) {
                    fs.rename(&home, &inside)?;
                    fs.sync_dir(&aside)?;
                }
            }
            // A link or a pipe in the place of a session holds no data of ours; a link's target is not touched.
            FileKind::Other => {
                fs.remove_file(&home)?;
                return Ok(None);
            }
        }
        // Both synced before the old name is reused: a crash must not keep the second move without this one.
        fs.sync_dir(&layout::backups()).and_then(|()| fs.sync_dir(&layout::sessions())).inspect_err(
            |_| {
                let _ = fs.rename(&aside, &home);
            },
        )?;
        Ok(Some(aside))
    }

    /// Makes every part of the session durable, out of sight.
    fn write_log(&self) -> Result<(), StoreError> {
        let fs = self.store.fs();
        for folder in &self.folders {
            fs.sync_dir(folder)?;
        }
        fs.sync_dir(&layout::import_events())?;
        let mut manifest = fs.create_file(&layout::import_manifest())?;
        manifest.append(&self.manifest)?;
        manifest.sync()?;
        drop(manifest);
        // If killed after the rename, nothing else would show that the name is not durable: the next process that
        // finds the mark syncs it before anything is appended.
        fs.create_file(&layout::suspect(&layout::import()))?;
        fs.sync_dir(&layout::import())?;
        Ok(())
    }

    /// Renames it to its final name.
    fn make_visible(&mut self) -> Result<(), StoreError> {
        let fs = self.store.fs();
        let home = layout::session(self.session);
        fs.rename(&layout::import(), &home)?;
        if let Err(error) = fs.sync_dir(&layout::sessions()) {
            // A power cut could lose its name while later appends rely on it, so it is hidden again.
            let _ = fs.rename(&home, &layout::import());
            return Err(error.into());
        }
        suspect::clear(fs, &home);
        self.published = true;
        fs.about_to_acknowledge();
        Ok(())
    }
}

impl<F: FileSystem> std::fmt::Debug for StagedLocalImport<'_, F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StagedLocalImport").field("session", &self.session).finish_non_exhaustive()
    }
}

impl<F: FileSystem> StagedSession for StagedLocalImport<'_, F> {
    /// Written even when it exists: its writer may have failed to sync it (G14).
    fn content(&mut self, attachment: &Attachment) -> Result<(), StoreError> {
        let (fs, kind) = (self.store.fs(), attachment.kind());
        let temp = layout::import_content_temp(kind);
        write_temp(fs, &temp, attachment.bytes())?;
        put_in_place(fs, &temp, kind, attachment.digest())?;
        self.folders.insert(layout::content_dir(kind));
        Ok(())
    }

    fn segment(&mut self, segment: &RawSegment) -> Result<(), StoreError> {
        let events = segment.events();
        let (expected, session) = (self.cursor.next_event_index, self.session);
        let (Some(first), Some(last)) = (events.first(), events.last()) else {
            return Ok(());
        };
        check_continues(segment, session, expected)?;
        let next = self.cursor.next_manifest_index;
        let records = commit_group(next, events, segment.bytes());
        let too_long = || StoreError::Io(load::too_long(session, next));
        let group = group_bytes(&records).map_err(|_| too_long())?;
        if (self.manifest.len() + group.len()) as u64 > MANIFEST_BYTES_MAX {
            return Err(too_long());
        }
        let name = segment_rel_path(first.event_index, last.event_index);
        let path = layout::in_import(&name).expect("a name made of two numbers is a plain component");
        write_temp(self.store.fs(), &path, segment.bytes())?;
        self.cursor = self.cursor.after(&records, &group, events.len() as u64);
        self.manifest.extend_from_slice(&group);
        Ok(())
    }

    fn publish(self) -> Result<(), StoreError> {
        self.publish_over().map(|_| ())
    }
}

impl<F: FileSystem> Drop for StagedLocalImport<'_, F> {
    fn drop(&mut self) {
        if !self.published {
            // If this fails, the next import removes it.
            let _ = remove_leftovers(self.store.fs());
        }
    }
}
