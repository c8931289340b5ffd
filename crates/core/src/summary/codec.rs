//! Summaries as bytes: numbers and texts in sequence, each text preceded by its length.
//!
//! Every new process reads twenty thousand summaries at once, for which JSON would be too slow.

use workrail_model::digest::{Sha256, WorkflowHash};
use workrail_model::event::{Activity, EventIndex};
use workrail_model::id::{EventId, NodeId, RunId, SessionId};
use workrail_model::name::{StepId, WorkflowId};
use workrail_model::reply::LoopPosition;
use workrail_model::time::Timestamp;

use super::SessionSummary;
use crate::label::RunLabel;
use crate::overview::{RunRow, Stage, StepAt};
use crate::progress::Progress;
use crate::resume::{CardPosition, RunCard, Words};

impl SessionSummary {
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = SummaryWriter(Vec::with_capacity(1024));
        out.number(self.cards.len() as u64);
        for card in &self.cards {
            out.card(card);
        }
        out.number(self.rows.len() as u64);
        for row in &self.rows {
            out.row(row);
        }
        out.0
    }

    /// `None` if the bytes are not a complete summary.
    pub fn from_bytes(session: SessionId, bytes: &[u8]) -> Option<Self> {
        let mut from = SummaryReader(bytes);
        let cards = from.many(|from| from.card(session))?;
        let rows = from.many(|from| from.row(session))?;
        from.0.is_empty().then_some(Self { cards, rows })
    }
}

struct SummaryWriter(Vec<u8>);

impl SummaryWriter {
    fn number(&mut self, value: u64) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.number(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }

    fn text(&mut self, text: &str) {
        self.bytes(text.as_bytes());
    }

    fn option<T>(&mut self, value: Option<T>, write: impl FnOnce(&mut Self, T)) {
        self.0.push(u8::from(value.is_some()));
        if let Some(value) = value {
            write(self, value);
        }
    }

    fn words(&mut self, words: &Words) {
        self.number(words.as_hashes().len() as u64);
        for hash in words.as_hashes() {
            self.number(*hash);
        }
    }

    fn card(&mut self, card: &RunCard) {
        self.option(card.at.as_ref(), |out, at| {
            out.0.extend_from_slice(&at.run.bits());
            out.text(at.workflow_id.as_str());
            out.0.extend_from_slice(at.workflow_hash.digest().as_bytes());
            out.0.extend_from_slice(&at.tip.bits());
            out.number(at.tip_event.get());
            out.0.extend_from_slice(&at.tip_created_by.bits());
        });
        self.option(card.activity, |out, activity| out.number(activity.get()));
        self.option(card.start_key, Self::number);
        self.option(card.git_branch.as_deref(), Self::text);
        self.option(card.git_head_sha.as_deref(), Self::text);
        self.0.push(stage_number(card.stage));
        for words in [&card.notes, &card.artifacts, &card.goal, &card.workflow, &card.branch] {
            self.words(words);
        }
    }

    fn row(&mut self, row: &RunRow) {
        self.option(row.run_id, |out, run| out.0.extend_from_slice(&run.bits()));
        self.option(row.workflow_id.as_ref(), |out, id| out.text(id.as_str()));
        self.option(row.goal.as_deref(), Self::text);
        self.0.push(stage_number(row.stage));
        self.option(row.closed.as_deref(), Self::text);
        self.option(row.parent, |out, run| out.0.extend_from_slice(&run.bits()));
        self.option(row.repository, |out, root| out.0.extend_from_slice(root.as_bytes()));
        self.option(row.step.as_ref(), |out, step| {
            out.text(step.step_id.as_str());
            out.text(&step.title);
            out.number(step.progress.number);
            out.number(step.progress.about_left);
            out.number(step.progress.loops.len() as u64);
            for position in &step.progress.loops {
                out.text(&position.name);
                out.number(position.iteration);
                out.option(position.of, Self::number);
            }
        });
        self.option(row.last_at.as_ref(), |out, at| out.text(at.as_str()));
        self.option(row.last_actor.as_deref(), Self::text);
        self.option(row.activity, |out, activity| out.number(activity.get()));
    }
}

struct SummaryReader<'a>(&'a [u8]);

impl<'a> SummaryReader<'a> {
    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (first, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*first)
    }

    fn number(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    fn bytes(&mut self) -> Option<&'a [u8]> {
        let len = usize::try_from(self.number()?).ok()?;
        let (bytes, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(bytes)
    }

    fn text(&mut self) -> Option<&'a str> {
        std::str::from_utf8(self.bytes()?).ok()
    }

    /// The outer `None` is damage, the inner one an absent value.
    fn option<T>(&mut self, read: impl FnOnce(&mut Self) -> Option<T>) -> Option<Option<T>> {
        match self.array()? {
            [0] => Some(None),
            [1] => read(self).map(Some),
            [_] => None,
        }
    }

    /// Allocates nothing for a count that the bytes do not contain.
    fn many<T>(&mut self, mut read: impl FnMut(&mut Self) -> Option<T>) -> Option<Vec<T>> {
        let count = self.number()?;
        let mut found = Vec::new();
        for _ in 0..count {
            found.push(read(self)?);
        }
        Some(found)
    }

    fn words(&mut self) -> Option<Words> {
        let count = usize::try_from(self.number()?).ok()?;
        let (bytes, rest) = self.0.split_at_checked(count.checked_mul(8)?)?;
        self.0 = rest;
        let (hashes, _) = bytes.as_chunks::<8>();
        Words::from_hashes(hashes.iter().map(|hash| u64::from_le_bytes(*hash)).collect())
    }

    fn activity(&mut self) -> Option<Option<Activity>> {
        self.option(|from| Activity::new(from.number()?))
    }

    fn card(&mut self, session: SessionId) -> Option<RunCard> {
        Some(RunCard {
            session,
            at: self.option(|from| {
                Some(CardPosition {
                    run: RunId::from_bits(from.array()?),
                    workflow_id: WorkflowId::parse(from.text()?).ok()?,
                    workflow_hash: WorkflowHash::new(Sha256::from_bytes(from.array()?)),
                    tip: NodeId::from_bits(from.array()?),
                    tip_event: EventIndex::new(from.number()?)?,
                    tip_created_by: EventId::from_bits(from.array()?),
                })
            })?,
            activity: self.activity()?,
            start_key: self.option(Self::number)?,
            git_branch: self.option(|from| from.text().map(Box::from))?,
            git_head_sha: self.option(|from| from.text().map(Box::from))?,
            stage: stage_of(self.array()?)?,
            notes: self.words()?,
            artifacts: self.words()?,
            goal: self.words()?,
            workflow: self.words()?,
            branch: self.words()?,
        })
    }

    fn progress(&mut self) -> Option<Progress> {
        Some(Progress {
            number: self.number()?,
            about_left: self.number()?,
            loops: self.many(|from| {
                Some(LoopPosition {
                    name: from.text()?.to_owned(),
                    iteration: from.number()?,
                    of: from.option(Self::number)?,
                })
            })?,
        })
    }

    fn row(&mut self, session_id: SessionId) -> Option<RunRow> {
        let run_id = self.option(|from| from.array().map(RunId::from_bits))?;
        Some(RunRow {
            session_id,
            run_id,
            label: run_id.map(|run| RunLabel::of(run).to_string()),
            workflow_id: self.option(|from| WorkflowId::parse(from.text()?).ok())?,
            goal: self.option(|from| from.text().map(str::to_owned))?,
            stage: stage_of(self.array()?)?,
            closed: self.option(|from| from.text().map(str::to_owned))?,
            parent: self.option(|from| from.array().map(RunId::from_bits))?,
            repository: self.option(|from| from.array().map(Sha256::from_bytes))?,
            step: self.option(|from| {
                Some(StepAt {
                    step_id: StepId::parse(from.text()?).ok()?,
                    title: from.text()?.to_owned(),
                    progress: from.progress()?,
                })
            })?,
            last_at: self.option(|from| Timestamp::parse(from.text()?).ok())?,
            last_actor: self.option(|from| from.text().map(str::to_owned))?,
            activity: self.activity()?,
        })
    }
}

/// The number of a stage in bytes and in an index.
pub fn stage_number(stage: Stage) -> u8 {
    match stage {
        Stage::WaitsForPerson => 0,
        Stage::Blocked => 1,
        Stage::InProgress => 2,
        Stage::Unreadable => 3,
        Stage::NotesOnly => 4,
        Stage::CompleteWithGaps => 5,
        Stage::Complete => 6,
        Stage::Closed => 7,
    }
}

fn stage_of([byte]: [u8; 1]) -> Option<Stage> {
    Stage::ALL.into_iter().find(|stage| stage_number(*stage) == byte)
}
