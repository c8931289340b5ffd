//! The second pass: the events are one valid history, the manifest follows from them, and the bundle contains exactly
//! what they refer to.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Seek};

use serde_json::Value;
use workrail_model::bundle::BundleSection;
use workrail_model::compiled::CompiledWorkflow;
use workrail_model::digest::{BlobRef, Sha256, SnapshotRef, WorkflowHash};
use workrail_model::event::{
    DedupeKey, Event, EventData, EventError, EventIndex, EventKind, OutputPayload, RunStarted,
};
use workrail_model::id::{EventId, RunId};
use workrail_model::limits::{PLAN_EVENTS_MAX, SEGMENT_BYTES_MAX};
use workrail_model::manifest::{ManifestIndex, commit_group};
use workrail_model::name::WorkflowId;
use workrail_model::plan::AttachmentKind;

use super::checked::{IntactBundle, ListDigest, SnapshotSummary, canonical, check_content};
use super::read::{BundleItem, BundlePart, BundleReader, read};
use super::{BundleError, BundleErrorKind};
use crate::interpret::Positions;
use crate::paths::is_absolute;
use crate::project::{NodeState, SessionState};

/// A bundle that may be imported; only [`check_history`] makes one.
#[derive(Debug)]
pub struct ImportableBundle {
    pub bundle: IntactBundle,
    /// In the order in which they were started.
    pub runs: Vec<(RunId, WorkflowId)>,
    pub event_count: u64,
    /// Whether an earlier bundle of this history held only the intact beginning of a damaged log.
    pub salvaged_before: bool,
    /// Every activity number of the events, sorted.
    pub(super) activities: Vec<u64>,
}

impl ImportableBundle {
    /// The largest activity number of its events; 0 if there is none.
    pub fn newest_activity(&self) -> u64 {
        self.activities.last().copied().unwrap_or(0)
    }
}

/// Reads the events again and checks their meaning. Stores nothing.
pub fn check_history<R: Read + Seek>(
    source: &mut R,
    bundle: IntactBundle,
) -> Result<ImportableBundle, BundleError> {
    source.rewind().map_err(BundleError::Source)?;
    let mut history = HistoryReader::new(&bundle);
    read(&mut *source, &mut history)?;
    // The members come in any order: workflows before the events are read now.
    if history.is_complete() && history.workflows_checked < bundle.workflows.len() {
        history.pass = HistoryPass::WorkflowsAgain;
        source.rewind().map_err(BundleError::Source)?;
        read(source, &mut history)?;
    }
    let salvaged_before = history.salvaged_before;
    let EventSummary { runs, event_count, activities } = history.finish()?;
    Ok(ImportableBundle { bundle, runs, event_count, salvaged_before, activities })
}

/// What all events together say.
struct EventSummary {
    runs: Vec<(RunId, WorkflowId)>,
    event_count: u64,
    activities: Vec<u64>,
}

/// Checks each event against those before it and against the content.
struct HistoryReader<'s> {
    bundle: &'s IntactBundle,
    state: SessionState,
    list: ListDigest,
    /// The events of the segment that is being read, and its bytes.
    open: Vec<Event>,
    segment: Vec<u8>,
    segments_closed: usize,
    next_record: u64,
    salvaged_before: bool,
    ids: BTreeSet<EventId>,
    keys: BTreeSet<[u8; 16]>,
    activities: BTreeSet<u64>,
    snapshots: BTreeSet<SnapshotRef>,
    workflows: BTreeSet<WorkflowHash>,
    blobs: BTreeSet<BlobRef>,
    /// The nodes of each workflow's runs.
    nodes: BTreeMap<WorkflowHash, Vec<EventIndex>>,
    workflows_checked: usize,
    pass: HistoryPass,
}

/// What is read from the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HistoryPass {
    /// The events, and the workflows that come after them, as in every bundle that an export wrote.
    Events,
    /// The workflows, which came before the events.
    WorkflowsAgain,
}

impl BundleReader for HistoryReader<'_> {
    fn wants(&self, part: BundlePart) -> bool {
        match part {
            BundlePart::Events => self.pass == HistoryPass::Events,
            BundlePart::Workflows => self.is_complete(),
            BundlePart::Members
            | BundlePart::Manifest
            | BundlePart::Snapshots
            | BundlePart::Blobs
            | BundlePart::Entries => false,
        }
    }

    fn take(&mut self, item: BundleItem) -> Result<(), BundleError> {
        match item {
            BundleItem::Event(index, value) => self.event(index, value),
            BundleItem::Workflow(hash, value) => self.workflow(hash, &value),
            // Not requested.
            BundleItem::Member(..)
            | BundleItem::Record(..)
            | BundleItem::Entry(..)
            | BundleItem::Snapshot(..)
            | BundleItem::Blob(..) => Ok(()),
        }
    }
}

impl<'s> HistoryReader<'s> {
    fn new(bundle: &'s IntactBundle) -> Self {
        Self {
            bundle,
            state: SessionState::new(bundle.session),
            list: ListDigest::default(),
            open: Vec::new(),
            segment: Vec::new(),
            segments_closed: 0,
            next_record: 0,
            salvaged_before: false,
            ids: BTreeSet::new(),
            keys: BTreeSet::new(),
            activities: BTreeSet::new(),
            snapshots: BTreeSet::new(),
            workflows: BTreeSet::new(),
            blobs: BTreeSet::new(),
            nodes: BTreeMap::new(),
            workflows_checked: 0,
            pass: HistoryPass::Events,
        }
    }

    /// Whether every event was read.
    fn is_complete(&self) -> bool {
        self.open.is_empty() && self.segments_closed == self.bundle.segment_ends.len()
    }

    fn event(&mut self, index: u64, value: Value) -> Result<(), BundleError> {
        let at = format!("session/events/{index}");
        let bytes = canonical(&at, &value)?;
        self.list.push(&bytes);
        let event = Event::from_value(value).map_err(|error| match error {
            EventError::UnknownVersion { .. } | EventError::UnknownKind { .. } => {
                BundleError::new(BundleErrorKind::UnsupportedVersion, &at, error)
            }
            EventError::Json(_) | EventError::Field { .. } => BundleError::format(&at, error),
        })?;
        self.check_identity(index, &event)?;
        self.check_references(index, &event)?;
        self.state.apply(&event).map_err(|error| BundleError::events(index, error))?;
        if let EventData::SessionCreated(created) = &event.data {
            self.salvaged_before = created.imported_from.and_then(|from| from.salvaged) == Some(true);
        }
        self.activities.extend(event.activity.map(|activity| activity.get()));
        self.segment.extend_from_slice(&bytes);
        self.segment.push(b'\n');
        self.open.push(event);
        self.close_segment(index)
    }

    /// Every snapshot waits at a position that exists in its workflow and can follow its parent's. One workflow is in
    /// memory at a time.
    fn workflow(&mut self, hash: WorkflowHash, value: &Value) -> Result<(), BundleError> {
        let section = BundleSection::Workflow(hash);
        let bytes = canonical(&section.to_string(), value)?;
        check_content(&section, AttachmentKind::Workflow, hash.digest(), &bytes)?;
        let workflow =
            CompiledWorkflow::parse(&bytes).map_err(|error| BundleError::format(&section, error))?;
        let positions = Positions::of(&workflow);
        self.bundle.positions.check(hash, &positions)?;
        let nodes = self.nodes.get(&hash).into_iter().flatten();
        for node in nodes.filter_map(|index| self.state.node_by_event(*index)) {
            self.check_order(&positions, node)?;
        }
        self.workflows_checked += 1;
        Ok(())
    }

    fn check_order(&self, positions: &Positions, node: &NodeState) -> Result<(), BundleError> {
        let parent = node.parent.and_then(|parent| self.state.node(parent));
        let of_parent = parent.and_then(|parent| self.bundle.snapshots.get(&parent.snapshot_ref));
        let Some(own) = self.bundle.snapshots.get(&node.snapshot_ref) else { return Ok(()) };
        let checked =
            positions.check_order(node.kind, own.position(), of_parent.map(SnapshotSummary::position));
        checked.map_err(|error| {
            let (id, index) = (node.node_id, node.created_index.get());
            let what = format!("the snapshot of {id} (event {index}) {error}");
            BundleError::format(BundleSection::Snapshot(node.snapshot_ref), what)
        })
    }

    fn check_identity(&mut self, index: u64, event: &Event) -> Result<(), BundleError> {
        if event.event_index.get() != index {
            let what = format!("has the index {}; it should be {index}", event.event_index.get());
            return Err(BundleError::events(index, what));
        }
        if event.session_id != self.bundle.session {
            let what = format!("belongs to {}, not to {}", event.session_id, self.bundle.session);
            return Err(BundleError::events(index, what));
        }
        if (index == 0) != (event.kind() == EventKind::SessionCreated) {
            return Err(BundleError::events(
                index,
                "a session is created by its first event and by no other",
            ));
        }
        // A forged key could make a later append look like a repeat.
        let key = DedupeKey::of(event.session_id, event.scope, &event.data);
        if event.dedupe_key != key {
            return Err(BundleError::events(index, format!("has the wrong dedupe key; it should be {key}")));
        }
        if !self.keys.insert(key.fingerprint()) {
            return Err(BundleError::events(index, format!("repeats the dedupe key {key}")));
        }
        if !self.ids.insert(event.event_id) {
            return Err(BundleError::events(index, format!("repeats the event id {}", event.event_id)));
        }
        Ok(())
    }

    fn check_references(&mut self, index: u64, event: &Event) -> Result<(), BundleError> {
        if let EventData::RunStarted(started) = &event.data {
            self.check_run(index, started)?;
        }
        if let EventData::NodeCreated(node) = &event.data {
            let reference = node.snapshot_ref;
            let Some(snapshot) = self.bundle.snapshots.get(&reference) else {
                let what = format!("is not in the bundle; event {index} refers to it");
                return Err(BundleError::new(
                    BundleErrorKind::MissingSnapshot,
                    BundleSection::Snapshot(reference),
                    what,
                ));
            };
            if snapshot.workflow != node.workflow_hash {
                let what = format!("refers to a snapshot of another workflow ({})", snapshot.workflow);
                return Err(BundleError::events(index, what));
            }
            self.nodes.entry(node.workflow_hash).or_default().push(event.event_index);
            self.snapshots.insert(reference);
        }
        for reference in event.data.blob_refs() {
            let Some(length) = self.bundle.blobs.get(&reference) else {
                let what = format!("is not in the bundle; event {index} refers to it");
                return Err(BundleError::integrity(BundleSection::Blob(reference), what));
            };
            if let EventData::NodeOutputAppended(output) = &event.data
                && let OutputPayload::ArtifactRef { byte_length, .. } = &output.payload
                && byte_length != length
            {
                let what = format!("says that its artifact has {byte_length} bytes, it has {length}");
                return Err(BundleError::events(index, what));
            }
            self.blobs.insert(reference);
        }
        Ok(())
    }

    fn check_run(&mut self, index: u64, started: &RunStarted) -> Result<(), BundleError> {
        let hash = started.workflow_hash;
        let Some(workflow) = self.bundle.workflows.get(&hash) else {
            let what = format!("is not in the bundle; the run that event {index} starts is pinned to it");
            return Err(BundleError::new(
                BundleErrorKind::MissingPinnedWorkflow,
                BundleSection::Workflow(hash),
                what,
            ));
        };
        if *workflow != started.workflow_id {
            let what = format!("starts `{}`, but is pinned to `{workflow}`", started.workflow_id);
            return Err(BundleError::events(index, what));
        }
        if is_absolute(started.workflow_source_ref.as_str()) {
            let at = format!("session/events/{index}/data/workflowSourceRef");
            return Err(BundleError::format(at, "is an absolute path, which no bundle holds"));
        }
        self.workflows.insert(hash);
        Ok(())
    }

    /// At the end of a segment, the records that commit it must be those of the manifest.
    fn close_segment(&mut self, index: u64) -> Result<(), BundleError> {
        let Some(end) = self.bundle.segment_ends.get(self.segments_closed) else {
            return Err(BundleError::manifest(self.next_record, format!("no segment holds event {index}")));
        };
        if self.open.len() > PLAN_EVENTS_MAX || self.segment.len() as u64 > SEGMENT_BYTES_MAX {
            return Err(BundleError::manifest(
                self.next_record,
                "closes a segment that is larger than one may be",
            ));
        }
        if EventIndex::new(index) != Some(*end) {
            return Ok(());
        }
        let group = commit_group(ManifestIndex::new(self.next_record), &self.open, &self.segment);
        for record in group {
            let at = self.next_record;
            let bytes = record.to_canonical().map_err(|error| BundleError::manifest(at, error))?;
            let found = usize::try_from(at).ok().and_then(|at| self.bundle.records.get(at));
            if found != Some(&Sha256::of(&bytes)) {
                return Err(BundleError::manifest(at, "does not match the events"));
            }
            self.next_record += 1;
        }
        self.open.clear();
        self.segment.clear();
        self.segments_closed += 1;
        Ok(())
    }

    /// What is left when all events are read.
    fn finish(self) -> Result<EventSummary, BundleError> {
        let bundle = self.bundle;
        if self.list.finish() != bundle.events {
            return Err(BundleError::integrity(BundleSection::Events, "changed while it was read"));
        }
        let event_count = self.state.next_event_index().get();
        if event_count == 0 {
            return Err(BundleError::events(0, "is missing: a session has at least one event"));
        }
        if !self.open.is_empty() || self.segments_closed != bundle.segment_ends.len() {
            return Err(BundleError::manifest(
                self.next_record,
                "closes a segment whose events are not there",
            ));
        }
        if self.next_record != bundle.records.len() as u64 {
            return Err(BundleError::manifest(self.next_record, "follows from no event"));
        }
        if self.workflows_checked != bundle.workflows.len() {
            return Err(BundleError::integrity("session/pinnedWorkflows", "changed while it was read"));
        }
        let snapshots = bundle.snapshots.keys().filter(|key| !self.snapshots.contains(key));
        let workflows = bundle.workflows.keys().filter(|key| !self.workflows.contains(key));
        let blobs = bundle.blobs.keys().filter(|key| !self.blobs.contains(key));
        let mut unreferenced = snapshots
            .map(|key| BundleSection::Snapshot(*key))
            .chain(workflows.map(|key| BundleSection::Workflow(*key)))
            .chain(blobs.map(|key| BundleSection::Blob(*key)));
        if let Some(section) = unreferenced.next() {
            return Err(BundleError::format(section, "is referred to by no event"));
        }
        if let Some(salvage) = &bundle.salvage
            && salvage.events_kept != event_count
        {
            let what = format!("names {} events, but there are {event_count}", salvage.events_kept);
            return Err(BundleError::format(BundleSection::Salvage, what));
        }
        let runs = self.state.runs().map(|run| (run.run_id, run.workflow_id.clone())).collect();
        Ok(EventSummary { runs, event_count, activities: self.activities.into_iter().collect() })
    }
}
