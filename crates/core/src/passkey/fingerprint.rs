//! Fingerprints with which people compare keys.

use workrail_model::digest::Sha256;
use workrail_model::passkey::PublicKey;

/// Enough of the digest that finding another key with the same one is infeasible.
const DIGITS: usize = 32;
const GROUP: usize = 4;

/// The beginning of a public key's digest, in groups that can be read aloud.
pub fn fingerprint(key: &PublicKey) -> String {
    let hex = Sha256::of(key.bytes()).hex();
    let digits: Vec<char> = hex.chars().take(DIGITS).collect();
    digits.chunks(GROUP).map(String::from_iter).collect::<Vec<_>>().join(" ")
}
