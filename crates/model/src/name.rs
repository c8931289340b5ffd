//! Names that authors choose: workflow, step, loop and condition ids, context and contract names.
//!
//! They are checked on raw ASCII before anything else sees them, so that `StepInstanceKey` needs no
//! escaping and no look-alike character is accepted (G2).

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize};

/// A name outside its alphabet or length.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{found:?} is not a valid {what}: {rule}")]
pub struct NameError {
    pub what: &'static str,
    pub found: String,
    pub rule: &'static str,
}

macro_rules! name {
    ($(#[$doc:meta])* $name:ident, $what:literal, $pattern:literal, $rule:literal, $check:expr) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
        #[serde(transparent)]
        pub struct $name(Box<str>);

        impl $name {
            pub fn parse(text: &str) -> Result<Self, NameError> {
                let check: fn(&str) -> bool = $check;
                if check(text) {
                    Ok(Self(text.into()))
                } else {
                    let found = crate::text::truncate_with_marker(text, 80).into_owned();
                    Err(NameError { what: $what, found, rule: $rule })
                }
            }

            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:?}", self.0)
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
                json_schema!({ "type": "string", "pattern": $pattern })
            }
        }
    };
}

fn within(text: &str, max: usize) -> bool {
    !text.is_empty() && text.len() <= max
}

fn is_delimiter_safe(text: &str) -> bool {
    text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'_' | b'-'))
}

fn is_word(text: &str) -> bool {
    !text.is_empty() && is_delimiter_safe(text)
}

fn is_segment(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_lowercase()) && is_delimiter_safe(text)
}

name!(
    /// `namespace.name`, or a legacy id without a dot.
    WorkflowId, "workflow id", "^([a-z0-9_-]+|[a-z][a-z0-9_-]*\\.[a-z][a-z0-9_-]*)$",
    "lowercase letters, digits, `_`, `-`; at most one dot, each side then starting with a letter; 128 bytes at most",
    |text| within(text, 128) && match text.split_once('.') {
        None => is_delimiter_safe(text),
        Some((namespace, name)) => is_segment(namespace) && is_segment(name),
    }
);

impl WorkflowId {
    /// The namespace of bundled workflows; other files may not use it.
    pub const RESERVED_NAMESPACE: &str = "wr";

    /// Whether only a bundled workflow may have this id.
    pub fn is_reserved(&self) -> bool {
        self.namespace() == Some(Self::RESERVED_NAMESPACE)
    }

    /// The part before the dot; `None` for a legacy id.
    pub fn namespace(&self) -> Option<&str> {
        self.0.split_once('.').map(|(namespace, _)| namespace)
    }
}

name!(
    /// A step; dots appear only in what template expansion produces.
    StepId, "step id", "^[a-z0-9_-]+(\\.[a-z0-9_-]+)*$",
    "lowercase letters, digits, `_`, `-`, and dots between such words; 256 bytes at most",
    |text| within(text, 256) && text.split('.').all(is_word)
);
name!(
    /// A loop; never dotted, because it is before `@` in a step instance key.
    LoopId, "loop id", "^[a-z0-9_-]+$",
    "lowercase letters, digits, `_`, `-`; 128 bytes at most",
    |text| within(text, 128) && is_delimiter_safe(text)
);
name!(
    /// A condition; dots appear where it belongs to an expanded step.
    ConditionId, "condition id", "^[a-z0-9_-]+(\\.[a-z0-9_-]+)*$",
    "lowercase letters, digits, `_`, `-`, and dots between such words; 256 bytes at most",
    |text| within(text, 256) && text.split('.').all(is_word)
);
name!(
    /// A contract pack, `wr.contracts.NAME`, or the pseudo reference for validation criteria.
    ContractRef, "contract reference", "^wr\\.[A-Za-z0-9_.-]+$",
    "starts with `wr.`; letters, digits, `_`, `-`, `.`; 128 bytes at most",
    |text| within(text, 128) && text.len() > 3 && text.starts_with("wr.")
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.'))
);
name!(
    /// A key of the context that a blocker may point at. Files in the wild use camel case.
    ContextKey, "context key", "^[A-Za-z0-9_.-]+$",
    "letters, digits, `_`, `-`, `.`; 128 bytes at most",
    |text| within(text, 128)
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.'))
);
name!(
    /// An assessment or one of its dimensions.
    AssessmentName, "assessment name", "^[A-Za-z0-9_.-]+$",
    "letters, digits, `_`, `-`, `.`; 64 bytes at most",
    |text| within(text, 64)
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.'))
);

name!(
    /// A check in the project's checks file.
    CheckName, "name of a check", "^[a-z0-9_-]+$",
    "lowercase letters, digits, `_`, `-`; 64 bytes at most",
    |text| within(text, 64) && is_delimiter_safe(text)
);

name!(
    /// A person, an agent, or the user of a machine, as records name them.
    PrincipalName, "name", "^[A-Za-z0-9][A-Za-z0-9_.@-]*$",
    "letters, digits, `_`, `-`, `.`, `@`, starting with a letter or a digit; 64 bytes at most",
    |text| within(text, 64) && text.starts_with(|c: char| c.is_ascii_alphanumeric())
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.' | b'@'))
);

#[cfg(test)]
mod tests {
    use super::*;
    use test_case::test_case;

    #[test_case("wr.bug_investigation", true)]
    #[test_case("mr-review-workflow", true)]
    #[test_case("a.b.c", false; "two dots")]
    #[test_case("Wr.x", false; "capital")]
    #[test_case(".x", false; "empty namespace")]
    #[test_case("x.1a", false; "name starts with a digit")]
    #[test_case("../etc/passwd", false; "path")]
    #[test_case("a\u{0}", false; "nul")]
    #[test_case("caf\u{e9}", false; "composed")]
    #[test_case("cafe\u{301}", false; "decomposed")]
    #[test_case("", false; "empty")]
    fn workflow_ids(text: &str, valid: bool) {
        assert_eq!(WorkflowId::parse(text).is_ok(), valid);
    }

    #[test_case("wr.review", true)]
    #[test_case("wr", false; "no namespace")]
    #[test_case("wrr.review", false)]
    #[test_case("team.wr", false)]
    fn one_namespace_is_reserved(text: &str, reserved: bool) {
        assert_eq!(WorkflowId::parse(text).unwrap().is_reserved(), reserved);
    }

    #[test_case("phase-0_triage", true)]
    #[test_case("phase-1.gather", true)]
    #[test_case("a@b", false)]
    #[test_case("a/b", false)]
    #[test_case("a::b", false)]
    #[test_case("a..b", false)]
    #[test_case(".", false)]
    fn step_ids(text: &str, valid: bool) {
        assert_eq!(StepId::parse(text).is_ok(), valid);
    }

    #[test]
    fn a_megabyte_is_refused_and_not_repeated_in_the_error() {
        let error = LoopId::parse(&"a".repeat(1 << 20)).unwrap_err();
        assert!(error.to_string().len() < 300);
    }
}
