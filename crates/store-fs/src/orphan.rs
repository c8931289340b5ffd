//! Orphan segments: complete, but not named by any group of the manifest.
//!
//! An append makes its content and its segment durable before it appends the group that commits them. Interrupted in
//! between, or if the manifest loses its end, it leaves a segment that starts where the log ends. Readers ignore it;
//! the next writer rolls it forward (G13). No crash leaves a complete segment without its content: that is damage.

use workrail_model::event::Event;
use workrail_model::health::CorruptionReason;
use workrail_model::id::SessionId;
use workrail_model::limits::MANIFEST_BYTES_MAX;
use workrail_model::manifest::{Cursor, commit_group, group_bytes};
use workrail_ports::file_system::{FileSystem, FsError, FsErrorKind};

use crate::content::{self, UnusableContent};
use crate::layout;
use crate::segment::{self, SegmentRead};

/// A complete and valid segment that starts where the committed ones end.
#[derive(Debug)]
pub(crate) struct Orphan {
    /// Relative to the folder of the segments.
    pub name: String,
    pub segment: Vec<u8>,
    pub events: Vec<Event>,
    /// The manifest lines that would commit it.
    pub group: Vec<u8>,
}

impl Orphan {
    /// Whether an interrupted write of the group may have left `tail`: only its bytes and NUL. The whole group is a
    /// commit, not an interrupted write, even if its segment could not be read a moment ago.
    pub(crate) fn explains(&self, tail: &[u8]) -> bool {
        tail != self.group
            && tail.len() <= self.group.len()
            && tail.iter().zip(&self.group).all(|(found, written)| *found == 0 || found == written)
    }
}

/// What follows the end of a log.
#[derive(Debug)]
pub(crate) enum LogContinuation {
    Nothing,
    /// A completed write, which the next writer will roll forward.
    Write(Orphan),
    /// A write that cannot be rolled forward and must not be overwritten.
    Damaged(CorruptionReason),
}

/// The orphans at the end of a log. Incomplete, invalid and unreadable segments do not count.
pub(crate) fn at<F: FileSystem>(fs: &F, session: SessionId, end: &Cursor) -> Result<Vec<Orphan>, FsError> {
    Ok(candidates(fs, session, end)?.into_iter().filter_map(Result::ok).collect())
}

/// What follows the `end` of a log, given the `tail` after its last group. If there are several completed writes, the
/// last one by name.
pub(crate) fn pending<F: FileSystem>(
    fs: &F,
    session: SessionId,
    end: &Cursor,
    tail: &[u8],
) -> Result<LogContinuation, FsError> {
    let mut found = LogContinuation::Nothing;
    for candidate in candidates(fs, session, end)?.into_iter().rev() {
        let reason = match candidate {
            Err(denied) => access_denied(&denied),
            Ok(orphan) if !orphan.explains(tail) => continue,
            Ok(orphan) => match content::unusable(fs, &orphan.events)? {
                None => return Ok(LogContinuation::Write(orphan)),
                Some(UnusableContent::Denied(denied)) => access_denied(&denied),
                Some(UnusableContent::Lost(content)) => CorruptionReason::PendingContent {
                    segment: format!("events/{}", orphan.name),
                    content: content.to_string(),
                },
            },
        };
        found = LogContinuation::Damaged(reason);
    }
    Ok(found)
}

pub(crate) fn access_denied(error: &FsError) -> CorruptionReason {
    CorruptionReason::AccessDenied { path: error.path.to_string(), detail: error.detail.clone() }
}

/// The bytes after the last group of a manifest.
pub(crate) fn bytes_after<F: FileSystem>(
    fs: &F,
    session: SessionId,
    end: &Cursor,
) -> Result<Vec<u8>, FsError> {
    match fs.read(&layout::manifest(session), end.manifest_bytes, MANIFEST_BYTES_MAX) {
        Err(error) if error.kind == FsErrorKind::NotFound => Ok(Vec::new()),
        read => read,
    }
}

/// Every complete segment that starts at the end of the log, and the error for one that may not be read.
pub(crate) fn candidates<F: FileSystem>(
    fs: &F,
    session: SessionId,
    end: &Cursor,
) -> Result<Vec<Result<Orphan, FsError>>, FsError> {
    let names = segment::names(fs, session)?.remove(&end.next_event_index.get()).unwrap_or_default();
    let mut found = Vec::new();
    for name in names {
        match segment::read(fs, session, &name)? {
            SegmentRead::Read(bytes) => found.extend(orphan(session, end, name, bytes).map(Ok)),
            SegmentRead::Denied(error) => found.push(Err(error)),
            SegmentRead::NoSegment => {}
        }
    }
    Ok(found)
}

fn orphan(session: SessionId, end: &Cursor, name: String, segment: Vec<u8>) -> Option<Orphan> {
    let events = segment::events(session, end.next_event_index, &name, &segment).ok()?;
    let group = group_bytes(&commit_group(end.next_manifest_index, &events, &segment)).ok()?;
    Some(Orphan { name, segment, events, group })
}
