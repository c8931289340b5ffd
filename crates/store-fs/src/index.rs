//! The index of all sessions: one file of checksummed records, appended to and occasionally rewritten (G18).
//!
//! Appending takes no lock: a record is one write at the end of the file, and losing one to a concurrent rewrite only
//! costs time. A reader skips anything that is not a whole record and continues after it.

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

use workrail_model::digest::Sha256;
use workrail_model::event::EventIndex;
use workrail_model::id::SessionId;
use workrail_model::limits::{INDEX_BYTES_MAX, INDEX_RECORD_BYTES_MAX};
use workrail_model::manifest::{Cursor, ManifestIndex};
use workrail_ports::cache::{IfAbsent, IndexKeys, IndexRecord, SessionIndex};
use workrail_ports::file_system::{
    FileKind, FileStamp, FileSystem, FsError, FsErrorKind, LockMode, RelPath, WritableFile,
};
use workrail_ports::session_store::LogStamp;

use crate::content::create_fresh;
use crate::layout;
use crate::store::LocalStore;

const HEADER: &[u8; 8] = b"WRINDEX1";
/// Starts every record, so that a reader can resynchronise after a damaged one.
const MAGIC: [u8; 4] = [0xF5, b'W', b'R', 0xFA];
/// Magic, length and checksum.
const FRAME_BYTES: usize = 16;
/// Session, stamp and cursor, which precede the summary.
const FIXED_BYTES: usize = 10 + 4 * 8 + 4 * 8 + 32;
/// After this many damaged records the rest is ignored: each may have cost a checksum of the largest record.
const DAMAGED_MAX: usize = 256;
/// Even an index of few sessions has room for long summaries and their earlier versions.
const FEW_SESSIONS_BYTES_MAX: u64 = 32 * 1024 * 1024;
/// What each session adds to that.
const PER_SESSION_BYTES_MAX: u64 = 16 * 1024;
/// Less garbage than this is not worth a rewrite.
const GARBAGE_BYTES_MIN: usize = 1024 * 1024;

impl<F: FileSystem> SessionIndex for LocalStore<F> {
    fn index_records(&self, version: u32, is_present: &dyn Fn(SessionId) -> bool) -> Vec<IndexRecord> {
        let bytes = match self.read_index(&layout::index(version)) {
            Ok(bytes) => bytes,
            Err(error) if error.kind == FsErrorKind::NotFound => return Vec::new(),
            // Too large, or not a regular file: an empty one replaces it.
            Err(_) => Vec::new(),
        };
        let mut newest: BTreeMap<SessionId, Range<usize>> = BTreeMap::new();
        for body in bodies(&bytes) {
            if let Some(session) = session_of(&bytes[body.clone()]).filter(|session| is_present(*session)) {
                newest.insert(session, body);
            }
        }
        let used: usize = newest.values().map(|body| body.len() + FRAME_BYTES).sum();
        let garbage = bytes.len().saturating_sub(used);
        if !bytes.starts_with(HEADER) || (garbage > used && garbage > GARBAGE_BYTES_MIN) {
            // Best effort: another process may be rewriting it, or the store may be read-only.
            let _ = self.rewrite_index(version, newest.values().map(|body| &bytes[body.clone()]));
            self.drop_index_if_deleted(version, newest.keys());
        }
        newest.into_values().filter_map(|body| decoded(&bytes[body])).collect()
    }

    fn add_to_index(&self, version: u32, records: &[IndexRecord], if_absent: IfAbsent) {
        let mut bytes = Vec::new();
        for record in records {
            if record.summary.len() <= INDEX_RECORD_BYTES_MAX {
                frame(&mut bytes, &encoded(record));
            }
        }
        if !bytes.is_empty() {
            // A failed write only costs time.
            let _ = self.append_to_index(version, &bytes, if_absent);
            self.drop_index_if_deleted(version, records.iter().map(|record| &record.session));
        }
    }
}

impl<F: FileSystem> LocalStore<F> {
    /// Reads the file, unless it is too large for an index of these sessions. The sessions are counted only for a large
    /// file.
    fn read_index(&self, path: &RelPath) -> Result<Vec<u8>, FsError> {
        match self.fs().read(path, 0, FEW_SESSIONS_BYTES_MAX) {
            Err(error) if matches!(error.kind, FsErrorKind::TooLarge { .. }) => {
                self.fs().read(path, 0, self.index_bytes_max())
            }
            read => read,
        }
    }

    /// How large an index of these sessions may be; a larger one is discarded unread.
    fn index_bytes_max(&self) -> u64 {
        let sessions = self.fs().list(&layout::sessions()).map_or(0, |entries| entries.len() as u64);
        INDEX_BYTES_MAX.min(FEW_SESSIONS_BYTES_MAX + sessions * PER_SESSION_BYTES_MAX)
    }

    /// Removes the index if one of the sessions was deleted while it was written: a text that was purged from the
    /// session must not come back (G85).
    fn drop_index_if_deleted<'a>(&self, version: u32, mut written: impl Iterator<Item = &'a SessionId>) {
        let is_deleted = |session: &SessionId| {
            let found = self.fs().stat(&layout::session(*session));
            found.is_err_and(|error| error.kind == FsErrorKind::NotFound)
        };
        if written.any(is_deleted) {
            // Best effort: a reader replaces what it cannot use.
            let _ = self.fs().remove_file(&layout::index(version));
        }
    }

    fn append_to_index(&self, version: u32, bytes: &[u8], if_absent: IfAbsent) -> Result<(), FsError> {
        let path = layout::index(version);
        match self.fs().stat(&path) {
            // An index above the limit is left alone: the next reader replaces it with an empty one.
            Ok(stat) if stat.kind != FileKind::Regular || stat.len > INDEX_BYTES_MAX => return Ok(()),
            Ok(_) => return self.fs().open_append(&path)?.append(bytes),
            Err(error) if error.kind == FsErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        match if_absent {
            IfAbsent::Skip => Ok(()),
            IfAbsent::Create => {
                self.fs().create_dir(&layout::store_cache_dir())?;
                self.fs().create_file(&path)?.append(&[HEADER, bytes].concat())
            }
        }
    }

    /// Replaces the index with these records, unless another process is doing so.
    fn rewrite_index<'a>(
        &self,
        version: u32,
        records: impl Iterator<Item = &'a [u8]>,
    ) -> Result<(), FsError> {
        let lock = self.fs().lock(&layout::index_lock(), LockMode::Exclusive, Duration::ZERO)?;
        let Some(_lock) = lock else { return Ok(()) };
        let mut bytes = HEADER.to_vec();
        for body in records {
            frame(&mut bytes, body);
        }
        create_fresh(self.fs(), &layout::index_temp())?.append(&bytes)?;
        self.fs().rename(&layout::index_temp(), &layout::index(version))
    }
}

fn frame(out: &mut Vec<u8>, body: &[u8]) {
    out.extend_from_slice(&MAGIC);
    // A body is far smaller than 4 GiB: a longer summary is not framed.
    out.extend_from_slice(&(body.len() as u32).to_le_bytes());
    out.extend_from_slice(&checksum(body).to_le_bytes());
    out.extend_from_slice(body);
}

/// The bodies of all whole records, in order. Everything else in the file is skipped.
fn bodies(bytes: &[u8]) -> impl Iterator<Item = Range<usize>> + '_ {
    let mut at = HEADER.len();
    let mut damaged = 0;
    let end = if bytes.starts_with(HEADER) { bytes.len() } else { 0 };
    std::iter::from_fn(move || {
        while at < end {
            if let Some(body) = body_at(bytes, at) {
                at = body.end;
                return Some(body);
            }
            damaged += 1;
            if damaged > DAMAGED_MAX {
                return None;
            }
            let next = bytes[at + 1..].windows(MAGIC.len()).position(|window| window == MAGIC);
            at = next.map_or(end, |distance| at + 1 + distance);
        }
        None
    })
}

fn body_at(bytes: &[u8], at: usize) -> Option<Range<usize>> {
    let frame = bytes.get(at..at.checked_add(FRAME_BYTES)?)?;
    let (magic, rest) = frame.split_at(MAGIC.len());
    let (len, sum) = rest.split_at(4);
    let len = u32::from_le_bytes(len.try_into().ok()?) as usize;
    let body = at + FRAME_BYTES..(at + FRAME_BYTES).checked_add(len)?;
    let fits = magic == MAGIC && (FIXED_BYTES..=FIXED_BYTES + INDEX_RECORD_BYTES_MAX).contains(&len);
    let found = bytes.get(body.clone()).filter(|_| fits)?;
    (checksum(found).to_le_bytes() == sum).then_some(body)
}

/// Detects damage, not forgery: anyone who can write here can write the sessions. Each step is a bijection of the
/// word and of the previous sum, so that no single changed word goes undetected.
fn checksum(bytes: &[u8]) -> u64 {
    let mut sum = bytes.len() as u64;
    let mut mix = |word: u64| {
        sum = (sum.rotate_left(23) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        sum ^= sum >> 32;
    };
    let (words, rest) = bytes.as_chunks::<8>();
    for word in words {
        mix(u64::from_le_bytes(*word));
    }
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    mix(u64::from_le_bytes(last));
    sum
}

fn encoded(record: &IndexRecord) -> Vec<u8> {
    let mut body = Vec::with_capacity(FIXED_BYTES + record.summary.len());
    body.extend_from_slice(&record.session.bits());
    body.extend_from_slice(&record.stamp.bytes.to_le_bytes());
    body.extend_from_slice(&record.stamp.file.file.to_le_bytes());
    body.extend_from_slice(&record.stamp.file.changed_ns.to_le_bytes());
    body.extend_from_slice(&record.stamp.segments.to_le_bytes());
    let cursor = &record.cursor;
    let counts = [cursor.next_event_index.get(), cursor.next_manifest_index.get()];
    for number in counts.into_iter().chain([cursor.manifest_bytes, cursor.anchor_bytes]) {
        body.extend_from_slice(&number.to_le_bytes());
    }
    body.extend_from_slice(cursor.anchor.as_bytes());
    body.extend_from_slice(&record.summary);
    body
}

fn session_of(body: &[u8]) -> Option<SessionId> {
    body.first_chunk().copied().map(SessionId::from_bits)
}

fn decoded(body: &[u8]) -> Option<IndexRecord> {
    let (session, rest) = body.split_first_chunk::<10>()?;
    let (numbers, rest) = rest.split_at_checked(8 * 8)?;
    let (anchor, summary) = rest.split_first_chunk::<32>()?;
    let (numbers, _) = numbers.as_chunks::<8>();
    let [bytes, file, changed, segments, event, manifest, manifest_bytes, anchor_bytes] = numbers else {
        return None;
    };
    Some(IndexRecord {
        session: SessionId::from_bits(*session),
        stamp: LogStamp {
            bytes: u64::from_le_bytes(*bytes),
            file: FileStamp { file: u64::from_le_bytes(*file), changed_ns: i64::from_le_bytes(*changed) },
            segments: u64::from_le_bytes(*segments),
        },
        cursor: Cursor {
            next_event_index: EventIndex::new(u64::from_le_bytes(*event))?,
            next_manifest_index: ManifestIndex::new(u64::from_le_bytes(*manifest)),
            manifest_bytes: u64::from_le_bytes(*manifest_bytes),
            anchor_bytes: u64::from_le_bytes(*anchor_bytes),
            anchor: Sha256::from_bytes(*anchor),
        },
        summary: summary.to_vec(),
        keys: IndexKeys::default(),
    })
}
