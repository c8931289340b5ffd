//! Derived ids: what a retry must find again is computed from the request, never drawn again.
//!
//! Each id is the beginning of a SHA-256 over a domain string and its inputs, so that replaying a call
//! names the same nodes, outputs and attempts (G30), and the dedupe keys derived from them make a repeated
//! append a no-op (G8). The domain strings and the order of inputs are part of the durable format:
//! change neither.

use workrail_model::canonical::to_canonical;
use workrail_model::capability::Capability;
use workrail_model::digest::Sha256;
use workrail_model::event::{DivergenceReason, EventIndex, OutputChannel};
use workrail_model::evidence::Evidence;
use workrail_model::id::{
    ApprovalId, AssessmentRecordId, AttemptId, BundleId, CapObsId, ChangeId, ClosureId, ConsequenceId,
    ContextId, DivergenceId, EventId, EvidenceId, GapId, NodeId, OutputId, RunId, SessionId, TraceId,
    ValidationId,
};
use workrail_model::name::{AssessmentName, ContractRef, StepId};
use workrail_model::preferences::Preferences;
use workrail_model::reason::Reason;
use workrail_model::time::Timestamp;

fn bits_80(domain: &str, parts: &[&[u8]]) -> [u8; 10] {
    let digest = digest(domain, parts);
    let mut bits = [0; 10];
    bits.copy_from_slice(&digest.as_bytes()[..10]);
    bits
}

fn bits_45(domain: &str, parts: &[&[u8]]) -> u64 {
    let digest = digest(domain, parts);
    let mut bits = [0; 8];
    bits.copy_from_slice(&digest.as_bytes()[..8]);
    u64::from_be_bytes(bits) >> 19
}

fn digest(domain: &str, parts: &[&[u8]]) -> Sha256 {
    let mut all = Vec::with_capacity(parts.len() + 1);
    all.push(domain.as_bytes());
    all.extend_from_slice(parts);
    Sha256::of_parts(&all)
}

/// The wire spelling of a closed value: stable by the format's rules, unlike a discriminant.
fn spelled<T: serde::Serialize>(value: &T) -> Vec<u8> {
    to_canonical(value).expect("closed sets contain no numbers, and only numbers can lack a canonical form")
}

/// The session created by a start with this idempotency key.
pub fn keyed_session_id(key: &str) -> SessionId {
    SessionId::from_bits(bits_80("workrail/session/keyed/1", &[key.as_bytes()]))
}

/// The run created in a session by a start with this idempotency key.
pub fn keyed_run_id(session: SessionId, key: &str) -> RunId {
    RunId::from_bits(bits_80("workrail/run/keyed/1", &[&session.bits(), key.as_bytes()]))
}

/// What the record of a start keeps of its idempotency key: by it, the run is found in any session.
pub fn start_key_digest(key: &str) -> Sha256 {
    digest("workrail/start-key/1", &[key.as_bytes()])
}

/// The node at which a run starts.
pub fn root_node_id(run: RunId) -> NodeId {
    NodeId::from_bits(bits_80("workrail/node/root/1", &[&run.bits()]))
}

/// The node that completing `parent` by `attempt` leads to.
pub fn node_id(session: SessionId, run: RunId, parent: NodeId, attempt: AttemptId) -> NodeId {
    let attempt = attempt.bits().to_be_bytes();
    let parts: [&[u8]; 4] = [&session.bits(), &run.bits(), &parent.bits(), &attempt];
    NodeId::from_bits(bits_80("workrail/node/step/1", &parts))
}

/// The checkpoint of `node` made by `attempt`.
pub fn checkpoint_node_id(node: NodeId, attempt: AttemptId) -> NodeId {
    NodeId::from_bits(of_attempt("workrail/node/checkpoint/1", node, attempt, &[]))
}

/// All ids that one attempt at one node produces share this form.
fn of_attempt(domain: &str, node: NodeId, attempt: AttemptId, rest: &[&[u8]]) -> [u8; 10] {
    let (node, attempt) = (node.bits(), attempt.bits().to_be_bytes());
    let mut parts: Vec<&[u8]> = vec![&node, &attempt];
    parts.extend_from_slice(rest);
    bits_80(domain, &parts)
}

/// `digest` is that of the notes or the artifact, so that two artifacts of one attempt differ.
pub(crate) fn output_id(
    node: NodeId,
    attempt: AttemptId,
    channel: OutputChannel,
    digest: Sha256,
) -> OutputId {
    let channel = spelled(&channel);
    let rest: [&[u8]; 2] = [&channel, digest.as_bytes()];
    OutputId::from_bits(of_attempt("workrail/output/1", node, attempt, &rest))
}

/// An output of the session itself, by its content.
pub(crate) fn session_output_id(session: SessionId, channel: OutputChannel, digest: Sha256) -> OutputId {
    let channel = spelled(&channel);
    let parts: [&[u8]; 3] = [&session.bits(), &channel, digest.as_bytes()];
    OutputId::from_bits(bits_80("workrail/output/session/1", &parts))
}

/// `subject` distinguishes gaps with the same reason: the contract, context key, dependency or loop.
pub(crate) fn gap_id(node: NodeId, attempt: AttemptId, reason: Reason, subject: &str) -> GapId {
    let reason = spelled(&reason);
    let rest: [&[u8]; 2] = [&reason, subject.as_bytes()];
    GapId::from_bits(of_attempt("workrail/gap/1", node, attempt, &rest))
}

pub(crate) fn context_id(node: NodeId, attempt: AttemptId) -> ContextId {
    ContextId::from_bits(of_attempt("workrail/context/1", node, attempt, &[]))
}

/// A person's answer at a node; the log position distinguishes it from the one before.
pub(crate) fn answer_id(node: NodeId, next: EventIndex) -> ContextId {
    let rest: [&[u8]; 2] = [&node.bits(), &next.get().to_be_bytes()];
    ContextId::from_bits(bits_80("workrail/answer/1", &rest))
}

/// What a start records belongs to no attempt: the first ack on the root must not collide with it.
pub(crate) fn before_any_attempt() -> AttemptId {
    AttemptId::from_bits(0)
}

pub(crate) fn trace_id(node: NodeId, attempt: AttemptId) -> TraceId {
    TraceId::from_bits(of_attempt("workrail/trace/1", node, attempt, &[]))
}

/// One per checked contract; without a contract, the attempt's own check.
pub(crate) fn validation_id(
    node: NodeId,
    attempt: AttemptId,
    contract: Option<&ContractRef>,
) -> ValidationId {
    let contract = contract.map_or("", ContractRef::as_str);
    ValidationId::from_bits(of_attempt("workrail/validation/1", node, attempt, &[contract.as_bytes()]))
}

/// The change that makes `effective` apply at `node`.
pub(crate) fn change_id(node: NodeId, attempt: AttemptId, effective: Preferences) -> ChangeId {
    let effective = spelled(&effective);
    ChangeId::from_bits(of_attempt("workrail/preferences/1", node, attempt, &[&effective]))
}

pub(crate) fn cap_obs_id(node: NodeId, attempt: AttemptId, capability: Capability) -> CapObsId {
    let capability = spelled(&capability);
    CapObsId::from_bits(of_attempt("workrail/capability/1", node, attempt, &[&capability]))
}

/// `summary` distinguishes divergences with the same reason.
pub(crate) fn divergence_id(
    node: NodeId,
    attempt: AttemptId,
    reason: DivergenceReason,
    summary: &str,
) -> DivergenceId {
    let reason = spelled(&reason);
    let rest: [&[u8]; 2] = [&reason, summary.as_bytes()];
    DivergenceId::from_bits(of_attempt("workrail/divergence/1", node, attempt, &rest))
}

pub(crate) fn assessment_record_id(
    node: NodeId,
    attempt: AttemptId,
    assessment: &AssessmentName,
) -> AssessmentRecordId {
    let rest: [&[u8]; 1] = [assessment.as_str().as_bytes()];
    AssessmentRecordId::from_bits(of_attempt("workrail/assessment/1", node, attempt, &rest))
}

pub(crate) fn consequence_id(
    node: NodeId,
    attempt: AttemptId,
    assessment: &AssessmentName,
    dimension: &AssessmentName,
) -> ConsequenceId {
    let rest: [&[u8]; 2] = [assessment.as_str().as_bytes(), dimension.as_str().as_bytes()];
    ConsequenceId::from_bits(of_attempt("workrail/consequence/1", node, attempt, &rest))
}

/// `after` is one more than the event index of the previous decision on this step, 0 without one: a person may change
/// their mind.
pub(crate) fn approval_id(node: NodeId, step: &StepId, after: u32) -> ApprovalId {
    let rest: [&[u8]; 3] = [&node.bits(), step.as_str().as_bytes(), &after.to_be_bytes()];
    ApprovalId::from_bits(bits_80("workrail/approval/1", &rest))
}

/// Evidence of an attempt, or of a run's start: what was seen, and when.
pub(crate) fn evidence_id(
    node: NodeId,
    attempt: Option<AttemptId>,
    seen_at: Option<&Timestamp>,
    evidence: &Evidence,
) -> EvidenceId {
    let seen =
        to_canonical(&(seen_at, evidence)).expect("evidence contains no number without a canonical form");
    let attempt = attempt.map_or([0xff; 8], |attempt| attempt.bits().to_be_bytes());
    let rest: [&[u8]; 3] = [&node.bits(), &attempt, &seen];
    EvidenceId::from_bits(bits_80("workrail/evidence/1", &rest))
}

/// The id of an imported session whose own id is taken; `number` skips derived ids that are taken, too. A check
/// before the import yields the same one.
pub fn imported_session_id(bundle: BundleId, number: u32) -> SessionId {
    SessionId::from_bits(bits_80("workrail/imported-session/1", &[&bundle.bits(), &number.to_be_bytes()]))
}

/// The id of a run in an imported session.
pub fn imported_run_id(session: SessionId, run: RunId, number: u32) -> RunId {
    let parts: [&[u8]; 3] = [&session.bits(), &run.bits(), &number.to_be_bytes()];
    RunId::from_bits(bits_80("workrail/imported-run/1", &parts))
}

/// `earlier` counts the earlier closings of this run.
pub(crate) fn closure_id(run: RunId, earlier: u32) -> ClosureId {
    ClosureId::from_bits(bits_80("workrail/closure/1", &[&run.bits(), &earlier.to_be_bytes()]))
}

/// The attempt for the child in the reply to an advance, and for the next checkpoint in the reply to a checkpoint; the
/// same in every replay.
pub fn next_attempt(parent: AttemptId, child: NodeId) -> AttemptId {
    let parts: [&[u8]; 2] = [&parent.bits().to_be_bytes(), &child.bits()];
    AttemptId::from_bits(bits_45("workrail/attempt/next/1", &parts))
}

/// The attempt for the root in the reply to a start.
pub fn root_attempt(root: NodeId) -> AttemptId {
    AttemptId::from_bits(bits_45("workrail/attempt/root/1", &[&root.bits()]))
}

/// The attempt for retrying the same node in a blocked reply.
pub fn retry_attempt(attempt: AttemptId) -> AttemptId {
    AttemptId::from_bits(bits_45("workrail/attempt/retry/1", &[&attempt.bits().to_be_bytes()]))
}

/// The attempt offered when an ack comes again with different input: it forks instead of losing work.
pub fn fork_attempt(attempt: AttemptId, request_digest: Sha256) -> AttemptId {
    let parts: [&[u8]; 2] = [&attempt.bits().to_be_bytes(), request_digest.as_bytes()];
    AttemptId::from_bits(bits_45("workrail/attempt/fork/1", &parts))
}

/// Event ids are fresh per append: 80 random bits per plan, spread over its events by position.
pub fn event_id(seed: [u8; 10], position: u32) -> EventId {
    EventId::from_bits(bits_80("workrail/event/1", &[&seed, &position.to_be_bytes()]))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use workrail_model::reason::{ContractViolation, Unexpected};

    use super::*;

    fn node() -> NodeId {
        NodeId::from_bits([1; 10])
    }

    fn attempt() -> AttemptId {
        AttemptId::from_bits(1)
    }

    fn name(text: &str) -> AssessmentName {
        AssessmentName::parse(text).unwrap()
    }

    #[test]
    fn derivations_are_pinned() {
        let (session, run) = (SessionId::from_bits([2; 10]), RunId::from_bits([3; 10]));
        let digest = Sha256::of(b"notes");
        let pinned = [
            root_node_id(run).to_string(),
            node_id(session, run, node(), attempt()).to_string(),
            checkpoint_node_id(node(), attempt()).to_string(),
            output_id(node(), attempt(), OutputChannel::Recap, digest).to_string(),
            gap_id(node(), attempt(), Reason::Unexpected(Unexpected::LoopLimitReached), "l").to_string(),
            change_id(node(), attempt(), Preferences::default()).to_string(),
            next_attempt(attempt(), node()).to_string(),
            root_attempt(node()).to_string(),
            retry_attempt(attempt()).to_string(),
            fork_attempt(attempt(), digest).to_string(),
            event_id([4; 10], 0).to_string(),
        ];
        assert_eq!(
            pinned,
            [
                "node_c216bptgwh5tn4bm",
                "node_fa3mkr4vjnq9kyb3",
                "node_jbcv0710ge20ysz5",
                "out_kqrq0616ekkr5ne9",
                "gap_qhppetbb3zym7ymv",
                "prefchg_t1eatqyrdp76v02x",
                "attempt_1vtajj8hh",
                "attempt_x8305xvsc",
                "attempt_pcmsrq7hn",
                "attempt_w339e5760",
                "evt_3t2seybdrvkz0xt2",
            ]
        );
    }

    #[test]
    fn each_kind_has_its_own_domain() {
        let contract = ContractRef::parse("wr.contracts.x").unwrap();
        let reason = Reason::ContractViolation(ContractViolation::MissingRequiredNotes);
        let bodies = [
            checkpoint_node_id(node(), attempt()).bits(),
            context_id(node(), attempt()).bits(),
            trace_id(node(), attempt()).bits(),
            validation_id(node(), attempt(), None).bits(),
            validation_id(node(), attempt(), Some(&contract)).bits(),
            gap_id(node(), attempt(), reason, "").bits(),
            gap_id(node(), attempt(), reason, "a").bits(),
            change_id(node(), attempt(), Preferences::default()).bits(),
            cap_obs_id(node(), attempt(), Capability::Delegation).bits(),
            cap_obs_id(node(), attempt(), Capability::WebBrowsing).bits(),
            divergence_id(node(), attempt(), DivergenceReason::SafetyStop, "").bits(),
            assessment_record_id(node(), attempt(), &name("a")).bits(),
            consequence_id(node(), attempt(), &name("a"), &name("b")).bits(),
            consequence_id(node(), attempt(), &name("ab"), &name("b")).bits(),
            output_id(node(), attempt(), OutputChannel::Recap, Sha256::of(b"")).bits(),
            output_id(node(), attempt(), OutputChannel::Artifact, Sha256::of(b"")).bits(),
        ];
        assert_eq!(BTreeSet::from(bodies).len(), bodies.len());
    }

    #[test]
    fn a_chain_of_retries_never_repeats_an_attempt() {
        let mut seen = BTreeSet::from([attempt()]);
        let mut current = attempt();
        for _ in 0..1000 {
            current = retry_attempt(current);
            assert!(seen.insert(current));
        }
    }

    #[test]
    fn events_of_one_plan_have_distinct_ids() {
        let ids: BTreeSet<EventId> = (0..1000).map(|position| event_id([4; 10], position)).collect();
        assert_eq!(ids.len(), 1000);
    }
}
