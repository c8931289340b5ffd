//! The informational clock value of a record; nothing orders or decides by it (G6).

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize};

/// UTC with milliseconds, `2026-01-31T23:59:59.999Z`: sorts as text, reads as time.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(transparent)]
pub struct Timestamp(String);

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("must be a UTC time like 2026-01-31T23:59:59.999Z")]
pub struct TimestampError;

const SHAPE: &[u8] = b"0000-00-00T00:00:00.000Z";

impl Timestamp {
    pub fn parse(text: &str) -> Result<Self, TimestampError> {
        let fits = text.len() == SHAPE.len()
            && text.bytes().zip(SHAPE).all(|(byte, shape)| match shape {
                b'0' => byte.is_ascii_digit(),
                fixed => byte == *fixed,
            });
        if fits { Ok(Self(text.to_owned())) } else { Err(TimestampError) }
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Cow::<'de, str>::deserialize(deserializer)?;
        Self::parse(&text).map_err(serde::de::Error::custom)
    }
}

impl JsonSchema for Timestamp {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Timestamp".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "format": "date-time" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_one_shape_is_a_timestamp() {
        assert!(Timestamp::parse("2026-01-31T23:59:59.999Z").is_ok());
        for bad in ["2026-01-31T23:59:59Z", "2026-01-31 23:59:59.999Z", "", "2026-01-31T23:59:59.999z"] {
            assert_eq!(Timestamp::parse(bad), Err(TimestampError), "{bad}");
        }
    }
}
