//! Finding work again from a new chat: fixed tiers over recorded facts, the same order for the same store
//! (G39).
//!
//! A [`RunCard`] is what ranking needs of a run, small enough to keep one for every run of a large store.
//! Cards are made by folding a session (`card.rs`), a [`ResumeQuery`] says what the caller remembers (`query.rs`), and
//! [`rank`] orders the cards. Nothing here reads a clock: recency is the store-wide activity number (G7).

mod card;
mod query;
pub mod terms;
mod words;

use std::cmp::Reverse;

use workrail_model::resume::MatchReason;

pub use card::{CardPosition, RunCard, cards, snippet};
pub use query::{RecentRuns, ResumeQuery};
pub use words::Words;

use query::QueryMatch;

/// How well a run matches a query, from the strongest reason to the weakest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Tier {
    Named,
    SameCommit,
    SameBranch,
    /// What was recorded in the run contains all words.
    AllWords,
    /// All words, some of them only in the name of the workflow or of the git branch.
    AllWordsWithNames,
    SomeWords,
    Recent,
}

/// A run that may be meant, and why.
#[derive(Clone, Debug, PartialEq)]
pub struct Ranked<'a> {
    pub card: &'a RunCard,
    pub why: Vec<MatchReason>,
    /// The same in words.
    pub reason: String,
    /// The words of the query that the run contains.
    pub words: Vec<String>,
    pub fit: MatchQuality,
}

/// How well a run matches a query. Equal matches are ordered by the rarity of their words and by recency.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MatchQuality {
    tier: Tier,
    words: u32,
    is_finished: bool,
    words_in_goal: u32,
}

impl MatchQuality {
    /// Whether anything of the query was found in the run.
    pub fn matches(self) -> bool {
        self.tier < Tier::Recent
    }
}

/// The best `max` runs: by tier, then more matching words before fewer, unfinished before finished, more words in the goal
/// before fewer, rarer words before common ones, then by recency and by ids. A run that was named is offered alone, and
/// runs that match nothing only if no run matches (or if the query asks for them).
pub fn rank<'a>(
    cards: impl Iterator<Item = &'a RunCard>,
    query: &ResumeQuery,
    max: usize,
) -> Vec<Ranked<'a>> {
    let mut all: Vec<(&'a RunCard, QueryMatch)> = cards.map(|card| (card, query.matched(card))).collect();
    let runs_with = query.runs_with_each_word(all.iter().map(|(_, matched)| matched.held));
    let best = all.iter().map(|(_, matched)| matched.tier).min().unwrap_or(Tier::Recent);
    all.retain(|(_, matched)| match best {
        Tier::Named => matched.tier == Tier::Named,
        Tier::Recent => true,
        Tier::SameCommit | Tier::SameBranch | Tier::AllWords | Tier::AllWordsWithNames | Tier::SomeWords => {
            matched.tier < Tier::Recent || query.recent == RecentRuns::Always
        }
    });
    all.sort_by_cached_key(|(card, matched)| {
        let is_finished = card.stage.is_finished();
        // No particular run was asked for: unfinished work comes first, wherever it was done.
        let has_nothing_left = query.recent == RecentRuns::Always && is_finished;
        let rarest = matched.held.positions().map(|word| runs_with[word]).min();
        (
            has_nothing_left,
            matched.tier,
            Reverse(matched.held.len()),
            is_finished,
            Reverse(matched.in_goal.len()),
            rarest,
            Reverse(card.activity),
            card.session,
            card.run(),
        )
    });
    all.truncate(max);
    all.into_iter()
        .map(|(card, matched)| Ranked {
            card,
            reason: query.reason(&matched),
            words: query.shown(matched.held),
            fit: MatchQuality {
                tier: matched.tier,
                words: matched.held.len(),
                is_finished: card.stage.is_finished(),
                words_in_goal: matched.in_goal.len(),
            },
            why: matched.why,
        })
        .collect()
}

#[cfg(test)]
mod tests;
