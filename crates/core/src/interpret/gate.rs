//! What only a person or the agent's environment can provide: confirmations, approvals, dependencies.

use std::collections::BTreeMap;

use workrail_model::approval::ApprovalDecision;
use workrail_model::blocker::{Blocker, BlockerCode, BlockerPointer, PersonDecision};
use workrail_model::capability::{Capability, CapabilityStatus};
use workrail_model::compiled::{
    CompiledStep, CompiledWorkflow, ConditionTest, Confirmation, GateKind, StepKind, UserDependency,
};
use workrail_model::event::Context;
use workrail_model::name::{ConditionId, ContextKey};
use workrail_model::reason::{CapabilityMissing, Reason, UserOnlyDependencyReason};
use workrail_model::snapshot::PendingStep;
use workrail_model::text::BoundedText;

use super::{Finding, step_scope};
use crate::agent_site::AgentSite;
use crate::condition::{ValueScope, holds};

/// What a person has decided about the pending step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ApprovalState<'a> {
    None,
    Approved,
    Rejected {
        reason: Option<&'a str>,
    },
    /// They decided on something other than what is submitted now.
    ForOther,
    /// There is a decision, but not one that counts here.
    Unproven,
}

/// How a decision on the pending step must be given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AskedProof {
    /// At a terminal, in the chat or in the console.
    Any,
    /// With a passkey in the console.
    Passkey,
    /// The same, and no key is enrolled yet.
    PasskeyToEnrol,
}

/// What the pending step requires of a person before the run continues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AskedConfirmation {
    Nothing,
    /// Shown, but advisory.
    Confirmation,
    /// Enforced: only a person's approval opens it.
    Approval,
}

/// Whether a condition holds. One that the workflow does not have counts as true, so that a confirmation, a rule or a
/// text is never silently left out; walking such a workflow fails.
pub(crate) fn holds_or_is_unknown(
    workflow: &CompiledWorkflow,
    id: &ConditionId,
    scope: &ValueScope<'_>,
) -> bool {
    workflow.condition(id).is_none_or(|condition| match &condition.test {
        ConditionTest::Context { expr } => holds(expr, scope),
        ConditionTest::LoopControl { .. } => true,
    })
}

pub fn asked_confirmation(
    workflow: &CompiledWorkflow,
    pending: &PendingStep,
    context: &Context,
) -> AskedConfirmation {
    let Some(step) = workflow.step(&pending.step_id) else { return AskedConfirmation::Nothing };
    let scope = step_scope(workflow, pending, context);
    let asked = match &step.confirmation {
        Confirmation::Never => AskedConfirmation::Nothing,
        Confirmation::Always => AskedConfirmation::Confirmation,
        Confirmation::When { condition_id } if holds_or_is_unknown(workflow, condition_id, &scope) => {
            AskedConfirmation::Confirmation
        }
        Confirmation::Gate { gate, when, proof: _ } => {
            if when.as_ref().is_none_or(|id| holds_or_is_unknown(workflow, id, &scope)) {
                match gate {
                    GateKind::HumanApproval => AskedConfirmation::Approval,
                    GateKind::CoordinatorEval => AskedConfirmation::Confirmation,
                }
            } else {
                AskedConfirmation::Nothing
            }
        }
        Confirmation::When { .. } => AskedConfirmation::Nothing,
    };
    let needs_approval = step
        .user_dependencies
        .iter()
        .any(|dependency| dependency.reason == UserOnlyDependencyReason::NeedsUserApproval);
    if needs_approval { AskedConfirmation::Approval } else { asked }
}

/// What the step still needs from a person: its dependencies, and its approval gate.
pub fn user_findings(
    workflow: &CompiledWorkflow,
    pending: &PendingStep,
    context: &Context,
    approval: ApprovalState<'_>,
    asked: AskedProof,
    site: &AgentSite,
) -> Vec<Finding> {
    let Some(step) = workflow.step(&pending.step_id) else { return Vec::new() };
    let is_approved = approval == ApprovalState::Approved;
    // A question is answered, not approved.
    let is_given = |dependency: &UserDependency| match question_key(dependency) {
        Some(key) => context.get(key.as_str()).is_some_and(|value| !value.is_null()),
        None => is_approved,
    };
    let mut findings: Vec<Finding> = step
        .user_dependencies
        .iter()
        .filter(|dependency| !is_given(dependency))
        .map(|dependency| match question_key(dependency) {
            Some(key) => user_finding(
                dependency.reason,
                BlockerPointer::ContextKey { key: key.clone() },
                &dependency.description,
                &format!("Ask the user, then send the call below with `context.{key}` set."),
                None,
            ),
            None => decision_finding(step, dependency, approval, (asked, site)),
        })
        .collect();
    let approval_reason = Reason::UserOnlyDependency(UserOnlyDependencyReason::NeedsUserApproval);
    let listed = findings.iter().any(|finding| finding.reason == approval_reason);
    let confirmation = asked_confirmation(workflow, pending, context);
    if !is_approved && confirmation == AskedConfirmation::Approval && !listed && gate_of(step).is_some() {
        findings.push(approval_finding(step, approval, (asked, site)));
    }
    findings
}

/// The key that holds the answer to a question. An approval is never given through a value.
pub fn question_key(dependency: &UserDependency) -> Option<&ContextKey> {
    match dependency.reason {
        UserOnlyDependencyReason::NeedsUserApproval => None,
        UserOnlyDependencyReason::NeedsUserSecretOrToken
        | UserOnlyDependencyReason::NeedsUserAccountAccess
        | UserOnlyDependencyReason::NeedsUserArtifact
        | UserOnlyDependencyReason::NeedsUserChoice
        | UserOnlyDependencyReason::NeedsUserEnvironmentAction => dependency.context_key.as_ref(),
    }
}

fn gate_of(step: &CompiledStep) -> Option<GateKind> {
    match &step.confirmation {
        Confirmation::Gate { gate, .. } => Some(*gate),
        Confirmation::Never | Confirmation::Always | Confirmation::When { .. } => None,
    }
}

/// A dependency that a decision lifts. The author's words say what is to be decided; after a decision, the agent needs
/// to know what became of it.
fn decision_finding(
    step: &CompiledStep,
    dependency: &UserDependency,
    approval: ApprovalState<'_>,
    (asked, site): (AskedProof, &AgentSite),
) -> Finding {
    let message = match approval {
        ApprovalState::None | ApprovalState::Approved => dependency.description.clone(),
        ApprovalState::Rejected { .. } | ApprovalState::ForOther | ApprovalState::Unproven => {
            approval_message(approval)
        }
    };
    let pointer = BlockerPointer::WorkflowStep { step_id: step.step_id.clone() };
    let fix = after_decision(approval, asked, site);
    user_finding(dependency.reason, pointer, &message, &fix, Some(decision_state(approval, asked)))
}

fn approval_finding(
    step: &CompiledStep,
    approval: ApprovalState<'_>,
    (asked, site): (AskedProof, &AgentSite),
) -> Finding {
    let pointer = BlockerPointer::WorkflowStep { step_id: step.step_id.clone() };
    user_finding(
        UserOnlyDependencyReason::NeedsUserApproval,
        pointer,
        &approval_message(approval),
        &after_decision(approval, asked, site),
        Some(decision_state(approval, asked)),
    )
}

fn decision_state(approval: ApprovalState<'_>, asked: AskedProof) -> PersonDecision {
    match (approval, asked) {
        (ApprovalState::Rejected { .. }, _) => PersonDecision::Rejected,
        (_, AskedProof::Passkey | AskedProof::PasskeyToEnrol) => PersonDecision::AwaitedInConsole,
        (_, AskedProof::Any) => PersonDecision::Awaited,
    }
}

/// Why the step's result does not count as approved.
fn approval_message(approval: ApprovalState<'_>) -> String {
    match approval {
        ApprovalState::Rejected { reason } => rejected(reason),
        ApprovalState::ForOther => {
            "The person's decision was about something else: what you send now is not what they were shown."
                .to_owned()
        }
        ApprovalState::Unproven => {
            "There is a decision on this step, but it does not count: a passkey that is enrolled here must sign it.".to_owned()
        }
        ApprovalState::None | ApprovalState::Approved => {
            "A person must approve this step's result before the step can end.".to_owned()
        }
    }
}

/// What the agent should do about a decision that is missing or does not match.
fn after_decision(approval: ApprovalState<'_>, asked: AskedProof, site: &AgentSite) -> String {
    match (approval, asked) {
        (ApprovalState::Rejected { .. }, _) => AFTER_REJECTION,
        (_, asked) if matches!(site, AgentSite::Remote { .. }) => return decided_in_team_console(asked),
        (_, AskedProof::Passkey) => {
            "Ask the user to open the console (`workrail console`) and approve this there with their passkey; nothing \
             else counts. Wait until they have. Then send the call below unchanged: your submission is kept, and only \
             that is approved."
        }
        (_, AskedProof::PasskeyToEnrol) => {
            "Only a passkey counts here, and none is enrolled. Ask the user to open the console (`workrail console`), \
             enrol one under Settings, Passkeys, and approve this with it. Wait until they have. Then send the call \
             below unchanged: your submission is kept, and only that is approved."
        }
        (approval, AskedProof::Any) => return decided_anywhere(approval).to_owned(),
    }
    .to_owned()
}

const AFTER_REJECTION: &str =
    "Change the result as they say and send it with the call below; then ask them again.";

/// The same for agents of a team's server. The address of the run's page is in the reply, not in the record.
fn decided_in_team_console(asked: AskedProof) -> String {
    let how = match asked {
        AskedProof::Any => "approve this in the team's console",
        AskedProof::Passkey => "approve this in the team's console with their passkey; nothing else counts",
        AskedProof::PasskeyToEnrol => {
            "enrol a passkey in the team's console under Settings, Passkeys, and approve this with it; nothing else counts"
        }
    };
    format!(
        "Ask an approver to {how}. Wait until they have. Then send the call below unchanged: your submission is kept, \
         and only that is approved."
    )
}

/// The same refusal, now that a person has decided on exactly what it is about (G63).
pub(crate) fn decided_since(blocker: &Blocker, decision: ApprovalDecision, note: Option<&str>) -> Blocker {
    let (message, fix, decision) = match (decision, note) {
        (ApprovalDecision::Approved, _) => (
            "A person approved this step's result.".to_owned(),
            "Send the call below unchanged: your submission is kept, and only that is approved.",
            PersonDecision::Approved,
        ),
        (ApprovalDecision::Rejected, reason) => (rejected(reason), AFTER_REJECTION, PersonDecision::Rejected),
    };
    Blocker {
        message: BoundedText::clip(&message),
        suggested_fix: Some(BoundedText::clip(fix)),
        decision: Some(decision),
        ..blocker.clone()
    }
}

fn rejected(reason: Option<&str>) -> String {
    match reason {
        Some(reason) => format!("A person rejected this step's result: {reason}"),
        None => "A person rejected this step's result, without a reason.".to_owned(),
    }
}

fn decided_anywhere(approval: ApprovalState<'_>) -> &'static str {
    match approval {
        ApprovalState::Rejected { .. } => AFTER_REJECTION,
        ApprovalState::ForOther => {
            "Ask the user to look at this and approve it (`workrail approve`), then send the call below unchanged: \
             your submission is kept."
        }
        ApprovalState::None | ApprovalState::Approved | ApprovalState::Unproven => {
            "Ask the user to approve (`workrail approve`) and wait until they have. Then send the call below \
             unchanged: your submission is kept, and only that is approved."
        }
    }
}

fn user_finding(
    reason: UserOnlyDependencyReason,
    pointer: BlockerPointer,
    message: &str,
    fix: &str,
    decision: Option<PersonDecision>,
) -> Finding {
    let blocker = Blocker {
        code: BlockerCode::UserOnlyDependency,
        pointer,
        message: BoundedText::clip(message),
        suggested_fix: Some(BoundedText::clip(fix)),
        decision,
    };
    Finding { reason: Reason::UserOnlyDependency(reason), blocker }
}

/// Required capabilities that strong observations have not shown to be available. A capability's own probe
/// may have `unknown`: its purpose is to find out.
pub fn capability_findings(
    workflow: &CompiledWorkflow,
    pending: &PendingStep,
    observed: &BTreeMap<Capability, CapabilityStatus>,
) -> Vec<Finding> {
    let is_probe = workflow.step(&pending.step_id).is_some_and(|step| match step.kind {
        StepKind::CapabilityProbe { .. } => true,
        StepKind::Standard | StepKind::Parallel { .. } => false,
    });
    let mut findings = Vec::new();
    for capability in &workflow.capabilities.required {
        let status = observed.get(capability).copied().unwrap_or(CapabilityStatus::Unknown);
        let (missing, code, what) = match status {
            CapabilityStatus::Available => continue,
            CapabilityStatus::Unknown if is_probe => continue,
            CapabilityStatus::Unknown => (
                CapabilityMissing::RequiredCapabilityUnknown,
                BlockerCode::RequiredCapabilityUnknown,
                "has not been probed yet",
            ),
            CapabilityStatus::Unavailable => (
                CapabilityMissing::RequiredCapabilityUnavailable,
                BlockerCode::RequiredCapabilityUnavailable,
                "was found to be unavailable",
            ),
        };
        let name = capability.as_str();
        let blocker = Blocker {
            code,
            pointer: BlockerPointer::Capability { capability: *capability },
            message: BoundedText::clip(&format!("This workflow requires `{name}`, which {what}.")),
            suggested_fix: Some(BoundedText::clip(&format!(
                "Ask the user to enable a tool for it, then try it in the step that probes `{name}`: only that step can show that it is \
                 available. If another step is pending, go back with the stateToken from the reply that showed the probing step."
            ))),
            decision: None,
        };
        findings.push(Finding { reason: Reason::CapabilityMissing(missing), blocker });
    }
    findings
}
