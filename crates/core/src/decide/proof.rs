//! Which decisions count: those that are given as the workflow and the settings ask for (G63, G97).

use workrail_model::approval::{ApprovalChannel, RequiredProof};
use workrail_model::compiled::{CompiledStep, CompiledWorkflow, Confirmation};
use workrail_model::digest::Sha256;
use workrail_model::event::ApprovalRecorded;
use workrail_model::id::{NodeId, RunId};
use workrail_model::passkey::PreferenceProof;
use workrail_model::preferences::{Autonomy, PreferenceChange, Preferences};
use workrail_model::snapshot::PendingStep;

use crate::interpret::AskedProof;
use crate::passkey::{
    Passkeys, ProofError, RecordedIn, SignerOrigin, Statement, check_preferences, check_recorded,
};
use crate::project::SessionState;

/// What a decision needs to count.
#[derive(Clone, Copy, Debug)]
pub struct ApprovalRule<'a> {
    /// What the settings ask for; a workflow can ask for more.
    pub required: RequiredProof,
    /// The store's keys; `None` where its passkey log is damaged, so that no key can be believed.
    pub keys: Option<&'a Passkeys>,
    is_script: bool,
}

impl<'a> ApprovalRule<'a> {
    pub fn new(required: RequiredProof, keys: Option<&'a Passkeys>) -> Self {
        Self { required, keys, is_script: false }
    }

    /// The rule of test scripts of workflows, whose decisions are made up.
    pub(crate) fn of_scripts() -> Self {
        Self { required: RequiredProof::Terminal, keys: None, is_script: true }
    }

    /// How a decision on the pending step must be given.
    pub fn asked(&self, workflow: &CompiledWorkflow, pending: &PendingStep) -> AskedProof {
        let own = workflow.step(&pending.step_id).map(own_proof);
        match own.unwrap_or_default().max(self.required) {
            _ if self.is_script => AskedProof::Any,
            RequiredProof::Terminal => AskedProof::Any,
            RequiredProof::Passkey if self.keys.is_some_and(|keys| !keys.has_any()) => {
                AskedProof::PasskeyToEnrol
            }
            RequiredProof::Passkey => AskedProof::Passkey,
        }
    }

    /// Whether a recorded decision counts.
    pub(crate) fn counts(
        &self,
        facts: &SessionState,
        node: NodeId,
        decided: &ApprovalRecorded,
        asked: AskedProof,
    ) -> bool {
        let standing = facts.node(node).map(|at| self.standing(facts, at.run_id, node, decided));
        match (decided.channel, asked) {
            (ApprovalChannel::Passkey, AskedProof::Any) => {
                matches!(standing, Some(Some(Ok((_, SignerOrigin::EnrolledHere | SignerOrigin::Foreign)))))
            }
            (ApprovalChannel::Passkey, AskedProof::Passkey | AskedProof::PasskeyToEnrol) => {
                let Some(Some(Ok((challenge, SignerOrigin::EnrolledHere)))) = standing else { return false };
                !is_repeated(facts, node, challenge)
            }
            (
                ApprovalChannel::Terminal | ApprovalChannel::Chat | ApprovalChannel::Console,
                AskedProof::Any,
            ) => true,
            (
                ApprovalChannel::Terminal | ApprovalChannel::Chat | ApprovalChannel::Console,
                AskedProof::Passkey | AskedProof::PasskeyToEnrol,
            ) => false,
        }
    }

    /// Whether letting a run of this workflow go further on its own counts only with a passkey: as much as approving asks
    /// for, raising its autonomy does (G63).
    pub fn raising_needs_passkey(&self, workflow: &CompiledWorkflow) -> bool {
        let has_gate = || workflow.steps.iter().any(|step| own_proof(step) == RequiredProof::Passkey);
        !self.is_script && (self.required == RequiredProof::Passkey || has_gate())
    }

    /// How far a run goes on its own at a step that asks for a decision. A mode that passes a missing decision over counts
    /// only if it was allowed as the decision must be given: where that is a passkey, one that a passkey signed (G97).
    pub(crate) fn autonomy_at_gate(
        &self,
        facts: &SessionState,
        preferences: Preferences,
        allowed_by: Option<&PreferenceProof>,
        asked: AskedProof,
    ) -> Autonomy {
        let is_allowed = || {
            let (Some(proof), Some(keys)) = (allowed_by, self.keys) else { return false };
            let covers = proof.changes.contains(&PreferenceChange::Autonomy(preferences.autonomy));
            let standing = check_preferences(proof, facts.session_id(), facts.is_imported(), keys);
            covers && matches!(standing, Ok((_, SignerOrigin::EnrolledHere)))
        };
        match asked {
            AskedProof::Any => preferences.autonomy,
            AskedProof::Passkey | AskedProof::PasskeyToEnrol if is_allowed() => preferences.autonomy,
            AskedProof::Passkey | AskedProof::PasskeyToEnrol => {
                preferences.autonomy.min(Autonomy::FullAutoStopOnUserDeps)
            }
        }
    }

    /// What the proof of a decision is worth; `None` without keys to judge it by.
    fn standing(
        &self,
        facts: &SessionState,
        run: RunId,
        node: NodeId,
        decided: &ApprovalRecorded,
    ) -> Option<Result<(Sha256, SignerOrigin), ProofError>> {
        standing(decided, node, RecordedIn { run, is_imported: facts.is_imported() }, self.keys?)
    }
}

/// What the step itself asks for.
fn own_proof(step: &CompiledStep) -> RequiredProof {
    match &step.confirmation {
        Confirmation::Gate { proof, .. } => proof.unwrap_or_default(),
        Confirmation::Never | Confirmation::Always | Confirmation::When { .. } => RequiredProof::default(),
    }
}

/// What the proof of a decision is worth; `None` for one without a proof.
pub(crate) fn standing(
    decided: &ApprovalRecorded,
    node: NodeId,
    around: RecordedIn,
    keys: &Passkeys,
) -> Option<Result<(Sha256, SignerOrigin), ProofError>> {
    let proof = decided.proof.as_ref()?;
    let statement = Statement::Decision {
        run: proof.run,
        node,
        step: &decided.step_id,
        submitted: decided.submitted,
        decision: decided.decision,
        reason: decided.note.as_ref().map(|note| note.as_str()),
    };
    Some(check_recorded(proof, &statement, around, keys))
}

/// Whether an assertion is used for two decisions: a copy of an earlier one was put after another decision.
fn is_repeated(facts: &SessionState, node: NodeId, challenge: Sha256) -> bool {
    let same = facts.approvals(node).iter().filter(|own| {
        own.data.proof.as_ref().is_some_and(|proof| {
            let statement = Statement::Decision {
                run: proof.run,
                node,
                step: &own.data.step_id,
                submitted: own.data.submitted,
                decision: own.data.decision,
                reason: own.data.note.as_ref().map(|note| note.as_str()),
            };
            statement.challenge(proof.signed.origin.as_str(), &proof.signed.nonce) == challenge
        })
    });
    same.count() > 1
}
