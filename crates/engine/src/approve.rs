//! What a person decides about a step that waits for them; agents have no tool argument for this (G63).

use serde_json::{Map, Value, json};
use workrail_core::decide::approve::{AnswerChannel, Approve, GiveAnswer, answer, approve, recorded_reason};
use workrail_core::decide::fit::accepted;
use workrail_core::interpret::{AskedConfirmation, AskedProof, asked_confirmation, question_key};
use workrail_core::label::RunLabel;
use workrail_core::passkey::Statement;
use workrail_core::project::SessionState;
use workrail_core::render::prompt::render_title;
use workrail_core::resume::CardPosition;
use workrail_core::secrets::is_secret;
use workrail_model::approval::{ApprovalChannel, ApprovalDecision, ApprovalOrigin, Descent};
use workrail_model::compiled::AcceptedValues;
use workrail_model::digest::{Sha256, WorkflowHash};
use workrail_model::error::ErrorEnvelope;
use workrail_model::event::Context;
use workrail_model::id::{NodeId, RunId, SessionId};
use workrail_model::name::{ContextKey, StepId};
use workrail_model::passkey::SignedChallenge;
use workrail_model::reason::UserOnlyDependencyReason;
use workrail_model::strict_json;
use workrail_model::team::Act;

use crate::find::spelled_label;
use crate::summaries::LabelMatch;
use crate::{Engine, Store, error};

/// A step that waits for a person, and what they decide on.
#[derive(Clone, Debug, PartialEq)]
pub struct WaitingStep {
    pub session: SessionId,
    pub node: NodeId,
    pub label: String,
    pub workflow: String,
    pub goal: Option<String>,
    pub step: StepId,
    pub title: String,
    /// Digest of what the agent submitted: a decision is about exactly this.
    pub submitted: Sha256,
    pub notes: Option<String>,
    pub artifacts: Vec<Value>,
    /// The context values that the agent sent with it.
    pub context: Map<String, Value>,
    /// Whether an approval is asked for. If not, there are only questions.
    pub asks_approval: bool,
    pub questions: Vec<Question>,
    /// The proof that a decision needs in order to count.
    pub proof: AskedProof,
    /// The page of the team's console where people decide; `None` where they use commands.
    pub team_page: Option<String>,
    /// The decision that this one replaces.
    pub earlier: Option<EarlierDecision>,
}

/// A question that only a person can answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    pub key: ContextKey,
    pub description: String,
    /// Which values the step accepts, if it declares that.
    pub accepts: Option<AcceptedValues>,
    /// Whether the answer is a password, a key or another secret. Such a question is never asked through a program.
    pub is_secret: bool,
}

/// An answer as a person types it: `true`, `false`, numbers and JSON are parsed, everything else is text. A number
/// whose digits would change is text, so that an account number is never rounded (G3).
pub fn typed_answer(text: &str) -> Value {
    match strict_json::parse(text.as_bytes()) {
        Ok(Value::Number(number)) if number.to_string() != text.trim() => Value::from(text),
        Ok(value) => value,
        Err(_) => Value::from(text),
    }
}

/// The answers as the step accepts them; an unacceptable one is refused before it is recorded.
pub(crate) fn accepted_answers(
    questions: &[Question],
    values: Context,
) -> Result<Context, Box<ErrorEnvelope>> {
    let mut taken = values.as_map().clone();
    for question in questions {
        let (Some(accepts), Some(value)) = (&question.accepts, taken.get_mut(question.key.as_str())) else {
            continue;
        };
        // A person who typed `1` for a text meant the text.
        let as_text = match (accepts, &*value) {
            (AcceptedValues::OneOf { .. } | AcceptedValues::Text, Value::Bool(_) | Value::Number(_)) => {
                Some(Value::from(value.to_string()))
            }
            (_, _) => None,
        };
        let given = as_text.as_ref().unwrap_or(value);
        *value = accepted(given, accepts).ok_or_else(|| error::not_accepted(&question.key, accepts))?;
    }
    Context::new(taken).map_err(|cause| error::context(&cause))
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EarlierDecision {
    pub decision: ApprovalDecision,
    /// Whether it was about what is submitted now.
    pub is_for_this: bool,
}

impl EarlierDecision {
    /// What a person who decides again is shown about it.
    pub fn replaced_text(&self) -> String {
        let decision = match self.decision {
            ApprovalDecision::Approved => "approved",
            ApprovalDecision::Rejected => "rejected",
        };
        match self.is_for_this {
            true => format!("This was {decision} before. Your decision replaces that one."),
            false => format!(
                "Something else was {decision} before at this step. Your decision is about what is shown here."
            ),
        }
    }
}

/// How a decision is proven to be a person's, if it is.
#[derive(Clone, Copy, Debug)]
pub(crate) enum DecisionProof<'a> {
    /// In a way that an agent with a shell could use, too.
    Unproven(ApprovalOrigin),
    Passkey {
        signed: &'a SignedChallenge,
        descends_from_server: Descent,
    },
}

impl WaitingStep {
    /// The statement that a passkey signs; with the reason as it is recorded.
    pub(crate) fn statement<'a>(
        &'a self,
        run: RunId,
        decision: ApprovalDecision,
        reason: Option<&'a str>,
    ) -> Statement<'a> {
        let submitted = Some(self.submitted);
        Statement::Decision { run, node: self.node, step: &self.step, submitted, decision, reason }
    }

    /// A digest of everything shown to a person: forms carry it, so that what is decided is what was shown.
    pub fn fingerprint(&self) -> Sha256 {
        // Destructured, so that a new member cannot be forgotten.
        let Self {
            session,
            node,
            label,
            workflow,
            goal,
            step,
            title,
            submitted,
            notes,
            artifacts,
            context,
            asks_approval,
            questions,
            proof,
            // Where people decide, not what about; servers may differ in it.
            team_page: _,
            earlier,
        } = self;
        let questions = questions.iter().map(|question| {
            // What is accepted and what is secret follow from the step, which the run's workflow fixes.
            let Question { key, description, accepts: _, is_secret: _ } = question;
            (key.as_str(), description)
        });
        let questions: Vec<_> = questions.collect();
        let earlier = earlier.as_ref().map(|earlier| {
            let EarlierDecision { decision, is_for_this } = earlier;
            (decision, is_for_this)
        });
        // Spelled out, so that a page that is still open after an upgrade remains valid.
        let proof = match proof {
            AskedProof::Any => "Any",
            AskedProof::Passkey => "Passkey",
            AskedProof::PasskeyToEnrol => "PasskeyToEnrol",
        };
        let heading = json!([session, node, label, workflow, goal, step, title, submitted]);
        let shown = json!([heading, notes, artifacts, context, asks_approval, questions, earlier]);
        let shown = json!([shown, proof]);
        Sha256::of_parts(&[b"workrail/waiting", shown.to_string().as_bytes()])
    }
}

/// What an answer is about.
#[derive(Clone, Copy, Debug)]
pub(crate) enum AnswerTo<'a> {
    /// The questions that are open now, which is what a person means who types their keys.
    WhateverWaits,
    /// Only the questions that a form showed.
    Shown { seen: &'a WaitingStep, through: AnswerChannel },
    /// The same, in the console, signed by a passkey.
    Signed { seen: &'a WaitingStep, signed: &'a SignedChallenge },
}

/// Which run a decision is about.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RunRef {
    pub(crate) session: SessionId,
    pub(crate) run: RunId,
    pub(crate) workflow: WorkflowHash,
}

impl RunRef {
    fn label(&self) -> String {
        RunLabel::of(self.run).to_string()
    }
}

impl<S: Store> Engine<S> {
    /// The step of the labelled run that waits for a person.
    pub fn waiting(&self, label: &str) -> Result<WaitingStep, Box<ErrorEnvelope>> {
        let run_ref = self.run_by_label_or_id(label)?;
        self.reading().look(run_ref.session, |facts| self.waiting_in(facts, run_ref))
    }

    pub(crate) fn waiting_in(
        &self,
        facts: &SessionState,
        run_ref: RunRef,
    ) -> Result<WaitingStep, Box<ErrorEnvelope>> {
        let nothing = || error::nothing_to_approve(&run_ref.label());
        let content = self.content();
        let workflow = content.workflow(run_ref.workflow)?;
        let refused = facts.nodes(run_ref.run).filter_map(|node| {
            let last = facts.latest_advance(node.node_id).filter(|last| last.asks_a_person())?;
            Some((last, last.submitted?, node))
        });
        // If nothing was submitted, there is nothing to decide on.
        let (last, submitted, node) =
            refused.max_by_key(|(last, ..)| last.event_index).ok_or_else(nothing)?;
        let snapshot = content.snapshot(node.snapshot_ref)?;
        let context = facts.context_of_retry(node.node_id).map_err(|cause| error::context(&cause))?;
        let pending = snapshot.state().pending_step().ok_or_else(nothing)?;
        let step = workflow.step(&pending.step_id).ok_or_else(nothing)?;
        let delivered = self.delivered_by(facts, node.node_id, last.attempt);
        // An answer that the step does not accept does not count: the person can give another one.
        let unanswered = |key: &ContextKey, accepts: Option<&AcceptedValues>| {
            let value = context.get(key.as_str()).filter(|value| !value.is_null());
            value.is_none_or(|value| accepts.is_some_and(|accepts| accepted(value, accepts).is_none()))
        };
        let questions = step.user_dependencies.iter().filter_map(|dependency| {
            let key = question_key(dependency).cloned()?;
            let accepts = step.sets.get(&key).map(|duty| duty.accepts.clone());
            if !unanswered(&key, accepts.as_ref()) {
                return None;
            }
            let is_secret = dependency.reason == UserOnlyDependencyReason::NeedsUserSecretOrToken
                || is_secret(key.as_str());
            Some(Question { key, description: dependency.description.clone(), accepts, is_secret })
        });
        let gate = asked_confirmation(&workflow, pending, &context) == AskedConfirmation::Approval;
        let proof = self.approval_keys(facts, node.node_id, &workflow, pending)?.asked(&workflow, pending);
        let earlier = facts.approval(node.node_id, &pending.step_id).map(|found| EarlierDecision {
            decision: found.data.decision,
            is_for_this: found.data.submitted == Some(submitted),
        });
        Ok(WaitingStep {
            session: facts.session_id(),
            node: node.node_id,
            label: run_ref.label(),
            workflow: workflow.name.clone(),
            goal: context.get("goal").and_then(Value::as_str).map(str::to_owned),
            step: pending.step_id.clone(),
            title: render_title(&workflow, pending, &context),
            submitted,
            notes: delivered.notes_markdown,
            artifacts: delivered.artifacts,
            context: facts.shown_context_of(node.node_id, last.attempt),
            asks_approval: gate
                || step.user_dependencies.iter().any(|dependency| question_key(dependency).is_none()),
            questions: questions.collect(),
            proof,
            team_page: self.site.run_page(run_ref.run),
            earlier,
        })
    }

    /// Refuses a decision by label where only a passkey counts, before the person is asked for it.
    pub fn check_label_counts(&self, waiting: &WaitingStep) -> Result<(), Box<ErrorEnvelope>> {
        match waiting.proof {
            AskedProof::Any => Ok(()),
            asked @ (AskedProof::Passkey | AskedProof::PasskeyToEnrol) => {
                Err(error::passkey_needed(&waiting.label, asked))
            }
        }
    }

    /// Records a decision on what the person was shown.
    pub fn approve(
        &self,
        label: &str,
        seen: &WaitingStep,
        (decision, reason): (ApprovalDecision, Option<&str>),
        origin: ApprovalOrigin,
    ) -> Result<(), Box<ErrorEnvelope>> {
        let run_ref = self.run_by_label_or_id(label)?;
        let given = DecisionProof::Unproven(origin);
        self.approve_in(run_ref, seen, (decision, reason), given)
    }

    /// Records a decision signed by a passkey, about exactly what the person was shown (G97).
    pub fn approve_with_passkey(
        &self,
        run: RunId,
        seen: &WaitingStep,
        (decision, reason): (ApprovalDecision, Option<&str>),
        signed: &SignedChallenge,
        descends_from_server: Descent,
    ) -> Result<(), Box<ErrorEnvelope>> {
        let run_ref = self.run_by_label_or_id(&run.to_string())?;
        let given = DecisionProof::Passkey { signed, descends_from_server };
        self.approve_in(run_ref, seen, (decision, reason), given)
    }

    pub(crate) fn approve_in(
        &self,
        run_ref: RunRef,
        seen: &WaitingStep,
        (decision, reason): (ApprovalDecision, Option<&str>),
        given: DecisionProof<'_>,
    ) -> Result<(), Box<ErrorEnvelope>> {
        self.permit(Act::Decide)?;
        // An answer changes what is decided on, so it comes first.
        if !seen.asks_approval || !seen.questions.is_empty() {
            return Err(error::a_question(&run_ref.label(), &seen.questions));
        }
        let recorded = self.hold(run_ref.session, |held| {
            let facts = held.state();
            // Checked again under the lock: what the person saw must be what waits.
            if self.waiting_in(facts, run_ref)? != *seen {
                return Err(error::changed_since_shown(&run_ref.label()));
            }
            let (node, step) = (seen.node, seen.step.clone());
            let submitted = seen.submitted;
            let (origin, proof) = match given {
                DecisionProof::Unproven(_) if seen.proof != AskedProof::Any => {
                    return Err(error::passkey_needed(&run_ref.label(), seen.proof));
                }
                DecisionProof::Unproven(origin) => (origin, None),
                DecisionProof::Passkey { signed, descends_from_server } => {
                    let reason = reason.map(recorded_reason);
                    let reason = reason.as_ref().map(|reason| reason.as_str());
                    let statement = seen.statement(run_ref.run, decision, reason);
                    let proof = self.use_passkey(&statement, signed, run_ref.run)?;
                    (ApprovalOrigin { channel: ApprovalChannel::Passkey, descends_from_server }, Some(proof))
                }
            };
            let minting = self.minting(Act::Decide)?;
            let plan =
                approve(Approve { facts, node, step, decision, submitted, reason, origin, proof, minting })
                    .map_err(|cause| error::decide(&cause))?;
            held.append(plan)
        });
        recorded.map_err(|refused| error::locked_for_command(run_ref.session, refused))
    }

    /// Records a person's answers to the questions of the waiting step.
    pub fn give_answer(&self, label: &str, values: Context) -> Result<WaitingStep, Box<ErrorEnvelope>> {
        let run_ref = self.run_by_label_or_id(label)?;
        self.answer_in(run_ref, AnswerTo::WhateverWaits, values)
    }

    /// Records answers given in the console to the questions on its page.
    pub fn answer_in_console(
        &self,
        run: RunId,
        seen: &WaitingStep,
        values: Context,
        signed: Option<&SignedChallenge>,
    ) -> Result<(), Box<ErrorEnvelope>> {
        let to = match signed {
            Some(signed) => AnswerTo::Signed { seen, signed },
            None => AnswerTo::Shown { seen, through: AnswerChannel::Console },
        };
        self.answer_in(self.run_by_label_or_id(&run.to_string())?, to, values).map(drop)
    }

    pub(crate) fn answer_in(
        &self,
        run_ref: RunRef,
        to: AnswerTo<'_>,
        values: Context,
    ) -> Result<WaitingStep, Box<ErrorEnvelope>> {
        self.permit(Act::Decide)?;
        let recorded = self.hold(run_ref.session, |held| {
            let facts = held.state();
            let waiting = self.waiting_in(facts, run_ref)?;
            let channel = match to {
                AnswerTo::WhateverWaits => AnswerChannel::CommandLine,
                AnswerTo::Shown { seen, through } if *seen == waiting => through,
                AnswerTo::Signed { seen, .. } if *seen == waiting => AnswerChannel::Console,
                AnswerTo::Shown { .. } | AnswerTo::Signed { .. } => {
                    return Err(error::changed_since_shown(&run_ref.label()));
                }
            };
            let asked = |key: &str| waiting.questions.iter().any(|question| question.key.as_str() == key);
            if let Some((key, _)) = values.as_map().iter().find(|(_, value)| value.is_null()) {
                return Err(error::no_answer(key));
            }
            if let Some(unknown) = values.as_map().keys().find(|key| !asked(key)) {
                return Err(error::not_a_question(&run_ref.label(), unknown, &waiting.questions));
            }
            let values = accepted_answers(&waiting.questions, values)?;
            let proof = match to {
                AnswerTo::WhateverWaits | AnswerTo::Shown { .. } => None,
                AnswerTo::Signed { signed, .. } => {
                    let (run, values) = (run_ref.run, values.as_map());
                    let statement = Statement::Answer { run, node: waiting.node, values };
                    Some(self.use_passkey(&statement, signed, run)?)
                }
            };
            let minting = self.minting(Act::Decide)?;
            let plan = answer(GiveAnswer { facts, node: waiting.node, values, channel, proof, minting })
                .map_err(|cause| error::decide(&cause))?;
            held.append(plan)?;
            Ok(waiting)
        });
        recorded.map_err(|refused| error::locked_for_command(run_ref.session, refused))
    }

    /// The run with this label. The console names a run by its id, because two runs can share a label.
    fn run_by_label_or_id(&self, label: &str) -> Result<RunRef, Box<ErrorEnvelope>> {
        let found = |(session, position): (SessionId, CardPosition)| RunRef {
            session,
            run: position.run,
            workflow: position.workflow_hash,
        };
        if let Ok(run) = label.trim().parse::<RunId>() {
            return self.reading().run_position(run)?.map(found).ok_or_else(|| error::unknown_label(label));
        }
        let parsed = RunLabel::parse(&spelled_label(label)).map_err(|_| error::unknown_label(label))?;
        match self.reading().runs_with_label(parsed)? {
            LabelMatch::One(one) => Ok(found(*one)),
            LabelMatch::NoRun => Err(error::unknown_label(label)),
            LabelMatch::Several(count) => Err(error::ambiguous_label(label, count)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_typed_answer_is_never_rounded_or_shortened() {
        for (text, expected) in [
            ("main", json!("main")),
            ("true", json!(true)),
            ("42", json!(42)),
            ("-1.5", json!(-1.5)),
            ("[1, \"a\"]", json!([1, "a"])),
            ("12345678901234567890123", json!("12345678901234567890123")),
            ("9007199254740993", json!("9007199254740993")),
            ("1.10", json!("1.10")),
            ("1e400", json!("1e400")),
            ("{\"a\": 1, \"a\": 2}", json!("{\"a\": 1, \"a\": 2}")),
        ] {
            assert_eq!(typed_answer(text), expected, "{text}");
        }
    }
}
