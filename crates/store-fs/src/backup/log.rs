//! A session's validated log together with the manifest lines that attest it, by which two logs are compared.

use workrail_model::digest::Sha256;
use workrail_model::health::SessionHealth;
use workrail_model::id::SessionId;
use workrail_model::limits::{MANIFEST_BYTES_MAX, SEGMENT_BYTES_MAX};
use workrail_model::manifest::{Cursor, commit_group};
use workrail_model::plan::RawSegment;
use workrail_ports::file_system::{FileSystem, FsError, FsErrorKind, FsOp};

use crate::load::{self, LoadedLog};
use crate::orphan::{self, LogContinuation, Orphan};
use crate::{layout, rebuild};

/// How often a log that was replaced during the read is read again.
const TRIES_MAX: usize = 8;

#[derive(Clone, Debug)]
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

    /// Like `read`, including a write that waits to be committed.
    pub(super) fn read_with_pending<F: FileSystem>(
        fs: &F,
        session: SessionId,
    ) -> Result<Option<Self>, FsError> {
        let committed = Self::read(fs, session)?.unwrap_or_else(Self::nothing);
        let log = committed.with_pending(fs, session)?.unwrap_or(committed);
        Ok((!log.is_empty() || !log.loaded.health.is_healthy()).then_some(log))
    }

    /// The log with the completed write at its end that the next writer will commit (G13), if there is one: it may have
    /// been acknowledged before the manifest lost its end.
    pub(super) fn with_pending<F: FileSystem>(
        &self,
        fs: &F,
        session: SessionId,
    ) -> Result<Option<Self>, FsError> {
        if !self.loaded.health.is_healthy() {
            return Ok(None);
        }
        let tail = orphan::bytes_after(fs, session, &self.loaded.cursor)?;
        let LogContinuation::Write(write) = orphan::pending(fs, session, &self.loaded.cursor, &tail)? else {
            return Ok(None);
        };
        let mut log = self.clone();
        log.commit(write);
        Ok(Some(log))
    }

    pub(super) fn nothing() -> Self {
        Self { loaded: LoadedLog::nothing(), manifest: Vec::new() }
    }

    /// The log that the segments form without their manifest, if it is longer than what the manifest attests (G11).
    /// `None` if something in it belongs to a newer build or may not be read: then nothing is guessed.
    pub(super) fn rebuilt<F: FileSystem>(&self, fs: &F, session: SessionId) -> Result<Option<Self>, FsError> {
        let health = self.loaded.health.clone();
        let is_newer = matches!(health, SessionHealth::UnknownVersion { .. });
        if health.is_healthy() || is_newer || health.is_access_denied() {
            return Ok(None);
        }
        let rebuilt = rebuild::rebuild(fs, session, None)?;
        let is_certain = rebuilt.newer.is_none() && rebuilt.denied.is_none();
        if !is_certain || rebuilt.end.get() <= self.event_count() {
            return Ok(None);
        }
        let mut events = Vec::new();
        for name in &rebuilt.segments {
            let Some(path) = layout::in_session(session, name) else { return Ok(None) };
            let segment = RawSegment::parse(fs.read(&path, 0, SEGMENT_BYTES_MAX)?);
            // It was valid a moment ago: someone is working in the folder.
            let Ok(segment) = segment else { return Ok(None) };
            events.extend(segment.events().iter().cloned());
        }
        let loaded = LoadedLog {
            events,
            segments: rebuilt.segments,
            cursor: rebuilt.cursor,
            health,
            ..LoadedLog::nothing()
        };
        Ok(Some(Self { loaded, manifest: rebuilt.manifest }))
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
