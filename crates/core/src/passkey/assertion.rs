//! Parses an authenticator's response and checks it against a challenge and a public key.
//!
//! The steps are those of WebAuthn level 3, sections 7.1 and 7.2, for the one case that consoles have: no attestation,
//! ES256, user verification required. Keys are in CTAP2 canonical CBOR, so a P-256 key has exactly one form.

use data_encoding::BASE64URL_NOPAD;
use p256::ecdsa::signature::Verifier;
use p256::ecdsa::{DerSignature, VerifyingKey};
use serde_json::Value;
use workrail_model::digest::Sha256;
use workrail_model::passkey::{CredentialId, PublicKey, SignedChallenge, relying_party};
use workrail_model::strict_json;

/// Why an assertion is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AssertionError {
    #[error("the client data cannot be read")]
    ClientData,
    #[error("the client data is of another kind of ceremony")]
    OtherType,
    #[error("it was made for another challenge")]
    OtherChallenge,
    #[error("it was made for another origin")]
    OtherOrigin,
    #[error("it was made in a frame of another origin")]
    CrossOrigin,
    #[error("the authenticator data cannot be read")]
    AuthenticatorData,
    #[error("it was made for another relying party")]
    OtherRelyingParty,
    #[error("the authenticator did not verify the user")]
    UserNotVerified,
    #[error("the public key is not a point of P-256")]
    PublicKey,
    #[error("the signature does not fit the key")]
    Signature,
}

/// Why a new key cannot be enrolled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RegistrationError {
    #[error(transparent)]
    Response(#[from] AssertionError),
    #[error("the authenticator returned no ES256 key")]
    NoKey,
}

const TYPE_GET: &str = "webauthn.get";
const TYPE_CREATE: &str = "webauthn.create";

const USER_PRESENT: u8 = 0x01;
const USER_VERIFIED: u8 = 0x04;
const MAY_BE_COPIED: u8 = 0x08;
const IS_COPIED: u8 = 0x10;
const HAS_KEY: u8 = 0x40;
const HAS_EXTENSIONS: u8 = 0x80;

/// The fixed part of authenticator data: the relying party's digest, flags, counter.
#[derive(Clone, Copy, Debug)]
struct AuthenticatorData<'a> {
    flags: u8,
    counter: u32,
    rest: &'a [u8],
}

impl<'a> AuthenticatorData<'a> {
    fn parse(bytes: &'a [u8], origin: &str) -> Result<Self, AssertionError> {
        let (party, bytes) = bytes.split_first_chunk::<32>().ok_or(AssertionError::AuthenticatorData)?;
        let (flags, bytes) = bytes.split_first().ok_or(AssertionError::AuthenticatorData)?;
        let (counter, rest) = bytes.split_first_chunk::<4>().ok_or(AssertionError::AuthenticatorData)?;
        let expected = relying_party(origin).ok_or(AssertionError::OtherOrigin)?;
        if party != Sha256::of(expected.as_bytes()).as_bytes() {
            return Err(AssertionError::OtherRelyingParty);
        }
        let verified = USER_PRESENT | USER_VERIFIED;
        if flags & verified != verified {
            return Err(AssertionError::UserNotVerified);
        }
        // The flags contradict each other: a key that cannot be backed up is backed up.
        if flags & MAY_BE_COPIED == 0 && flags & IS_COPIED != 0 {
            return Err(AssertionError::AuthenticatorData);
        }
        Ok(Self { flags: *flags, counter: u32::from_be_bytes(*counter), rest })
    }
}

fn check_client_data(
    bytes: &[u8],
    kind: &str,
    challenge: Sha256,
    origin: &str,
) -> Result<(), AssertionError> {
    let data = strict_json::parse(bytes).map_err(|_| AssertionError::ClientData)?;
    let text = |name: &str| data.get(name).and_then(Value::as_str);
    if text("type") != Some(kind) {
        return Err(AssertionError::OtherType);
    }
    if text("challenge") != Some(BASE64URL_NOPAD.encode(challenge.as_bytes()).as_str()) {
        return Err(AssertionError::OtherChallenge);
    }
    // Whole values are compared: `http://localhost:80` is not `http://localhost:8080`.
    if text("origin") != Some(origin) || relying_party(origin).is_none() {
        return Err(AssertionError::OtherOrigin);
    }
    // A browser names the page around a frame in `topOrigin`, and the console is never in a frame.
    match (data.get("crossOrigin"), data.get("topOrigin")) {
        (None | Some(Value::Bool(false)), None) => Ok(()),
        (Some(_), _) | (None, Some(_)) => Err(AssertionError::CrossOrigin),
    }
}

/// The counter of an assertion that is valid for this challenge, origin and key.
pub(super) fn check(
    signed: &SignedChallenge,
    challenge: Sha256,
    key: &PublicKey,
) -> Result<u32, AssertionError> {
    let client_data = signed.assertion.client_data_json.bytes();
    check_client_data(client_data, TYPE_GET, challenge, signed.origin.as_str())?;
    let authenticator_data = signed.assertion.authenticator_data.bytes();
    let data = AuthenticatorData::parse(authenticator_data, signed.origin.as_str())?;
    // An assertion contains no new key, and no data without a flag that announces it.
    if data.flags & HAS_KEY != 0 || data.flags & HAS_EXTENSIONS == 0 && !data.rest.is_empty() {
        return Err(AssertionError::AuthenticatorData);
    }
    let key = point(key.bytes()).ok_or(AssertionError::PublicKey)?;
    let signature = DerSignature::from_bytes(signed.assertion.signature.bytes());
    let signature = signature.map_err(|_| AssertionError::Signature)?;
    let message = [authenticator_data, Sha256::of(client_data).as_bytes()].concat();
    key.verify(&message, &signature).map_err(|_| AssertionError::Signature)?;
    Ok(data.counter)
}

/// A key in the one accepted form: uncompressed, so that every key has one spelling.
fn point(bytes: &[u8]) -> Option<VerifyingKey> {
    let is_uncompressed = bytes.len() == 65 && bytes.first() == Some(&0x04);
    is_uncompressed.then(|| VerifyingKey::from_sec1_bytes(bytes).ok()).flatten()
}

/// A key that an authenticator made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewKey {
    pub credential: CredentialId,
    pub public_key: PublicKey,
    /// The authenticator's counter at that time.
    pub counter: u32,
}

/// The key in an authenticator's response to this challenge. Attestation of its maker is not requested.
pub fn registered(
    authenticator_data: &[u8],
    client_data_json: &[u8],
    challenge: Sha256,
    origin: &str,
) -> Result<NewKey, RegistrationError> {
    check_client_data(client_data_json, TYPE_CREATE, challenge, origin)?;
    let data = AuthenticatorData::parse(authenticator_data, origin)?;
    if data.flags & HAS_KEY == 0 {
        return Err(RegistrationError::NoKey);
    }
    attested(&data).ok_or(RegistrationError::NoKey)
}

/// The authenticator's model (16 bytes), the length of the credential id, the id, the key.
fn attested(data: &AuthenticatorData<'_>) -> Option<NewKey> {
    let (_model, bytes) = data.rest.split_first_chunk::<16>()?;
    let (length, bytes) = bytes.split_first_chunk::<2>()?;
    let (credential, bytes) = bytes.split_at_checked(usize::from(u16::from_be_bytes(*length)))?;
    // A map of five: kty 2 (EC2), alg -7 (ES256), crv 1 (P-256), then x and y of 32 bytes each.
    let bytes = bytes.strip_prefix(&[0xa5, 0x01, 0x02, 0x03, 0x26, 0x20, 0x01, 0x21, 0x58, 0x20])?;
    let (x, bytes) = bytes.split_first_chunk::<32>()?;
    let (y, extensions) = bytes.strip_prefix(&[0x22, 0x58, 0x20])?.split_first_chunk::<32>()?;
    let point = [&[0x04][..], x, y].concat();
    self::point(&point)?;
    if data.flags & HAS_EXTENSIONS == 0 && !extensions.is_empty() {
        return None;
    }
    Some(NewKey {
        credential: CredentialId::new(credential).ok()?,
        public_key: PublicKey::new(point).ok()?,
        counter: data.counter,
    })
}
