//! Raw segments and content of sessions, for exports; everything is verified as it is read (G11, G17).

use std::ops::ControlFlow;

use workrail_model::digest::Sha256;
use workrail_model::id::SessionId;
use workrail_model::manifest::Cursor;
use workrail_model::plan::{AttachmentKind, RawSegment};
use workrail_ports::archive::{Archived, SessionArchive};
use workrail_ports::content::ContentError;
use workrail_ports::file_system::FileSystem;
use workrail_ports::session_store::StoreError;

use crate::content::read_verified;
use crate::load;
use crate::store::LocalStore;

impl<F: FileSystem> SessionArchive for LocalStore<F> {
    fn segments(
        &self,
        session: SessionId,
        until: Option<&Cursor>,
        visit: &mut dyn FnMut(RawSegment) -> ControlFlow<()>,
    ) -> Result<Archived, StoreError> {
        let read = load::each_segment(self.fs(), session, until, visit)?;
        let (cursor, health) = read.ok_or(StoreError::NotFound { session })?;
        if health.is_healthy() && cursor == Cursor::start() {
            return Err(StoreError::NotFound { session });
        }
        Ok(Archived { cursor, health })
    }

    fn content(&self, kind: AttachmentKind, digest: Sha256) -> Result<Vec<u8>, ContentError> {
        read_verified(self.fs(), kind, digest).map(|(_, bytes)| bytes)
    }
}
