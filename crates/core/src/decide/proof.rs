//! Which decisions count: those given as the workflow and the settings require (G63, G97).

use workrail_model::approval::{ApprovalChannel, RequiredProof};
use workrail_model::compiled::{CompiledStep, CompiledWorkflow, Confirmation};
use workrail_model::digest::Sha256;
use workrail_model::event::ApprovalRecorded;
use workrail_model::id::{NodeId, RunId};
use workrail_model::passkey::{PasskeyProof, PreferenceProof};
use workrail_model::preferences::{Autonomy, PreferenceChange, Preferences};
use workrail_model::snapshot::PendingStep;

use crate::interpret::AskedProof;
use crate::passkey::{
    Passkeys, ProofError, RecordedIn, SignerOrigin, Statement, check_preferences, check_recorded,
};
use crate::project::SessionState;

/// What makes a decision count.
#[derive(Clone, Copy, Debug)]
pub struct ApprovalRule<'a> {
    /// What the settings require; a workflow can require more.
    pub required: RequiredProof,
    /// The store's keys; `None` if its passkey log is damaged, so that no key can be trusted.
    pub keys: Option<&'a Passkeys>,
    is_script: bool,
}

impl<'a> ApprovalRule<'a> {
    pub fn new(required: RequiredProof, keys: Option<&'a Passkeys>) -> Self {
        Self { required, keys, is_script: false }
    }

    /// The rule for workflows' test scripts, whose decisions are made up.
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
        let checked = facts.node(node).and_then(|at| self.check(facts, at.run_id, node, decided));
        match (decided.channel, asked) {
            (ApprovalChannel::Passkey, AskedProof::Any) => {
                matches!(checked, Some(Ok((_, SignerOrigin::EnrolledHere | SignerOrigin::Foreign))))
            }
            (ApprovalChannel::Passkey, AskedProof::Passkey | AskedProof::PasskeyToEnrol) => {
                let Some(Ok((challenge, SignerOrigin::EnrolledHere))) = checked else { return false };
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

    /// Whether raising the autonomy of a run of this workflow requires a passkey: raising requires the same proof as
    /// approving (G63).
    pub fn raising_needs_passkey(&self, workflow: &CompiledWorkflow) -> bool {
        let has_gate = || workflow.steps.iter().any(|step| own_proof(step) == RequiredProof::Passkey);
        !self.is_script && (self.required == RequiredProof::Passkey || has_gate())
    }

    /// The run's autonomy at a step that requires a decision. A mode that skips missing decisions counts only if it
    /// was allowed with the proof that the decision requires: where that is a passkey, the mode must be signed by one
    /// (G97).
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
            let checked = check_preferences(proof, facts.session_id(), facts.is_imported(), keys);
            covers && matches!(checked, Ok((_, SignerOrigin::EnrolledHere)))
        };
        match asked {
            AskedProof::Any => preferences.autonomy,
            AskedProof::Passkey | AskedProof::PasskeyToEnrol if is_allowed() => preferences.autonomy,
            AskedProof::Passkey | AskedProof::PasskeyToEnrol => {
                preferences.autonomy.min(Autonomy::FullAutoStopOnUserDeps)
            }
        }
    }

    /// The validity of a decision's proof; `None` without keys to check it.
    fn check(
        &self,
        facts: &SessionState,
        run: RunId,
        node: NodeId,
        decided: &ApprovalRecorded,
    ) -> Option<Result<(Sha256, SignerOrigin), ProofError>> {
        checked_proof(decided, node, RecordedIn { run, is_imported: facts.is_imported() }, self.keys?)
    }
}

/// The proof that the step itself requires.
fn own_proof(step: &CompiledStep) -> RequiredProof {
    match &step.confirmation {
        Confirmation::Gate { proof, .. } => proof.unwrap_or_default(),
        Confirmation::Never | Confirmation::Always | Confirmation::When { .. } => RequiredProof::default(),
    }
}

/// The validity of a decision's proof; `None` if it has none.
pub(crate) fn checked_proof(
    decided: &ApprovalRecorded,
    node: NodeId,
    recorded_in: RecordedIn,
    keys: &Passkeys,
) -> Option<Result<(Sha256, SignerOrigin), ProofError>> {
    let proof = decided.proof.as_ref()?;
    Some(check_recorded(proof, &statement_of(decided, node, proof), recorded_in, keys))
}

/// The statement that the passkey signed.
fn statement_of<'a>(decided: &'a ApprovalRecorded, node: NodeId, proof: &PasskeyProof) -> Statement<'a> {
    Statement::Decision {
        run: proof.run,
        node,
        step: &decided.step_id,
        submitted: decided.submitted,
        decision: decided.decision,
        reason: decided.note.as_ref().map(|note| note.as_str()),
    }
}

/// Whether an assertion is used for two decisions: a copy of an earlier one was replayed after another decision.
fn is_repeated(facts: &SessionState, node: NodeId, challenge: Sha256) -> bool {
    let same = facts.approvals(node).iter().filter(|approval| {
        approval.data.proof.as_ref().is_some_and(|proof| {
            let statement = statement_of(&approval.data, node, proof);
            statement.challenge(proof.signed.origin.as_str(), &proof.signed.nonce) == challenge
        })
    });
    same.count() > 1
}
