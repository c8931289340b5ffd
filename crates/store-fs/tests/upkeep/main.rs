//! Keeping, removing, sweeping and repairing on a quiet disk, and next to writers that do not wait (G24, G25).

mod copying;
mod obstructions;
mod removing;
mod repairing;
#[path = "../support/mod.rs"]
mod support;
mod sweeping;

use workrail_model::event::Event;
use workrail_ports::content::ContentStore as _;
use workrail_ports::file_system::FileSystem;
use workrail_ports::upkeep::Swept;
use workrail_store_fs::LocalStore;
use workrail_testkit::history::Step;

pub(crate) const STEPS: [Step; 3] = [Step::AdvanceWithArtifact, Step::Advance, Step::Checkpoint];

pub(crate) fn has_all_content<F: FileSystem>(store: &LocalStore<F>, events: &[Event]) -> bool {
    events.iter().all(|event| {
        let blobs = event.data.blob_refs().into_iter().all(|blob| store.blob(blob).is_ok());
        blobs && event.data.snapshot_ref().is_none_or(|snapshot| store.snapshot(snapshot).is_ok())
    })
}

pub(crate) fn swept_files(swept: &Swept) -> u64 {
    [swept.snapshots, swept.blobs, swept.workflows, swept.leftovers].iter().map(|tally| tally.files).sum()
}
