//! The short encoding, `st.v2.<run-label>.<43 characters>`: what agents see and copy.
//!
//! The body is 214 bits and one zero bit: session 80, node event index 25, attempt 45 (zero if the
//! kind has none), MAC 64. The MAC also covers the kind and the label, so that no part of a token can
//! be exchanged for another token's (G34). Its first 40 bits can be checked before the log is read; the last
//! 24 also cover the event that created the node, which only the log knows. So a token of a truncated
//! or restored history does not fit what took its place.

use workrail_model::digest::Sha256;
use workrail_model::event::EventIndex;
use workrail_model::id::{AttemptId, EventId, SessionId, base32};
use workrail_model::keyring::SigningKey;
use workrail_model::token::{ShortTarget, TokenKind};

use super::{TokenProblem, TokenRef, TokenSignature, Unverified, signature};
use crate::label::RunLabel;

pub(super) const BODY_CHARS: usize = 43;
/// 27 bytes are 216 bits: 214 significant ones and two zeros.
const BODY_BYTES: usize = 27;

const ATTEMPT_BITS: u32 = 45;
const NODE_MASK: u128 = (1 << 25) - 1;
const ATTEMPT_MASK: u128 = (1 << ATTEMPT_BITS) - 1;
/// How many of the MAC's 64 bits are before the last byte.
const MAC_BITS_BEFORE_LAST: u32 = 58;

/// Keeps these MACs apart from those of `v1` payloads, which start with `{`.
const DOMAIN: &[u8] = b"workrail/token/v2\0";

/// The two parts of a MAC.
#[derive(Clone, Copy, Debug)]
pub(super) struct SplitMac {
    pub(super) left: [u8; 5],
    right: [u8; 3],
}

impl SplitMac {
    fn new(signature: [u8; 32], created_by: Option<EventId>) -> Self {
        let mut left = [0; 5];
        left.copy_from_slice(&signature[..5]);
        Self { left, right: EventBinding::expected(&signature, created_by) }
    }

    fn bytes(self) -> [u8; 8] {
        let [a, b, c, d, e] = self.left;
        let [f, g, h] = self.right;
        [a, b, c, d, e, f, g, h]
    }

    fn of_bytes([a, b, c, d, e, f, g, h]: [u8; 8]) -> Self {
        Self { left: [a, b, c, d, e], right: [f, g, h] }
    }

    /// What is left to prove once the signature is known.
    pub(super) fn binding(self, signature: [u8; 32]) -> EventBinding {
        EventBinding { signature, right: self.right }
    }
}

/// A token's claim on the event that created its node.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct EventBinding {
    /// Mostly secret; never shown.
    signature: [u8; 32],
    right: [u8; 3],
}

impl std::fmt::Debug for EventBinding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("EventBinding(..)")
    }
}

impl EventBinding {
    pub(super) fn holds(&self, created_by: Option<EventId>) -> bool {
        // Every bit is compared, however many differ.
        let expected = Self::expected(&self.signature, created_by);
        expected.iter().zip(&self.right).fold(0, |differing, (a, b)| differing | (a ^ b)) == 0
    }

    fn expected(signature: &[u8; 32], created_by: Option<EventId>) -> [u8; 3] {
        let event = created_by.map(|event| event.bits()).unwrap_or_default();
        let digest = Sha256::of_parts(&[signature, &event]);
        let mut right = [0; 3];
        right.copy_from_slice(&digest.as_bytes()[..3]);
        right
    }
}

pub(super) fn mint(
    target: &ShortTarget,
    label: RunLabel,
    created_by: Option<EventId>,
    key: &SigningKey,
) -> String {
    let mac = SplitMac::new(signature(key, &message(target, label)), created_by);
    format!("{}.v2.{label}.{}", target.kind.prefix(), body(target, mac.bytes()))
}

pub(super) fn decode(kind: TokenKind, label: &str, text: &str) -> Result<Unverified, TokenProblem> {
    let label = RunLabel::parse(label).map_err(|_| TokenProblem::Label)?;
    let characters = text.chars().count();
    if characters != BODY_CHARS {
        return Err(TokenProblem::BodyLength { found: characters });
    }
    let (target, mac) = read_body(kind, text)?;
    // The decoder is already strict; comparing the bytes keeps it so if it changes.
    if body(&target, mac) != text {
        return Err(TokenProblem::NotCanonical);
    }
    let message = message(&target, label);
    let signature = TokenSignature::Split(SplitMac::of_bytes(mac));
    Ok(Unverified { reference: TokenRef::Short { target, label }, message, signature })
}

/// Node and attempt as one number of 70 bits.
fn packed(target: &ShortTarget) -> u128 {
    let attempt = target.attempt.map_or(0, |attempt| attempt.bits());
    u128::from(target.node_event.get()) << ATTEMPT_BITS | u128::from(attempt)
}

/// What is signed: kind and label as written, then the 150 payload bits.
fn message(target: &ShortTarget, label: RunLabel) -> Vec<u8> {
    let mut message = DOMAIN.to_vec();
    message.extend_from_slice(format!("{}.{label}.", target.kind.prefix()).as_bytes());
    message.extend_from_slice(&target.session.bits());
    message.extend_from_slice(&packed(target).to_be_bytes()[7..]);
    message
}

fn body(target: &ShortTarget, mac: [u8; 8]) -> String {
    let mac = u64::from_be_bytes(mac);
    let last_bits = 64 - MAC_BITS_BEFORE_LAST;
    let middle = packed(target) << MAC_BITS_BEFORE_LAST | u128::from(mac >> last_bits);
    let mut bytes = Vec::with_capacity(BODY_BYTES);
    bytes.extend_from_slice(&target.session.bits());
    bytes.extend_from_slice(&middle.to_be_bytes());
    bytes.push((mac << (8 - last_bits)).to_be_bytes()[7]);
    let mut text = base32().encode(&bytes);
    // The 44th character holds nothing but the second zero bit.
    text.truncate(BODY_CHARS);
    text
}

fn read_body(kind: TokenKind, text: &str) -> Result<(ShortTarget, [u8; 8]), TokenProblem> {
    let bytes = base32().decode(format!("{text}0").as_bytes()).map_err(|_| TokenProblem::BodyCharacter)?;
    let bytes: [u8; BODY_BYTES] = bytes.try_into().map_err(|_| TokenProblem::BodyCharacter)?;
    let (mut session, mut middle) = ([0; 10], [0; 16]);
    session.copy_from_slice(&bytes[..10]);
    middle.copy_from_slice(&bytes[10..26]);
    let (middle, last) = (u128::from_be_bytes(middle), bytes[26]);

    let last_bits = 64 - MAC_BITS_BEFORE_LAST;
    if last & ((1 << (8 - last_bits)) - 1) != 0 {
        return Err(TokenProblem::UnusedBits);
    }
    let mac_high = middle & ((1 << MAC_BITS_BEFORE_LAST) - 1);
    // 58 bits and 6 bits: masked above, so that both conversions keep every bit.
    let mac = (mac_high as u64) << last_bits | u64::from(last >> (8 - last_bits));
    let attempt = (middle >> MAC_BITS_BEFORE_LAST & ATTEMPT_MASK) as u64;
    let node = (middle >> (MAC_BITS_BEFORE_LAST + ATTEMPT_BITS) & NODE_MASK) as u64;

    let attempt = match kind {
        TokenKind::Ack | TokenKind::Checkpoint => Some(AttemptId::from_bits(attempt)),
        TokenKind::State | TokenKind::Session if attempt != 0 => return Err(TokenProblem::UnusedBits),
        TokenKind::State => None,
        TokenKind::Session if node != 0 => return Err(TokenProblem::UnusedBits),
        TokenKind::Session => None,
    };
    let node_event = EventIndex::new(node).ok_or(TokenProblem::UnusedBits)?;
    let target = ShortTarget { kind, session: SessionId::from_bits(session), node_event, attempt };
    Ok((target, mac.to_be_bytes()))
}
