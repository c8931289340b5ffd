//! The call that completes a step: everything it requires, as placeholders to fill in (G47).
//!
//! After a refusal it contains only what is still wrong: the rest is kept.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use workrail_model::blocker::{Blocker, BlockerCode, BlockerPointer, PersonDecision};
use workrail_model::compiled::{CompiledStep, CompiledWorkflow, MetricsDuty};
use workrail_model::placeholder;
use workrail_model::preferences::Autonomy;
use workrail_model::reply::{ACK_TOKEN_MARKER, NextCall};
use workrail_model::snapshot::PendingStep;
use workrail_model::tool::ToolName;

use super::ReplyInput;
use crate::builtins::LOOP_CONTROL_KIND;
use crate::contract::artifact_kind;
use crate::interpret::{ASSESSMENT_CONTRACT, CRITERIA_REF};
use crate::render::prompt::METRICS_OUTCOMES;
use crate::routing::Reads;
use crate::{routing, skeleton};

/// What the call still has to send.
#[derive(Default)]
struct OwedInput {
    notes: bool,
    artifacts: Vec<Value>,
    context: Map<String, Value>,
}

impl OwedInput {
    /// Several blockers may ask for the same artifact.
    fn add_artifacts(&mut self, wanted: impl IntoIterator<Item = Value>) {
        for artifact in wanted {
            if !self.artifacts.contains(&artifact) {
                self.artifacts.push(artifact);
            }
        }
    }

    /// The loop must end, which decides what its contract leaves open.
    fn stop_loop(&mut self) {
        self.artifacts.retain(|artifact| artifact_kind(artifact) != LOOP_CONTROL_KIND);
        self.artifacts.push(json!({ "kind": LOOP_CONTROL_KIND, "decision": "stop" }));
    }
}

/// The whole call, with the echo that exposes a genuine token of the wrong run (G35). `blockers` are those of the
/// refused attempt that it retries.
pub(super) fn complete(
    input: &ReplyInput<'_>,
    label: &str,
    pending: &PendingStep,
    blockers: &[Blocker],
) -> NextCall {
    let step = input.workflow.step(&pending.step_id);
    let asked = match step {
        None => OwedInput { notes: true, ..OwedInput::default() },
        Some(step) if blockers.is_empty() => everything(input, pending, step),
        Some(step) => {
            let open = routing::open_keys(input.workflow, pending, input.context);
            missing(input.workflow, step, blockers, &open)
        }
    };
    let mut output = Map::new();
    if asked.notes {
        output.insert("notesMarkdown".to_owned(), json!(placeholder::STEP_NOTES));
    }
    if !asked.artifacts.is_empty() {
        output.insert("artifacts".to_owned(), asked.artifacts.into_iter().map(shown).collect());
    }
    let mut arguments = vec![
        ("ackToken", Value::from(ACK_TOKEN_MARKER)),
        ("run", Value::from(label)),
        ("stepId", Value::from(pending.step_id.as_str())),
    ];
    if !output.is_empty() {
        arguments.push(("output", Value::Object(output)));
    }
    if !asked.context.is_empty() {
        arguments.push(("context", Value::Object(asked.context)));
    }
    NextCall::new(ToolName::ContinueWorkflow, arguments)
}

/// A template that would crowd out the step is reduced to its kind; the step's own text describes it.
fn shown(artifact: Value) -> Value {
    const SHAPE_BYTES_MAX: usize = 3000;
    match artifact.to_string().len() > SHAPE_BYTES_MAX {
        true => json!({ "kind": artifact["kind"] }),
        false => artifact,
    }
}

fn everything(input: &ReplyInput<'_>, pending: &PendingStep, step: &CompiledStep) -> OwedInput {
    OwedInput {
        // Even if they are optional: what a step asks for besides its artifacts has no other place.
        notes: true,
        artifacts: skeleton::artifacts(input.workflow, step),
        context: keys(input, pending, step),
    }
}

/// Keys that the step declares or asks the user for, and those that later steps read and this step's words name.
fn keys(input: &ReplyInput<'_>, pending: &PendingStep, step: &CompiledStep) -> Map<String, Value> {
    let held = |key: &str| input.context.get(key).is_some_and(|value| !value.is_null());
    // Even if a value is set: the step was asked to decide it, perhaps anew.
    let declared =
        step.sets.iter().map(|(key, duty)| (key.to_string(), skeleton::context_value(&duty.accepts)));
    let open = routing::open_keys(input.workflow, pending, input.context);
    let named = open
        .iter()
        .filter(|(key, _)| skeleton::mentions(step, key))
        .map(|(key, reads)| ((*key).to_owned(), skeleton::read_value(reads)));
    let waits = match input.preferences.autonomy {
        Autonomy::Guided | Autonomy::FullAutoStopOnUserDeps => true,
        Autonomy::FullAutoNeverStop => false,
    };
    let asked = step
        .user_dependencies
        .iter()
        .filter(|_| waits)
        .filter_map(|dependency| dependency.context_key.as_ref());
    let asked = asked
        .filter(|key| !held(key.as_str()))
        .map(|key| (key.to_string(), Value::from(placeholder::USERS_ANSWER)));
    let outcome = match step.metrics {
        MetricsDuty::None | MetricsDuty::Accumulate => None,
        MetricsDuty::Outcome | MetricsDuty::ReviewOutcome | MetricsDuty::CodingOutcome => {
            Some(("metrics_outcome".to_owned(), Value::from(placeholder::one_of(&METRICS_OUTCOMES))))
        }
    };
    declared.chain(named).chain(asked).chain(outcome).collect()
}

/// What the blockers say is missing or wrong.
fn missing(
    workflow: &CompiledWorkflow,
    step: &CompiledStep,
    blockers: &[Blocker],
    open: &BTreeMap<&str, Reads>,
) -> OwedInput {
    let mut asked = OwedInput::default();
    for blocker in blockers {
        match &blocker.pointer {
            // What is missing is not text.
            _ if blocker.code == BlockerCode::EvidenceMissing => {}
            BlockerPointer::OutputContract { contract_ref }
                if contract_ref.as_str() == ASSESSMENT_CONTRACT =>
            {
                asked.add_artifacts(skeleton::assessments(workflow, step));
            }
            BlockerPointer::OutputContract { contract_ref } if contract_ref.as_str() == CRITERIA_REF => {
                asked.notes = true;
            }
            BlockerPointer::OutputContract { contract_ref } => {
                let contract = workflow.contract(contract_ref);
                asked.add_artifacts(contract.map(|contract| skeleton::artifact(step, contract)));
            }
            BlockerPointer::AssessmentDimension { .. } => {
                asked.notes |= step.requires_notes();
                asked.add_artifacts(skeleton::assessments(workflow, step));
            }
            BlockerPointer::ContextKey { key } => {
                let value = match (step.sets.get(key), open.get(key.as_str())) {
                    (Some(duty), _) => skeleton::context_value(&duty.accepts),
                    (None, Some(reads)) => skeleton::read_value(reads),
                    (None, None) => Value::from(placeholder::USERS_ANSWER),
                };
                asked.context.insert(key.to_string(), value);
            }
            // A rejected result has to change before the user decides again.
            _ if blocker.decision == Some(PersonDecision::Rejected) => asked.notes = true,
            BlockerPointer::WorkflowStep { .. } => match blocker.code {
                BlockerCode::MissingRequiredNotes => asked.notes = true,
                // After all others.
                BlockerCode::LoopLimitReached
                | BlockerCode::AssessmentFollowupRequired
                | BlockerCode::CheckFailed
                | BlockerCode::EditsNotAllowed
                | BlockerCode::EvidenceMissing
                // An artifact that cannot be read is dropped by sending nothing.
                | BlockerCode::InvalidRequiredOutput
                | BlockerCode::InvariantViolation
                | BlockerCode::MissingContextKey
                | BlockerCode::MissingRequiredOutput
                | BlockerCode::RequiredCapabilityUnavailable
                | BlockerCode::RequiredCapabilityUnknown
                | BlockerCode::ScopeExceeded
                | BlockerCode::StorageCorruptionDetected
                | BlockerCode::UserOnlyDependency => {}
            },
            BlockerPointer::Capability { .. } | BlockerPointer::ContextBudget => {}
        }
    }
    if blockers.iter().any(|blocker| blocker.code == BlockerCode::LoopLimitReached) {
        asked.stop_loop();
    }
    asked
}
