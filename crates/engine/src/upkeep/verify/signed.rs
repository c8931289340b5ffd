//! What passkeys signed: whether the signature is valid, and by which key (G97).

use serde::Serialize;
use workrail_core::passkey::{ProofError, SignerOrigin, fingerprint};
use workrail_core::project::SessionState;
use workrail_core::report::{check_event, is_signed};
use workrail_model::approval::ApprovalDecision;
use workrail_model::event::{Event, EventData};
use workrail_model::passkey::KeyOrigin;

use super::RESTORE_LOG;
use super::check::Check;
use super::remedy::Remedy;

/// Records listed one by one; the rest is counted.
const SIGNED_MAX: usize = 1000;

/// A record that a passkey signed, with the key as an auditor compares it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SignedRecord {
    pub session_id: String,
    pub event_index: u64,
    /// Such as `approved` or `answered`.
    pub what: &'static str,
    /// The name under which the key was enrolled, in the store where it signed.
    pub key: String,
    /// The beginning of the digest of the public key.
    pub fingerprint: String,
    /// How often the keys of that store had been reset before.
    pub resets: u32,
    /// Whether the key came with an imported session.
    pub is_foreign: bool,
}

/// What a passkey signed in an event, and the key.
fn signed_of(event: &Event) -> Option<(&'static str, &KeyOrigin)> {
    if let EventData::ApprovalRecorded(decided) = &event.data {
        let what = match decided.decision {
            ApprovalDecision::Approved => "approved",
            ApprovalDecision::Rejected => "rejected",
        };
        return decided.proof.as_ref().map(|proof| (what, &proof.key));
    }
    if let EventData::ContextSet(set) = &event.data {
        return set.proof.as_ref().map(|proof| ("answered", &proof.key));
    }
    let EventData::PreferencesChanged(change) = &event.data else { return None };
    change.proof.as_ref().map(|proof| ("preferences", &proof.key))
}

impl Check<'_> {
    /// Checks that a passkey's signature matches exactly what the event says (G97).
    pub(super) fn signature(&mut self, session: &str, facts: &SessionState, event: &Event) {
        if !is_signed(event) {
            return;
        }
        let index = event.event_index.get();
        let Some(keys) = &self.passkeys else {
            let problem =
                format!("what a passkey signed in event {index} cannot be checked without the passkey log");
            return self.problem(session.to_owned(), problem, Remedy::Words(RESTORE_LOG));
        };
        let checked = check_event(facts, event, keys).unwrap_or(Err(ProofError::OtherRun));
        match self.challenges.once(event, checked) {
            Ok((_, origin)) => self.signed(session, event, origin),
            Err(problem) => {
                let problem = format!("the passkey signature in event {index} is not valid: {problem}");
                self.problem(session.to_owned(), problem, Remedy::RestoreUnproven);
            }
        }
    }

    /// Counts a valid signature and names its key, so that an auditor can compare it with the one they know.
    fn signed(&mut self, session: &str, event: &Event, origin: SignerOrigin) {
        match origin {
            SignerOrigin::EnrolledHere => self.report.counts.signed_decisions += 1,
            SignerOrigin::Foreign => self.report.counts.foreign_decisions += 1,
        }
        let Some((what, key)) = signed_of(event) else { return };
        if self.report.signed.len() < SIGNED_MAX {
            self.report.signed.push(SignedRecord {
                session_id: session.to_owned(),
                event_index: event.event_index.get(),
                what,
                key: key.name.to_string(),
                fingerprint: fingerprint(&key.public_key),
                resets: key.resets,
                is_foreign: origin == SignerOrigin::Foreign,
            });
        }
    }
}
