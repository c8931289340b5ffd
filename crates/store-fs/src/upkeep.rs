//! What people ask of the store: keeping, removing, sweeping, looking for strays, mending (G24, G25).

use workrail_model::digest::Sha256;
use workrail_model::event::EventIndex;
use workrail_model::id::SessionId;
use workrail_model::limits::MANIFEST_BYTES_MAX;
use workrail_model::manifest::{Cursor, ManifestRecord};
use workrail_model::plan::{Attachment, AttachmentKind};
use workrail_ports::file_system::{FileSystem, FsError, FsErrorKind};
use workrail_ports::session_store::StoreError;
use workrail_ports::upkeep::{Diagnosis, Stray, Sweep, Swept, Tally, Upkeep, UpkeepError};

use crate::content::write_temp;
use crate::store::LocalStore;
use crate::{backup, layout, load, strays, suspect, tree};

impl<F: FileSystem> LocalStore<F> {
    /// The lock of a session that exists.
    fn lock_existing(&self, session: SessionId) -> Result<F::Lock, UpkeepError> {
        if !load::is_begun(self.fs(), session)? {
            return Err(StoreError::NotFound { session }.into());
        }
        Ok(self.take_lock(session)?)
    }
}

impl<F: FileSystem> Upkeep for LocalStore<F> {
    fn keep(&self, session: SessionId) -> Result<(), UpkeepError> {
        let _lock = self.lock_existing(session)?;
        // Written anew also when it is there: an earlier sync may have failed (G14).
        write_temp(self.fs(), &layout::keep_temp(session), b"")?;
        self.fs().rename(&layout::keep_temp(session), &layout::keep(session))?;
        suspect::sync_names(self.fs(), &layout::session(session))?;
        Ok(())
    }

    fn unkeep(&self, session: SessionId) -> Result<(), UpkeepError> {
        let _lock = self.lock_existing(session)?;
        match self.fs().remove_file(&layout::keep(session)) {
            Err(error) if error.kind != FsErrorKind::NotFound => return Err(error.into()),
            _ => {}
        }
        suspect::sync_names(self.fs(), &layout::session(session))?;
        Ok(())
    }

    fn is_kept(&self, session: SessionId) -> bool {
        self.is_marked_to_keep(session)
    }

    fn remove_all(&self, sessions: &[(SessionId, Option<Cursor>)]) -> Vec<Result<Tally, UpkeepError>> {
        self.remove_sessions(sessions)
    }

    fn weigh(&self, session: SessionId) -> Result<Tally, UpkeepError> {
        Ok(tree::tally(self.fs(), &layout::session(session))?)
    }

    fn may_sweep(&self) -> Result<(), UpkeepError> {
        self.exclusive_store_lock().map(drop)
    }

    fn foreign_folders(&self) -> Result<Vec<String>, FsError> {
        strays::foreign_folders(self.fs())
    }

    fn sweep(&self, sweep: Sweep<'_>) -> Result<Swept, UpkeepError> {
        self.sweep_content(sweep)
    }

    fn segment_count(&self, session: SessionId) -> Result<u64, FsError> {
        let manifest = self.fs().read(&layout::manifest(session), 0, MANIFEST_BYTES_MAX)?;
        let lines = manifest.split(|byte| *byte == b'\n');
        let closes =
            |line: &&[u8]| matches!(ManifestRecord::parse(line), Ok(ManifestRecord::SegmentClosed { .. }));
        Ok(lines.filter(closes).count() as u64)
    }

    fn contents(&self, kind: AttachmentKind) -> Result<Vec<Sha256>, FsError> {
        self.contents_of(kind)
    }

    fn strays(&self, max: usize) -> Result<(Vec<Stray>, u64), FsError> {
        strays::strays(self.fs(), max)
    }

    fn diagnose(
        &self,
        session: SessionId,
        trusted_until: Option<EventIndex>,
    ) -> Result<Diagnosis, UpkeepError> {
        self.diagnose_session(session, trusted_until)
    }

    fn replace_content(&self, content: &Attachment) -> Result<Option<String>, UpkeepError> {
        backup::replace_content(self, content)
    }

    fn repair(
        &self,
        session: SessionId,
        trusted_until: Option<EventIndex>,
    ) -> Result<Diagnosis, UpkeepError> {
        self.repair_session(session, trusted_until)
    }
}
