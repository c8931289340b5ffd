//! Export: a session as one document that another machine can continue from (G80, G81).
//!
//! The log is read exactly as written, several times and one segment at a time, up to where the first read found its
//! end; events appended meanwhile are not part of the bundle.

mod writing;

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};
use std::ops::ControlFlow;

use serde_json::Value;
use workrail_core::bundle::{KeyPatterns, Purge, RedactionScan, Redactor};
use workrail_core::label::RunLabel;
use workrail_core::project::SessionState;
use workrail_model::bundle::{Redaction, Salvage};
use workrail_model::canonical::value_to_canonical;
use workrail_model::digest::{BlobRef, SnapshotRef, WorkflowHash};
use workrail_model::error::ErrorEnvelope;
use workrail_model::event::{Event, EventData, OutputPayload};
use workrail_model::health::SessionHealth;
use workrail_model::id::{BundleId, RunId, SessionId};
use workrail_model::manifest::Cursor;
use workrail_model::name::WorkflowId;
use workrail_model::plan::{AttachmentKind, RawSegment};
use workrail_model::strict_json;

use crate::mint::random;
use crate::{Engine, Store, error};
use writing::Export;

/// Why there is no bundle.
#[derive(Debug)]
pub enum ExportFailure {
    Refused(Box<ErrorEnvelope>),
    /// The bundle could not be written to its destination.
    Output(io::Error),
}

impl From<Box<ErrorEnvelope>> for ExportFailure {
    fn from(refused: Box<ErrorEnvelope>) -> Self {
        Self::Refused(refused)
    }
}

impl From<io::Error> for ExportFailure {
    fn from(error: io::Error) -> Self {
        Self::Output(error)
    }
}

/// A run in summaries of exports and imports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunSummary {
    pub run: RunId,
    pub label: String,
    pub workflow: WorkflowId,
}

impl RunSummary {
    pub(crate) fn new(run: RunId, workflow: WorkflowId) -> Self {
        Self { run, label: RunLabel::of(run).to_string(), workflow }
    }
}

/// What was exported.
#[derive(Clone, Debug)]
pub struct Exported {
    pub bundle: BundleId,
    pub session: SessionId,
    pub runs: Vec<RunSummary>,
    pub events: u64,
    /// Snapshots, workflows, artifacts, stored replies and long notes.
    pub contents: u64,
    pub salvage: Option<Salvage>,
    pub redaction: Option<Redaction>,
}

/// What the first read found.
struct ExportContent {
    state: SessionState,
    end: Cursor,
    salvage: Option<Salvage>,
    snapshots: BTreeSet<SnapshotRef>,
    workflows: BTreeSet<WorkflowHash>,
    /// What WorkRail wrote: stored replies, and what evidence refers to.
    replies: BTreeSet<BlobRef>,
    /// Stored replies of starts with an idempotency key.
    start_replies: BTreeSet<BlobRef>,
    notes: BTreeSet<BlobRef>,
    artifacts: BTreeSet<BlobRef>,
}

impl ExportContent {
    fn see(&mut self, event: &Event) {
        self.snapshots.extend(event.data.snapshot_ref());
        if let EventData::RunStarted(started) = &event.data {
            self.workflows.insert(started.workflow_hash);
        }
        let blobs = event.data.blob_refs();
        if matches!(event.data, EventData::RunStarted(_)) {
            self.start_replies.extend(blobs);
            return;
        }
        // Only outputs are the agent's; WorkRail wrote the blobs of all other events.
        let EventData::NodeOutputAppended(output) = &event.data else {
            self.replies.extend(blobs);
            return;
        };
        match output.payload {
            OutputPayload::Notes { .. } => self.notes.extend(blobs),
            OutputPayload::ArtifactRef { .. } => self.artifacts.extend(blobs),
        }
    }
}

impl<S: Store> Engine<S> {
    /// Writes a session's bundle to `out`. `progress` receives the number of items written and their total.
    pub fn export(
        &self,
        session: SessionId,
        redact: Option<KeyPatterns>,
        out: &mut dyn Write,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Exported, ExportFailure> {
        let mut scan = redact.map(RedactionScan::new);
        let found = self.scan_segments(session, scan.as_mut())?;
        let redactor = scan.map(RedactionScan::into_redactor);
        let mut export = Export {
            engine: self,
            renamed: self.redacted_replies(&found, redactor.as_ref())?,
            found,
            redactor,
            purge: None,
            notes_with_values: 0,
            artifacts_with_values: 0,
        };
        let bundle = BundleId::from_bits(random(&*self.environment.entropy)?);
        export.write(bundle, out, progress)
    }

    /// The same with one text removed, no matter who wrote it (G85).
    pub fn export_without(
        &self,
        session: SessionId,
        purge: &Purge,
        out: &mut dyn Write,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Exported, ExportFailure> {
        let mut found = self.scan_segments(session, None)?;
        // No event of the copy refers to them.
        found.start_replies.clear();
        let mut renamed = BTreeMap::new();
        for reference in found.replies.iter().chain(&found.notes).chain(&found.artifacts) {
            let bytes = self.raw(AttachmentKind::Blob, *reference)?;
            if let Some(changed) = purge.content(&bytes) {
                renamed.insert(*reference, Renamed::of(&changed));
            }
        }
        let mut export = Export {
            engine: self,
            renamed,
            found,
            redactor: None,
            purge: Some(purge.clone()),
            notes_with_values: 0,
            artifacts_with_values: 0,
        };
        let bundle = BundleId::from_bits(random(&*self.environment.entropy)?);
        export.write(bundle, out, progress)
    }

    fn scan_segments(
        &self,
        session: SessionId,
        mut scan: Option<&mut RedactionScan>,
    ) -> Result<ExportContent, Box<ErrorEnvelope>> {
        let mut found = ExportContent {
            state: SessionState::new(session),
            end: Cursor::start(),
            salvage: None,
            snapshots: BTreeSet::new(),
            workflows: BTreeSet::new(),
            replies: BTreeSet::new(),
            start_replies: BTreeSet::new(),
            notes: BTreeSet::new(),
            artifacts: BTreeSet::new(),
        };
        let mut scan_segment = |segment: &RawSegment| {
            for event in segment.events() {
                found.state.apply(event).map_err(|cause| error::fold(session, &cause))?;
                found.see(event);
            }
            if let Some(scan) = &mut scan {
                for line in segment.lines() {
                    scan.see(&parsed(line)?);
                }
            }
            Ok(())
        };
        let (cursor, health) = self.each_segment(session, None, &mut scan_segment)?;
        found.end = cursor;
        found.salvage = match &health {
            SessionHealth::Healthy => None,
            SessionHealth::CorruptTail { reason, .. } => Some(Salvage {
                why: reason.to_string(),
                events_kept: found.state.next_event_index().get(),
                health,
            }),
            SessionHealth::CorruptHead { .. } | SessionHealth::UnknownVersion { .. } => {
                return Err(error::health(session, &health));
            }
        };
        Ok(found)
    }

    /// Visits segments with a closure that may fail.
    fn each_segment(
        &self,
        session: SessionId,
        until: Option<&Cursor>,
        visit: &mut dyn FnMut(&RawSegment) -> Result<(), Box<ErrorEnvelope>>,
    ) -> Result<(Cursor, SessionHealth), Box<ErrorEnvelope>> {
        let mut failed = None;
        let read = self.store.segments(session, until, &mut |segment| match visit(&segment) {
            Ok(()) => ControlFlow::Continue(()),
            Err(refused) => {
                failed = Some(refused);
                ControlFlow::Break(())
            }
        });
        match failed {
            Some(refused) => Err(refused),
            None => read.map(|read| (read.cursor, read.health)).map_err(error::store),
        }
    }

    /// The replies that contain a dropped value, and their names without it.
    fn redacted_replies(
        &self,
        found: &ExportContent,
        redactor: Option<&Redactor>,
    ) -> Result<BTreeMap<BlobRef, Renamed>, Box<ErrorEnvelope>> {
        let mut renamed = BTreeMap::new();
        let Some(redactor) = redactor.filter(|redactor| redactor.finds_anything()) else {
            return Ok(renamed);
        };
        for reference in found.replies.iter().chain(&found.start_replies) {
            let bytes = self.raw(AttachmentKind::Blob, *reference)?;
            if let Some(changed) = redactor.reply(&bytes) {
                renamed.insert(*reference, Renamed::of(&changed));
            }
        }
        Ok(renamed)
    }

    fn raw(&self, kind: AttachmentKind, blob: BlobRef) -> Result<Vec<u8>, Box<ErrorEnvelope>> {
        workrail_ports::archive::SessionArchive::content(&*self.store, kind, blob.digest())
            .map_err(error::unexportable_content)
    }
}

fn parsed(bytes: &[u8]) -> Result<Value, Box<ErrorEnvelope>> {
    strict_json::parse(bytes).map_err(|cause| error::internal(&cause.to_string()))
}

fn canonical(value: &Value) -> Result<Vec<u8>, Box<ErrorEnvelope>> {
    value_to_canonical(value).map_err(|cause| error::internal(&cause.to_string()))
}

/// The name of content that was changed.
#[derive(Clone, Copy, Debug)]
struct Renamed {
    to: BlobRef,
    bytes: u64,
}

impl Renamed {
    fn of(changed: &[u8]) -> Self {
        Self { to: BlobRef::of(changed), bytes: changed.len() as u64 }
    }
}
