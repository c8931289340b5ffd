//! The third pass: hands over what to store, and trusts nothing that the first pass did not see.

use std::io::{Read, Seek};

use serde_json::Value;
use workrail_model::bundle::BundleSection;
use workrail_model::digest::{BlobRef, Sha256, SnapshotRef, WorkflowHash};
use workrail_model::event::EventIndex;
use workrail_model::plan::{Attachment, AttachmentKind, RawSegment};

use super::checked::{ListDigest, blob_bytes, canonical, check_content};
use super::read::{BundleItem, BundlePart, BundleReader, read};
use super::{BundleError, ImportIdentity, ImportableBundle};

/// Where an imported session goes.
pub trait Sink {
    type Error;
    fn content(&mut self, attachment: Attachment) -> Result<(), Self::Error>;
    /// The next segment of the log.
    fn segment(&mut self, segment: RawSegment) -> Result<(), Self::Error>;
}

/// Why a delivery ended early.
#[derive(Debug)]
pub enum DeliveryError<E> {
    Bundle(BundleError),
    Sink(E),
}

impl<E> From<BundleError> for DeliveryError<E> {
    fn from(error: BundleError) -> Self {
        Self::Bundle(error)
    }
}

/// Reads the source again and hands over all of it under its new identity.
pub fn deliver<R: Read + Seek, S: Sink>(
    source: &mut R,
    checked: &ImportableBundle,
    identity: &ImportIdentity,
    sink: &mut S,
) -> Result<(), DeliveryError<S::Error>> {
    source.rewind().map_err(BundleError::Source)?;
    let mut delivery = BundleDelivery {
        checked,
        identity,
        sink,
        list: ListDigest::default(),
        segment: Vec::new(),
        segments: 0,
        contents: 0,
        failed: None,
    };
    let result = read(source, &mut delivery);
    match delivery.failed.take() {
        Some(error) => Err(DeliveryError::Sink(error)),
        None => Ok(result.and_then(|()| delivery.finish())?),
    }
}

struct BundleDelivery<'a, S: Sink> {
    checked: &'a ImportableBundle,
    identity: &'a ImportIdentity,
    sink: &'a mut S,
    list: ListDigest,
    segment: Vec<u8>,
    segments: usize,
    contents: usize,
    /// The sink's error, which does not fit into the reader's own errors.
    failed: Option<S::Error>,
}

impl<S: Sink> BundleReader for BundleDelivery<'_, S> {
    fn wants(&self, part: BundlePart) -> bool {
        match part {
            BundlePart::Events | BundlePart::Snapshots | BundlePart::Workflows | BundlePart::Blobs => true,
            BundlePart::Members | BundlePart::Manifest | BundlePart::Entries => false,
        }
    }

    fn take(&mut self, item: BundleItem) -> Result<(), BundleError> {
        match item {
            BundleItem::Event(index, value) => self.event(index, value),
            BundleItem::Snapshot(reference, value) => {
                let section = BundleSection::Snapshot(reference);
                let bytes = canonical(&section.to_string(), &value)?;
                self.content(&section, AttachmentKind::Snapshot, reference.digest(), bytes)
            }
            BundleItem::Workflow(hash, value) => {
                let section = BundleSection::Workflow(hash);
                let bytes = canonical(&section.to_string(), &value)?;
                self.content(&section, AttachmentKind::Workflow, hash.digest(), bytes)
            }
            BundleItem::Blob(reference, value) => {
                let section = BundleSection::Blob(reference);
                let bytes = blob_bytes(&section, value)?;
                self.content(&section, AttachmentKind::Blob, reference.digest(), bytes)
            }
            BundleItem::Member(..) | BundleItem::Record(..) | BundleItem::Entry(..) => Ok(()),
        }
    }
}

fn changed(at: impl std::fmt::Display) -> BundleError {
    BundleError::integrity(at, "changed while it was imported")
}

impl<S: Sink> BundleDelivery<'_, S> {
    fn content(
        &mut self,
        section: &BundleSection,
        kind: AttachmentKind,
        digest: Sha256,
        bytes: Vec<u8>,
    ) -> Result<(), BundleError> {
        check_content(section, kind, digest, &bytes)?;
        let bundle = &self.checked.bundle;
        let seen = match kind {
            AttachmentKind::Snapshot => bundle.snapshots.contains_key(&SnapshotRef::new(digest)),
            AttachmentKind::Workflow => bundle.workflows.contains_key(&WorkflowHash::new(digest)),
            AttachmentKind::Blob => bundle.blobs.contains_key(&BlobRef::new(digest)),
        };
        if !seen {
            return Err(changed(section));
        }
        self.contents += 1;
        let attachment = match kind {
            AttachmentKind::Snapshot => Attachment::snapshot(bytes),
            AttachmentKind::Workflow => Attachment::workflow(bytes),
            AttachmentKind::Blob => Attachment::blob(bytes),
        };
        let delivered = self.sink.content(attachment);
        self.map_error(delivered, section)
    }

    /// Ends the pass if the sink failed; the error itself is kept for the caller.
    fn map_error(
        &mut self,
        delivered: Result<(), S::Error>,
        at: impl std::fmt::Display,
    ) -> Result<(), BundleError> {
        delivered.map_err(|error| {
            self.failed = Some(error);
            BundleError::format(at, "was not stored")
        })
    }

    fn event(&mut self, index: u64, mut value: Value) -> Result<(), BundleError> {
        let at = format!("session/events/{index}");
        self.list.push(&canonical(&at, &value)?);
        self.identity.apply(self.checked, &mut value).map_err(|error| BundleError::format(&at, error))?;
        self.segment.extend_from_slice(&canonical(&at, &value)?);
        self.segment.push(b'\n');
        let end = self.checked.bundle.segment_ends.get(self.segments).ok_or_else(|| changed(&at))?;
        if EventIndex::new(index) != Some(*end) {
            return Ok(());
        }
        let segment = RawSegment::parse(std::mem::take(&mut self.segment))
            .map_err(|error| BundleError::format(&at, error))?;
        self.segments += 1;
        let delivered = self.sink.segment(segment);
        self.map_error(delivered, at)
    }

    fn finish(self) -> Result<(), BundleError> {
        let bundle = &self.checked.bundle;
        if self.list.finish() != bundle.events || !self.segment.is_empty() {
            return Err(changed(BundleSection::Events));
        }
        if self.contents != bundle.content_count() {
            return Err(changed("session"));
        }
        Ok(())
    }
}
