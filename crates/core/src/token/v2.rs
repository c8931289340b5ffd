//! The short encoding, `st.v2.<run-label>.<43 characters>`: what agents see and copy.
//!
//! The body is 214 bits and one zero bit: session 80, node event index 25, attempt 45 (zero when the
//! kind has none), MAC 64. The MAC covers the kind and the label too, so that no part of a token can
//! be exchanged for another token's (G34).

use workrail_model::event::EventIndex;
use workrail_model::id::{AttemptId, SessionId, base32};
use workrail_model::keyring::SigningKey;
use workrail_model::token::{ShortTarget, TokenKind};

use super::{Problem, Signature, TokenRef, Unverified, signature};
use crate::label::RunLabel;

pub(super) const BODY_CHARS: usize = 43;
/// 27 bytes are 216 bits: the 214 that mean something and two zeros.
const BODY_BYTES: usize = 27;

const ATTEMPT_BITS: u32 = 45;
const NODE_MASK: u128 = (1 << 25) - 1;
const ATTEMPT_MASK: u128 = (1 << ATTEMPT_BITS) - 1;
/// How many of the MAC's 64 bits stand before the last byte.
const MAC_BITS_BEFORE_LAST: u32 = 58;

/// Keeps these MACs apart from those of `v1` payloads, which start with `{`.
const DOMAIN: &[u8] = b"workrail/token/v2\0";

pub(super) fn mint(target: &ShortTarget, label: RunLabel, key: &SigningKey) -> String {
    let signature = signature(key, &message(target, label));
    let mut mac = [0; 8];
    mac.copy_from_slice(&signature[..8]);
    format!("{}.v2.{label}.{}", target.kind.prefix(), body(target, mac))
}

pub(super) fn decode(kind: TokenKind, label: &str, text: &str) -> Result<Unverified, Problem> {
    let label = RunLabel::parse(label).map_err(|_| Problem::Label)?;
    let characters = text.chars().count();
    if characters != BODY_CHARS {
        return Err(Problem::BodyLength { found: characters });
    }
    let (target, mac) = read_body(kind, text)?;
    // The decoder is strict already; comparing the bytes keeps it so whatever it becomes.
    if body(&target, mac) != text {
        return Err(Problem::NotCanonical);
    }
    let message = message(&target, label);
    Ok(Unverified { reference: TokenRef::Short { target, label }, message, signature: Signature::Left(mac) })
}

/// Node and attempt as one number of 70 bits.
fn place(target: &ShortTarget) -> u128 {
    let attempt = target.attempt.map_or(0, |attempt| attempt.bits());
    u128::from(target.node_event.get()) << ATTEMPT_BITS | u128::from(attempt)
}

/// What is signed: kind and label as written, then the 150 payload bits.
fn message(target: &ShortTarget, label: RunLabel) -> Vec<u8> {
    let mut message = DOMAIN.to_vec();
    message.extend_from_slice(format!("{}.{label}.", target.kind.prefix()).as_bytes());
    message.extend_from_slice(&target.session.bits());
    message.extend_from_slice(&place(target).to_be_bytes()[7..]);
    message
}

fn body(target: &ShortTarget, mac: [u8; 8]) -> String {
    let mac = u64::from_be_bytes(mac);
    let last_bits = 64 - MAC_BITS_BEFORE_LAST;
    let middle = place(target) << MAC_BITS_BEFORE_LAST | u128::from(mac >> last_bits);
    let mut bytes = Vec::with_capacity(BODY_BYTES);
    bytes.extend_from_slice(&target.session.bits());
    bytes.extend_from_slice(&middle.to_be_bytes());
    bytes.push((mac << (8 - last_bits)).to_be_bytes()[7]);
    let mut text = base32().encode(&bytes);
    // The 44th character holds nothing but the second zero bit.
    text.truncate(BODY_CHARS);
    text
}

fn read_body(kind: TokenKind, text: &str) -> Result<(ShortTarget, [u8; 8]), Problem> {
    let bytes = base32().decode(format!("{text}0").as_bytes()).map_err(|_| Problem::BodyCharacter)?;
    let bytes: [u8; BODY_BYTES] = bytes.try_into().map_err(|_| Problem::BodyCharacter)?;
    let (mut session, mut middle) = ([0; 10], [0; 16]);
    session.copy_from_slice(&bytes[..10]);
    middle.copy_from_slice(&bytes[10..26]);
    let (middle, last) = (u128::from_be_bytes(middle), bytes[26]);

    let last_bits = 64 - MAC_BITS_BEFORE_LAST;
    if last & ((1 << (8 - last_bits)) - 1) != 0 {
        return Err(Problem::UnusedBits);
    }
    let mac_high = middle & ((1 << MAC_BITS_BEFORE_LAST) - 1);
    // 58 bits and 6 bits: masked above, so that both conversions keep every bit.
    let mac = (mac_high as u64) << last_bits | u64::from(last >> (8 - last_bits));
    let attempt = (middle >> MAC_BITS_BEFORE_LAST & ATTEMPT_MASK) as u64;
    let node = (middle >> (MAC_BITS_BEFORE_LAST + ATTEMPT_BITS) & NODE_MASK) as u64;

    let attempt = match kind {
        TokenKind::Ack | TokenKind::Checkpoint => Some(AttemptId::from_bits(attempt)),
        TokenKind::State | TokenKind::Session if attempt != 0 => return Err(Problem::UnusedBits),
        TokenKind::State => None,
        TokenKind::Session if node != 0 => return Err(Problem::UnusedBits),
        TokenKind::Session => None,
    };
    let node_event = EventIndex::new(node).ok_or(Problem::UnusedBits)?;
    let target = ShortTarget { kind, session: SessionId::from_bits(session), node_event, attempt };
    Ok((target, mac.to_be_bytes()))
}
