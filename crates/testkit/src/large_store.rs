//! Large stores for benchmarks and proofs: one real session, copied under new ids as often as wanted.
//!
//! A copy is what the store would have written: every event names the new session and run, and the manifest is
//! computed from the new segments. Content is shared. Nothing is synced: this is not a place for what must last.

use std::fs;
use std::path::Path;

use workrail_model::event::{Activity, Event};
use workrail_model::id::{RunId, SessionId};
use workrail_model::manifest::{ManifestIndex, commit_group, group_bytes, segment_bytes};

/// The segments of a session as it was written.
#[derive(Debug)]
pub struct Template {
    session: SessionId,
    runs: Vec<RunId>,
    segments: Vec<String>,
}

impl Template {
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
        let session = SessionId::from_bits(numbered(self.session.bits(), number));
        let folder = data.join("sessions").join(session.to_string());
        fs::create_dir_all(folder.join("events")).expect("a folder is made");
        let (mut manifest, mut next) = (Vec::new(), ManifestIndex::ZERO);
        for segment in &self.segments {
            let mut text = segment.replace(&self.session.to_string(), &session.to_string());
            for run in &self.runs {
                text = text.replace(&run.to_string(), &renamed(*run, number).to_string());
            }
            let mut events = parsed(&text.replace(word, &format!("{number:0>width$}", width = word.len())));
            for event in &mut events {
                event.activity = Activity::new(number);
            }
            let bytes = segment_bytes(&events).expect("events are canonical");
            let group = commit_group(next, &events, &bytes);
            next = next.plus(group.len() as u64);
            manifest.extend(group_bytes(&group).expect("records are canonical"));
            let (first, last) = (events[0].event_index.get(), events[events.len() - 1].event_index.get());
            let name = format!("{first:08}-{last:08}.jsonl");
            fs::write(folder.join("events").join(name), bytes).expect("a segment is written");
        }
        fs::write(folder.join("manifest.jsonl"), manifest).expect("a manifest is written");
        (session, renamed(self.runs[0], number))
    }
}

fn renamed(run: RunId, number: u64) -> RunId {
    RunId::from_bits(numbered(run.bits(), number))
}

/// Other bits for every number, spread so that labels differ as those of random ids do.
fn numbered(mut bits: [u8; 10], number: u64) -> [u8; 10] {
    let spread = number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
    for (bit, other) in bits.iter_mut().zip(spread) {
        *bit ^= other;
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
