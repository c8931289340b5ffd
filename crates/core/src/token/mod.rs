//! Tokens: opaque, signed references into the log; the only thing an agent holds (G32).
//!
//! A token is only a pointer. `decode` parses it without trusting it, `Unverified::verify`
//! trusts it if one of the accepted keys signed it (G33), and `resolve` finds what it points at.
//! Each stage has its own type, built nowhere else, so that an unchecked token cannot reach a decision:
//! a mangled one never advances anything (G34).
//!
//! Both encodings are always accepted and one of them is minted: `v1` carries every id and is long,
//! `v2` is what agents see, at most 64 characters.

mod error;
mod resolve;
#[cfg(test)]
mod tests;
mod v1;
mod v2;

use std::borrow::Cow;

use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;
use workrail_model::digest::WorkflowHash;
use workrail_model::event::EventIndex;
use workrail_model::id::{AttemptId, EventId, NodeId, RunId, SessionId};
use workrail_model::keyring::{Keyring, SigningKey};
use workrail_model::limits::EVENT_INDEX_MAX;
use workrail_model::token::{ShortTarget, TokenEncoding, TokenKind, TokenTarget};

use crate::label::RunLabel;

pub use error::{NodeRef, ScopePart, TokenError, TokenProblem};
pub use resolve::{NodeLookup, ResolvedToken, check_scope, resolve};

/// A longer text is not parsed: the longest `v1` token has about 400 characters.
pub(crate) const TOKEN_CHARS_MAX: usize = 2048;

/// A node, with everything that either encoding says about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeFacts {
    pub node: NodeId,
    pub run: RunId,
    /// The index of the `node_created` event.
    pub node_event: EventIndex,
    /// That event.
    pub created_by: EventId,
    /// The workflow that the run is pinned to.
    pub workflow: WorkflowHash,
}

/// What a token is minted for, complete enough for both encodings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MintTarget {
    State { session: SessionId, at: NodeFacts },
    Ack { session: SessionId, at: NodeFacts, attempt: AttemptId },
    Checkpoint { session: SessionId, at: NodeFacts, attempt: AttemptId },
    Session { session: SessionId },
}

impl MintTarget {
    pub(crate) fn kind(&self) -> TokenKind {
        match self {
            Self::State { .. } => TokenKind::State,
            Self::Ack { .. } => TokenKind::Ack,
            Self::Checkpoint { .. } => TokenKind::Checkpoint,
            Self::Session { .. } => TokenKind::Session,
        }
    }

    pub(crate) fn session(&self) -> SessionId {
        match self {
            Self::State { session, .. }
            | Self::Ack { session, .. }
            | Self::Checkpoint { session, .. }
            | Self::Session { session } => *session,
        }
    }

    /// The node; `None` for a session token.
    pub(crate) fn at(&self) -> Option<&NodeFacts> {
        match self {
            Self::State { at, .. } | Self::Ack { at, .. } | Self::Checkpoint { at, .. } => Some(at),
            Self::Session { .. } => None,
        }
    }

    /// The attempt; present exactly for `Ack` and `Checkpoint`.
    pub(crate) fn attempt(&self) -> Option<AttemptId> {
        match self {
            Self::Ack { attempt, .. } | Self::Checkpoint { attempt, .. } => Some(*attempt),
            Self::State { .. } | Self::Session { .. } => None,
        }
    }

    /// The run's label; a session token, which has no run, uses its session's.
    pub(crate) fn label(&self) -> RunLabel {
        match self.at() {
            Some(at) => RunLabel::of(at.run),
            None => RunLabel::of_bits(self.session().bits()),
        }
    }

    fn full(&self) -> TokenTarget {
        match *self {
            Self::State { session, at } => {
                TokenTarget::State { session, run: at.run, node: at.node, workflow: at.workflow }
            }
            Self::Ack { session, at, attempt } => {
                TokenTarget::Ack { session, run: at.run, node: at.node, attempt }
            }
            Self::Checkpoint { session, at, attempt } => {
                TokenTarget::Checkpoint { session, run: at.run, node: at.node, attempt }
            }
            Self::Session { session } => TokenTarget::Session { session },
        }
    }

    fn short(&self) -> ShortTarget {
        ShortTarget {
            kind: self.kind(),
            session: self.session(),
            node_event: self.at().map_or(EventIndex::ZERO, |at| at.node_event),
            attempt: self.attempt(),
        }
    }
}

/// Writes and signs a token. Equal arguments give equal bytes, on which replay relies (G30).
pub fn mint(target: &MintTarget, encoding: TokenEncoding, key: &SigningKey) -> String {
    match encoding {
        TokenEncoding::V1 => v1::mint(&target.full(), key),
        // No event of a log is beyond the limit; if one were, the long form still names its node.
        TokenEncoding::V2 if target.short().node_event.get() > EVENT_INDEX_MAX => {
            v1::mint(&target.full(), key)
        }
        TokenEncoding::V2 => {
            v2::mint(&target.short(), target.label(), target.at().map(|at| at.created_by), key)
        }
    }
}

/// Where a token claims to point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TokenRef {
    /// All ids, from a `v1` token.
    Full(TokenTarget),
    /// The node by its event, from a `v2` token; run and workflow are in the log.
    Short { target: ShortTarget, label: RunLabel },
}

impl TokenRef {
    pub(crate) fn kind(&self) -> TokenKind {
        match self {
            Self::Full(target) => target.kind(),
            Self::Short { target, .. } => target.kind,
        }
    }

    pub(crate) fn session(&self) -> SessionId {
        match self {
            Self::Full(target) => target.session(),
            Self::Short { target, .. } => target.session,
        }
    }
}

/// A well-formed but unverified token. All it offers is `verify`.
#[derive(Clone, Debug)]
pub struct Unverified {
    reference: TokenRef,
    /// The bytes that were signed.
    message: Vec<u8>,
    signature: TokenSignature,
}

#[derive(Clone, Copy, Debug)]
enum TokenSignature {
    Whole([u8; 32]),
    Split(v2::SplitMac),
}

impl Unverified {
    /// Tries the current key, then the previous one; each comparison takes constant time.
    pub fn verify(self, keyring: &Keyring) -> Result<VerifiedToken, TokenError> {
        for key in keyring.in_order() {
            let mac = mac(key, &self.message);
            let (signed, binding) = match &self.signature {
                TokenSignature::Whole(bytes) => (mac.verify_slice(bytes).is_ok(), None),
                TokenSignature::Split(split) => {
                    let binding = split.binding(signature(key, &self.message));
                    (mac.verify_truncated_left(&split.left).is_ok(), Some(binding))
                }
            };
            if signed {
                return Ok(VerifiedToken { reference: self.reference, binding });
            }
        }
        let label = match self.reference {
            TokenRef::Full(_) => None,
            TokenRef::Short { label, .. } => Some(label),
        };
        Err(TokenError::BadSignature { label })
    }
}

/// A token that this store signed. Only `Unverified::verify` makes one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VerifiedToken {
    reference: TokenRef,
    /// What a `v2` token still has to prove: that its node is the one it was minted for.
    binding: Option<v2::EventBinding>,
}

impl VerifiedToken {
    pub fn kind(&self) -> TokenKind {
        self.reference.kind()
    }

    /// The session whose log `resolve` has to search.
    pub fn session(&self) -> SessionId {
        self.reference.session()
    }

    pub(crate) fn reference(&self) -> &TokenRef {
        &self.reference
    }

    /// Whether the token was minted for the node created by this event, or for no node.
    fn is_of(&self, created_by: Option<EventId>) -> bool {
        self.binding.is_none_or(|binding| binding.holds(created_by))
    }
}

/// Parses a token: the exact bytes that `mint` writes, or the same in quotes. The signature decides whether it is
/// genuine.
pub fn decode(text: &str) -> Result<Unverified, TokenError> {
    let text = &*unquoted(text);
    parse(text).map_err(|fault| match fault {
        TokenFault::Format(problem) => TokenError::InvalidFormat { problem, label: readable_label(text) },
        TokenFault::Version(version) => {
            TokenError::UnsupportedVersion { version, label: readable_label(text) }
        }
    })
}

/// Chats put quotes, backticks and spaces around a token. Short tokens are case-insensitive; long ones are not.
fn unquoted(text: &str) -> Cow<'_, str> {
    let bare = text.trim_matches(|c: char| c.is_whitespace() || matches!(c, '"' | '\'' | '`'));
    let is_short = bare.split('.').nth(1).is_some_and(|version| version.eq_ignore_ascii_case("v2"));
    if is_short && bare.bytes().any(|b| b.is_ascii_uppercase()) {
        Cow::Owned(bare.to_ascii_lowercase())
    } else {
        Cow::Borrowed(bare)
    }
}

enum TokenFault {
    Format(TokenProblem),
    Version(String),
}

impl From<TokenProblem> for TokenFault {
    fn from(problem: TokenProblem) -> Self {
        Self::Format(problem)
    }
}

fn parse(text: &str) -> Result<Unverified, TokenFault> {
    if text.len() > TOKEN_CHARS_MAX {
        return Err(TokenProblem::TooLong { found: text.len() }.into());
    }
    let parts: Vec<&str> = text.split('.').collect();
    let &[prefix, version, middle, last] = parts.as_slice() else {
        return Err(TokenProblem::Parts { found: parts.len() }.into());
    };
    let kind = TokenKind::ALL.into_iter().find(|kind| kind.prefix() == prefix).ok_or(TokenProblem::Prefix)?;
    Ok(match version {
        "v1" => v1::decode(kind, middle, last)?,
        "v2" => v2::decode(kind, middle, last)?,
        other if is_version(other) => return Err(TokenFault::Version(other.to_owned())),
        _ => return Err(TokenProblem::Version.into()),
    })
}

fn is_version(text: &str) -> bool {
    text.strip_prefix('v')
        .is_some_and(|number| (1..=4).contains(&number.len()) && number.bytes().all(|b| b.is_ascii_digit()))
}

/// The label in a damaged token, so that its error can offer a way back to the run. Only complete,
/// known words count: a label is never guessed.
pub fn readable_label(text: &str) -> Option<RunLabel> {
    let start = &text[..text.floor_char_boundary(TOKEN_CHARS_MAX)];
    let lower = start.to_ascii_lowercase();
    let words = lower.split(|c: char| !c.is_ascii_lowercase() && c != '-');
    let mut labels = words.filter_map(|word| RunLabel::parse(word).ok());
    let first = labels.next()?;
    // Two tokens glued together name two runs: it is unknown which one was meant.
    labels.all(|other| other == first).then_some(first)
}

fn mac(key: &SigningKey, message: &[u8]) -> Hmac<Sha256> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key.bytes()).expect("HMAC accepts keys of any length");
    mac.update(message);
    mac
}

fn signature(key: &SigningKey, message: &[u8]) -> [u8; 32] {
    mac(key, message).finalize().into_bytes().into()
}
