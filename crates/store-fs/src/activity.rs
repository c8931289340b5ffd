//! The store-wide activity number: a locked counter file that is never synced (G7).
//!
//! It survives a killed process because the kernel keeps the file, and a power cut because the file
//! names the boot it was written in: in another boot the counter is rebuilt from the sessions.
//!
//! One more number is one more dot at the end of the file. Replacing the file each time cost a tenth of an
//! advance: some file systems write a replaced file's data out on the spot.

use serde::{Deserialize, Serialize};
use workrail_model::event::{Activity, Event};
use workrail_model::id::SessionId;
use workrail_model::limits::{MANIFEST_BYTES_MAX, SEGMENT_BYTES_MAX};
use workrail_model::manifest::ManifestRecord;
use workrail_ports::environment::ActivityCounter;
use workrail_ports::file_system::{FileSystem, FsError, FsErrorKind, FsOp, LockMode, WritableFile};
use workrail_ports::session_store::{SessionReader, StoreError};

use crate::content::create_fresh;
use crate::layout;
use crate::store::{LOCK_WAIT, LocalStore};

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Counter {
    v: u64,
    boot: String,
    last: u64,
}

const COUNTER_BYTES_MAX: u64 = 4096;
/// So many dots, and the file starts anew with a larger `last`.
const DOTS_MAX: u64 = 2048;
/// Enough of a manifest's end to hold the last group of all but enormous plans.
const MANIFEST_TAIL_BYTES: u64 = 64 * 1024;

fn failed(detail: &str) -> StoreError {
    let (path, detail) = (layout::activity(), detail.to_owned());
    StoreError::Io(FsError { op: FsOp::Lock, path, kind: FsErrorKind::Io, detail })
}

impl<F: FileSystem> ActivityCounter for LocalStore<F> {
    fn next(&self) -> Result<Activity, StoreError> {
        let _lock = self.lock_counter()?;
        let counted = self.read_counter()?;
        let last = match counted {
            Some(counted) => counted.last,
            None => self.rebuild_counter()?,
        };
        let next = last.checked_add(1).and_then(Activity::new);
        let next = next.ok_or_else(|| failed("the activity counter is exhausted"))?;
        match counted {
            Some(counted) if counted.dots < DOTS_MAX => {
                self.fs().open_append(&layout::activity())?.append(b".")?
            }
            Some(_) | None => self.write_counter(next)?,
        }
        Ok(next)
    }
}

impl<F: FileSystem> LocalStore<F> {
    fn lock_counter(&self) -> Result<F::Lock, StoreError> {
        let lock = self.fs().lock(&layout::activity_lock(), LockMode::Exclusive, LOCK_WAIT)?;
        lock.ok_or_else(|| failed("another process holds the activity counter"))
    }

    /// The last number that was handed out. Read without the lock: the file is replaced whole, or grows by a byte.
    pub(crate) fn counted_so_far(&self) -> Result<Activity, StoreError> {
        let last = self.read_counter()?.map_or_else(|| self.rebuild_counter(), |counted| Ok(counted.last))?;
        Activity::new(last).ok_or_else(|| failed("the activity counter is exhausted"))
    }

    /// Goes on from `at_least`, unless the counter is there already.
    pub(crate) fn raise_counter(&self, at_least: Activity) -> Result<(), StoreError> {
        let _lock = self.lock_counter()?;
        let last = self.read_counter()?.map_or_else(|| self.rebuild_counter(), |counted| Ok(counted.last))?;
        if last >= at_least.get() { Ok(()) } else { self.write_counter(at_least) }
    }

    /// The counter of this boot; anything else, damaged or older, is rebuilt.
    fn read_counter(&self) -> Result<Option<Counted>, FsError> {
        let bytes = match self.fs().read(&layout::activity(), 0, COUNTER_BYTES_MAX) {
            Ok(bytes) => bytes,
            Err(error) => match error.kind {
                FsErrorKind::NotFound | FsErrorKind::WrongKind | FsErrorKind::TooLarge { .. } => {
                    return Ok(None);
                }
                // It may be there: rebuilt without it, the counter would hand out numbers twice.
                FsErrorKind::AlreadyExists
                | FsErrorKind::NoSpace
                | FsErrorKind::Quota
                | FsErrorKind::ReadOnly
                | FsErrorKind::PermissionDenied
                | FsErrorKind::TooManyOpenFiles
                | FsErrorKind::Io => return Err(error),
            },
        };
        Ok(counted(&bytes, &self.boot_id))
    }

    fn write_counter(&self, last: Activity) -> Result<(), StoreError> {
        let counter = Counter { v: 1, boot: self.boot_id.clone(), last: last.get() };
        // A struct of two numbers and a string always serialises.
        let mut bytes = serde_json::to_vec(&counter).expect("plain struct");
        bytes.push(b'\n');
        let mut file = create_fresh(self.fs(), &layout::activity_temp())?;
        file.append(&bytes)?;
        self.fs().rename(&layout::activity_temp(), &layout::activity())?;
        Ok(())
    }

    fn rebuild_counter(&self) -> Result<u64, StoreError> {
        let mut last = 0;
        for session in self.sessions()? {
            last = last.max(self.last_activity(session)?);
        }
        Ok(last)
    }

    /// The activity of a session's newest events, from its last group alone where that is found.
    fn last_activity(&self, session: SessionId) -> Result<u64, StoreError> {
        if let Some(last) = self.last_segment_activity(session) {
            return Ok(last);
        }
        let slice = match self.read(session, None) {
            Ok(slice) => slice,
            Err(error) if is_out_of_reach(&error) => return Ok(0),
            // It may pass: rebuilt without this session, the counter would hand out its numbers again (G7).
            Err(error) => return Err(error),
        };
        Ok(newest(&slice.events))
    }

    fn last_segment_activity(&self, session: SessionId) -> Option<u64> {
        let path = layout::manifest(session);
        let len = self.fs().stat(&path).ok()?.len.min(MANIFEST_BYTES_MAX);
        let from = len.saturating_sub(MANIFEST_TAIL_BYTES);
        let tail = self.fs().read(&path, from, MANIFEST_TAIL_BYTES * 2).ok()?;
        let closed =
            tail.split(|byte| *byte == b'\n').rev().find_map(|line| match ManifestRecord::parse(line) {
                Ok(ManifestRecord::SegmentClosed { segment_rel_path, .. }) => Some(segment_rel_path),
                Ok(ManifestRecord::SnapshotPinned { .. } | ManifestRecord::BlobPinned { .. }) | Err(_) => {
                    None
                }
            })?;
        let segment = self.fs().read(&layout::in_session(session, &closed)?, 0, SEGMENT_BYTES_MAX).ok()?;
        let events: Option<Vec<Event>> = segment
            .split(|byte| *byte == b'\n')
            .filter(|line| !line.is_empty())
            .map(|line| Event::parse(line).ok())
            .collect();
        let activity = newest(&events?);
        (activity > 0).then_some(activity)
    }
}

/// A session that is gone, or that nobody can read here, holds no number that will be compared.
fn is_out_of_reach(error: &StoreError) -> bool {
    match error {
        StoreError::NotFound { .. } => true,
        StoreError::Io(error) => match error.kind {
            FsErrorKind::NotFound
            | FsErrorKind::WrongKind
            | FsErrorKind::PermissionDenied
            | FsErrorKind::TooLarge { .. } => true,
            FsErrorKind::AlreadyExists
            | FsErrorKind::NoSpace
            | FsErrorKind::Quota
            | FsErrorKind::ReadOnly
            | FsErrorKind::TooManyOpenFiles
            | FsErrorKind::Io => false,
        },
        StoreError::AlreadyExists { .. }
        | StoreError::Locked { .. }
        | StoreError::Unhealthy { .. }
        | StoreError::Stale { .. }
        | StoreError::WrongSession { .. }
        | StoreError::DedupeConflict { .. }
        | StoreError::MissingContent(_)
        | StoreError::Unattached { .. } => false,
    }
}

/// How far the counter has got.
#[derive(Clone, Copy)]
struct Counted {
    last: u64,
    dots: u64,
}

/// Reads a counter of this boot: one line, then nothing but dots.
fn counted(bytes: &[u8], boot_id: &str) -> Option<Counted> {
    let end = bytes.iter().position(|byte| *byte == b'\n')?;
    let (line, dots) = (&bytes[..end], &bytes[end + 1..]);
    let counter = serde_json::from_slice::<Counter>(line).ok()?;
    if counter.v != 1 || counter.boot != boot_id || dots.iter().any(|byte| *byte != b'.') {
        return None;
    }
    let dots = dots.len() as u64;
    Some(Counted { last: counter.last.checked_add(dots)?, dots })
}

fn newest(events: &[Event]) -> u64 {
    events.iter().filter_map(|event| event.activity).map(Activity::get).max().unwrap_or(0)
}
