//! From what a person types to the session or run that is meant: an id, the beginning of one, or a label.
//!
//! A label forgives: its beginning, one wrong letter, a space for the hyphen and capitals name the run, as long as they
//! name only one. What cannot be undone is never done to a run that was only nearly named.

use std::collections::BTreeMap;

use workrail_core::label::{Nearness, RunLabel};
use workrail_model::error::ErrorEnvelope;
use workrail_model::id::{RunId, SessionId};

use crate::cards::SessionSummaries;
use crate::selection::about_label;
use crate::{Engine, Store, error};

/// A session of this store, and one of its runs when that is what was named.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SessionOrRun {
    pub session: SessionId,
    pub run: Option<RunId>,
}

/// How exactly something must be named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Naming {
    /// A label that is nearly right will do.
    Forgiving,
    /// For what cannot be undone: the whole label, an id or its beginning.
    Exact,
}

/// What a text names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedRun {
    pub found: SessionOrRun,
    /// The label that was meant, where it was typed differently.
    pub read_as: Option<String>,
}

/// A label in an agent's call: in lowercase, with a hyphen where a space was written. The same text may be an id, in which
/// an underscore counts.
pub(crate) fn spelled_label(text: &str) -> String {
    text.to_ascii_lowercase().split_whitespace().collect::<Vec<_>>().join("-")
}

/// Runs by how nearly a text names them.
type Near = BTreeMap<Nearness, Vec<SessionOrRun>>;

impl<S: Store> Engine<S> {
    /// The one session or run that `text` names. Of a damaged session, the runs of its sound beginning have
    /// names, too: what repairs, reports or saves it is called with them.
    pub fn find(&self, text: &str) -> Result<SessionOrRun, Box<ErrorEnvelope>> {
        self.find_named(text, Naming::Forgiving).map(|named| named.found)
    }

    /// The same, with what was made of the text.
    pub fn find_named(&self, text: &str, naming: Naming) -> Result<NamedRun, Box<ErrorEnvelope>> {
        let wanted = text.trim().to_ascii_lowercase();
        if wanted.starts_with(SessionId::PREFIX) {
            return one_of(text, self.sessions_beginning(&wanted)?);
        }
        // A whole id of a healthy session needs no look at the damaged ones.
        if let Ok(run) = wanted.parse::<RunId>()
            && let Some((session, _)) = self.reading().placed(run)?
        {
            return Ok(NamedRun { found: SessionOrRun { session, run: Some(run) }, read_as: None });
        }
        if wanted.starts_with(RunId::PREFIX) {
            let runs =
                self.runs_where(|run| run.to_string().starts_with(&wanted).then_some(Nearness::Exact))?;
            return one_of(text, runs.into_values().flatten().collect());
        }
        let near = |run: RunId| RunLabel::of(run).nearness(text);
        // A label that is right is looked up; only for one that is nearly right are all compared.
        if let Ok(label) = RunLabel::parse(&spelled_label(text)) {
            let known = self.reading().cards_about(&about_label(label), &mut |_, _| {})?;
            if let Some(runs) = self.runs_among(&known, near).remove(&Nearness::Exact) {
                return one_of(text, runs);
            }
        }
        let runs = self.runs_where(near)?;
        let Some((nearness, runs)) = runs.into_iter().next() else {
            return Err(error::unknown_reference_among(text, self.unreadable_sessions()?));
        };
        match (naming, nearness) {
            (_, Nearness::Exact) => one_of(text, runs),
            (Naming::Forgiving, Nearness::Beginning | Nearness::OneSlip) => {
                let named = one_of(text, runs)?;
                let read_as = named.found.run.map(|run| RunLabel::of(run).to_string());
                Ok(NamedRun { read_as, ..named })
            }
            (Naming::Exact, Nearness::Beginning | Nearness::OneSlip) => {
                Err(error::nearly_named(text, &labels(&runs)))
            }
        }
    }

    /// The run that is meant: the one that is named, or the only one of the session that is named.
    pub fn find_run(&self, text: &str) -> Result<(SessionId, RunId, NamedRun), Box<ErrorEnvelope>> {
        let named = self.find_named(text, Naming::Forgiving)?;
        let session = named.found.session;
        if let Some(run) = named.found.run {
            return Ok((session, run, named));
        }
        let runs: Vec<RunId> =
            self.reading().look(session, |facts| Ok(facts.runs().map(|run| run.run_id).collect()))?;
        match runs.as_slice() {
            [run] => Ok((session, *run, named)),
            runs => Err(error::which_run(runs.iter().map(|run| RunLabel::of(*run)))),
        }
    }

    /// Damaged sessions of which no run can be named.
    fn unreadable_sessions(&self) -> Result<usize, Box<ErrorEnvelope>> {
        let reading = self.reading();
        let names_a_run = |session: &SessionId| {
            reading.salvage(*session).is_ok_and(|salvaged| salvaged.state.runs().next().is_some())
        };
        let known = reading.cards()?;
        Ok(known.unhealthy.keys().filter(|session| !names_a_run(session)).count())
    }

    fn sessions_beginning(&self, prefix: &str) -> Result<Vec<SessionOrRun>, Box<ErrorEnvelope>> {
        // A whole id of a session that can be read needs no look at the others.
        if let Ok(session) = prefix.parse::<SessionId>()
            && self.store.read(session, None).is_ok_and(|slice| !slice.events.is_empty())
        {
            return Ok(vec![SessionOrRun { session, run: None }]);
        }
        let sessions = self.store.sessions().map_err(error::store)?;
        let fits = |session: &SessionId| session.to_string().starts_with(prefix);
        Ok(sessions.into_iter().filter(fits).map(|session| SessionOrRun { session, run: None }).collect())
    }

    fn runs_where(&self, near: impl Fn(RunId) -> Option<Nearness>) -> Result<Near, Box<ErrorEnvelope>> {
        let known = self.reading().all_cards(&mut |_, _| {})?;
        Ok(self.runs_among(&known, near))
    }

    fn runs_among(&self, known: &SessionSummaries, near: impl Fn(RunId) -> Option<Nearness>) -> Near {
        let reading = self.reading();
        let healthy = known.runs().filter_map(|card| Some((card.session, card.run()?)));
        // Whatever cannot be read at all has no runs that could be meant.
        let salvaged = known.unhealthy.keys().filter_map(|session| reading.salvage(*session).ok());
        let damaged = salvaged.flat_map(|salvaged| {
            let session = salvaged.state.session_id();
            salvaged.state.runs().map(|run| (session, run.run_id)).collect::<Vec<_>>()
        });
        let mut found = Near::new();
        for (session, run) in healthy.chain(damaged) {
            if let Some(nearness) = near(run) {
                found.entry(nearness).or_default().push(SessionOrRun { session, run: Some(run) });
            }
        }
        found.values_mut().for_each(|runs| {
            runs.sort_unstable();
            runs.dedup();
        });
        found
    }
}

fn one_of(text: &str, candidates: Vec<SessionOrRun>) -> Result<NamedRun, Box<ErrorEnvelope>> {
    match candidates.as_slice() {
        [] => Err(error::unknown_reference(text)),
        [found] => Ok(NamedRun { found: *found, read_as: None }),
        several => Err(error::ambiguous_name(text, &labels(several))),
    }
}

/// What the candidates are called: their labels, and their ids where a label does not tell them apart.
fn labels(runs: &[SessionOrRun]) -> Vec<String> {
    let label = |own: &SessionOrRun| own.run.map(|run| RunLabel::of(run).to_string());
    let named = runs.iter().map(|own| match (label(own), own.run) {
        (Some(name), Some(run))
            if runs.iter().filter(|other| label(other).as_ref() == Some(&name)).count() > 1 =>
        {
            format!("{name} ({run})")
        }
        (Some(name), _) => name,
        (None, _) => own.session.to_string(),
    });
    named.collect()
}
