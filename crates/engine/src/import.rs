//! Import: a bundle is checked as a whole, then becomes its own session; it is never merged (G80).

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Seek};

use workrail_core::bundle::{
    DeliveryError, ImportIdentity, ImportableBundle, Renumbering, Sink, check_history, deliver, read_intact,
};
use workrail_core::derive;
use workrail_core::label::RunLabel;
use workrail_model::bundle::{Redaction, Salvage};
use workrail_model::error::ErrorEnvelope;
use workrail_model::event::{Activity, ImportedFrom};
use workrail_model::id::{BundleId, RunId, SessionId};
use workrail_model::limits::ACTIVITY_LEAP_MAX;
use workrail_model::plan::{Attachment, RawSegment};
use workrail_model::team::Act;
use workrail_ports::archive::StagedSession;
use workrail_ports::session_store::StoreError;

use crate::export::RunSummary;
use crate::token::KeyUse;
use crate::{Engine, Store, error};

/// What to do with the bundle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImportMode {
    /// Keep its id if that is free here, otherwise use a new one.
    KeepIdIfFree,
    /// Always use a new id.
    AsNew,
    /// Only check it.
    CheckOnly,
}

/// What was imported, or would be.
#[derive(Clone, Debug)]
pub struct Imported {
    pub bundle: BundleId,
    /// The session's id here.
    pub session: SessionId,
    /// Its id in the bundle.
    pub original: SessionId,
    /// Each with its new id.
    pub runs: Vec<RunSummary>,
    /// The runs that got a new id, by their old one.
    pub renamed_runs: BTreeMap<RunId, RunId>,
    pub events: u64,
    pub contents: u64,
    pub salvage: Option<Salvage>,
    pub redaction: Option<Redaction>,
    /// Whether the activity numbers were too large for this store and were renumbered.
    pub renumbered: bool,
    /// Members of the bundle that this version does not know; they were dropped.
    pub unknown_members: Vec<String>,
}

/// How often a run's id is redrawn to avoid a label in use; a shared label is allowed but not wanted.
const LABEL_DRAWS_MAX: u32 = 16;

impl<S: Store> Engine<S> {
    /// Checks a bundle and imports its session. Writes nothing unless all of it is valid.
    pub fn import<R: Read + Seek>(
        &self,
        source: &mut R,
        mode: ImportMode,
    ) -> Result<Imported, Box<ErrorEnvelope>> {
        self.permit(Act::Administer)?;
        let refused = |cause| error::bundle(&cause);
        let bundle = read_intact(source).map_err(refused)?;
        let checked = check_history(source, bundle).map_err(refused)?;
        let identity = self.import_identity(&checked, mode)?;
        if mode != ImportMode::CheckOnly {
            // A new store gets its keys before its first session. The import itself needs none.
            let _ = self.signer.refresh(KeyUse::CreateIfNew);
            self.stage_and_publish(source, &checked, &identity)?;
        }
        Ok(summary(checked, identity))
    }

    /// The ids and activity numbers that the session gets in this store.
    fn import_identity(
        &self,
        checked: &ImportableBundle,
        mode: ImportMode,
    ) -> Result<ImportIdentity, Box<ErrorEnvelope>> {
        let original = checked.bundle.session;
        let taken = self.store.is_taken(original).map_err(error::store)?;
        let mut session = original;
        if taken || mode == ImportMode::AsNew {
            // Derived, so that a check names the same id as the import.
            let mut number = 0;
            session = derive::imported_session_id(checked.bundle.id, number);
            while self.store.is_taken(session).map_err(error::store)? {
                number += 1;
                session = derive::imported_session_id(checked.bundle.id, number);
            }
        }
        let last = self.store.newest_activity().map_err(error::store)?.get();
        let activities = match checked.newest_activity() > last.saturating_add(ACTIVITY_LEAP_MAX) {
            true => Renumbering::After(last),
            false => Renumbering::Keep,
        };
        let salvaged = checked.bundle.salvage.is_some() || checked.salvaged_before;
        let from = ImportedFrom {
            session_id: original,
            bundle_id: checked.bundle.id,
            salvaged: salvaged.then_some(true),
        };
        // The runs of a damaged session are unknown: if the session is here, so are its runs.
        Ok(ImportIdentity { session, runs: self.renamed_runs(checked, session, taken)?, from, activities })
    }

    /// New ids for all runs of the bundle, if one of them is in use here.
    fn renamed_runs(
        &self,
        checked: &ImportableBundle,
        session: SessionId,
        in_use: bool,
    ) -> Result<BTreeMap<RunId, RunId>, Box<ErrorEnvelope>> {
        let known: BTreeSet<RunId> =
            self.reading().summaries()?.runs().filter_map(|card| card.run()).collect();
        if !in_use && checked.runs.iter().all(|(run, _)| !known.contains(run)) {
            return Ok(BTreeMap::new());
        }
        let mut labels: BTreeSet<RunLabel> = known.iter().map(|run| RunLabel::of(*run)).collect();
        let mut renamed = BTreeMap::new();
        for (run, _) in &checked.runs {
            let drawn = |number| derive::imported_run_id(session, *run, number);
            let is_free = |run: &RunId| !labels.contains(&RunLabel::of(*run)) && !known.contains(run);
            let fresh =
                (0..LABEL_DRAWS_MAX).map(drawn).find(is_free).unwrap_or_else(|| drawn(LABEL_DRAWS_MAX));
            labels.insert(RunLabel::of(fresh));
            renamed.insert(*run, fresh);
        }
        Ok(renamed)
    }

    fn stage_and_publish<R: Read + Seek>(
        &self,
        source: &mut R,
        checked: &ImportableBundle,
        identity: &ImportIdentity,
    ) -> Result<(), Box<ErrorEnvelope>> {
        // The counter first: anything written after the import must have higher numbers than its events. Before the
        // session is held: its holder waits for nothing else (G102). If the import fails, the gap means nothing.
        if let Some(newest) = Activity::new(identity.newest_activity(checked)) {
            self.store.raise_activity(newest).map_err(not_stored)?;
        }
        let mut staging = Staging(self.store.stage(identity.session).map_err(not_stored)?);
        deliver(source, checked, identity, &mut staging).map_err(|stop| match stop {
            DeliveryError::Bundle(cause) => error::bundle(&cause),
            DeliveryError::Sink(cause) => not_stored(cause),
        })?;
        staging.0.publish().map_err(not_stored)
    }
}

fn not_stored(cause: StoreError) -> Box<ErrorEnvelope> {
    let busy = matches!(cause, StoreError::Locked { .. } | StoreError::AlreadyExists { .. });
    if busy { error::import_busy() } else { error::store(cause) }
}

/// The store's staged session as a delivery sees it.
struct Staging<T>(T);

impl<T: StagedSession> Sink for Staging<T> {
    type Error = StoreError;

    fn content(&mut self, attachment: Attachment) -> Result<(), StoreError> {
        self.0.content(&attachment)
    }

    fn segment(&mut self, segment: RawSegment) -> Result<(), StoreError> {
        self.0.segment(&segment)
    }
}

fn summary(checked: ImportableBundle, identity: ImportIdentity) -> Imported {
    let here = |run: RunId| identity.runs.get(&run).copied().unwrap_or(run);
    let contents = checked.bundle.content_count() as u64;
    Imported {
        bundle: checked.bundle.id,
        session: identity.session,
        original: checked.bundle.session,
        runs: checked
            .runs
            .iter()
            .map(|(run, workflow)| RunSummary::new(here(*run), workflow.clone()))
            .collect(),
        events: checked.event_count,
        contents,
        salvage: checked.bundle.salvage,
        redaction: checked.bundle.redaction,
        renumbered: identity.activities != Renumbering::Keep,
        unknown_members: checked.bundle.unknown_members,
        renamed_runs: identity.runs,
    }
}
