//! What needs a person now, why, and the command for it; then what is running.

use serde::Serialize;
use workrail_core::interpret::AskedProof;
use workrail_core::label::RunLabel;
use workrail_core::overview::{ListLength, ListQuery};
use workrail_model::error::ErrorEnvelope;
use workrail_model::gap::Severity;
use workrail_model::id::{RunId, SessionId};
use workrail_model::text::truncate_with_marker;

use super::{Attention, DamagedRow, RunRow, SessionsList, Stage};
use crate::ProgressSink;
use crate::{Engine, Question, Store, WaitingStep};

/// How much is shown of notes that wait for a decision.
const SUBMITTED_BYTES_MAX: usize = 2 * 1024;

/// The store as a returning user wants to see it.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StoreStatus {
    /// Runs that wait for a decision or an answer come first, the longest wait first; then blocked ones.
    pub needs_you: Vec<NeedsYou>,
    pub running: Vec<RunRow>,
    pub damaged: Vec<DamagedRow>,
    /// How many sessions there are, including finished and damaged ones.
    pub sessions: u64,
}

/// A run that is stuck.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NeedsYou {
    #[serde(flatten)]
    pub run: RunRow,
    #[serde(flatten)]
    pub need: Need,
}

/// Why a run does not move on, and what to do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Need {
    pub why: WaitReason,
    /// The command to type.
    pub command: String,
}

/// Why a run does not move on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum WaitReason {
    /// A person decides on what the agent submitted: the beginning of its notes, which `workrail approve` shows in
    /// full.
    Approval {
        step: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        submitted: Option<String>,
    },
    /// A person answers; an approval may follow.
    Questions { step: String, questions: Vec<OpenQuestion> },
    /// The agent's last attempt was refused.
    Refused { step: String, reasons: Vec<String> },
    /// Critical gaps are open.
    Gaps { gaps: Vec<String> },
    /// The content that says where the run is cannot be read.
    Unreadable { problem: String },
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct OpenQuestion {
    pub key: String,
    pub question: String,
}

impl<S: Store> Engine<S> {
    /// What needs a person, and what is running.
    pub fn status(&self, progress: ProgressSink<'_>) -> Result<StoreStatus, Box<ErrorEnvelope>> {
        Ok(self.status_in(&self.sessions(&ListQuery::all_of(ListLength::Unfinished), progress)?))
    }

    /// The same from a list that has already been read.
    pub fn status_in(&self, list: &SessionsList) -> StoreStatus {
        let (mut needs_you, mut running) = (Vec::new(), Vec::new());
        for row in &list.runs {
            match row.stage {
                Stage::WaitsForPerson | Stage::Blocked | Stage::Unreadable => {
                    needs_you.push(self.needs_you(row.clone()));
                }
                Stage::InProgress => running.push(row.clone()),
                Stage::NotesOnly | Stage::CompleteWithGaps | Stage::Complete | Stage::Closed => {}
            }
        }
        // The console's order: nothing new moves above what the user is reading.
        needs_you.sort_by_key(|waiting| match waiting.run.stage {
            Stage::WaitsForPerson => (0, waiting.run.activity),
            Stage::NotesOnly
            | Stage::InProgress
            | Stage::Blocked
            | Stage::Unreadable
            | Stage::CompleteWithGaps
            | Stage::Complete
            | Stage::Closed => (1, Default::default()),
        });
        StoreStatus { needs_you, running, damaged: list.damaged.clone(), sessions: list.sessions }
    }

    fn needs_you(&self, run: RunRow) -> NeedsYou {
        let need = run.run_id.and_then(|id| self.need(run.session_id, id));
        NeedsYou { need: need.unwrap_or_else(|| unreadable("its content cannot be read")), run }
    }

    /// Why a run does not move on by itself; `None` for one that does, or that is finished.
    pub(crate) fn need(&self, session: SessionId, run: RunId) -> Option<Need> {
        let name = RunLabel::of(run).to_string();
        match self.attention(session, run) {
            Ok(Some(Attention::Person(waiting))) => Some(need_of_person(&waiting, &name)),
            Ok(Some(Attention::Agent { step, blockers })) => {
                let reasons = blockers.iter().map(|blocker| blocker.message.as_str().to_owned()).collect();
                Some(Need {
                    why: WaitReason::Refused { step, reasons },
                    command: format!("workrail show {name}"),
                })
            }
            Ok(None) => {
                let gaps = self.critical_gaps(session, run);
                let need = || Need {
                    why: WaitReason::Gaps { gaps: gaps.clone() },
                    command: format!("workrail show {name}"),
                };
                (!gaps.is_empty()).then(need)
            }
            Err(error) => Some(unreadable(&error.message)),
        }
    }

    /// The open critical gaps of a run.
    fn critical_gaps(&self, session: SessionId, run: RunId) -> Vec<String> {
        let found = self.reading().look(session, |facts| {
            let gaps = facts.gaps(run).filter(|gap| gap.is_open() && gap.severity == Severity::Critical);
            Ok(gaps.map(|gap| gap.summary.to_string()).collect())
        });
        found.unwrap_or_default()
    }
}

fn unreadable(problem: &str) -> Need {
    Need {
        why: WaitReason::Unreadable { problem: problem.to_owned() },
        command: "workrail store verify".to_owned(),
    }
}

/// What a person is asked, and the command that answers.
fn need_of_person(waiting: &WaitingStep, name: &str) -> Need {
    let step = waiting.title.clone();
    if waiting.questions.is_empty() {
        let command = match waiting.proof {
            AskedProof::Any => format!("workrail approve {name}"),
            AskedProof::Passkey | AskedProof::PasskeyToEnrol => "workrail console".to_owned(),
        };
        let submitted = waiting
            .notes
            .as_deref()
            .map(|notes| truncate_with_marker(notes, SUBMITTED_BYTES_MAX).into_owned());
        return Need { why: WaitReason::Approval { step, submitted }, command };
    }
    let keys: Vec<String> =
        waiting.questions.iter().map(|question| format!("{}=VALUE", question.key)).collect();
    let open = |question: &Question| OpenQuestion {
        key: question.key.to_string(),
        question: question.description.clone(),
    };
    let questions = waiting.questions.iter().map(open).collect();
    let command = format!("workrail answer {name} {}", keys.join(" "));
    Need { why: WaitReason::Questions { step, questions }, command }
}
