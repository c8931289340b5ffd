//! Ids: a prefix for the kind, and lowercase Crockford base32, which is hard to misread in a chat.
//!
//! One macro makes every id, so that none can be built from an unchecked string and none can be used
//! in place of another (G2). Ids are ASCII, fixed in length and `Copy`.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;
use std::sync::LazyLock;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Crockford's alphabet in lower case: no `i`, `l`, `o`, `u`.
pub(crate) const ALPHABET: &str = "0123456789abcdefghjkmnpqrstvwxyz";

/// The base32 encoding of all ids and short tokens.
pub fn base32() -> &'static data_encoding::Encoding {
    // Built once: reading a long session parses tens of thousands of ids.
    static BASE32: LazyLock<data_encoding::Encoding> = LazyLock::new(|| {
        let mut spec = data_encoding::Specification::new();
        spec.symbols.push_str(ALPHABET);
        spec.encoding().expect("the alphabet is 32 distinct ASCII symbols")
    });
    &BASE32
}

/// Why a string is not the expected id.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IdError {
    #[error("must start with `{prefix}`")]
    Prefix { prefix: &'static str },
    #[error("must have {expected} characters after `{prefix}`, has {found}")]
    Length { prefix: &'static str, expected: usize, found: usize },
    #[error("holds {character:?}; only digits and lowercase letters without i, l, o, u are allowed")]
    Character { character: char },
}

/// Whether the alphabet has the character; a match, because logs are full of ids.
fn is_symbol(c: char) -> bool {
    matches!(c, '0'..='9' | 'a'..='h' | 'j' | 'k' | 'm' | 'n' | 'p'..='t' | 'v'..='z')
}

fn parse_body<const N: usize>(text: &str, prefix: &'static str) -> Result<[u8; N], IdError> {
    let body = text.strip_prefix(prefix).ok_or(IdError::Prefix { prefix })?;
    if let Some(character) = body.chars().find(|c| !is_symbol(*c)) {
        return Err(IdError::Character { character });
    }
    body.as_bytes().try_into().map_err(|_| IdError::Length { prefix, expected: N, found: body.len() })
}

macro_rules! id {
    ($(#[$doc:meta])* $name:ident, $prefix:literal, $chars:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name([u8; $chars]);

        impl $name {
            pub const PREFIX: &'static str = $prefix;

            pub fn parse(text: &str) -> Result<Self, IdError> {
                parse_body(text, $prefix).map(Self)
            }

            /// The characters after the prefix.
            pub fn body(&self) -> &str {
                std::str::from_utf8(&self.0).expect("an id has only ASCII characters of the alphabet")
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}{}", $prefix, self.body())
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{self}")
            }
        }

        impl FromStr for $name {
            type Err = IdError;
            fn from_str(text: &str) -> Result<Self, IdError> {
                Self::parse(text)
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = Cow::<'de, str>::deserialize(deserializer)?;
                Self::parse(&text).map_err(serde::de::Error::custom)
            }
        }

        impl JsonSchema for $name {
            fn inline_schema() -> bool {
                true
            }
            fn schema_name() -> Cow<'static, str> {
                stringify!($name).into()
            }
            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!({
                    "type": "string",
                    "pattern": concat!("^", $prefix, "[0-9a-hjkmnp-tv-z]{", stringify!($chars), "}$"),
                })
            }
        }
    };
}

macro_rules! wide_id {
    ($(#[$doc:meta])* $name:ident, $prefix:literal) => {
        id!($(#[$doc])* $name, $prefix, 16);

        impl $name {
            /// From 80 bits, random or derived.
            pub fn from_bits(bits: [u8; 10]) -> Self {
                let mut body = [0; 16];
                base32().encode_mut(&bits, &mut body);
                Self(body)
            }

            /// The 80 bits behind the id.
            pub fn bits(&self) -> [u8; 10] {
                let mut bits = [0; 10];
                base32()
                    .decode_mut(&self.0, &mut bits)
                    .expect("16 symbols of the alphabet decode to exactly 10 bytes");
                bits
            }
        }
    };
}

wide_id!(/// A durable workstream; holds runs.
    SessionId, "sess_");
wide_id!(/// One execution of one pinned workflow.
    RunId, "run_");
wide_id!(/// A durable point in a run's graph.
    NodeId, "node_");
wide_id!(/// A running server; names its record and its log, nothing durable.
    ServerId, "srv_");
wide_id!(/// One record of the event log; minted per append, never an idempotency handle.
    EventId, "evt_");
wide_id!(/// A note or artifact attached to a node.
    OutputId, "out_");
wide_id!(/// A durable disclosure.
    GapId, "gap_");
wide_id!(/// A change of preferences.
    ChangeId, "prefchg_");
wide_id!(/// An observation of a capability.
    CapObsId, "capobs_");
wide_id!(/// A recorded divergence from instructions.
    DivergenceId, "div_");
wide_id!(/// A bounded trace of decisions.
    TraceId, "trace_");
wide_id!(/// One durable set of context keys.
    ContextId, "ctx_");
wide_id!(/// The facts of one validation.
    ValidationId, "val_");
wide_id!(/// One accepted assessment.
    AssessmentRecordId, "asmt_");
wide_id!(/// One applied consequence of an assessment.
    ConsequenceId, "cons_");
wide_id!(/// A person's decision on a gate.
    ApprovalId, "appr_");
wide_id!(/// A person's decision that nobody will finish a run.
    ClosureId, "close_");
wide_id!(/// Something that is known of a step's work.
    EvidenceId, "evid_");
wide_id!(/// A token that a member of a team acts with.
    AccessTokenId, "tok_");
wide_id!(/// One export of one session.
    BundleId, "bundle_");

id!(/// The right to complete one step once: 45 bits, so that a short token can carry it.
    AttemptId, "attempt_", 9);

impl AttemptId {
    /// From the low 45 bits of `bits`.
    pub fn from_bits(bits: u64) -> Self {
        let aligned = (bits & ((1 << 45) - 1)) << 3;
        let mut body = [0; 10];
        base32().encode_mut(&aligned.to_be_bytes()[2..], &mut body);
        let mut bytes = [0; 9];
        bytes.copy_from_slice(&body[..9]);
        Self(bytes)
    }

    /// The 45 bits behind the id.
    pub fn bits(&self) -> u64 {
        let mut padded = [b'0'; 10];
        padded[..9].copy_from_slice(&self.0);
        let mut bytes = [0; 8];
        base32()
            .decode_mut(&padded, &mut bytes[2..])
            .expect("nine symbols and a zero symbol decode to exactly 6 bytes, trailing bits zero");
        u64::from_be_bytes(bytes) >> 3
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// G2: an id of one kind cannot be used as another.
    #[test]
    fn the_prefix_says_what_kind_of_id_it_is() {
        assert_eq!(RunId::parse("sess_0123456789abcdef"), Err(IdError::Prefix { prefix: "run_" }));
    }

    #[test]
    fn capitals_and_ambiguous_letters_are_refused() {
        for bad in ["sess_0123456789ABCDEF", "sess_0123456789abcdel", "sess_0123456789abcde\u{0}"] {
            assert!(matches!(SessionId::parse(bad), Err(IdError::Character { .. })), "{bad:?}");
        }
    }

    /// G2: ids are lowercase base32.
    #[test]
    fn every_symbol_of_the_alphabet_is_accepted_and_no_other() {
        for c in (0..=0x24f).filter_map(char::from_u32) {
            assert_eq!(is_symbol(c), ALPHABET.contains(c), "{c:?}");
        }
    }

    #[test]
    fn length_is_exact() {
        assert_eq!(
            SessionId::parse("sess_012"),
            Err(IdError::Length { prefix: "sess_", expected: 16, found: 3 })
        );
    }

    /// G2: what is no id never becomes a path.
    #[test]
    fn path_tricks_are_not_ids() {
        assert!(SessionId::parse("sess_../../../etc/pa").is_err());
    }

    proptest! {
        #[test]
        fn wide_ids_round_trip(bits: [u8; 10]) {
            let id = SessionId::from_bits(bits);
            prop_assert_eq!(id.bits(), bits);
            prop_assert_eq!(SessionId::parse(&id.to_string()), Ok(id));
        }

        #[test]
        fn attempt_ids_round_trip(bits in 0u64..(1 << 45)) {
            let id = AttemptId::from_bits(bits);
            prop_assert_eq!(id.bits(), bits);
            prop_assert_eq!(AttemptId::parse(&id.to_string()), Ok(id));
        }
    }
}
