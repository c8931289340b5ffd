//! A power cut, a kill or an I/O error at every operation of an import: the session is whole or absent (G80).

use std::collections::BTreeSet;

use workrail_model::digest::{BlobRef, SnapshotRef, WorkflowHash};
use workrail_model::event::Event;
use workrail_model::id::SessionId;
use workrail_model::manifest::segment_bytes;
use workrail_model::plan::{Attachment, AttachmentKind, RawSegment};
use workrail_ports::archive::{SessionImport as _, StagedSession as _};
use workrail_ports::content::ContentStore as _;
use workrail_ports::file_system::{FsErrorKind, RelPath};
use workrail_ports::session_store::{LockedSession as _, SessionReader as _, SessionStore as _, StoreError};
use workrail_store_fs::sim::{CrashLimits, Fault, FaultKind, FaultMode, SimFs};
use workrail_testkit::history::{self, Step};

use crate::check::with_everything_unsynced_lost;
use crate::effort::Effort;
use crate::parallel::{self, Findings};
use crate::world::open_store;

/// A session as a bundle holds it.
struct Incoming {
    session: SessionId,
    segments: Vec<RawSegment>,
    content: Vec<Attachment>,
    events: Vec<Event>,
}

impl Incoming {
    fn new() -> Self {
        let plans = history::plans(77, &[Step::AdvanceWithArtifact, Step::Fork]);
        let mut content: Vec<Attachment> = Vec::new();
        for attachment in plans.iter().flat_map(|plan| &plan.attachments) {
            if !content.contains(attachment) {
                content.push(attachment.clone());
            }
        }
        let raw =
            |events: &[Event]| RawSegment::parse(segment_bytes(events).expect("canonical")).expect("valid");
        Self {
            session: plans[0].events[0].session_id,
            segments: plans.iter().map(|plan| raw(&plan.events)).collect(),
            content,
            events: plans.into_iter().flat_map(|plan| plan.events).collect(),
        }
    }

    /// Imports into the store on this disk; says whether it was acknowledged.
    fn import(&self, sim: &SimFs, boot: &str) -> Result<(), String> {
        let (disk, store) = open_store(sim, boot, 1).map_err(|error| error.to_string())?;
        let imported = (|| {
            let mut staged = store.stage(self.session)?;
            for attachment in &self.content {
                staged.content(attachment)?;
            }
            for segment in &self.segments {
                staged.segment(segment)?;
            }
            staged.publish()
        })();
        let broken = disk.violations();
        assert!(broken.is_empty(), "write order: {broken:?}");
        imported.map_err(|error: StoreError| format!("{error:?}"))
    }

    /// Whole or absent; `true` if it is present.
    fn look(&self, sim: &SimFs) -> Result<bool, String> {
        let (_, store) = open_store(sim, "boot after", 2).map_err(|error| error.to_string())?;
        let listed = store.sessions().map_err(|error| error.to_string())?;
        let slice = match store.read(self.session, None) {
            Err(StoreError::NotFound { .. }) if listed.is_empty() => return Ok(false),
            Err(error) => return Err(format!("cannot be read: {error:?}, listed: {listed:?}")),
            Ok(slice) => slice,
        };
        if !slice.health.is_healthy() || slice.events != self.events || listed != [self.session] {
            return Err(format!("there in part: {:?}, {} events", slice.health, slice.events.len()));
        }
        for attachment in &self.content {
            let read = match attachment.kind() {
                AttachmentKind::Snapshot => store.snapshot(SnapshotRef::new(attachment.digest())).map(|_| ()),
                AttachmentKind::Blob => store.blob(BlobRef::new(attachment.digest())).map(|_| ()),
                AttachmentKind::Workflow => {
                    store.workflow(WorkflowHash::new(attachment.digest())).map(|_| ())
                }
            };
            read.map_err(|error| format!("refers to what cannot be read: {error}"))?;
        }
        let locked = store.lock(self.session).map_err(|error| format!("cannot be locked: {error:?}"))?;
        assert_eq!(locked.cursor().next_event_index.get(), self.events.len() as u64);
        Ok(true)
    }

    /// Repeats what was interrupted; only the session may remain.
    fn recover(&self, sim: &SimFs) -> Result<(), String> {
        if !self.look(sim)? {
            self.import(sim, "boot after")?;
        }
        if !self.look(sim)? || !self.look(&with_everything_unsynced_lost(sim))? {
            return Err("imported again, but not there".to_owned());
        }
        match sim.all_files().into_iter().find(|file| file.as_str().contains(".tmp-")) {
            Some(left) => Err(format!("`{left}` is left behind")),
            None => Ok(()),
        }
    }
}

fn limits(effort: Effort, op: u64) -> CrashLimits {
    let max_product = match effort {
        Effort::Default => 48,
        Effort::Full => 1_000,
    };
    CrashLimits { max_exhaustive_names: 6, random_subsets: 8, random_cuts: 3, max_product, seed: op }
}

pub(crate) fn explore(effort: Effort) -> Findings {
    let incoming = Incoming::new();
    let sound = SimFs::new();
    incoming.import(&sound, "boot").expect("nothing fails on a sound disk");
    let ops = sound.all_op_count();
    let mut findings = parallel::each(ops as usize + 1, |op, findings| {
        let sim = SimFs::new();
        let at_op = op as u64;
        sim.set_fault(Fault { at_op, kind: FaultKind::PowerCut, mode: FaultMode::Once });
        let acknowledged = incoming.import(&sim, "boot").is_ok();
        let mut seen = BTreeSet::new();
        sim.for_each_crash_image(&limits(effort, at_op), &mut |choice, image| {
            if !seen.insert(image.digest()) {
                return;
            }
            findings.states += 1;
            match incoming.look(&image) {
                Ok(false) if acknowledged => {
                    findings.record(format!("op {op}: acknowledged and gone, {choice:?}"))
                }
                Ok(_) => {}
                Err(what) => findings.record(format!("op {op}: {what}, {choice:?}")),
            }
            if let Err(what) = incoming.recover(&image) {
                findings.record(format!("op {op}, again: {what}, {choice:?}"));
            }
        });
        let killed = sim.fork();
        killed.clear_fault();
        findings.states += 1;
        if let Err(what) = incoming.recover(&killed) {
            findings.record(format!("op {op}, killed: {what}"));
        }
    });
    findings.absorb(io_errors(&incoming, ops));
    findings
}

/// A failed import leaves the session whole or absent, and succeeds when it is repeated.
fn io_errors(incoming: &Incoming, ops: u64) -> Findings {
    let kinds = [
        FaultKind::Error(FsErrorKind::Io),
        FaultKind::Error(FsErrorKind::NoSpace),
        FaultKind::ShortWrite,
        FaultKind::FsyncLies,
    ];
    parallel::each(ops as usize * kinds.len(), |case, findings| {
        let (at_op, kind) = (case as u64 / kinds.len() as u64, kinds[case % kinds.len()]);
        let sim = SimFs::new();
        sim.set_fault(Fault { at_op, kind, mode: FaultMode::Once });
        let acknowledged = incoming.import(&sim, "boot").is_ok();
        sim.clear_fault();
        findings.states += 1;
        let durable = incoming.look(&with_everything_unsynced_lost(&sim));
        if acknowledged && durable != Ok(true) {
            findings.record(format!("op {at_op}, {kind:?}: acknowledged, but {durable:?} after a crash"));
        }
        if let Err(what) = incoming.recover(&sim) {
            findings.record(format!("op {at_op}, {kind:?}: {what}"));
        }
    })
}

/// Broke: the import failed.
#[test]
fn a_folder_with_the_name_of_content_is_moved_aside() {
    let incoming = Incoming::new();
    for attachment in &incoming.content {
        let (sim, kind) = (SimFs::new(), attachment.kind());
        let name = match kind {
            AttachmentKind::Workflow => format!("workflows/pinned/{}.json", attachment.digest().hex()),
            AttachmentKind::Snapshot => format!("snapshots/{}.json", attachment.digest().hex()),
            AttachmentKind::Blob => format!("blobs/{}", attachment.digest().hex()),
        };
        let foreign = RelPath::parse(&format!("{name}/mine.txt")).unwrap();
        sim.make_dir_raw(&RelPath::parse(&name).unwrap());
        sim.write_raw(&foreign, b"kept");
        incoming.import(&sim, "boot").unwrap();
        assert_eq!(incoming.look(&sim), Ok(true), "{kind:?}");
        let kept = sim.all_files().into_iter().filter(|file| file.as_str().ends_with("/mine.txt"));
        let kept: Vec<_> = kept.map(|file| (sim.read_raw(&file), file)).collect();
        assert!(
            matches!(&kept[..], [(Some(bytes), file)] if bytes == b"kept" && *file != foreign),
            "{kept:?}"
        );
    }
}
