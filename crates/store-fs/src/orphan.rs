//! Orphan segments: written whole, and named by no group of the manifest.
//!
//! An append makes its content and its segment durable before it appends the group that commits them. Interrupted in
//! between, or with the end of its manifest lost, it leaves a segment that starts where the log ends. Readers ignore
//! it; the next writer rolls it forward (G13).

use workrail_model::event::Event;
use workrail_model::id::SessionId;
use workrail_model::limits::{MANIFEST_BYTES_MAX, SEGMENT_BYTES_MAX};
use workrail_model::manifest::{Cursor, commit_group, group_bytes, segment_rel_path};
use workrail_ports::file_system::{FileKind, FileSystem, FsError, FsErrorKind};

use crate::{content, layout, load};

/// A complete and valid segment that starts where the committed ones end.
#[derive(Debug)]
pub(crate) struct Orphan {
    /// Relative to the folder of the segments.
    pub name: String,
    pub segment: Vec<u8>,
    pub events: Vec<Event>,
    /// The lines that would commit it.
    pub group: Vec<u8>,
}

impl Orphan {
    /// Whether `tail` is what an interrupted write of the group may have left: nothing but its bytes and NUL. The whole
    /// group is a commit: where its segment could not be read a moment ago, it is no write that was interrupted.
    pub(crate) fn explains(&self, tail: &[u8]) -> bool {
        tail != self.group
            && tail.len() <= self.group.len()
            && tail.iter().zip(&self.group).all(|(found, written)| *found == 0 || found == written)
    }
}

/// The orphans at the end of a log. What is incomplete or invalid is none.
pub(crate) fn at<F: FileSystem>(fs: &F, session: SessionId, end: &Cursor) -> Result<Vec<Orphan>, FsError> {
    let starts_there = |name: &str| {
        layout::segment_indexes(name).is_some_and(|(first, _)| first == end.next_event_index.get())
    };
    let entries = load::list_events(fs, session)?;
    let names = entries.into_iter().filter(|entry| entry.kind == FileKind::Regular);
    let mut orphans = Vec::new();
    for name in names.map(|entry| entry.name).filter(|name| starts_there(name)) {
        orphans.extend(read(fs, session, end, name)?);
    }
    Ok(orphans)
}

/// The orphan that the next writer rolls forward: it explains the `tail` behind the log, and all of its content is
/// there. Of several, the last one by name.
pub(crate) fn completed<F: FileSystem>(
    fs: &F,
    session: SessionId,
    end: &Cursor,
    tail: &[u8],
) -> Result<Option<Orphan>, FsError> {
    for orphan in at(fs, session, end)?.into_iter().rev() {
        if orphan.explains(tail) && content::is_stored(fs, &orphan.events)? {
            return Ok(Some(orphan));
        }
    }
    Ok(None)
}

/// The bytes behind the last group of a manifest.
pub(crate) fn tail_behind<F: FileSystem>(
    fs: &F,
    session: SessionId,
    end: &Cursor,
) -> Result<Vec<u8>, FsError> {
    match fs.read(&layout::manifest(session), end.manifest_bytes, MANIFEST_BYTES_MAX) {
        Err(error) if error.kind == FsErrorKind::NotFound => Ok(Vec::new()),
        read => read,
    }
}

fn read<F: FileSystem>(
    fs: &F,
    session: SessionId,
    end: &Cursor,
    name: String,
) -> Result<Option<Orphan>, FsError> {
    let Some(path) = layout::events(session).child(&name) else { return Ok(None) };
    let segment = match fs.read(&path, 0, SEGMENT_BYTES_MAX) {
        Ok(segment) => segment,
        Err(error) => match error.kind {
            FsErrorKind::NotFound
            | FsErrorKind::WrongKind
            | FsErrorKind::TooLarge { .. }
            | FsErrorKind::PermissionDenied => return Ok(None),
            // It may be a completed write: an error that passes is no verdict on it.
            FsErrorKind::AlreadyExists
            | FsErrorKind::NoSpace
            | FsErrorKind::Quota
            | FsErrorKind::ReadOnly
            | FsErrorKind::TooManyOpenFiles
            | FsErrorKind::Io => return Err(error),
        },
    };
    let Ok(events) = load::events_of(session, end.next_event_index, &name, &segment) else { return Ok(None) };
    let records = commit_group(end.next_manifest_index, &events, &segment);
    let (Ok(group), Some(first), Some(last)) = (group_bytes(&records), events.first(), events.last()) else {
        return Ok(None);
    };
    let named = segment_rel_path(first.event_index, last.event_index);
    if named.strip_prefix("events/") != Some(&name) {
        return Ok(None);
    }
    Ok(Some(Orphan { name, segment, events, group }))
}
