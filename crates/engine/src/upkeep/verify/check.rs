//! Checks each event and its content, and collects what is found.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use workrail_core::interpret::{PositionNumbers, Positions, RecordedPosition, StepPosition, position};
use workrail_core::passkey::Passkeys;
use workrail_core::project::SessionState;
use workrail_core::report::SeenChallenges;
use workrail_model::digest::{BlobRef, Sha256, SnapshotRef, WorkflowHash};
use workrail_model::event::{Event, EventData, NodeCreated, OutputPayload};
use workrail_model::id::SessionId;
use workrail_model::plan::AttachmentKind;
use workrail_model::reply::StoredReply;
use workrail_model::strict_json;
use workrail_ports::content::{ContentError, ContentStore};
use workrail_ports::file_system::FsErrorKind;
use workrail_ports::upkeep::{Obstacle, ObstacleReach};

use super::remedy::Remedy;
use super::{CheckedCounts, DENIED, StoreProblem, Verified, VerifyScope};
use crate::upkeep::is_path_of_session;

/// Problems reported in full; the rest is counted.
const PROBLEMS_MAX: usize = 1000;
/// Digests remembered as intact: 10 MB at most.
const SOUND_MAX: usize = 100_000;
const WORKFLOWS_MAX: usize = 16;
const RESTORE: &str = "`workrail store repair --all` recomputes it where possible; with `--from BACKUP` it restores it \
                       from a backup.";
/// Sessions named with damaged content; the rest is counted.
const NEEDED_BY_MAX: usize = 8;
/// In place of a session, for content that no event refers to.
const NOBODY: &str = "";

/// Goes through the store and remembers what it has seen.
pub(super) struct Check<'a> {
    content: &'a dyn ContentStore,
    pub(super) report: Verified,
    sound: BTreeSet<(AttachmentKind, Sha256)>,
    /// Damaged content that was already reported, and the sessions that need it.
    damaged: BTreeMap<(AttachmentKind, Sha256), Damaged>,
    /// The same, in the order of discovery.
    damaged_in_order: Vec<(AttachmentKind, Sha256)>,
    /// The positions of some workflows: many sessions pin the same one.
    positions: BTreeMap<WorkflowHash, Arc<Positions>>,
    /// The last snapshot of a node: usually that of the next node's parent.
    last_snapshot: Option<(SnapshotRef, PositionOfSnapshot)>,
    obstacles: Vec<Obstacle>,
    /// Those that do not affect the session that is verified, as far as is known.
    unreported: Vec<Obstacle>,
    /// `None` if the log is damaged, which is reported separately.
    pub(super) passkeys: Option<Passkeys>,
    /// What passkeys signed in the current session.
    pub(super) challenges: SeenChallenges,
}

/// A damaged piece of content, and the problem that reports it.
struct Damaged {
    what: String,
    problem: String,
    fix: &'static str,
    needed_by: BTreeSet<String>,
}

type PositionOfSnapshot = (StepPosition, PositionNumbers);

/// Where the parent of a node is.
enum ParentPosition {
    /// The node is the first of its run.
    Root,
    At(PositionOfSnapshot),
    /// Reported separately.
    Unreadable,
}

/// The state of the report before a session.
#[derive(Clone, Copy)]
pub(super) struct Savepoint {
    counts: CheckedCounts,
    problems: usize,
    signed: usize,
    damaged: usize,
}

impl<'a> Check<'a> {
    pub(super) fn new(content: &'a dyn ContentStore, obstacles: Vec<Obstacle>) -> Self {
        Self {
            content,
            report: Verified::default(),
            sound: BTreeSet::new(),
            damaged: BTreeMap::new(),
            damaged_in_order: Vec::new(),
            positions: BTreeMap::new(),
            last_snapshot: None,
            obstacles,
            unreported: Vec::new(),
            passkeys: None,
            challenges: SeenChallenges::default(),
        }
    }

    /// Reports all obstacles; for one session, those that do not affect what is recorded of it are left out. A piece of
    /// content that it needs is reported when it is found.
    pub(super) fn report_obstacles(&mut self, scope: VerifyScope) {
        for obstacle in self.obstacles.clone() {
            let is_asked_for = match (scope, obstacle.reach) {
                (VerifyScope::All, _) | (VerifyScope::One(_), ObstacleReach::Store) => true,
                (VerifyScope::One(session), ObstacleReach::Session(affected)) => affected == session,
                (VerifyScope::One(_), ObstacleReach::ContentFile | ObstacleReach::NewRecords) => false,
            };
            match is_asked_for {
                true => self.obstacle(&obstacle),
                false => self.unreported.push(obstacle),
            }
        }
    }

    fn obstacle(&mut self, obstacle: &Obstacle) {
        self.problem(obstacle.path.clone(), obstacle.problem.to_owned(), Remedy::Words(&obstacle.fix));
    }

    /// Reports what is in the place of a piece of content that is needed, if that was not done yet.
    fn report_needed(&mut self, path: &str) {
        if let Some(at) = self.unreported.iter().position(|obstacle| obstacle.path == path) {
            let obstacle = self.unreported.swap_remove(at);
            self.obstacle(&obstacle);
        }
    }

    /// Whether a path is, or is beneath, a folder that cannot be used.
    pub(super) fn is_obstructed(&self, path: &str) -> bool {
        let beneath = |folder: &str| {
            path.strip_prefix(folder).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        self.obstacles.iter().any(|obstacle| beneath(&obstacle.path))
    }

    /// Whether something is reported in the place of this session's folder or of its segments.
    pub(super) fn is_obstructed_session(&self, session: SessionId) -> bool {
        self.obstacles.iter().any(|obstacle| is_path_of_session(session, &obstacle.path))
    }

    pub(super) fn savepoint(&self) -> Savepoint {
        let problems = self.report.problems.len();
        let signed = self.report.signed.len();
        Savepoint { counts: self.report.counts, problems, signed, damaged: self.damaged_in_order.len() }
    }

    pub(super) fn has_found_since(&self, savepoint: Savepoint) -> bool {
        self.report.counts.problems > savepoint.counts.problems
            || self.damaged_in_order.len() > savepoint.damaged
    }

    /// Discards everything found since the savepoint.
    pub(super) fn roll_back(&mut self, savepoint: Savepoint) {
        self.report.counts = savepoint.counts;
        self.report.problems.truncate(savepoint.problems);
        self.report.signed.truncate(savepoint.signed);
        for content in self.damaged_in_order.drain(savepoint.damaged..) {
            self.damaged.remove(&content);
        }
    }

    /// Content that no event has needed so far. If it is gone since it was listed, it was swept.
    pub(super) fn unreferenced(&mut self, kind: AttachmentKind, digest: Sha256) {
        let savepoint = self.savepoint();
        let is_missing = |content: &dyn ContentStore| {
            let read = match kind {
                AttachmentKind::Snapshot => content.snapshot(SnapshotRef::new(digest)).map(|_| ()),
                AttachmentKind::Blob => content.blob(BlobRef::new(digest)).map(|_| ()),
                AttachmentKind::Workflow => content.workflow(WorkflowHash::new(digest)).map(|_| ()),
            };
            matches!(read, Err(ContentError::Missing { .. }))
        };
        if !self.check_content(kind, digest, NOBODY) && is_missing(self.content) {
            self.roll_back(savepoint);
        }
    }

    pub(super) fn problem(&mut self, what: String, problem: String, remedy: Remedy<'_>) {
        self.report.counts.problems += 1;
        if self.report.problems.len() < PROBLEMS_MAX {
            let fix = remedy.text(&what);
            self.report.problems.push(StoreProblem { what, problem, fix });
        }
    }

    /// Reports damaged content at the end, with every session that needs it.
    pub(super) fn report_damaged_content(&mut self) {
        for (_, damaged) in std::mem::take(&mut self.damaged) {
            let needed_by: Vec<&String> = damaged.needed_by.iter().filter(|name| *name != NOBODY).collect();
            let mut names: Vec<&str> =
                needed_by.iter().take(NEEDED_BY_MAX).map(|name| name.as_str()).collect();
            let more = format!("{} more", needed_by.len().saturating_sub(NEEDED_BY_MAX));
            if needed_by.len() > NEEDED_BY_MAX {
                names.push(&more);
            }
            let needed = if names.is_empty() {
                "needed by no session".to_owned()
            } else {
                format!("needed by {}", names.join(", "))
            };
            self.problem(damaged.what, format!("{} ({needed})", damaged.problem), Remedy::Words(damaged.fix));
        }
    }

    /// Everything that one event refers to, and what the event claims about it.
    pub(super) fn event(&mut self, session: &str, facts: &SessionState, event: &Event) {
        for blob in event.data.blob_refs() {
            self.check_content(AttachmentKind::Blob, blob.digest(), session);
        }
        match &event.data {
            EventData::RunStarted(run) => {
                self.check_content(AttachmentKind::Workflow, run.workflow_hash.digest(), session);
                if let Some(keyed) = run.keyed {
                    self.stored_reply(session, keyed.reply_ref);
                }
            }
            EventData::NodeCreated(node) => {
                self.node(session, facts, event, node);
                if let Some(made) = node.checkpoint {
                    self.stored_reply(session, made.reply_ref);
                }
            }
            EventData::AdvanceRecorded(advance) => {
                if let Some(reference) = advance.reply_ref {
                    self.stored_reply(session, reference);
                }
            }
            EventData::NodeOutputAppended(output) => self.output(session, event, &output.payload),
            EventData::SessionCreated(_)
            | EventData::ObservationRecorded(_)
            | EventData::EdgeCreated(_)
            | EventData::CapabilityObserved(_)
            | EventData::GapRecorded(_)
            | EventData::DivergenceRecorded(_)
            | EventData::DecisionTraceAppended(_)
            | EventData::ValidationPerformed(_)
            | EventData::AssessmentRecorded(_)
            | EventData::AssessmentConsequenceApplied(_)
            | EventData::EvidenceRecorded(_)
            | EventData::RunClosed(_) => {}
            EventData::ApprovalRecorded(_) | EventData::ContextSet(_) | EventData::PreferencesChanged(_) => {
                self.signature(session, facts, event);
            }
        }
    }

    /// Reads content once; returns whether it is intact.
    fn check_content(&mut self, kind: AttachmentKind, digest: Sha256, needed_by: &str) -> bool {
        if self.sound.contains(&(kind, digest)) {
            return true;
        }
        if let Some(damaged) = self.damaged.get_mut(&(kind, digest)) {
            damaged.needed_by.insert(needed_by.to_owned());
            return false;
        }
        let counts = &mut self.report.counts;
        let read = match kind {
            AttachmentKind::Snapshot => {
                counts.snapshots += 1;
                self.content.snapshot(SnapshotRef::new(digest)).map(|_| ())
            }
            AttachmentKind::Blob => {
                counts.blobs += 1;
                self.content.blob(BlobRef::new(digest)).map(|_| ())
            }
            AttachmentKind::Workflow => {
                counts.workflows += 1;
                self.content.workflow(WorkflowHash::new(digest)).map(|_| ())
            }
        };
        match read {
            Ok(()) => {
                if self.sound.len() < SOUND_MAX {
                    self.sound.insert((kind, digest));
                }
                true
            }
            Err(cause) => {
                let (what, problem) = described(&cause, digest);
                let path = if let ContentError::Io(cause) = &cause { cause.path.as_str() } else { &what };
                if self.is_obstructed(path) {
                    self.report_needed(path);
                    return false;
                }
                self.damaged_in_order.push((kind, digest));
                let needed_by = BTreeSet::from([needed_by.to_owned()]);
                let fix = if is_denied(&cause) { DENIED } else { RESTORE };
                self.damaged.insert((kind, digest), Damaged { what, problem, fix, needed_by });
                false
            }
        }
    }

    /// A node's snapshot belongs to the workflow that its run is pinned to, is at a position that exists there, and can
    /// follow the snapshot of the node's parent: otherwise an import would refuse it.
    fn node(&mut self, session: &str, facts: &SessionState, event: &Event, node: &NodeCreated) {
        let index = event.event_index.get();
        let run = event.scope.run().and_then(|run| facts.run(run));
        if run.is_some_and(|run| run.workflow_hash != node.workflow_hash) {
            let problem = format!("the node of event {index} names another workflow than its run");
            self.problem(session.to_owned(), problem, Remedy::RestoreSession);
        }
        if !self.check_content(AttachmentKind::Snapshot, node.snapshot_ref.digest(), session) {
            return;
        }
        let (Ok(snapshot), Some(positions)) =
            (self.content.snapshot(node.snapshot_ref), self.positions(node.workflow_hash))
        else {
            return;
        };
        let of_parent = self.position_of_parent(facts, node);
        let own = position(snapshot.state());
        let problem = if snapshot.workflow_hash != node.workflow_hash {
            Some("belongs to another workflow than its node".to_owned())
        } else {
            impossible(&positions, node, &own, of_parent)
        };
        self.last_snapshot = Some((node.snapshot_ref, own));
        if let Some(problem) = problem {
            let node = event.scope.node().map_or_else(|| "a node".to_owned(), |node| node.to_string());
            let problem = format!("the snapshot of {node} (event {index}) {problem}");
            self.problem(session.to_owned(), problem, Remedy::RestoreSession);
        }
    }

    fn position_of_parent(&self, facts: &SessionState, node: &NodeCreated) -> ParentPosition {
        let Some(parent) = node.parent_node_id else { return ParentPosition::Root };
        let Some(parent) = facts.node(parent) else { return ParentPosition::Unreadable };
        if let Some((last, known)) = &self.last_snapshot
            && *last == parent.snapshot_ref
        {
            return ParentPosition::At(known.clone());
        }
        match self.content.snapshot(parent.snapshot_ref) {
            Ok(snapshot) => ParentPosition::At(position(snapshot.state())),
            Err(_) => ParentPosition::Unreadable,
        }
    }

    /// The positions of a workflow that was found intact.
    fn positions(&mut self, hash: WorkflowHash) -> Option<Arc<Positions>> {
        if let Some(known) = self.positions.get(&hash) {
            return Some(Arc::clone(known));
        }
        let read = Arc::new(Positions::of(&self.content.workflow(hash).ok()?));
        if self.positions.len() >= WORKFLOWS_MAX {
            self.positions.pop_first();
        }
        self.positions.insert(hash, Arc::clone(&read));
        Some(read)
    }

    fn stored_reply(&mut self, session: &str, reference: BlobRef) {
        if !self.check_content(AttachmentKind::Blob, reference.digest(), session) {
            return;
        }
        self.report.counts.stored_replies += 1;
        let Ok(bytes) = self.content.blob(reference) else { return };
        let parsed = strict_json::parse(&bytes).map_err(|cause| cause.to_string()).and_then(|value| {
            serde_json::from_value::<StoredReply>(value).map_err(|cause| cause.to_string())
        });
        if let Err(cause) = parsed {
            let problem = format!("the stored reply {reference} cannot be read: {cause}");
            self.problem(session.to_owned(), problem, Remedy::UpdateOrRestore);
        }
    }

    /// Checks that the event's claims about its content are true.
    fn output(&mut self, session: &str, event: &Event, payload: &OutputPayload) {
        let Some(reference) = payload.blob_ref() else { return };
        if !self.check_content(AttachmentKind::Blob, reference.digest(), session) {
            return;
        }
        let Ok(bytes) = self.content.blob(reference) else { return };
        let holds = match payload {
            OutputPayload::Notes { .. } => std::str::from_utf8(&bytes).is_ok(),
            OutputPayload::ArtifactRef { byte_length, .. } => bytes.len() as u64 == *byte_length,
        };
        if !holds {
            let index = event.event_index.get();
            let problem = format!("the content of event {index} is not what the event says of it");
            self.problem(session.to_owned(), problem, Remedy::RestoreSession);
        }
    }
}

/// Why a node's snapshot is not one that a run could have recorded there; `None` if it is.
fn impossible(
    positions: &Positions,
    node: &NodeCreated,
    own: &PositionOfSnapshot,
    of_parent: ParentPosition,
) -> Option<String> {
    fn recorded((step_position, numbers): &PositionOfSnapshot) -> RecordedPosition<'_> {
        RecordedPosition { step_position, numbers }
    }
    if let Err(cause) = positions.check(&own.0, &own.1) {
        return Some(cause.to_string());
    }
    let parent = match &of_parent {
        ParentPosition::Root => None,
        ParentPosition::At(parent) => Some(recorded(parent)),
        ParentPosition::Unreadable => return None,
    };
    let in_order = positions.check_order(node.node_kind, recorded(own), parent);
    in_order.err().map(|cause| cause.to_string())
}

/// Whether only a permission is missing, so that the content may be intact.
pub(in crate::upkeep) fn is_denied(cause: &ContentError) -> bool {
    matches!(cause, ContentError::Io(cause) if cause.kind == FsErrorKind::PermissionDenied)
}

/// The file that cannot be used, and why.
pub(in crate::upkeep) fn described(cause: &ContentError, digest: Sha256) -> (String, String) {
    match cause {
        ContentError::Missing { path } => (path.clone(), "is missing".to_owned()),
        ContentError::Damaged { path } => (path.clone(), "does not match its digest".to_owned()),
        ContentError::Snapshot { path, source } => {
            (path.clone(), format!("is not a valid snapshot: {source}"))
        }
        ContentError::Workflow { path, source } => {
            (path.clone(), format!("is not a valid compiled workflow: {source}"))
        }
        ContentError::Io(cause) => (digest.to_string(), cause.to_string()),
    }
}
