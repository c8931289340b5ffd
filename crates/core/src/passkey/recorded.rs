//! What a proof in an event is worth: checked offline, against what the event says and the store's own keys (G97, G98).

use workrail_model::digest::Sha256;
use workrail_model::id::RunId;
use workrail_model::passkey::PasskeyProof;

use super::assertion::{self, AssertionError};
use super::log::Passkeys;
use super::statement::Statement;

/// Why a proof proves nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProofError {
    #[error(transparent)]
    Assertion(#[from] AssertionError),
    #[error("it was signed for another run")]
    OtherRun,
    #[error("its key was never enrolled in this store")]
    UnknownKey,
    #[error("what it says about its key is not what was enrolled")]
    OtherKey,
    #[error("this store's passkey log does not have it")]
    NotInLog,
    #[error("the same assertion is used for two decisions")]
    Repeated,
}

/// What a proof that holds proves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// A key that was enrolled in this store at that time signed it.
    EnrolledHere,
    /// The key that came with the session signed it. Whose key that is, this store cannot know.
    Foreign,
}

/// Where the event is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordedIn {
    pub run: RunId,
    /// Whether the session came here in a bundle.
    pub is_imported: bool,
}

/// The challenge of a proof and what it proves. The statement names the run that the proof names.
pub fn check_recorded(
    proof: &PasskeyProof,
    statement: &Statement<'_>,
    around: RecordedIn,
    keys: &Passkeys,
) -> Result<(Sha256, Standing), ProofError> {
    let challenge = statement.challenge(proof.signed.origin.as_str(), &proof.signed.nonce);
    assertion::check(&proof.signed, challenge, &proof.key.public_key)?;
    let is_renamed = proof.run != around.run;
    if is_renamed && !around.is_imported {
        return Err(ProofError::OtherRun);
    }
    let Some(own) = keys.by_entry(proof.key.enrolment) else {
        return match around.is_imported {
            true => Ok((challenge, Standing::Foreign)),
            false => Err(ProofError::UnknownKey),
        };
    };
    let is_same = own.public_key == proof.key.public_key
        && own.name == proof.key.name
        && own.credential == proof.signed.assertion.credential_id;
    if !is_same {
        return Err(ProofError::OtherKey);
    }
    match keys.used_by(challenge) {
        Some(entry) if entry == own.entry && !is_renamed => Ok((challenge, Standing::EnrolledHere)),
        // A copy of a run of this store: the decision was about the other one.
        Some(entry) if entry == own.entry => Ok((challenge, Standing::Foreign)),
        Some(_) | None => Err(ProofError::NotInLog),
    }
}
