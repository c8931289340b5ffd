//! A session's validated log together with the manifest lines that attest it, by which two logs are compared.

use workrail_model::digest::Sha256;
use workrail_model::id::SessionId;
use workrail_model::limits::MANIFEST_BYTES_MAX;
use workrail_model::manifest::{Cursor, commit_group};
use workrail_ports::file_system::{FileSystem, FsError, FsErrorKind, FsOp};

use crate::layout;
use crate::load::{self, LoadedLog};
use crate::orphan::{self, LogContinuation, Orphan};

/// How often a log that was replaced during the read is read again.
const TRIES_MAX: usize = 8;

#[derive(Debug)]
pub(super) struct AttestedLog {
    pub(super) loaded: LoadedLog,
    /// The lines that attest what was loaded, and no more. They hold every segment's digest, so equal lines mean
    /// equal histories.
    pub(super) manifest: Vec<u8>,
}

impl AttestedLog {
    /// The validated part of a session's log; `None` where there is no log.
    pub(super) fn read<F: FileSystem>(fs: &F, session: SessionId) -> Result<Option<Self>, FsError> {
        for _ in 0..TRIES_MAX {
            let Some(loaded) = load::load(fs, session, None)? else { return Ok(None) };
            if loaded.cursor == Cursor::start() {
                return Ok(Some(Self { loaded, manifest: Vec::new() }));
            }
            let mut manifest = match fs.read(&layout::manifest(session), 0, MANIFEST_BYTES_MAX) {
                Err(error) if error.kind == FsErrorKind::NotFound => continue,
                read => read?,
            };
            manifest.truncate(usize::try_from(loaded.cursor.manifest_bytes).unwrap_or(usize::MAX));
            if attests(&manifest, &loaded.cursor) {
                return Ok(Some(Self { loaded, manifest }));
            }
        }
        Err(FsError {
            op: FsOp::Read,
            path: layout::manifest(session),
            kind: FsErrorKind::Io,
            detail: "the manifest changes faster than it can be read".to_owned(),
        })
    }

    /// Like `read`, including the completed write at the end of the log that the next writer will commit (G13): it
    /// may have been acknowledged before the manifest lost its end.
    pub(super) fn read_with_pending<F: FileSystem>(
        fs: &F,
        session: SessionId,
    ) -> Result<Option<Self>, FsError> {
        let nothing = || Self { loaded: LoadedLog::nothing(), manifest: Vec::new() };
        let mut log = Self::read(fs, session)?.unwrap_or_else(nothing);
        if log.loaded.health.is_healthy() {
            let tail = orphan::bytes_after(fs, session, &log.loaded.cursor)?;
            if let LogContinuation::Write(write) = orphan::pending(fs, session, &log.loaded.cursor, &tail)? {
                log.commit(write);
            }
        }
        Ok((!log.is_empty() || !log.loaded.health.is_healthy()).then_some(log))
    }

    fn commit(&mut self, write: Orphan) {
        let loaded = &mut self.loaded;
        let records = commit_group(loaded.cursor.next_manifest_index, &write.events, &write.segment);
        loaded.cursor = loaded.cursor.after(&records, &write.group, write.events.len() as u64);
        loaded.segments.insert(format!("events/{}", write.name));
        loaded.events.extend(write.events);
        loaded.torn_bytes = 0;
        self.manifest.extend_from_slice(&write.group);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.manifest.is_empty()
    }

    pub(super) fn event_count(&self) -> u64 {
        self.loaded.cursor.next_event_index.get()
    }
}

/// Whether the manifest still has the bytes that were validated.
fn attests(manifest: &[u8], cursor: &Cursor) -> bool {
    let anchor = usize::try_from(cursor.anchor_bytes).ok().and_then(|len| manifest.len().checked_sub(len));
    manifest.len() as u64 == cursor.manifest_bytes
        && anchor.is_some_and(|at| Sha256::of(&manifest[at..]) == cursor.anchor)
}
