//! The validity of a session's passkey signatures, checked for every reader (G97).

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::Serialize;
use workrail_model::digest::Sha256;
use workrail_model::event::{Event, EventData, EventIndex};
use workrail_model::id::RunId;

use crate::decide::proof::checked_proof;
use crate::passkey::{
    Passkeys, ProofError, RecordedIn, SignerOrigin, Statement, check_preferences, check_recorded,
};
use crate::project::SessionState;

/// What a signature is worth.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum Signature {
    /// A key that is or was enrolled in this store signed exactly this.
    Holds,
    /// A key that came with an imported session signed it. Whose key that is, this store does not know.
    Foreign,
    /// Nobody proved this: the record was made or changed by hand.
    Fails { problem: String },
    /// The passkey log is damaged or cannot be read.
    Unchecked,
}

impl Signature {
    /// What it proves, as the end of a sentence.
    pub(crate) fn in_words(&self) -> String {
        match self {
            Self::Holds => "the signature is valid, by a key that was enrolled here".to_owned(),
            Self::Foreign => {
                "the signature is valid, by a key that came with the imported session; this store does not know whose key it is"
                    .to_owned()
            }
            Self::Fails { problem } => format!("warning: not proven: {problem}"),
            Self::Unchecked => {
                "warning: not checked, because the passkey log is damaged or cannot be read".to_owned()
            }
        }
    }

    /// The same in a few words, for a log line.
    pub(crate) fn briefly(&self) -> String {
        match self {
            Self::Holds => "proven".to_owned(),
            Self::Foreign => "a key of another store".to_owned(),
            Self::Fails { problem } => format!("not proven: {problem}"),
            Self::Unchecked => "not checked".to_owned(),
        }
    }
}

impl From<Result<(Sha256, SignerOrigin), ProofError>> for Signature {
    fn from(checked: Result<(Sha256, SignerOrigin), ProofError>) -> Self {
        match checked {
            Ok((_, SignerOrigin::EnrolledHere)) => Self::Holds,
            Ok((_, SignerOrigin::Foreign)) => Self::Foreign,
            Err(problem) => Self::Fails { problem: problem.to_string() },
        }
    }
}

/// Whether an event contains something that a passkey signed.
pub fn is_signed(event: &Event) -> bool {
    let data = &event.data;
    matches!(data, EventData::ApprovalRecorded(decided) if decided.proof.is_some())
        || matches!(data, EventData::ContextSet(set) if set.proof.is_some())
        || matches!(data, EventData::PreferencesChanged(change) if change.proof.is_some())
}

/// The validity of a session's signatures, by event.
pub type Signatures = BTreeMap<EventIndex, Signature>;

/// The signature of each event that has one; without keys if the log cannot be trusted.
pub fn signatures(facts: &SessionState, events: &[Event], keys: Option<&Passkeys>) -> Signatures {
    let mut seen = SeenChallenges::default();
    let signed = events.iter().filter(|event| is_signed(event));
    let checked = signed.map(|event| {
        let checked = keys.and_then(|keys| check_event(facts, event, keys));
        let signature = checked.map(|checked| Signature::from(seen.once(event, checked)));
        (event.event_index, signature.unwrap_or(Signature::Unchecked))
    });
    checked.collect()
}

/// What was signed so far in a session: an assertion is valid for one record.
#[derive(Clone, Debug, Default)]
pub struct SeenChallenges(BTreeSet<(Sha256, Option<RunId>)>);

impl SeenChallenges {
    /// Refuses an assertion that an earlier event has.
    pub fn once(
        &mut self,
        event: &Event,
        checked: Result<(Sha256, SignerOrigin), ProofError>,
    ) -> Result<(Sha256, SignerOrigin), ProofError> {
        // One agreement may raise the autonomy of several runs.
        let run = event.scope.run().filter(|_| matches!(event.data, EventData::PreferencesChanged(_)));
        let (challenge, origin) = checked?;
        match self.0.insert((challenge, run)) {
            true => Ok((challenge, origin)),
            false => Err(ProofError::Repeated),
        }
    }
}

/// Checks what a passkey signed in an event; `None` if nothing is signed.
pub fn check_event(
    facts: &SessionState,
    event: &Event,
    keys: &Passkeys,
) -> Option<Result<(Sha256, SignerOrigin), ProofError>> {
    let is_imported = facts.is_imported();
    if let EventData::PreferencesChanged(change) = &event.data {
        return Some(check_preferences(change.proof.as_ref()?, facts.session_id(), is_imported, keys));
    }
    let recorded_in = RecordedIn { run: event.scope.run()?, is_imported };
    if let EventData::ContextSet(set) = &event.data {
        let proof = set.proof.as_ref()?;
        let statement = Statement::Answer { run: proof.run, node: set.node_id, values: set.context.as_map() };
        return Some(check_recorded(proof, &statement, recorded_in, keys));
    }
    let EventData::ApprovalRecorded(decided) = &event.data else { return None };
    checked_proof(decided, event.scope.node()?, recorded_in, keys)
}
