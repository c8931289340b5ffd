//! Resolves what a person types to a session or run: an id, the beginning of one, or a label.
//!
//! Labels are forgiving: a prefix, one wrong letter, a space for the hyphen or capitals are accepted if they match
//! only one run. An operation that cannot be undone requires the exact name.

use std::collections::BTreeMap;

use workrail_core::label::{Nearness, RunLabel};
use workrail_model::error::ErrorEnvelope;
use workrail_model::id::{RunId, SessionId};

use crate::selection::about_label;
use crate::summaries::SessionSummaries;
use crate::{Engine, Store, error};

/// A session in this store, and one of its runs if a run was named.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SessionOrRun {
    pub session: SessionId,
    pub run: Option<RunId>,
}

/// How exactly something must be named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Naming {
    /// An almost correct label is enough.
    Forgiving,
    /// For what cannot be undone: the whole label, an id or its beginning.
    Exact,
}

/// What a text names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NameMatch {
    pub found: SessionOrRun,
    /// The label that was meant, if it was typed differently.
    pub read_as: Option<String>,
}

/// Normalises a label as people and agents write it: lowercase, with a hyphen instead of a space. Underscores are
/// kept, because the text may be an id.
pub(crate) fn spelled_label(text: &str) -> String {
    text.to_ascii_lowercase().split_whitespace().collect::<Vec<_>>().join("-")
}

/// Runs by how closely a text matches them.
type RunsByNearness = BTreeMap<Nearness, Vec<SessionOrRun>>;

impl<S: Store> Engine<S> {
    /// The one session or run that `text` names. Runs in the intact part of a damaged session can be named, too: it is
    /// repaired, reported or saved by those names.
    pub fn find(&self, text: &str) -> Result<SessionOrRun, Box<ErrorEnvelope>> {
        self.find_named(text, Naming::Forgiving).map(|named| named.found)
    }

    /// The same, with how the text was read.
    pub fn find_named(&self, text: &str, naming: Naming) -> Result<NameMatch, Box<ErrorEnvelope>> {
        let wanted = text.trim().to_ascii_lowercase();
        if wanted.starts_with(SessionId::PREFIX) {
            return one_of(text, self.sessions_beginning(&wanted)?);
        }
        // A full id of a healthy session needs no look at the damaged ones.
        if let Ok(run) = wanted.parse::<RunId>()
            && let Some((session, _)) = self.reading().run_position(run)?
        {
            return Ok(NameMatch { found: SessionOrRun { session, run: Some(run) }, read_as: None });
        }
        if wanted.starts_with(RunId::PREFIX) {
            let runs =
                self.runs_where(|run| run.to_string().starts_with(&wanted).then_some(Nearness::Exact))?;
            return one_of(text, runs.into_values().flatten().collect());
        }
        let near = |run: RunId| RunLabel::of(run).nearness(text);
        // An exact label is looked up; only an inexact one is compared with all.
        if let Ok(label) = RunLabel::parse(&spelled_label(text)) {
            let summaries = self.reading().summaries_about(&about_label(label), &mut |_, _| {})?;
            if let Some(runs) = self.runs_among(&summaries, near).remove(&Nearness::Exact) {
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
                Ok(NameMatch { read_as, ..named })
            }
            (Naming::Exact, Nearness::Beginning | Nearness::OneSlip) => {
                Err(error::nearly_named(text, &labels(&runs)))
            }
        }
    }

    /// The run that is meant: the named one, or the only one of the named session.
    pub fn find_run(&self, text: &str) -> Result<(SessionId, RunId, NameMatch), Box<ErrorEnvelope>> {
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

    /// The number of damaged sessions whose runs cannot be named.
    fn unreadable_sessions(&self) -> Result<usize, Box<ErrorEnvelope>> {
        let reading = self.reading();
        let names_a_run = |session: &SessionId| {
            reading.salvage(*session).is_ok_and(|salvaged| salvaged.state.runs().next().is_some())
        };
        let summaries = reading.summaries()?;
        Ok(summaries.unhealthy.keys().filter(|session| !names_a_run(session)).count())
    }

    fn sessions_beginning(&self, prefix: &str) -> Result<Vec<SessionOrRun>, Box<ErrorEnvelope>> {
        // A full id of a readable session needs no look at the others.
        if let Ok(session) = prefix.parse::<SessionId>()
            && self.store.read(session, None).is_ok_and(|slice| !slice.events.is_empty())
        {
            return Ok(vec![SessionOrRun { session, run: None }]);
        }
        let sessions = self.store.sessions().map_err(error::store)?;
        let fits = |session: &SessionId| session.to_string().starts_with(prefix);
        Ok(sessions.into_iter().filter(fits).map(|session| SessionOrRun { session, run: None }).collect())
    }

    fn runs_where(
        &self,
        near: impl Fn(RunId) -> Option<Nearness>,
    ) -> Result<RunsByNearness, Box<ErrorEnvelope>> {
        let summaries = self.reading().all_summaries(&mut |_, _| {})?;
        Ok(self.runs_among(&summaries, near))
    }

    fn runs_among(
        &self,
        summaries: &SessionSummaries,
        near: impl Fn(RunId) -> Option<Nearness>,
    ) -> RunsByNearness {
        let reading = self.reading();
        let healthy = summaries.runs().filter_map(|card| Some((card.session, card.run()?)));
        // A session that cannot be read at all has no runs to match.
        let salvaged = summaries.unhealthy.keys().filter_map(|session| reading.salvage(*session).ok());
        let damaged = salvaged.flat_map(|salvaged| {
            let session = salvaged.state.session_id();
            salvaged.state.runs().map(|run| (session, run.run_id)).collect::<Vec<_>>()
        });
        let mut found = RunsByNearness::new();
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

fn one_of(text: &str, candidates: Vec<SessionOrRun>) -> Result<NameMatch, Box<ErrorEnvelope>> {
    match candidates.as_slice() {
        [] => Err(error::unknown_reference(text)),
        [found] => Ok(NameMatch { found: *found, read_as: None }),
        several => Err(error::ambiguous_name(text, &labels(several))),
    }
}

/// The candidates' labels, with ids where a label is ambiguous.
fn labels(runs: &[SessionOrRun]) -> Vec<String> {
    let label = |found: &SessionOrRun| found.run.map(|run| RunLabel::of(run).to_string());
    let named = runs.iter().map(|found| match (label(found), found.run) {
        (Some(name), Some(run))
            if runs.iter().filter(|other| label(other).as_ref() == Some(&name)).count() > 1 =>
        {
            format!("{name} ({run})")
        }
        (Some(name), _) => name,
        (None, _) => found.session.to_string(),
    });
    named.collect()
}
