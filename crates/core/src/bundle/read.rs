//! Walks a bundle as a stream: strict JSON, one item in memory at a time, members in any order.
//!
//! Every item gets a budget of bytes and values before it is read, so that no text, however long or dense,
//! takes more memory than the largest allowed item.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::fmt;
use std::io::{self, BufReader, Read};

use serde::de::{DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Value;
use workrail_model::bundle::BundleSection;
use workrail_model::digest::{BlobRef, Sha256, SnapshotRef, WorkflowHash};
use workrail_model::limits::{
    BLOB_BYTES_MAX, BUNDLE_ITEM_VALUES_MAX, BUNDLE_MEMBER_BYTES_MAX, BUNDLE_SECTIONS_MAX,
    PINNED_WORKFLOW_BYTES_MAX, SEGMENT_BYTES_MAX, SNAPSHOT_BYTES_MAX,
};
use workrail_model::strict_json::{reason_of, strict};

use super::BundleError;
use super::error::WHOLE_DOCUMENT;

/// The lists and tables of a bundle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BundlePart {
    /// The members that are single values.
    Members,
    Events,
    Manifest,
    Snapshots,
    Workflows,
    Blobs,
    Entries,
}

impl BundlePart {
    /// The text limit of one item. JSON may be spaced and escaped: up to six bytes for one.
    fn item_text_max(self) -> u64 {
        const SLACK: u64 = 64 * 1024;
        SLACK
            + match self {
                Self::Members => BUNDLE_MEMBER_BYTES_MAX,
                Self::Events => 2 * SEGMENT_BYTES_MAX,
                Self::Snapshots => 2 * SNAPSHOT_BYTES_MAX,
                Self::Workflows => 2 * PINNED_WORKFLOW_BYTES_MAX,
                Self::Blobs => 6 * BLOB_BYTES_MAX,
                Self::Manifest | Self::Entries => 0,
            }
    }
}

/// One item, as in the document.
#[derive(Debug)]
pub(super) enum BundleItem {
    Member(BundleSection, Value),
    Event(u64, Value),
    Record(u64, Value),
    Entry(u64, Value),
    Snapshot(SnapshotRef, Value),
    Workflow(WorkflowHash, Value),
    Blob(BlobRef, Value),
}

/// Receives the items of a document in its order.
pub(super) trait BundleReader {
    /// Whether the items of this part are wanted; the others are skipped.
    fn wants(&self, part: BundlePart) -> bool;
    fn take(&mut self, item: BundleItem) -> Result<(), BundleError>;
}

/// Reads a whole document.
pub(super) fn read<R: Read>(source: R, reader: &mut dyn BundleReader) -> Result<(), BundleError> {
    let budget = ReadBudget { left: Cell::new(u64::MAX), spent: Cell::new(false) };
    let metered = Metered { inner: BufReader::with_capacity(1 << 16, source), budget: &budget };
    let walk = BundleWalk {
        reader: RefCell::new(reader),
        refused: RefCell::new(None),
        budget: &budget,
        values: Cell::new(0),
        at: RefCell::new(WHOLE_DOCUMENT.to_owned()),
    };
    let mut deserializer = serde_json::Deserializer::from_reader(metered);
    let result = Document(&walk).deserialize(&mut deserializer).and_then(|()| {
        walk.lift_budget();
        deserializer.end()
    });
    result.map_err(|error| walk.failed(error))
}

struct ReadBudget {
    left: Cell<u64>,
    spent: Cell<bool>,
}

/// A source that ends with the budget.
struct Metered<'b, R> {
    inner: BufReader<R>,
    budget: &'b ReadBudget,
}

impl<R: Read> Read for Metered<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        match self.budget.left.get().checked_sub(count as u64) {
            Some(left) => self.budget.left.set(left),
            None => {
                self.budget.spent.set(true);
                return Err(io::Error::other("too long"));
            }
        }
        Ok(count)
    }
}

struct BundleWalk<'w> {
    reader: RefCell<&'w mut dyn BundleReader>,
    /// The reader's error, which cannot be passed through the parser's own errors.
    refused: RefCell<Option<BundleError>>,
    budget: &'w ReadBudget,
    values: Cell<u64>,
    at: RefCell<String>,
}

impl BundleWalk<'_> {
    fn wants(&self, part: BundlePart) -> bool {
        self.reader.borrow().wants(part)
    }

    /// Sets the budget of text and values for the next item of a part.
    fn begin(&self, part: BundlePart, at: String) {
        self.budget.left.set(part.item_text_max());
        self.values.set(BUNDLE_ITEM_VALUES_MAX);
        *self.at.borrow_mut() = at;
    }

    /// Ends the limit on text: skipped items take no memory.
    fn lift_budget(&self) {
        self.budget.left.set(u64::MAX);
    }

    fn take<E: serde::de::Error>(&self, item: BundleItem) -> Result<(), E> {
        self.reader.borrow_mut().take(item).map_err(|refused| self.stop(refused))
    }

    fn stop<E: serde::de::Error>(&self, refused: BundleError) -> E {
        *self.refused.borrow_mut() = Some(refused);
        E::custom("refused")
    }

    fn failed(&self, error: serde_json::Error) -> BundleError {
        let (line, column) = (error.line(), error.column());
        if let Some(refused) = self.refused.borrow_mut().take() {
            return refused.placed(line, column);
        }
        let at = self.at.borrow().clone();
        if self.budget.spent.get() {
            return BundleError::format(at, "too long").placed(line, column);
        }
        if error.is_io() {
            return BundleError::Source(error.into());
        }
        BundleError::format(at, reason_of(&error)).placed(line, column)
    }
}

/// The next key of an object, read within the budget of a part.
fn key<'de, A: MapAccess<'de>>(
    walk: &BundleWalk<'_>,
    part: BundlePart,
    map: &mut A,
) -> Result<Option<String>, A::Error> {
    let at = walk.at.borrow().clone();
    walk.begin(part, at);
    map.next_key::<String>()
}

/// Reads one value strictly, within the budget set by `begin`.
fn value<'de, A: MapAccess<'de>>(walk: &BundleWalk<'_>, map: &mut A) -> Result<Value, A::Error> {
    map.next_value_seed(strict(&walk.values))
}

macro_rules! seed {
    ($name:ident, $method:ident) => {
        impl<'de> DeserializeSeed<'de> for $name<'_, '_> {
            type Value = ();
            fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
                deserializer.$method(self)
            }
        }
    };
}

/// The envelope.
struct Document<'a, 'w>(&'a BundleWalk<'w>);
seed!(Document, deserialize_map);

const MEMBERS: [&str; 6] =
    ["bundleSchemaVersion", "bundleId", "exportedAt", "producer", "integrity", "session"];

impl<'de> Visitor<'de> for Document<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a bundle, which is a JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let mut seen = BTreeSet::new();
        while let Some(name) = key(self.0, BundlePart::Members, &mut map)? {
            check_new::<A::Error>(self.0, &mut seen, &name)?;
            match name.as_str() {
                "session" | "integrity"
                    if !self.0.wants(BundlePart::Events) && !self.0.wants(BundlePart::Workflows) =>
                {
                    self.0.lift_budget();
                    map.next_value::<IgnoredAny>()?;
                }
                "session" => map.next_value_seed(SessionVisitor(self.0))?,
                "integrity" => map.next_value_seed(IntegrityObject(self.0))?,
                _ => member(self.0, BundleSection::of_member(&name), &mut map)?,
            }
        }
        require::<A::Error>(self.0, WHOLE_DOCUMENT, &MEMBERS, &seen)
    }
}

struct SessionVisitor<'a, 'w>(&'a BundleWalk<'w>);
seed!(SessionVisitor, deserialize_map);

const SESSION_MEMBERS: [&str; 5] = ["sessionId", "events", "manifest", "snapshots", "pinnedWorkflows"];

impl<'de> Visitor<'de> for SessionVisitor<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the session, which is an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let walk = self.0;
        let mut seen = BTreeSet::new();
        while let Some(name) = key(walk, BundlePart::Members, &mut map)? {
            check_new::<A::Error>(walk, &mut seen, &name)?;
            *walk.at.borrow_mut() = format!("session/{name}");
            match name.as_str() {
                "events" => list(walk, BundlePart::Events, &mut map)?,
                "manifest" => list(walk, BundlePart::Manifest, &mut map)?,
                "snapshots" => table(walk, BundlePart::Snapshots, &mut map)?,
                "pinnedWorkflows" => table(walk, BundlePart::Workflows, &mut map)?,
                "blobs" => table(walk, BundlePart::Blobs, &mut map)?,
                "sessionId" => member(walk, BundleSection::SessionId, &mut map)?,
                _ => member(walk, BundleSection::OtherOfSession(name), &mut map)?,
            }
        }
        require::<A::Error>(walk, "session", &SESSION_MEMBERS, &seen)
    }
}

struct IntegrityObject<'a, 'w>(&'a BundleWalk<'w>);
seed!(IntegrityObject, deserialize_map);

impl<'de> Visitor<'de> for IntegrityObject<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the integrity entries, an object of `kind` and `entries`")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let walk = self.0;
        let mut seen = BTreeSet::new();
        while let Some(name) = key(walk, BundlePart::Members, &mut map)? {
            check_new::<A::Error>(walk, &mut seen, &name)?;
            *walk.at.borrow_mut() = format!("integrity/{name}");
            match name.as_str() {
                "entries" => list(walk, BundlePart::Entries, &mut map)?,
                "kind" => {
                    let kind = value(walk, &mut map)?;
                    if kind != workrail_model::bundle::INTEGRITY_KIND {
                        let what = format!("{kind} is unknown; update WorkRail if the bundle is newer");
                        let error_kind = super::BundleErrorKind::UnsupportedVersion;
                        return Err(walk.stop(BundleError::new(error_kind, "integrity/kind", what)));
                    }
                }
                _ => {
                    return Err(walk
                        .stop(BundleError::format("integrity", format!("has the unknown member `{name}`"))));
                }
            }
        }
        require::<A::Error>(walk, "integrity", &["kind", "entries"], &seen)
    }
}

fn check_new<E: serde::de::Error>(
    walk: &BundleWalk<'_>,
    seen: &mut BTreeSet<String>,
    name: &str,
) -> Result<(), E> {
    // Only a few members are known; an object with thousands is not a bundle.
    if seen.len() >= 64 {
        let at = walk.at.borrow().clone();
        return Err(walk.stop(BundleError::format(at, "too many members")));
    }
    if !seen.insert(name.to_owned()) {
        return Err(walk.stop(BundleError::format(name, "occurs twice (duplicate key)")));
    }
    Ok(())
}

fn require<E: serde::de::Error>(
    walk: &BundleWalk<'_>,
    of: &str,
    wanted: &[&str],
    seen: &BTreeSet<String>,
) -> Result<(), E> {
    match wanted.iter().find(|name| !seen.contains(**name)) {
        Some(name) => Err(walk.stop(BundleError::format(of, format!("`{name}` is missing")))),
        None => Ok(()),
    }
}

fn member<'de, A: MapAccess<'de>>(
    walk: &BundleWalk<'_>,
    section: BundleSection,
    map: &mut A,
) -> Result<(), A::Error> {
    walk.begin(BundlePart::Members, section.to_string());
    if !walk.wants(BundlePart::Members) {
        walk.lift_budget();
        return map.next_value::<IgnoredAny>().map(|_| ());
    }
    let found = value(walk, map)?;
    walk.take(BundleItem::Member(section, found))
}

/// Reads a section with its own reader, or skips it if none of it is wanted.
fn section<'de, A, S>(walk: &BundleWalk<'_>, part: BundlePart, reader: S, map: &mut A) -> Result<(), A::Error>
where
    A: MapAccess<'de>,
    S: DeserializeSeed<'de, Value = ()>,
{
    if walk.wants(part) {
        return map.next_value_seed(reader);
    }
    walk.lift_budget();
    map.next_value::<IgnoredAny>().map(|_| ())
}

fn list<'de, A: MapAccess<'de>>(
    walk: &BundleWalk<'_>,
    part: BundlePart,
    map: &mut A,
) -> Result<(), A::Error> {
    section(walk, part, ListVisitor { walk, part }, map)
}

fn table<'de, A: MapAccess<'de>>(
    walk: &BundleWalk<'_>,
    part: BundlePart,
    map: &mut A,
) -> Result<(), A::Error> {
    section(walk, part, TableVisitor { walk, part }, map)
}

struct ListVisitor<'a, 'w> {
    walk: &'a BundleWalk<'w>,
    part: BundlePart,
}
seed!(ListVisitor, deserialize_seq);

impl<'de> Visitor<'de> for ListVisitor<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        let Self { walk, part } = self;
        let of = walk.at.borrow().clone();
        for position in 0.. {
            walk.begin(part, format!("{of}/{position}"));
            let Some(value) = seq.next_element_seed(strict(&walk.values))? else { break };
            walk.take(match part {
                BundlePart::Events => BundleItem::Event(position, value),
                BundlePart::Manifest => BundleItem::Record(position, value),
                BundlePart::Entries => BundleItem::Entry(position, value),
                BundlePart::Members | BundlePart::Snapshots | BundlePart::Workflows | BundlePart::Blobs => {
                    return Err(A::Error::custom("a table is not a list"));
                }
            })?;
        }
        Ok(())
    }
}

struct TableVisitor<'a, 'w> {
    walk: &'a BundleWalk<'w>,
    part: BundlePart,
}
seed!(TableVisitor, deserialize_map);

impl<'de> Visitor<'de> for TableVisitor<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let Self { walk, part } = self;
        let of = walk.at.borrow().clone();
        let mut seen = BTreeSet::new();
        // The smallest budget is enough for a name: it is a digest.
        while let Some(name) = key(walk, BundlePart::Manifest, &mut map)? {
            walk.begin(part, format!("{of}/{name}"));
            let at = || format!("{of}/{name}");
            let Ok(digest) = Sha256::parse(&name) else {
                return Err(walk.stop(BundleError::format(at(), "is not a digest (`sha256:` and 64 digits)")));
            };
            if seen.len() >= BUNDLE_SECTIONS_MAX {
                return Err(walk.stop(BundleError::format(&of, "too many members")));
            }
            if !seen.insert(digest) {
                return Err(walk.stop(BundleError::format(at(), "occurs twice (duplicate key)")));
            }
            let found = value(walk, &mut map)?;
            walk.take(match part {
                BundlePart::Snapshots => BundleItem::Snapshot(SnapshotRef::new(digest), found),
                BundlePart::Workflows => BundleItem::Workflow(WorkflowHash::new(digest), found),
                BundlePart::Blobs => BundleItem::Blob(BlobRef::new(digest), found),
                BundlePart::Members | BundlePart::Events | BundlePart::Manifest | BundlePart::Entries => {
                    return Err(A::Error::custom("a list is not a table"));
                }
            })?;
        }
        Ok(())
    }
}
