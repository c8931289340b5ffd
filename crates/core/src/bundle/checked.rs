//! The first pass: format, version, and the digest of every part, before anything is interpreted.
//!
//! Problems with the meaning of a part are held back until all digests are checked: a bundle damaged in
//! transit is reported as damaged, not as forged.

use std::collections::BTreeMap;
use std::io::{Read, Seek};
use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde_json::Value;
use workrail_model::bundle::{
    Attested, BlobText, BundleSection, IntegrityEntry, Producer, Redaction, SCHEMA_VERSION, Salvage,
};
use workrail_model::canonical::value_to_canonical;
use workrail_model::compiled::{CompiledError, CompiledWorkflow};
use workrail_model::digest::{BlobRef, Sha256, Sha256Stream, SnapshotRef, WorkflowHash};
use workrail_model::event::EventIndex;
use workrail_model::health::SessionHealth;
use workrail_model::id::{BundleId, SessionId};
use workrail_model::limits::{BUNDLE_SECTIONS_MAX, MANIFEST_BYTES_MAX};
use workrail_model::manifest::{ManifestError, ManifestRecord};
use workrail_model::name::WorkflowId;
use workrail_model::plan::AttachmentKind;
use workrail_model::snapshot::{ExecutionSnapshot, SnapshotError};
use workrail_model::time::Timestamp;

use super::positions::BundlePositions;
use super::read::{BundleItem, BundlePart, BundleReader, read};
use super::{BundleError, BundleErrorKind};
use crate::interpret::{PositionNumbers, RecordedPosition, StepPosition};

/// A bundle whose parts all match their digests; their meaning is not checked yet.
#[derive(Clone, Debug)]
pub struct IntactBundle {
    pub session: SessionId,
    pub id: BundleId,
    pub exported_at: Timestamp,
    pub producer: Producer,
    pub salvage: Option<Salvage>,
    pub redaction: Option<Redaction>,
    /// Members of a newer version: attested, but ignored.
    pub unknown_members: Vec<String>,
    pub(super) events: Attested,
    /// The index of the last event of each segment.
    pub(super) segment_ends: Vec<EventIndex>,
    /// The digest of each manifest record's canonical bytes.
    pub(super) records: Vec<Sha256>,
    pub(super) snapshots: BTreeMap<SnapshotRef, SnapshotSummary>,
    pub(super) positions: BundlePositions,
    pub(super) workflows: BTreeMap<WorkflowHash, WorkflowId>,
    /// Each with its length.
    pub(super) blobs: BTreeMap<BlobRef, u64>,
}

/// What the events that refer to a snapshot are compared with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SnapshotSummary {
    pub(super) workflow: WorkflowHash,
    /// Shared by all snapshots that differ only in numbers.
    pub(super) step_position: Arc<StepPosition>,
    pub(super) numbers: PositionNumbers,
}

impl SnapshotSummary {
    pub(super) fn position(&self) -> RecordedPosition<'_> {
        RecordedPosition { step_position: &self.step_position, numbers: &self.numbers }
    }
}

impl IntactBundle {
    /// How many snapshots, workflows and blobs there are.
    pub fn content_count(&self) -> usize {
        self.snapshots.len() + self.workflows.len() + self.blobs.len()
    }
}

/// Reads the whole source once, from its beginning, and checks its format and every digest.
pub fn read_intact<R: Read + Seek>(source: &mut R) -> Result<IntactBundle, BundleError> {
    source.rewind().map_err(BundleError::Source)?;
    let mut reader = DigestReader::default();
    let Err(error) = read(&mut *source, &mut reader) else { return reader.verify() };
    // A newer format need not be readable, but its version must be reported; it may be anywhere.
    if error.kind() == Some(BundleErrorKind::InvalidFormat) && !reader.version_seen {
        source.rewind().map_err(BundleError::Source)?;
        if let Err(newer) = read(source, &mut VersionReader)
            && newer.kind() == Some(BundleErrorKind::UnsupportedVersion)
        {
            return Err(newer);
        }
    }
    Err(error)
}

/// Looks only for the version.
struct VersionReader;

impl BundleReader for VersionReader {
    fn wants(&self, part: BundlePart) -> bool {
        part == BundlePart::Members
    }

    fn take(&mut self, item: BundleItem) -> Result<(), BundleError> {
        if let BundleItem::Member(BundleSection::SchemaVersion, value) = item {
            check_version(&value)
        } else {
            Ok(())
        }
    }
}

fn check_version(value: &Value) -> Result<(), BundleError> {
    match value.as_u64() {
        Some(SCHEMA_VERSION) => Ok(()),
        Some(version) => {
            let what = format!("is {version}; this version of WorkRail reads only {SCHEMA_VERSION}");
            Err(BundleError::new(BundleErrorKind::UnsupportedVersion, BundleSection::SchemaVersion, what))
        }
        None => Err(BundleError::format(BundleSection::SchemaVersion, "must be a version number")),
    }
}

/// Takes every part, with its digest, and remembers what the second pass compares.
#[derive(Default)]
struct DigestReader {
    version_seen: bool,
    members: BTreeMap<BundleSection, Value>,
    found: BTreeMap<BundleSection, Attested>,
    entries: BTreeMap<BundleSection, Attested>,
    events: ListDigest,
    manifest: ListDigest,
    segment_ends: Vec<EventIndex>,
    records: Vec<Sha256>,
    snapshots: BTreeMap<SnapshotRef, SnapshotSummary>,
    positions: BundlePositions,
    workflows: BTreeMap<WorkflowHash, WorkflowId>,
    blobs: BTreeMap<BlobRef, u64>,
    /// The first problem with a part that may still match its digest.
    deferred: Option<BundleError>,
}

impl BundleReader for DigestReader {
    fn wants(&self, _: BundlePart) -> bool {
        true
    }

    fn take(&mut self, item: BundleItem) -> Result<(), BundleError> {
        match item {
            BundleItem::Member(section, value) => self.member(section, value),
            BundleItem::Event(index, value) => {
                let at = format!("session/events/{index}");
                self.events.push(&canonical(&at, &value)?);
                Ok(())
            }
            BundleItem::Record(index, value) => self.record(index, value),
            BundleItem::Entry(index, value) => self.entry(index, value),
            BundleItem::Snapshot(reference, value) => self.snapshot(reference, &value),
            BundleItem::Workflow(hash, value) => self.workflow(hash, &value),
            BundleItem::Blob(reference, value) => self.blob(reference, value),
        }
    }
}

impl DigestReader {
    fn defer(&mut self, error: BundleError) {
        self.deferred.get_or_insert(error);
    }

    fn member(&mut self, section: BundleSection, value: Value) -> Result<(), BundleError> {
        if section == BundleSection::SchemaVersion {
            self.version_seen = true;
            check_version(&value)?;
        }
        let bytes = canonical(&section.to_string(), &value)?;
        self.found.insert(section.clone(), attest(&bytes));
        self.members.insert(section, value);
        Ok(())
    }

    fn record(&mut self, index: u64, value: Value) -> Result<(), BundleError> {
        let at = format!("session/manifest/{index}");
        let bytes = canonical(&at, &value)?;
        self.manifest.push(&bytes);
        if self.manifest.bytes() > MANIFEST_BYTES_MAX {
            return Err(BundleError::format("session/manifest", "is longer than a manifest may be"));
        }
        self.records.push(Sha256::of(&bytes));
        match ManifestRecord::parse(&bytes) {
            Ok(ManifestRecord::SegmentClosed { last_event_index, .. }) => {
                self.segment_ends.push(last_event_index);
            }
            Ok(ManifestRecord::SnapshotPinned { .. } | ManifestRecord::BlobPinned { .. }) => {}
            Err(error @ ManifestError::UnknownVersion { .. }) => {
                self.defer(BundleError::new(BundleErrorKind::UnsupportedVersion, at, error));
            }
            Err(error) => self.defer(BundleError::manifest(index, error)),
        }
        Ok(())
    }

    fn entry(&mut self, index: u64, value: Value) -> Result<(), BundleError> {
        let at = format!("integrity/entries/{index}");
        let entry: IntegrityEntry = typed(&at, value)?;
        let section = BundleSection::parse(&entry.path).ok_or_else(|| {
            BundleError::integrity(&at, format!("`{}` names no part of a bundle", entry.path))
        })?;
        if self.entries.len() > BUNDLE_SECTIONS_MAX {
            return Err(BundleError::format("integrity/entries", "has too many entries"));
        }
        let attested = Attested { sha256: entry.sha256, bytes: entry.bytes };
        match self.entries.insert(section, attested) {
            None => Ok(()),
            Some(_) => Err(BundleError::integrity(&at, format!("`{}` is listed twice", entry.path))),
        }
    }

    fn snapshot(&mut self, reference: SnapshotRef, value: &Value) -> Result<(), BundleError> {
        let section = BundleSection::Snapshot(reference);
        let bytes = self.content(&section, AttachmentKind::Snapshot, reference.digest(), value)?;
        match ExecutionSnapshot::parse(&bytes) {
            Ok(snapshot) => {
                let summary = self.positions.add(reference, &snapshot)?;
                self.snapshots.insert(reference, summary);
            }
            Err(error @ SnapshotError::UnknownVersion { .. }) => {
                self.defer(BundleError::new(BundleErrorKind::UnsupportedVersion, section, error));
            }
            Err(error) => self.defer(BundleError::format(section, error)),
        }
        Ok(())
    }

    fn workflow(&mut self, hash: WorkflowHash, value: &Value) -> Result<(), BundleError> {
        let section = BundleSection::Workflow(hash);
        let bytes = self.content(&section, AttachmentKind::Workflow, hash.digest(), value)?;
        match CompiledWorkflow::parse(&bytes) {
            Ok(workflow) => {
                self.workflows.insert(hash, workflow.workflow_id);
            }
            Err(error @ CompiledError::UnknownVersion { .. }) => {
                self.defer(BundleError::new(BundleErrorKind::UnsupportedVersion, section, error));
            }
            Err(error) => self.defer(BundleError::format(section, error)),
        }
        Ok(())
    }

    /// The canonical bytes of content stored as JSON; its key must be their digest.
    fn content(
        &mut self,
        section: &BundleSection,
        kind: AttachmentKind,
        digest: Sha256,
        value: &Value,
    ) -> Result<Vec<u8>, BundleError> {
        let bytes = canonical(&section.to_string(), value)?;
        check_content(section, kind, digest, &bytes)?;
        self.found.insert(section.clone(), attest(&bytes));
        Ok(bytes)
    }

    fn blob(&mut self, reference: BlobRef, value: Value) -> Result<(), BundleError> {
        let section = BundleSection::Blob(reference);
        self.found.insert(section.clone(), attest(&canonical(&section.to_string(), &value)?));
        let bytes = blob_bytes(&section, value)?;
        check_content(&section, AttachmentKind::Blob, reference.digest(), &bytes)?;
        self.blobs.insert(reference, bytes.len() as u64);
        Ok(())
    }

    /// Compares what was found with what is attested. A deferred problem is reported only if everything matches.
    fn verify(mut self) -> Result<IntactBundle, BundleError> {
        let events = std::mem::take(&mut self.events).finish();
        self.found.insert(BundleSection::Events, events);
        self.found.insert(BundleSection::Manifest, std::mem::take(&mut self.manifest).finish());
        for (section, found) in &self.found {
            match self.entries.get(section) {
                None => return Err(BundleError::integrity(section, "has no integrity entry")),
                Some(attested) if attested != found => {
                    let what = format!(
                        "has the digest {} ({} bytes), but the bundle says {} ({} bytes)",
                        found.sha256, found.bytes, attested.sha256, attested.bytes
                    );
                    return Err(BundleError::integrity(section, what));
                }
                Some(_) => {}
            }
        }
        if let Some(section) = self.entries.keys().find(|section| !self.found.contains_key(section)) {
            let kind = if matches!(section, BundleSection::Snapshot(_)) {
                BundleErrorKind::MissingSnapshot
            } else if matches!(section, BundleSection::Workflow(_)) {
                BundleErrorKind::MissingPinnedWorkflow
            } else {
                BundleErrorKind::IntegrityFailed
            };
            return Err(BundleError::new(kind, section, "is listed in `integrity` but missing"));
        }
        match self.deferred.take() {
            Some(error) => Err(error),
            None => self.into_bundle(events),
        }
    }

    fn into_bundle(mut self, events: Attested) -> Result<IntactBundle, BundleError> {
        let salvage: Option<Salvage> = self.optional(BundleSection::Salvage)?;
        if let Some(salvage) = &salvage
            && !matches!(salvage.health, SessionHealth::CorruptTail { .. })
        {
            return Err(BundleError::format(BundleSection::Salvage, "only a corrupt tail is salvaged"));
        }
        let unknown = |section: &BundleSection| {
            matches!(section, BundleSection::Other(_) | BundleSection::OtherOfSession(_))
        };
        Ok(IntactBundle {
            session: self.required(BundleSection::SessionId)?,
            id: self.required(BundleSection::BundleId)?,
            exported_at: self.required(BundleSection::ExportedAt)?,
            producer: self.required(BundleSection::Producer)?,
            redaction: self.optional(BundleSection::Redaction)?,
            salvage,
            unknown_members: self
                .members
                .keys()
                .filter(|key| unknown(key))
                .map(BundleSection::to_string)
                .collect(),
            events,
            segment_ends: self.segment_ends,
            records: self.records,
            snapshots: self.snapshots,
            positions: self.positions,
            workflows: self.workflows,
            blobs: self.blobs,
        })
    }

    fn optional<T: DeserializeOwned>(&mut self, section: BundleSection) -> Result<Option<T>, BundleError> {
        self.members.remove(&section).map(|value| typed(&section.to_string(), value)).transpose()
    }

    fn required<T: DeserializeOwned>(&mut self, section: BundleSection) -> Result<T, BundleError> {
        let absent = BundleError::format(&section, "is missing");
        self.optional(section)?.ok_or(absent)
    }
}

/// The digest of a list's canonical JSON, item by item.
#[derive(Default)]
pub(super) struct ListDigest {
    stream: Sha256Stream,
    bytes: u64,
}

impl ListDigest {
    /// Adds the canonical bytes of the next item.
    pub(super) fn push(&mut self, item: &[u8]) {
        self.stream.update(if self.bytes == 0 { b"[" } else { b"," });
        self.stream.update(item);
        self.bytes += 1 + item.len() as u64;
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(super) fn finish(mut self) -> Attested {
        self.stream.update(if self.bytes == 0 { b"[]" } else { b"]" });
        let (sha256, bytes) = self.stream.finish();
        Attested { sha256, bytes }
    }
}

pub(super) fn attest(bytes: &[u8]) -> Attested {
    Attested { sha256: Sha256::of(bytes), bytes: bytes.len() as u64 }
}

pub(super) fn canonical(at: &str, value: &Value) -> Result<Vec<u8>, BundleError> {
    value_to_canonical(value).map_err(|error| BundleError::format(at, error))
}

pub(super) fn blob_bytes(section: &BundleSection, value: Value) -> Result<Vec<u8>, BundleError> {
    let text: BlobText = typed(&section.to_string(), value)?;
    text.into_bytes().ok_or_else(|| BundleError::format(section, "is not canonical base64"))
}

pub(super) fn check_content(
    section: &BundleSection,
    kind: AttachmentKind,
    digest: Sha256,
    bytes: &[u8],
) -> Result<(), BundleError> {
    if bytes.len() as u64 > kind.bytes_max() {
        let what = format!("has {} bytes, at most {} are allowed", bytes.len(), kind.bytes_max());
        return Err(BundleError::format(section, what));
    }
    let found = Sha256::of(bytes);
    if found == digest {
        return Ok(());
    }
    Err(BundleError::integrity(section, format!("does not match its digest (computed {found})")))
}

fn typed<T: DeserializeOwned>(at: &str, value: Value) -> Result<T, BundleError> {
    serde_json::from_value(value).map_err(|error| BundleError::format(at, error))
}
