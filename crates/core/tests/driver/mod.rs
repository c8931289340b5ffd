//! A generic agent: answers every step from the compiled contract's own example.

use serde_json::{Value, json};
use workrail_core::agent_site::AgentSite;
use workrail_core::interpret::{
    self, ApprovalState, AskedProof, Finding, InterpretError, OrderError, Positions, RecordedPosition,
    SelectionAdvisory, StepSelection, Strictness, Submitted, asked_confirmation, check_output, position,
    user_findings,
};
use workrail_core::render::prompt::{Lifecycle, render_step, render_title};
use workrail_model::blocker::BlockerPointer;
use workrail_model::compiled::{CompiledStep, CompiledWorkflow, Criteria, RuleCheck, StepKind};
use workrail_model::digest::WorkflowHash;
use workrail_model::event::{Context, DecisionTraceAppended, NodeKind};
use workrail_model::id::TraceId;
use workrail_model::snapshot::{EngineState, ExecutionSnapshot, PendingStep};

/// What a run to completion looked like.
#[derive(Debug, Default)]
pub(crate) struct Run {
    pub(crate) steps: Vec<String>,
    pub(crate) advisories: Vec<SelectionAdvisory>,
    pub(crate) traces: usize,
}

pub(crate) fn context(value: Value) -> Context {
    Context::new(value.as_object().unwrap().clone()).unwrap()
}

/// Notes that pass the step's criteria.
fn notes(step: &CompiledStep) -> String {
    let mut text = "Done as asked; the result is in the repository. ".to_owned();
    let mut wanted = 0;
    if let Some(criteria) = &step.criteria {
        satisfy(criteria, &mut text, &mut wanted);
    }
    while text.encode_utf16().count() < wanted {
        text.push('.');
    }
    text
}

fn satisfy(criteria: &Criteria, text: &mut String, wanted: &mut usize) {
    match criteria {
        Criteria::Rule { rule } => match &rule.check {
            RuleCheck::Contains { value } => {
                text.push_str(value);
                text.push(' ');
            }
            RuleCheck::Length { min, .. } => *wanted = (*wanted).max(min.unwrap_or(0) as usize),
            RuleCheck::Regex { .. } | RuleCheck::Schema { .. } => {}
        },
        Criteria::All { of } | Criteria::Any { of } => of.iter().for_each(|part| satisfy(part, text, wanted)),
        Criteria::Not { .. } => {}
    }
}

/// The artifacts a step requires; loops run one more pass before they stop.
pub(crate) fn artifacts(
    workflow: &CompiledWorkflow,
    pending: &PendingStep,
    step: &CompiledStep,
) -> Vec<Value> {
    let mut artifacts = Vec::new();
    if let Some(contract) = step.output.as_ref().and_then(|output| workflow.contract(&output.contract_ref)) {
        let mut example = contract.example.clone();
        if contract.artifact_kind == "wr.loop_control" {
            let again = pending.loop_path.last().is_some_and(|frame| frame.iteration == 0);
            example["decision"] = json!(if again { "continue" } else { "stop" });
        }
        if let StepKind::CapabilityProbe { capability, .. } = &step.kind {
            example["capability"] = json!(capability);
        }
        artifacts.push(example);
    }
    for id in &step.assessment_refs {
        let definition = workflow.assessment(id).unwrap();
        let dimensions: serde_json::Map<String, Value> = definition
            .dimensions
            .iter()
            .map(|dimension| {
                let asks = |level: &&String| {
                    step.consequences
                        .iter()
                        .any(|consequence| consequence.any_equals_level.as_str() == level.as_str())
                };
                let level = dimension.levels.iter().rev().find(|level| !asks(level)).unwrap();
                (dimension.id.to_string(), json!(level))
            })
            .collect();
        artifacts.push(json!({
            "kind": "wr.assessment", "assessmentId": id.as_str(), "dimensions": dimensions,
        }));
    }
    artifacts
}

/// An advance that what is missing stops.
pub(crate) fn advance(
    workflow: &CompiledWorkflow,
    state: &EngineState,
    context: &Context,
    artifacts: &[Value],
) -> Result<StepSelection, InterpretError> {
    interpret::advance_in(Strictness::Blocking, workflow, state, context, artifacts)
}

/// Runs to completion; every state goes through its snapshot and every trace through its budget.
pub(crate) fn run(workflow: &CompiledWorkflow, context: &Context, steps_max: usize) -> Run {
    let hash = workflow.hash().unwrap();
    let positions = Positions::of(workflow);
    let mut run = Run::default();
    let mut selection = interpret::start(workflow, context).unwrap();
    let mut lifecycle = Lifecycle::Start;
    let mut before: Option<EngineState> = None;
    loop {
        note(&mut run, &selection);
        let state = round_trip(&selection.state, hash);
        assert_eq!(positions.check_state(&state), Ok(()));
        assert_eq!(
            follows(&positions, NodeKind::Step, &state, before.as_ref()),
            Ok(()),
            "{before:?}, {state:?}"
        );
        assert_eq!(follows(&positions, NodeKind::Checkpoint, &state, Some(&state)), Ok(()));
        before = Some(state.clone());
        let Some(pending) = state.pending_step() else {
            assert!(state.is_complete());
            return run;
        };
        assert!(run.steps.len() < steps_max, "does not end: {:?}", run.steps);
        run.steps.push(pending.key().unwrap().to_string());
        let step = workflow.step(&pending.step_id).unwrap();
        let text = render_step(workflow, pending, context, lifecycle).unwrap();
        assert_eq!(text, render_step(workflow, pending, context, lifecycle).unwrap());
        assert!(!text.trim().is_empty() && !render_title(workflow, pending, context).is_empty());
        asked_confirmation(workflow, pending, context);
        let asked = user_findings(
            workflow,
            pending,
            context,
            ApprovalState::Approved,
            AskedProof::Any,
            &AgentSite::Local,
        );
        let is_question =
            |finding: &Finding| matches!(finding.blocker.pointer, BlockerPointer::ContextKey { .. });
        assert!(asked.iter().all(is_question), "{asked:?}");
        let artifacts = artifacts(workflow, pending, step);
        let check = check_output(
            workflow,
            pending,
            Submitted {
                notes: Some(&notes(step)),
                artifacts: &artifacts,
                reported: &artifacts,
                context,
                given: context,
                known: &workrail_model::compiled::RequiredGrade::ALL,
            },
        );
        assert_eq!(check.findings, [], "{} of {}", step.step_id, workflow.workflow_id);
        selection = advance(workflow, &state, context, &artifacts).unwrap();
        lifecycle = Lifecycle::Advance;
    }
}

/// Whether a node with this state can follow its parent.
pub(crate) fn follows(
    positions: &Positions,
    kind: NodeKind,
    own: &EngineState,
    parent: Option<&EngineState>,
) -> Result<(), OrderError> {
    let (own, parent) = (position(own), parent.map(position));
    let recorded = |(step_position, numbers)| RecordedPosition { step_position, numbers };
    let parent = parent.as_ref().map(|(step_position, numbers)| (step_position, numbers));
    positions.check_order(kind, recorded((&own.0, &own.1)), parent.map(recorded))
}

fn note(run: &mut Run, selection: &StepSelection) {
    run.advisories.extend(selection.advisories.iter().cloned());
    run.traces += selection.trace.len();
    assert_eq!(selection.waived, []);
    if !selection.trace.is_empty() {
        let bounded = DecisionTraceAppended::bounded(TraceId::from_bits([0; 10]), selection.trace.clone());
        assert_eq!(bounded.unwrap().entries.len(), selection.trace.len(), "fits one event");
    }
}

fn round_trip(state: &EngineState, hash: WorkflowHash) -> EngineState {
    let snapshot = ExecutionSnapshot::new(hash, state.clone()).unwrap();
    let read = ExecutionSnapshot::parse(&snapshot.to_canonical().unwrap()).unwrap();
    assert_eq!(read.state(), state);
    read.state().clone()
}
