//! Finding work again from a new chat: fixed tiers over recorded facts, the same order for the same store
//! (G39).
//!
//! A [`RunCard`] is what ranking needs of a run, small enough to keep one for every run of a large store.
//! Cards are made by folding a session (`card.rs`); [`rank`] orders them. Nothing here reads a clock:
//! recency is the store-wide activity number (G7).

mod card;
mod words;

use std::cmp::Reverse;

use workrail_model::id::{RunId, SessionId};
use workrail_model::resume::MatchReason;

use crate::label::RunLabel;
use crate::search;

pub use card::{RunCard, RunPlace, cards, snippet};
pub use words::Words;

/// What the caller remembers of the work.
#[derive(Clone, Debug, Default)]
pub struct Query {
    text: String,
    words: Vec<u64>,
    /// Ids and labels that are among the words; they may be meant so, or just be words.
    session_in_words: Option<SessionId>,
    run_in_words: Option<RunId>,
    label_in_words: Option<RunLabel>,
    pub session: Option<SessionId>,
    pub run: Option<RunId>,
    pub label: Option<RunLabel>,
    pub git_branch: Option<String>,
    pub git_head_sha: Option<String>,
}

impl Query {
    /// Whether the caller named this very run.
    pub fn names(&self, run: RunId) -> bool {
        self.run == Some(run) || self.label == Some(RunLabel::of(run))
    }

    /// A query in words. Ids and labels inside it are recognised, so that a pasted one is found.
    pub fn new(text: &str) -> Self {
        let tokens = search::tokens(text);
        let find = |parse: &dyn Fn(&str) -> bool| tokens.iter().find(|token| parse(token)).cloned();
        let session = find(&|token| SessionId::parse(token).is_ok());
        let run = find(&|token| RunId::parse(token).is_ok());
        let label = find(&|token| RunLabel::parse(token).is_ok());
        Self {
            text: text.trim().to_owned(),
            words: Words::hashes(&tokens),
            session_in_words: session.and_then(|token| SessionId::parse(&token).ok()),
            run_in_words: run.and_then(|token| RunId::parse(&token).ok()),
            label_in_words: label.and_then(|token| RunLabel::parse(&token).ok()),
            ..Self::default()
        }
    }

    pub fn has_words(&self) -> bool {
        !self.words.is_empty()
    }

    pub(crate) fn word_hashes(&self) -> &[u64] {
        &self.words
    }

    /// Whether something exact was asked for, by name and not just in words.
    pub fn is_exact(&self) -> bool {
        self.session.is_some() || self.run.is_some() || self.label.is_some()
    }

    fn reasons(&self, card: &RunCard) -> Vec<MatchReason> {
        let mut reasons = Vec::new();
        let session = Some(card.session);
        let is = |asked: Option<RunId>| asked.is_some() && asked == card.run();
        let called = |asked: Option<RunLabel>| asked.is_some() && asked == card.label();
        let named = self.session == session || is(self.run) || called(self.label);
        let among_words =
            self.session_in_words == session || is(self.run_in_words) || called(self.label_in_words);
        if named || among_words {
            reasons.push(MatchReason::MatchedId);
        }
        let sha = card.git_head_sha.as_deref();
        if sha.is_some_and(|sha| {
            self.git_head_sha.as_deref() == Some(sha) || self.text.eq_ignore_ascii_case(sha)
        }) {
            reasons.push(MatchReason::MatchedHeadSha);
        }
        if card.git_branch.as_deref().is_some_and(|branch| self.fits_branch(branch)) {
            reasons.push(MatchReason::MatchedBranch);
        }
        if self.has_words() {
            if card.notes.contain_all(&self.words) {
                reasons.push(MatchReason::MatchedNotes);
            }
            if card.goal.contain_all(&self.words) {
                reasons.push(MatchReason::MatchedGoal);
            } else if reasons.is_empty() && card.notes.contain_all_with(&card.goal, &self.words) {
                // Some words are in the goal, the others in the notes: the work is meant all the same.
                reasons.push(MatchReason::MatchedNotes);
            }
            if card.workflow.contain_all(&self.words) {
                reasons.push(MatchReason::MatchedWorkflowId);
            }
        }
        if reasons.is_empty() {
            reasons.push(MatchReason::RecencyFallback);
        }
        reasons
    }

    /// The branch itself or its beginning; two letters would match half of all branches.
    fn fits_branch(&self, branch: &str) -> bool {
        let begins = |wanted: &str| wanted.len() >= 3 && branch.starts_with(wanted);
        self.git_branch.as_deref().is_some_and(|wanted| wanted == branch || begins(wanted))
            || (self.text == branch || begins(&self.text))
    }
}

/// A run that may be meant, and why.
#[derive(Clone, Debug, PartialEq)]
pub struct Ranked<'a> {
    pub card: &'a RunCard,
    pub why: Vec<MatchReason>,
}

/// The best `max` runs: by tier, then by recency, then by ids.
pub fn rank<'a>(cards: impl Iterator<Item = &'a RunCard>, query: &Query, max: usize) -> Vec<Ranked<'a>> {
    let mut all: Vec<(Ranked<'a>, MatchReason)> = cards
        .map(|card| {
            let why = query.reasons(card);
            // Reasons are pushed from the highest tier to the lowest.
            let best = why.first().copied().unwrap_or(MatchReason::RecencyFallback);
            (Ranked { card, why }, best)
        })
        .collect();
    all.sort_by_key(|(ranked, best)| {
        let card = ranked.card;
        (best.tier(), Reverse(card.activity), card.session, card.run())
    });
    all.truncate(max);
    all.into_iter().map(|(ranked, _)| ranked).collect()
}

#[cfg(test)]
mod tests;
