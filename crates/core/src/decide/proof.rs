//! Which decisions count: those that are given as the workflow and the settings ask for (G63, G97).

use workrail_model::approval::{ApprovalChannel, RequiredProof};
use workrail_model::compiled::{CompiledWorkflow, Confirmation};
use workrail_model::digest::Sha256;
use workrail_model::event::ApprovalRecorded;
use workrail_model::id::{NodeId, RunId};
use workrail_model::snapshot::PendingStep;

use crate::interpret::AskedProof;
use crate::passkey::{Passkeys, ProofError, RecordedIn, Standing, Statement, check_recorded};
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
        let own = workflow.step(&pending.step_id).and_then(|step| match &step.confirmation {
            Confirmation::Gate { proof, .. } => *proof,
            Confirmation::Never | Confirmation::Always | Confirmation::When { .. } => None,
        });
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
                matches!(standing, Some(Some(Ok((_, Standing::EnrolledHere | Standing::Foreign)))))
            }
            (ApprovalChannel::Passkey, AskedProof::Passkey | AskedProof::PasskeyToEnrol) => {
                let Some(Some(Ok((challenge, Standing::EnrolledHere)))) = standing else { return false };
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

    /// What the proof of a decision is worth; `None` without keys to judge it by.
    fn standing(
        &self,
        facts: &SessionState,
        run: RunId,
        node: NodeId,
        decided: &ApprovalRecorded,
    ) -> Option<Result<(Sha256, Standing), ProofError>> {
        standing(decided, node, RecordedIn { run, is_imported: facts.is_imported() }, self.keys?)
    }
}

/// What the proof of a decision is worth; `None` for one without a proof.
pub fn standing(
    decided: &ApprovalRecorded,
    node: NodeId,
    around: RecordedIn,
    keys: &Passkeys,
) -> Option<Result<(Sha256, Standing), ProofError>> {
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
