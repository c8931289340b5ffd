//! A fix is a delta: what a refused attempt sent is kept until it is sent again (G47).

use serde_json::Value;
use workrail_model::blocker::{Blocker, BlockerCode, BlockerPointer};
use workrail_model::canonical::{canonical_digest, value_to_canonical};
use workrail_model::digest::Sha256;
use workrail_model::event::AdvanceOutcome;
use workrail_model::id::{AttemptId, NodeId};
use workrail_model::limits::NOTES_BYTES_MAX;
use workrail_model::submission::{StepOutput, Submission};

use super::DecideError;
use crate::contract::artifact_kind;
use crate::interpret::{CRITERIA_REF, says_nothing};
use crate::project::{AdvanceRecord, SessionState};

/// The refused attempt whose outputs this attempt inherits.
pub fn preceding_attempt(facts: &SessionState, node: NodeId, attempt: AttemptId) -> Option<AttemptId> {
    facts.retry_chain(node, attempt).first().copied()
}

/// What happens to the notes of a refused attempt if its retry sends notes, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EarlierNotes {
    /// Nothing was wrong with them: the new ones are appended.
    Extended,
    /// They were refused, or a person decides on the new ones alone.
    Replaced,
}

impl EarlierNotes {
    /// `digest` identifies what is sent now: repeating the same call does not make it another one.
    pub(super) fn of(refused: &AdvanceRecord, digest: Sha256) -> Self {
        if refused.request_digest == Some(digest) {
            return Self::Extended;
        }
        let AdvanceOutcome::Blocked { blockers } = &refused.outcome else { return Self::Extended };
        let concerns_notes = |blocker: &Blocker| match (&blocker.code, &blocker.pointer) {
            // A question is about a value.
            (BlockerCode::UserOnlyDependency, BlockerPointer::ContextKey { .. }) => false,
            (BlockerCode::MissingRequiredNotes | BlockerCode::UserOnlyDependency, _) => true,
            // This includes a claim without evidence, which can be withdrawn.
            (_, BlockerPointer::OutputContract { contract_ref }) => contract_ref.as_str() == CRITERIA_REF,
            (_, _) => false,
        };
        if blockers.blockers().iter().any(concerns_notes) { Self::Replaced } else { Self::Extended }
    }
}

/// Both notes, the earlier ones first; only one if it contains the other.
fn joined(old: &str, new: &str) -> Result<String, DecideError> {
    if old.contains(new.trim()) {
        return Ok(old.to_owned());
    }
    if new.contains(old.trim()) {
        return Ok(new.to_owned());
    }
    let both = format!("{}\n\n{new}", old.trim_end());
    match both.len() {
        bytes if bytes > NOTES_BYTES_MAX => Err(DecideError::NotesTooLong { bytes, max: NOTES_BYTES_MAX }),
        _ => Ok(both),
    }
}

/// What the attempt delivers: what was sent now, over what was kept of the refused attempt. An artifact that was itself
/// at fault is not inherited: it is sent again, or dropped.
pub(super) fn delivered(
    sent: &StepOutput,
    earlier_output: &StepOutput,
    earlier_notes: EarlierNotes,
    is_at_fault: impl Fn(&Value) -> bool,
    is_decision: impl Fn(&Value) -> bool,
) -> Result<StepOutput, DecideError> {
    let old = earlier_output.notes_markdown.as_deref();
    // Empty phrases never replace real notes.
    let own = sent.own_notes().filter(|notes| old.is_none() || !says_nothing(notes));
    let notes_markdown = match (own, old, earlier_notes) {
        (Some(new), Some(old), EarlierNotes::Extended) => Some(joined(old, new)?),
        (own, old, _) => own.or(old).or(sent.notes_markdown.as_deref()).map(str::to_owned),
    };
    let replaced = |old: &Value| sent.artifacts.iter().any(|new| takes_place_of(new, old));
    let inherited =
        earlier_output.artifacts.iter().filter(|old| !replaced(old) && !is_at_fault(old)).cloned();
    // What is sent now comes first: the first artifact of a kind is the one that is checked and decides.
    let artifacts = without_later_decisions(&sent.artifacts, is_decision).cloned().chain(inherited).collect();
    Ok(StepOutput { notes_markdown, artifacts })
}

/// Of several decisions about a loop, the first is followed. The log does not keep the order of artifacts, and a retry
/// must follow the same one, so only that one is recorded.
fn without_later_decisions(
    sent: &[Value],
    is_decision: impl Fn(&Value) -> bool,
) -> impl Iterator<Item = &Value> {
    let mut is_decided = false;
    sent.iter().filter(move |artifact| !is_decision(artifact) || !std::mem::replace(&mut is_decided, true))
}

/// Whether one artifact replaces another. Of our own kinds there is one for each subject; a step may have
/// several of an author's or agent's kind, so those are all kept.
fn takes_place_of(new: &Value, old: &Value) -> bool {
    // Not `loopId`: a step decides for one loop, which has an id and may have a label.
    const ABOUT: [&str; 3] = ["assessmentId", "capability", "gapId"];
    // A member that one of them omits does not make it another subject.
    let agrees = |name: &&str| match (old.get(name), new.get(name)) {
        (Some(old), Some(new)) => old == new,
        (Some(_) | None, None) | (None, Some(_)) => true,
    };
    let is_one_of_a_kind = artifact_kind(new).starts_with("wr.") && ABOUT.iter().all(agrees);
    artifact_kind(old) == artifact_kind(new) && (is_one_of_a_kind || old == new)
}

/// Identifies what an attempt delivers, in whatever order and over however many attempts it was sent.
pub(crate) fn delivered_digest(delivered: &Submission) -> Result<Sha256, DecideError> {
    let Submission { output, context } = delivered;
    let mut artifacts = Vec::with_capacity(output.artifacts.len());
    for artifact in &output.artifacts {
        artifacts.push(Sha256::of(&value_to_canonical(artifact)?));
    }
    artifacts.sort();
    artifacts.dedup();
    let parts =
        serde_json::json!({ "notes": output.own_notes(), "artifacts": artifacts, "context": context });
    Ok(canonical_digest(&parts)?)
}
