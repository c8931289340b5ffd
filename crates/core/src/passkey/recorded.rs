//! The validity of a proof in an event: checked offline, against what the event says and the store's own keys (G97,
//! G98).

use workrail_model::digest::Sha256;
use workrail_model::id::{RunId, SessionId};
use workrail_model::passkey::{KeyOrigin, PasskeyProof, PreferenceProof, SignedChallenge};

use super::assertion::{self, AssertionError};
use super::log::Passkeys;
use super::statement::Statement;

/// Why a proof is invalid.
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

/// What a valid proof proves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SignerOrigin {
    /// It was signed by a key that was enrolled in this store at that time.
    EnrolledHere,
    /// It was signed by the key that came with the session. This store cannot know whose key that is.
    Foreign,
}

/// Which session the event is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordedIn {
    pub run: RunId,
    /// Whether the session was imported from a bundle.
    pub is_imported: bool,
}

/// The challenge of a proof, and what it proves. The statement names the run that the proof names.
pub fn check_recorded(
    proof: &PasskeyProof,
    statement: &Statement<'_>,
    recorded_in: RecordedIn,
    keys: &Passkeys,
) -> Result<(Sha256, SignerOrigin), ProofError> {
    let origin = match (proof.run == recorded_in.run, recorded_in.is_imported) {
        (true, is_imported) => RecordOrigin { is_imported, is_renamed: false },
        (false, true) => RecordOrigin { is_imported: true, is_renamed: true },
        (false, false) => return Err(ProofError::OtherRun),
    };
    check_signed(&proof.signed, &proof.key, statement, origin, keys)
}

/// The same for a proof that raised the autonomy of a session's runs.
pub(crate) fn check_preferences(
    proof: &PreferenceProof,
    session: SessionId,
    is_imported: bool,
    keys: &Passkeys,
) -> Result<(Sha256, SignerOrigin), ProofError> {
    let is_renamed = proof.session != session;
    if is_renamed && !is_imported {
        return Err(ProofError::OtherRun);
    }
    let statement = Statement::Preferences { session: proof.session, changes: &proof.changes };
    check_signed(&proof.signed, &proof.key, &statement, RecordOrigin { is_imported, is_renamed }, keys)
}

/// Where a record came from.
#[derive(Clone, Copy)]
struct RecordOrigin {
    is_imported: bool,
    /// Whether an import changed the id that was signed.
    is_renamed: bool,
}

fn check_signed(
    signed: &SignedChallenge,
    key: &KeyOrigin,
    statement: &Statement<'_>,
    origin: RecordOrigin,
    keys: &Passkeys,
) -> Result<(Sha256, SignerOrigin), ProofError> {
    let challenge = statement.challenge(signed.origin.as_str(), &signed.nonce);
    assertion::check(signed, challenge, &key.public_key)?;
    let Some(own) = keys.by_entry(key.enrolment) else {
        return match origin.is_imported {
            true => Ok((challenge, SignerOrigin::Foreign)),
            false => Err(ProofError::UnknownKey),
        };
    };
    let is_same = own.public_key == key.public_key
        && own.name == key.name
        && own.credential == signed.assertion.credential_id;
    if !is_same {
        return Err(ProofError::OtherKey);
    }
    let used = keys.use_of(challenge).filter(|used| used.entry == own.entry).ok_or(ProofError::NotInLog)?;
    // Leaving out a reset would make a key look more trustworthy than it is.
    if used.resets != key.resets {
        return Err(ProofError::OtherKey);
    }
    match origin.is_renamed {
        false => Ok((challenge, SignerOrigin::EnrolledHere)),
        // A copy of a run in this store: the decision was about the original.
        true => Ok((challenge, SignerOrigin::Foreign)),
    }
}
