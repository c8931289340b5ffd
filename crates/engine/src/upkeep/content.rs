//! Restores damaged content: from a backup, or by recomputing it from recorded facts (G27).

use std::collections::BTreeSet;

use serde::Serialize;
use serde_json::Value;
use workrail_core::project::{NodeState, SessionState};
use workrail_core::recompute::{self, LostSnapshot};
use workrail_model::digest::{BlobRef, Sha256, SnapshotRef, WorkflowHash};
use workrail_model::error::ErrorEnvelope;
use workrail_model::event::{Event, EventData, OutputPayload};
use workrail_model::id::SessionId;
use workrail_model::plan::{Attachment, AttachmentKind, ContentKey};
use workrail_model::strict_json;
use workrail_model::team::Act;
use workrail_ports::content::ContentError;
use workrail_ports::session_store::StoreError;
use workrail_ports::upkeep::Upkeep;

use super::verify::{DENIED, described, is_denied};
use super::{ApplyMode, VerifyScope};
use crate::ProgressSink;
use crate::{Engine, Store, error};

/// The outcome for damaged content.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ContentRepair {
    pub restored: Vec<RestoredContent>,
    pub lost: Vec<UnrestoredContent>,
    /// Damaged sessions, whose logs need to be repaired separately.
    pub damaged_sessions: Vec<SessionId>,
}

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RestoredContent {
    pub path: String,
    pub session_id: SessionId,
    pub how: &'static str,
    /// Where the damaged file is kept, beneath the data directory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kept_aside: Option<String>,
}

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct UnrestoredContent {
    pub path: String,
    pub session_id: SessionId,
    pub problem: String,
    /// What it means for the run, and what still works.
    pub effect: &'static str,
    /// What makes it usable again without a backup: a permission, if only that is missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fix: Option<&'static str>,
}

/// Goes through the store and remembers what it has handled.
struct ContentRestorer<'a, S: Store> {
    engine: &'a Engine<S>,
    backup: Option<&'a S>,
    mode: ApplyMode,
    done: BTreeSet<ContentKey>,
    report: ContentRepair,
}

impl<S: Store + Upkeep> Engine<S> {
    /// Restores what can be restored of the content that a session, or every session, refers to.
    pub fn restore_content(
        &self,
        scope: VerifyScope,
        backup: Option<&S>,
        mode: ApplyMode,
        watch: ProgressSink<'_>,
    ) -> Result<ContentRepair, Box<ErrorEnvelope>> {
        self.permit(Act::Administer)?;
        let sessions = match scope {
            VerifyScope::One(session) => vec![session],
            VerifyScope::All => self.store.sessions().map_err(|cause| error::upkeep(cause.into()))?,
        };
        let report = ContentRepair::default();
        let mut restorer = ContentRestorer { engine: self, backup, mode, done: BTreeSet::new(), report };
        let total = sessions.len() as u64;
        for (done, session) in sessions.into_iter().enumerate() {
            watch(done as u64, total);
            restorer.restore_session(session)?;
        }
        Ok(restorer.report)
    }
}

impl<S: Store + Upkeep> ContentRestorer<'_, S> {
    fn restore_session(&mut self, session: SessionId) -> Result<(), Box<ErrorEnvelope>> {
        let slice = match self.engine.store.read(session, None) {
            Err(StoreError::NotFound { .. }) => return Ok(()),
            // An unreadable session is reported by `verify`.
            Err(_) => {
                self.report.damaged_sessions.push(session);
                return Ok(());
            }
            Ok(slice) => slice,
        };
        if !slice.health.is_healthy() {
            self.report.damaged_sessions.push(session);
        }
        let mut facts = SessionState::new(session);
        let mut sound = Vec::new();
        for event in slice.events {
            if facts.apply(&event).is_err() {
                break;
            }
            sound.push(event);
        }
        // In order, since each needs the ones before: a snapshot its workflow, its parent's snapshot and its artifacts.
        for event in &sound {
            if let EventData::RunStarted(run) = &event.data {
                self.restore_piece(&facts, event, (AttachmentKind::Workflow, run.workflow_hash.digest()))?;
            }
        }
        for event in &sound {
            for blob in event.data.blob_refs() {
                self.restore_piece(&facts, event, (AttachmentKind::Blob, blob.digest()))?;
            }
        }
        for event in &sound {
            if let Some(snapshot) = event.data.snapshot_ref() {
                self.restore_piece(&facts, event, (AttachmentKind::Snapshot, snapshot.digest()))?;
            }
        }
        Ok(())
    }

    /// Restores a piece of content that is missing or damaged, or reports why that is not possible.
    fn restore_piece(
        &mut self,
        facts: &SessionState,
        event: &Event,
        piece: ContentKey,
    ) -> Result<(), Box<ErrorEnvelope>> {
        let (kind, digest) = piece;
        if !self.done.insert(piece) {
            return Ok(());
        }
        let store = &*self.engine.store;
        let damage = match kind {
            AttachmentKind::Snapshot => store.snapshot(SnapshotRef::new(digest)).err(),
            AttachmentKind::Blob => store.blob(BlobRef::new(digest)).err(),
            AttachmentKind::Workflow => store.workflow(WorkflowHash::new(digest)).err(),
        };
        let Some(damage) = damage else { return Ok(()) };
        let (path, problem) = described(&damage, digest);
        let session_id = facts.session_id();
        let found = self.in_backup(piece).or_else(|| self.recomputed(facts, event, piece));
        let can_be_replaced =
            !matches!(damage, ContentError::Snapshot { .. } | ContentError::Workflow { .. });
        let Some((how, content)) = found.filter(|_| can_be_replaced) else {
            let (effect, fix) = match is_denied(&damage) {
                true => ("Calls that need this content fail until it can be read.", Some(DENIED)),
                false => (effect_of(&event.data, kind), None),
            };
            self.report.lost.push(UnrestoredContent { path, session_id, problem, effect, fix });
            return Ok(());
        };
        let kept_aside = match self.mode {
            ApplyMode::DryRun => None,
            ApplyMode::Real => store.replace_content(&content).map_err(error::upkeep)?,
        };
        self.report.restored.push(RestoredContent { path, session_id, how, kept_aside });
        Ok(())
    }

    fn in_backup(&self, (kind, digest): ContentKey) -> Option<(&'static str, Attachment)> {
        let bytes = self.backup?.content(kind, digest).ok()?;
        Some(("taken from the backup", attachment(kind, bytes)))
    }

    /// The recomputed content, only if it has exactly the expected digest.
    fn recomputed(
        &self,
        facts: &SessionState,
        event: &Event,
        (kind, digest): ContentKey,
    ) -> Option<(&'static str, Attachment)> {
        let (how, candidates) = match (&event.data, kind) {
            (EventData::RunStarted(run), AttachmentKind::Workflow) => {
                let compiled = self
                    .engine
                    .catalog
                    .compiled(&run.workflow_id, self.engine.environment.workspace.as_ref());
                let compiled =
                    compiled.or_else(|_| self.engine.catalog.compiled(&run.workflow_id, None)).ok()?;
                ("compiled again from its source", vec![compiled.workflow.to_canonical().ok()?])
            }
            (EventData::NodeCreated(_), AttachmentKind::Snapshot) => {
                let node = event.scope.node().and_then(|node| facts.node(node))?;
                ("computed again from the record", self.snapshots(facts, node))
            }
            (EventData::NodeOutputAppended(output), AttachmentKind::Blob) => match &output.payload {
                OutputPayload::Notes { notes_markdown, .. } => {
                    ("taken from the event", vec![notes_markdown.as_str().as_bytes().to_vec()])
                }
                OutputPayload::ArtifactRef { .. } => return None,
            },
            _ => return None,
        };
        let bytes = candidates.into_iter().find(|bytes| Sha256::of(bytes) == digest)?;
        Some((how, attachment(kind, bytes)))
    }

    fn snapshots(&self, facts: &SessionState, node: &NodeState) -> Vec<Vec<u8>> {
        let store = &*self.engine.store;
        let Some(run) = facts.run(node.run_id) else { return Vec::new() };
        let Ok(workflow) = store.workflow(run.workflow_hash) else { return Vec::new() };
        let parent = node.parent.and_then(|parent| facts.node(parent));
        let parent_state = match parent.map(|parent| store.snapshot(parent.snapshot_ref)) {
            Some(Ok(snapshot)) => Some(snapshot.state().clone()),
            Some(Err(_)) => return Vec::new(),
            None => None,
        };
        let attempt = node.edge.as_ref().and_then(|edge| edge.attempt);
        let outputs = parent.map(|parent| facts.outputs(parent.node_id)).unwrap_or_default();
        let artifacts: Vec<Value> = outputs
            .iter()
            .filter(|output| output.attempt == attempt)
            .filter_map(|output| match &output.payload {
                OutputPayload::ArtifactRef { sha256, .. } => {
                    strict_json::parse(&store.blob(*sha256).ok()?).ok()
                }
                OutputPayload::Notes { .. } => None,
            })
            .collect();
        recompute::snapshots(&LostSnapshot {
            facts,
            node: node.node_id,
            workflow_hash: run.workflow_hash,
            workflow: &workflow,
            parent: parent_state.as_ref(),
            artifacts: &artifacts,
        })
    }
}

pub(super) fn attachment(kind: AttachmentKind, bytes: Vec<u8>) -> Attachment {
    match kind {
        AttachmentKind::Snapshot => Attachment::snapshot(bytes),
        AttachmentKind::Blob => Attachment::blob(bytes),
        AttachmentKind::Workflow => Attachment::workflow(bytes),
    }
}

/// What the loss means, and what still works.
fn effect_of(data: &EventData, kind: AttachmentKind) -> &'static str {
    match (kind, data) {
        (AttachmentKind::Workflow, _) => {
            "Runs pinned to this workflow cannot continue. Their notes, reports and logs can still be read."
        }
        (AttachmentKind::Snapshot, _) => {
            "The run cannot continue from this point. To continue from an earlier step, the agent sends that step's stateToken."
        }
        (AttachmentKind::Blob, EventData::NodeOutputAppended(output)) => match output.payload {
            OutputPayload::Notes { .. } => "The beginning of the notes is in the log; the run can continue.",
            OutputPayload::ArtifactRef { .. } => "The artifact is lost; the run can continue.",
        },
        (AttachmentKind::Blob, EventData::EvidenceRecorded(_)) => {
            "The full text of a piece of evidence is lost; the run can continue."
        }
        (AttachmentKind::Blob, _) => {
            "A repeated call cannot be answered with the recorded reply. The run can continue: `resume_session` or a \
             stateToken gives the current step."
        }
    }
}
