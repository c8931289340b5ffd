//! What the caller remembers of the work, and how much of it a run contains.

use workrail_model::id::{RunId, SessionId};
use workrail_model::resume::MatchReason;

use super::words::hash;
use super::{RunCard, Tier, Words, terms};
use crate::label::RunLabel;
use crate::search;

/// Further words add nothing; each is one bit of a [`WordSet`].
const WORDS_MAX: usize = 64;

/// How many words a reason names, and how much of each.
const WORDS_NAMED_MAX: usize = 8;
const WORD_NAMED_BYTES_MAX: usize = 40;

/// What the caller remembers of the work.
#[derive(Clone, Debug, Default)]
pub struct ResumeQuery {
    text: String,
    words: Vec<QueryWord>,
    /// Ids and labels among the words; they may be meant as such, or just be words.
    sessions_in_words: Vec<SessionId>,
    runs_in_words: Vec<RunId>,
    labels_in_words: Vec<RunLabel>,
    pub session: Option<SessionId>,
    pub run: Option<RunId>,
    pub label: Option<RunLabel>,
    pub git_branch: Option<String>,
    pub git_head_sha: Option<String>,
    pub recent: RecentRuns,
}

/// When to offer runs that match nothing in the query.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RecentRuns {
    #[default]
    WhenNothingMatches,
    /// The caller gave no words, so every run is a candidate.
    Always,
}

#[derive(Clone, Debug)]
struct QueryWord {
    /// As the caller wrote it, in lowercase.
    shown: String,
    /// A text contains the word if it contains all of these.
    stems: Vec<u64>,
}

/// Some of the words of a query, by their positions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct WordSet(u64);

impl WordSet {
    pub(super) fn len(self) -> u32 {
        self.0.count_ones()
    }

    pub(super) fn positions(self) -> impl Iterator<Item = usize> {
        (0..WORDS_MAX).filter(move |position| self.has(*position))
    }

    fn has(self, position: usize) -> bool {
        self.0 & (1 << position) != 0
    }

    fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    fn is_empty(self) -> bool {
        self.0 == 0
    }
}

/// Where words are found in a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SearchField {
    Notes,
    Artifacts,
    Goal,
    Workflow,
    Branch,
}

impl SearchField {
    const ALL: [Self; 5] = [Self::Notes, Self::Artifacts, Self::Goal, Self::Workflow, Self::Branch];

    fn of(self, card: &RunCard) -> &Words {
        match self {
            Self::Notes => &card.notes,
            Self::Artifacts => &card.artifacts,
            Self::Goal => &card.goal,
            Self::Workflow => &card.workflow,
            Self::Branch => &card.branch,
        }
    }

    /// Whether it is what was recorded in the run, not only the name of something.
    fn is_recorded(self) -> bool {
        match self {
            Self::Notes | Self::Artifacts | Self::Goal => true,
            Self::Workflow | Self::Branch => false,
        }
    }

    fn reason(self) -> MatchReason {
        match self {
            Self::Notes => MatchReason::MatchedNotes,
            Self::Artifacts => MatchReason::MatchedArtifacts,
            Self::Goal => MatchReason::MatchedGoal,
            Self::Workflow => MatchReason::MatchedWorkflowId,
            Self::Branch => MatchReason::MatchedBranch,
        }
    }

    fn in_words(self) -> &'static str {
        match self {
            Self::Notes => "the notes",
            Self::Artifacts => "the artifacts",
            Self::Goal => "the goal",
            Self::Workflow => "the workflow's name",
            Self::Branch => "the git branch's name",
        }
    }
}

/// How much of a query a run contains.
#[derive(Clone, Debug)]
pub(super) struct QueryMatch {
    pub(super) tier: Tier,
    pub(super) why: Vec<MatchReason>,
    pub(super) held: WordSet,
    /// A word in the goal counts more than one that the notes mention in passing.
    pub(super) in_goal: WordSet,
    /// Where the words are; if some field contains all of them, only such fields.
    pub(super) fields: Vec<SearchField>,
}

impl ResumeQuery {
    /// Whether the caller named exactly this run.
    pub fn names(&self, run: RunId) -> bool {
        self.run == Some(run) || self.label == Some(RunLabel::of(run))
    }

    /// A query in words. Ids and labels in it are recognised, including a label written with a space.
    pub fn new(text: &str) -> Self {
        let sequence = search::sequence(text);
        let pairs = sequence.windows(2).map(|pair| pair.join("-"));
        let labels = sequence.iter().cloned().chain(pairs);
        let mut words: Vec<QueryWord> = search::query_words(text)
            .into_iter()
            .map(|(shown, stems)| QueryWord { shown, stems: stems.iter().map(|stem| hash(stem)).collect() })
            .collect();
        words.truncate(WORDS_MAX);
        Self {
            text: text.trim().to_owned(),
            words,
            sessions_in_words: sequence.iter().filter_map(|word| SessionId::parse(word).ok()).collect(),
            runs_in_words: sequence.iter().filter_map(|word| RunId::parse(word).ok()).collect(),
            labels_in_words: labels.filter_map(|word| RunLabel::parse(&word).ok()).collect(),
            ..Self::default()
        }
    }

    pub fn has_words(&self) -> bool {
        !self.words.is_empty()
    }

    /// Whether a run or session was asked for by name and not just in words.
    pub fn is_exact(&self) -> bool {
        self.session.is_some() || self.run.is_some() || self.label.is_some()
    }

    /// Sessions that may be meant by their ids.
    pub fn sessions(&self) -> impl Iterator<Item = SessionId> {
        self.session.into_iter().chain(self.sessions_in_words.iter().copied())
    }

    /// A run that matches the query has at least one of these terms, or belongs to one of the sessions.
    pub fn terms(&self) -> Vec<u64> {
        let runs = self.run.iter().chain(&self.runs_in_words).map(|run| terms::of_run(*run));
        let labels = self.label.iter().chain(&self.labels_in_words).map(|label| terms::of_label(*label));
        let said = [Some(self.text.as_str()), self.git_branch.as_deref()];
        let branches = said.into_iter().flatten().filter(|text| !text.is_empty()).map(terms::of_branch);
        let commits = [Some(self.text.as_str()), self.git_head_sha.as_deref()];
        let commits = commits.into_iter().flatten().filter(|text| !text.is_empty()).map(terms::of_commit);
        let words = self.words.iter().flat_map(|word| word.stems.iter().copied());
        let mut all: Vec<u64> = runs.chain(labels).chain(branches).chain(commits).chain(words).collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    /// How many words of the query a text contains.
    pub(super) fn count_in(&self, text: &str) -> u32 {
        self.held_by(&Words::of([text])).len()
    }

    pub(super) fn words_len(&self) -> u32 {
        u32::try_from(self.words.len()).unwrap_or(u32::MAX)
    }

    fn held_by(&self, words: &Words) -> WordSet {
        let held = self.words.iter().enumerate().filter(|(_, word)| words.contain_all(&word.stems));
        held.fold(WordSet::default(), |set, (position, _)| set.union(WordSet(1 << position)))
    }

    /// How many runs contain each word.
    pub(super) fn runs_with_each_word(&self, held: impl Iterator<Item = WordSet>) -> Vec<u64> {
        let mut runs = vec![0; self.words.len()];
        for set in held {
            for (position, count) in runs.iter_mut().enumerate() {
                *count += u64::from(set.has(position));
            }
        }
        runs
    }

    pub(super) fn matched(&self, card: &RunCard) -> QueryMatch {
        let by_field = SearchField::ALL.map(|field| (field, self.held_by(field.of(card))));
        let all_of = |wanted: &dyn Fn(SearchField) -> bool| {
            let sets = by_field.iter().filter(|(field, _)| wanted(*field)).map(|(_, set)| *set);
            sets.fold(WordSet::default(), WordSet::union)
        };
        let (recorded, held) = (all_of(&SearchField::is_recorded), all_of(&|_| true));
        let is_all = |set: WordSet| self.has_words() && set.len() == self.words_len();
        let one_is_enough = by_field.iter().any(|(_, set)| is_all(*set));
        let fields: Vec<SearchField> = by_field
            .iter()
            .filter(|(_, set)| if one_is_enough { is_all(*set) } else { !set.is_empty() })
            .map(|(field, _)| *field)
            .collect();
        let by_words = match () {
            () if is_all(recorded) => Tier::AllWords,
            () if is_all(held) => Tier::AllWordsWithNames,
            () if !held.is_empty() => Tier::SomeWords,
            () => Tier::Recent,
        };
        let mut why = Vec::new();
        let mut tier = by_words;
        for (applies, reason, tier_of_reason) in [
            (self.is_named(card), MatchReason::MatchedId, Tier::Named),
            (self.is_same_commit(card), MatchReason::MatchedHeadSha, Tier::SameCommit),
            (self.is_same_branch(card), MatchReason::MatchedBranch, Tier::SameBranch),
        ] {
            if applies {
                why.push(reason);
                tier = tier.min(tier_of_reason);
            }
        }
        let of_words = match by_words {
            Tier::AllWords | Tier::AllWordsWithNames => fields.iter().map(|field| field.reason()).collect(),
            Tier::SomeWords => vec![MatchReason::MatchedSomeWords],
            Tier::Recent if why.is_empty() => vec![MatchReason::RecencyFallback],
            Tier::Recent | Tier::Named | Tier::SameCommit | Tier::SameBranch => Vec::new(),
        };
        for reason in of_words {
            if !why.contains(&reason) {
                why.push(reason);
            }
        }
        let in_goal = self.held_by(&card.goal);
        QueryMatch { tier, why, held, in_goal, fields }
    }

    fn is_named(&self, card: &RunCard) -> bool {
        let session = self.session == Some(card.session) || self.sessions_in_words.contains(&card.session);
        let run = card.run().is_some_and(|run| self.run == Some(run) || self.runs_in_words.contains(&run));
        let label = card
            .label()
            .is_some_and(|label| self.label == Some(label) || self.labels_in_words.contains(&label));
        session || run || label
    }

    fn is_same_commit(&self, card: &RunCard) -> bool {
        card.git_head_sha.as_deref().is_some_and(|sha| {
            self.git_head_sha.as_deref() == Some(sha) || self.text.eq_ignore_ascii_case(sha)
        })
    }

    /// The branch itself or a prefix of it; two letters would match half of all branches.
    fn is_same_branch(&self, card: &RunCard) -> bool {
        let Some(branch) = card.git_branch.as_deref() else { return false };
        let begins = |wanted: &str| wanted.len() >= terms::BRANCH_BYTES_MIN && branch.starts_with(wanted);
        self.git_branch.as_deref().is_some_and(|wanted| wanted == branch || begins(wanted))
            || (self.text == branch || begins(&self.text))
    }

    /// The first words of a set as the caller wrote them.
    pub(super) fn shown(&self, set: WordSet) -> Vec<String> {
        let words = set.positions().filter_map(|position| self.words.get(position));
        let beginning =
            |word: &QueryWord| word.shown[..word.shown.floor_char_boundary(WORD_NAMED_BYTES_MAX)].to_owned();
        words.take(WORDS_NAMED_MAX).map(beginning).collect()
    }

    /// Why a run is offered, such as `2 of 3 words ("median", "bug") in the goal and the notes`.
    pub(super) fn reason(&self, matched: &QueryMatch) -> String {
        let mut parts: Vec<String> = Vec::new();
        for reason in &matched.why {
            match reason {
                MatchReason::MatchedId => parts.push("you named it".to_owned()),
                MatchReason::MatchedHeadSha => parts.push("same commit".to_owned()),
                MatchReason::MatchedBranch if matched.tier <= Tier::SameBranch => {
                    parts.push("same git branch".to_owned());
                }
                MatchReason::RecencyFallback if self.has_words() => {
                    parts.push("recent; the words did not match".to_owned());
                }
                MatchReason::RecencyFallback => parts.push("recent".to_owned()),
                MatchReason::MatchedBranch
                | MatchReason::MatchedNotes
                | MatchReason::MatchedArtifacts
                | MatchReason::MatchedGoal
                | MatchReason::MatchedWorkflowId
                | MatchReason::MatchedSomeWords => {}
            }
        }
        if !matched.held.is_empty() {
            let words: Vec<String> =
                self.shown(matched.held).iter().map(|word| format!("\"{word}\"")).collect();
            let (held, all) = (matched.held.len(), self.words_len());
            let how_many = match (held == all, all) {
                (true, 1) => words.join(""),
                (true, _) => format!("all words ({})", words.join(", ")),
                (false, _) => format!("{held} of {all} words ({})", words.join(", ")),
            };
            let fields: Vec<&str> = matched.fields.iter().map(|field| field.in_words()).collect();
            parts.push(format!("{how_many} in {}", listed(&fields)));
        }
        parts.join(", ")
    }
}

/// `a, b and c`.
fn listed(items: &[&str]) -> String {
    match items {
        [] => String::new(),
        [only] => (*only).to_owned(),
        [most @ .., last] => format!("{} and {last}", most.join(", ")),
    }
}
