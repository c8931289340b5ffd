//! From what a person types to the session or run that is meant: an id, the beginning of one, or a label.

use std::collections::BTreeSet;

use workrail_core::label::RunLabel;
use workrail_model::error::ErrorEnvelope;
use workrail_model::id::{RunId, SessionId};

use crate::{Engine, Store, error};

/// A session of this store, and one of its runs when that is what was named.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SessionOrRun {
    pub session: SessionId,
    pub run: Option<RunId>,
}

/// A label as labels are spelled: in lowercase, with a hyphen where a space was written.
pub(crate) fn spelled_label(text: &str) -> String {
    text.to_ascii_lowercase().split_whitespace().collect::<Vec<_>>().join("-")
}

impl<S: Store> Engine<S> {
    /// The one session or run that `text` names. Of a damaged session, the runs of its sound beginning have
    /// names, too: what repairs, reports or saves it is called with them.
    pub fn find(&self, text: &str) -> Result<SessionOrRun, Box<ErrorEnvelope>> {
        let wanted = text.trim().to_ascii_lowercase();
        let candidates = match () {
            () if wanted.starts_with(SessionId::PREFIX) => self.sessions_beginning(&wanted)?,
            () => self.runs_called(&wanted)?,
        };
        let mut candidates = candidates.into_iter();
        match (candidates.next(), candidates.len()) {
            (None, _) => Err(error::unknown_reference(text)),
            (Some(found), 0) => Ok(found),
            (Some(_), others) => Err(error::ambiguous_label(text.trim(), others + 1)),
        }
    }

    fn sessions_beginning(&self, prefix: &str) -> Result<BTreeSet<SessionOrRun>, Box<ErrorEnvelope>> {
        let sessions = self.store.sessions().map_err(error::store)?;
        let fits = |session: &SessionId| session.to_string().starts_with(prefix);
        Ok(sessions.into_iter().filter(fits).map(|session| SessionOrRun { session, run: None }).collect())
    }

    fn runs_called(&self, wanted: &str) -> Result<BTreeSet<SessionOrRun>, Box<ErrorEnvelope>> {
        let label = RunLabel::parse(&spelled_label(wanted)).ok();
        if label.is_none() && !wanted.starts_with(RunId::PREFIX) {
            return Ok(BTreeSet::new());
        }
        let reading = self.reading();
        let known = reading.cards()?;
        let fits = |run: &RunId| match label {
            Some(label) => RunLabel::of(*run) == label,
            None => run.to_string().starts_with(wanted),
        };
        let healthy = known.runs().filter_map(|card| Some((card.session, card.run()?)));
        // Whatever cannot be read at all has no runs that could be meant.
        let salvaged = known.unhealthy.keys().filter_map(|session| reading.salvage(*session).ok());
        let damaged = salvaged.flat_map(|salvaged| {
            let session = salvaged.state.session_id();
            salvaged.state.runs().map(|run| (session, run.run_id)).collect::<Vec<_>>()
        });
        Ok(healthy
            .chain(damaged)
            .filter(|(_, run)| fits(run))
            .map(|(session, run)| SessionOrRun { session, run: Some(run) })
            .collect())
    }
}
