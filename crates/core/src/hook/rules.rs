//! When a turn is held: rules that cannot cause a loop (G108).

use serde_json::Value;
use workrail_model::chat::HeldTurn;
use workrail_model::compiled::CompiledWorkflow;
use workrail_model::event::{Context, EventIndex};
use workrail_model::id::NodeId;
use workrail_model::preferences::Autonomy;
use workrail_model::snapshot::PendingStep;

use super::TurnEnd;
use crate::edits::AllowedEdits;
use crate::interpret::{AskedConfirmation, asked_confirmation, question_key};

/// How often one step holds a turn. An agent that still stops after the second time has its reasons.
const HOLDS_PER_STEP_MAX: u32 = 2;

/// Where a run is, as the rules see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunPosition {
    pub node: NodeId,
    /// How many events the session has.
    pub log_length: EventIndex,
    pub pending: PendingFor,
}

/// Whom the pending step is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PendingFor {
    Agent,
    /// A decision, an answer or a confirmation is awaited.
    Person,
    /// The run is complete, or closed.
    Nobody,
}

/// What happens to a turn that ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TurnDecision {
    Release,
    /// To be recorded before the turn is held: an unrecorded hold could be repeated forever.
    Hold(HeldTurn),
}

/// Holds a turn only while a step waits for the agent, only if the run moved since the last hold, and at most twice per
/// step. If the host says that this turn was held before, but no hold is recorded, it is not held.
pub fn hold(end: TurnEnd, last: Option<HeldTurn>, run: RunPosition) -> TurnDecision {
    if run.pending != PendingFor::Agent {
        return TurnDecision::Release;
    }
    let times = match (last, end) {
        (None, TurnEnd::AfterHold) => return TurnDecision::Release,
        (None, TurnEnd::Free) => 1,
        (Some(last), _) if last.log_length == run.log_length => return TurnDecision::Release,
        (Some(last), _) if last.node_id == run.node => last.times.saturating_add(1),
        (Some(_), _) => 1,
    };
    if times > HOLDS_PER_STEP_MAX {
        return TurnDecision::Release;
    }
    TurnDecision::Hold(HeldTurn { node_id: run.node, log_length: run.log_length, times })
}

/// Whom the pending step of an open run is for. `waits` says that the newest attempt was refused because a person has
/// to decide or answer first.
pub fn pending_for(
    workflow: &CompiledWorkflow,
    pending: &PendingStep,
    context: &Context,
    autonomy: Autonomy,
    waits: PersonWait,
) -> PendingFor {
    if waits == PersonWait::Waiting {
        return PendingFor::Person;
    }
    if autonomy == Autonomy::FullAutoNeverStop {
        return PendingFor::Agent;
    }
    // What an approval is about has to be submitted by the agent first. A confirmation is asked for in the chat.
    let confirms = asked_confirmation(workflow, pending, context) == AskedConfirmation::Confirmation
        && autonomy == Autonomy::Guided;
    let asks = workflow.step(&pending.step_id).is_some_and(|step| {
        let mut keys = step.user_dependencies.iter().filter_map(question_key);
        keys.any(|key| context.get(key.as_str()).is_none_or(Value::is_null))
    });
    if confirms || asks { PendingFor::Person } else { PendingFor::Agent }
}

/// The edited files that a step does not allow; `None` if it allows the edit. If a host does not say which file it is
/// about to edit, the edit is refused only if no edits are allowed.
pub fn refused_edit(allowed: &AllowedEdits, files: &[String]) -> Option<Vec<String>> {
    if files.is_empty() {
        return allowed.is_none_allowed().then(Vec::new);
    }
    let refused: Vec<String> = files.iter().filter(|file| !allowed.allows(file)).cloned().collect();
    (!refused.is_empty()).then_some(refused)
}

/// Whether the newest attempt at a step waits for a person.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PersonWait {
    Waiting,
    NotWaiting,
}
