//! The script that the proofs interrupt: its steps, and the bytes that it must end in.

use std::collections::BTreeMap;

use workrail_model::digest::Sha256;
use workrail_model::event::{Activity, Event, EventData};
use workrail_model::id::{EventId, SessionId};
use workrail_model::manifest::{ManifestIndex, commit_group, group_bytes, segment_rel_path};
use workrail_model::plan::{Attachment, AttachmentKind};
use workrail_model::time::Timestamp;
use workrail_ports::file_system::RelPath;
use workrail_testkit::history::{self, AdvancePayload, PlanParts};

/// One call; the caller waits for its result before the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    LoadKeys,
    RotateKeys,
    /// Takes the next activity number.
    Activity,
    Append(usize),
    /// Stores a projection of the current log.
    Cache,
}

/// A retry may bring the same events, or the same facts minted again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Minting {
    First,
    Again,
}

/// A plan and every byte that it must leave on the disk.
#[derive(Debug)]
pub(crate) struct Planned {
    pub(crate) parts: PlanParts,
    pub(crate) segment: (RelPath, Vec<u8>),
    pub(crate) group: Vec<u8>,
    /// Everything that its events refer to.
    pub(crate) references: Vec<(RelPath, Vec<u8>)>,
}

#[derive(Debug)]
pub(crate) struct Script {
    pub(crate) session: SessionId,
    pub(crate) steps: Vec<Step>,
    plans: Vec<(Planned, Planned)>,
}

/// The plans after the start, covering everything that a run can do.
const PLANS: [history::Step; 19] = {
    use history::Step::{Advance, AdvanceWith, AdvanceWithArtifact, Blocked, Checkpoint, Fork};
    const RICH: history::Step =
        AdvanceWith(AdvancePayload { artifacts: 2, artifact_bytes: 200, more_traces: 0 });
    [
        Advance,
        AdvanceWithArtifact,
        Advance,
        Blocked,
        Advance,
        Checkpoint,
        RICH,
        Fork,
        Advance,
        Advance,
        Advance,
        Advance,
        Blocked,
        Blocked,
        Advance,
        Checkpoint,
        AdvanceWithArtifact,
        Fork,
        Advance,
    ]
};

impl Script {
    pub(crate) fn new() -> Self {
        let history = history::plans(7, &PLANS);
        let session = history[0].events[0].session_id;
        let mut steps = vec![Step::LoadKeys];
        let mut activity = 0;
        let mut plans = Vec::new();
        let mut next = ManifestIndex::ZERO;
        let mut contents = Contents::new();
        for (number, mut parts) in history.into_iter().enumerate() {
            // Late and few: their files are never synced, so each doubles the crash states of everything after it.
            if matches!(number, 1 | 14 | 18) {
                steps.push(Step::Activity);
                activity += 1;
            }
            steps.push(Step::Append(number));
            match number {
                7 => steps.push(Step::RotateKeys),
                12 | 17 => steps.push(Step::Cache),
                _ => {}
            }
            set_activity(&mut parts, activity);
            contents.extend(parts.attachments.iter().cloned().map(|it| ((it.kind(), it.digest()), it)));
            let planned = Planned::new(parts.clone(), next, &contents);
            let again = Planned::new(minted_again(parts), next, &contents);
            next = next.plus(planned.group.iter().filter(|byte| **byte == b'\n').count() as u64);
            plans.push((planned, again));
        }
        steps.push(Step::LoadKeys);
        Self { session, steps, plans }
    }

    pub(crate) fn planned(&self, number: usize, minting: Minting) -> &Planned {
        let (first, again) = &self.plans[number];
        match minting {
            Minting::First => first,
            Minting::Again => again,
        }
    }

    pub(crate) fn in_session(&self, relative: &str) -> RelPath {
        RelPath::parse(&format!("sessions/{}/{relative}", self.session)).expect("a plain path")
    }

    pub(crate) fn manifest(&self) -> RelPath {
        self.in_session("manifest.jsonl")
    }
}

impl Planned {
    fn new(parts: PlanParts, first: ManifestIndex, contents: &Contents) -> Self {
        let plan = parts.plan();
        let group = group_bytes(&commit_group(first, plan.events(), plan.segment())).expect("canonical");
        let last = plan.first_index().plus(plan.events().len() as u64 - 1);
        let name = format!("sessions/{}/{}", plan.session_id(), segment_rel_path(plan.first_index(), last));
        let segment = (RelPath::parse(&name).expect("a plain path"), plan.segment().to_vec());
        let resolve = |reference| content(&contents[&reference]);
        let references = parts.events.iter().flat_map(references).map(resolve).collect();
        Self { parts, segment, group, references }
    }

    /// The largest activity number of its events.
    pub(crate) fn activity(&self) -> u64 {
        self.parts.events.iter().filter_map(|event| event.activity).map(Activity::get).max().unwrap_or(0)
    }
}

/// All content attached so far.
type Contents = BTreeMap<(AttachmentKind, Sha256), Attachment>;

/// The content that is needed to read an event.
pub(crate) fn references(event: &Event) -> Vec<(AttachmentKind, Sha256)> {
    let blobs = event.data.blob_refs().into_iter().map(|blob| (AttachmentKind::Blob, blob.digest()));
    let snapshot = event.data.snapshot_ref().map(|it| (AttachmentKind::Snapshot, it.digest()));
    let workflow = if let EventData::RunStarted(run) = &event.data {
        Some((AttachmentKind::Workflow, run.workflow_hash.digest()))
    } else {
        None
    };
    blobs.chain(snapshot).chain(workflow).collect()
}

/// The path of an attachment, and its bytes.
fn content(attachment: &Attachment) -> (RelPath, Vec<u8>) {
    let hex = attachment.digest().hex();
    let path = match attachment.kind() {
        AttachmentKind::Snapshot => format!("snapshots/{hex}.json"),
        AttachmentKind::Blob => format!("blobs/{hex}"),
        AttachmentKind::Workflow => format!("workflows/pinned/{hex}.json"),
    };
    (RelPath::parse(&path).expect("a plain path"), attachment.bytes().to_vec())
}

fn set_activity(parts: &mut PlanParts, activity: u64) {
    for event in &mut parts.events {
        event.activity = if activity == 0 { None } else { Activity::new(activity) };
    }
}

/// The same facts as another process would write them: other event ids, another clock.
pub(crate) fn minted_again(mut parts: PlanParts) -> PlanParts {
    parts.events.iter_mut().for_each(mint_again);
    parts
}

fn mint_again(event: &mut Event) {
    let mut bits = event.event_id.bits();
    bits[0] ^= 0xa5;
    event.event_id = EventId::from_bits(bits);
    event.at = Some(Timestamp::parse("2031-02-03T04:05:06.789Z").expect("a time"));
}
