//! Large stores for benchmarks and proofs: one real session, copied many times under new ids.
//!
//! A copy is exactly what the store would have written: every event names the new session and run, and the manifest
//! is computed from the new segments. Content is shared. Nothing is synced.

use std::fs;
use std::path::Path;

use data_encoding::HEXLOWER;
use workrail_model::digest::Sha256;
use workrail_model::event::{Activity, Event};
use workrail_model::id::{RunId, SessionId};
use workrail_model::manifest::{
    Cursor, ManifestIndex, ManifestRecord, commit_group, group_bytes, segment_bytes,
};

use crate::postgres::Cluster;

/// The segments of a session as written.
#[derive(Debug)]
pub struct SessionTemplate {
    session: SessionId,
    runs: Vec<RunId>,
    segments: Vec<String>,
}

impl SessionTemplate {
    /// Reads the only session of a data directory.
    pub fn of(data: &Path) -> Self {
        let mut names = names(&data.join("sessions"));
        names.retain(|name| SessionId::parse(name).is_ok());
        let [name] = names.as_slice() else { panic!("one session is copied, not {}", names.len()) };
        let events = data.join("sessions").join(name).join("events");
        let read = |file: &String| fs::read_to_string(events.join(file)).expect("a segment is text");
        let segments: Vec<String> = self::names(&events).iter().map(read).collect();
        let mut runs: Vec<RunId> = segments
            .iter()
            .flat_map(|segment| parsed(segment))
            .filter_map(|event| event.scope.run())
            .collect();
        runs.sort_unstable();
        runs.dedup();
        Self { session: SessionId::parse(name).expect("filtered above"), runs, segments }
    }

    /// Adds copies to a data directory; `word` in any text becomes the number of the copy. Returns their runs.
    pub fn multiply(&self, data: &Path, copies: u64, word: &str) -> Vec<(SessionId, RunId)> {
        (1..=copies).map(|number| self.copy(data, number, word)).collect()
    }

    fn copy(&self, data: &Path, number: u64, word: &str) -> (SessionId, RunId) {
        let copied = self.copied(number, word);
        let folder = data.join("sessions").join(copied.session.to_string());
        fs::create_dir_all(folder.join("events")).expect("a folder is made");
        let mut manifest = Vec::new();
        for segment in &copied.segments {
            manifest.extend_from_slice(&segment.group);
            let (first, last) = (segment.first, segment.first + segment.events - 1);
            let name = format!("{first:08}-{last:08}.jsonl");
            fs::write(folder.join("events").join(name), &segment.bytes).expect("a segment is written");
        }
        fs::write(folder.join("manifest.jsonl"), manifest).expect("a manifest is written");
        (copied.session, copied.run)
    }

    fn copied(&self, number: u64, word: &str) -> Copied {
        // Ids contain no `o`, so the word cannot occur in one.
        assert!(word.contains('o'), "`{word}` may be part of an id");
        let session = SessionId::from_bits(numbered(self.session.bits(), number));
        let mut next = ManifestIndex::ZERO;
        let segments = self.segments.iter().map(|segment| {
            let mut text = segment.replace(&self.session.to_string(), &session.to_string());
            for run in &self.runs {
                text = text.replace(&run.to_string(), &renamed(*run, number).to_string());
            }
            let mut events = parsed(&text.replace(word, &format!("{number:0>width$}", width = word.len())));
            for event in &mut events {
                event.activity = Activity::new(number);
            }
            let bytes = segment_bytes(&events).expect("events are canonical");
            let records = commit_group(next, &events, &bytes);
            next = next.plus(records.len() as u64);
            let group = group_bytes(&records).expect("records are canonical");
            let (first, events) = (events[0].event_index.get(), events.len() as u64);
            CopiedSegment { first, events, bytes, records, group }
        });
        Copied { session, run: renamed(self.runs[0], number), segments: segments.collect() }
    }

    /// Adds copies to a tenant of a database that has the content of the original. Returns their runs.
    pub fn multiply_in_database(
        &self,
        (cluster, database, tenant): (&Cluster, &str, &str),
        copies: u64,
        word: &str,
    ) -> Vec<(SessionId, RunId)> {
        let sessions = "workrail.session (tenant, id, next_event, next_manifest, manifest_bytes, anchor_bytes, anchor, chain)";
        let heads = (1..=copies).map(|number| {
            let copied = self.copied(number, word);
            let (head, _) = copied.rows(tenant);
            head
        });
        cluster.copy_in(database, sessions, heads);
        let segments = "workrail.segment (tenant, session, next_event, first_event, next_manifest, manifest_bytes, manifest, \
                        events, chain)";
        let rows = (1..=copies).flat_map(|number| self.copied(number, word).rows(tenant).1);
        cluster.copy_in(database, segments, rows);
        let newest = format!(
            "INSERT INTO workrail.activity VALUES ('{tenant}', {copies}) \
             ON CONFLICT (tenant) DO UPDATE SET base = greatest(activity.base, {copies})"
        );
        cluster.sql(database, &newest);
        let id = |number| SessionId::from_bits(numbered(self.session.bits(), number));
        (1..=copies).map(|number| (id(number), renamed(self.runs[0], number))).collect()
    }
}

/// The original under other ids.
struct Copied {
    session: SessionId,
    run: RunId,
    segments: Vec<CopiedSegment>,
}

struct CopiedSegment {
    first: u64,
    events: u64,
    bytes: Vec<u8>,
    records: Vec<ManifestRecord>,
    group: Vec<u8>,
}

impl Copied {
    /// The session's row and those of its segments, in the text format of `COPY`.
    fn rows(&self, tenant: &str) -> (String, Vec<String>) {
        let (mut cursor, mut chain) = (Cursor::start(), Sha256::of(b""));
        let mut rows = Vec::new();
        for segment in &self.segments {
            cursor = cursor.after(&segment.records, &segment.group, segment.events);
            chain = Sha256::of_parts(&[chain.as_bytes(), &segment.group]);
            rows.push(format!(
                "{tenant}\t{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}",
                self.session,
                cursor.next_event_index.get(),
                segment.first,
                cursor.next_manifest_index.get(),
                cursor.manifest_bytes,
                bytea(&segment.group),
                bytea(&segment.bytes),
                bytea(chain.as_bytes())
            ));
        }
        let head = format!(
            "{tenant}\t{}\t{}\t{}\t{}\t{}\t{}\t{}",
            self.session,
            cursor.next_event_index.get(),
            cursor.next_manifest_index.get(),
            cursor.manifest_bytes,
            cursor.anchor_bytes,
            bytea(cursor.anchor.as_bytes()),
            bytea(chain.as_bytes())
        );
        (head, rows)
    }
}

fn bytea(bytes: &[u8]) -> String {
    format!("\\\\x{}", HEXLOWER.encode(bytes))
}

fn renamed(run: RunId, number: u64) -> RunId {
    RunId::from_bits(numbered(run.bits(), number))
}

/// Different bits for every number, spread so that labels differ like those of random ids.
fn numbered(mut bits: [u8; 10], number: u64) -> [u8; 10] {
    let spread = number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
    for (byte, mask) in bits.iter_mut().zip(spread) {
        *byte ^= mask;
    }
    bits
}

fn parsed(segment: &str) -> Vec<Event> {
    segment.lines().map(|line| Event::parse(line.as_bytes()).expect("a written event")).collect()
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).expect("a folder");
    let mut names: Vec<String> = entries
        .map(|entry| entry.expect("an entry").file_name().into_string().expect("a plain name"))
        .collect();
    names.sort_unstable();
    names
}
