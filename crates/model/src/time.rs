//! The informational clock value of a record; never used for ordering or decisions (G6).

use std::borrow::Cow;
use std::fmt;

use jiff::civil::{DateTime, date};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize};

/// UTC with milliseconds, `2026-01-31T23:59:59.999Z`: sorts as text, reads as time.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(transparent)]
pub struct Timestamp(String);

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("must be a UTC time like 2026-01-31T23:59:59.999Z")]
pub struct TimestampError;

const EPOCH: DateTime = date(1970, 1, 1).at(0, 0, 0, 0);

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

    /// Milliseconds since 1970, for durations: how long sessions are kept and how long steps took. `None`
    /// for a text in the right format that names no existing day or hour, such as 30 February.
    pub fn epoch_ms(&self) -> Option<i64> {
        // Without the last character, which says UTC: a civil time has no zone and, unlike an instant,
        // reaches to the end of the year 9999, as the format does.
        let time: DateTime = self.0.get(..SHAPE.len() - 1)?.parse().ok()?;
        i64::try_from(time.duration_since(EPOCH).as_millis()).ok()
    }
}

impl Timestamp {
    /// The inverse of `epoch_ms`; `None` if it does not fit the format.
    pub fn of_epoch_ms(ms: u64) -> Option<Self> {
        Self("1970-01-01T00:00:00.000Z".to_owned()).plus_ms(ms)
    }

    /// This much later; `None` if that does not fit the format.
    pub fn plus_ms(&self, ms: u64) -> Option<Self> {
        let time: DateTime = self.0.get(..SHAPE.len() - 1)?.parse().ok()?;
        let later = time.checked_add(jiff::SignedDuration::from_millis(i64::try_from(ms).ok()?)).ok()?;
        Self::parse(&later.strftime("%Y-%m-%dT%H:%M:%S%.3fZ").to_string()).ok()
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
    fn only_the_one_format_is_a_timestamp() {
        assert!(Timestamp::parse("2026-01-31T23:59:59.999Z").is_ok());
        for bad in ["2026-01-31T23:59:59Z", "2026-01-31 23:59:59.999Z", "", "2026-01-31T23:59:59.999z"] {
            assert_eq!(Timestamp::parse(bad), Err(TimestampError), "{bad}");
        }
    }

    #[test]
    fn time_follows_the_calendar() {
        let later = |text: &str, ms| Timestamp::parse(text).unwrap().plus_ms(ms).map(|time| time.to_string());
        assert_eq!(later("2026-02-28T23:59:59.999Z", 1).as_deref(), Some("2026-03-01T00:00:00.000Z"));
        assert_eq!(later("9999-12-31T23:59:59.999Z", 1), None);
        let ms = |text: &str| Timestamp::parse(text).unwrap().epoch_ms();
        assert_eq!(ms("1970-01-01T00:00:00.000Z"), Some(0));
        assert_eq!(ms("1969-12-31T23:59:59.999Z"), Some(-1));
        assert_eq!(ms("2000-03-01T00:00:00.000Z"), Some(951_868_800_000));
        let at = |ms| Timestamp::of_epoch_ms(ms).map(|time| time.to_string());
        assert_eq!(at(951_868_800_007).as_deref(), Some("2000-03-01T00:00:00.007Z"));
        assert_eq!((at(253_402_300_800_000), at(u64::MAX)), (None, None));
        assert_eq!(ms("2026-01-31T23:59:59.999Z"), Some(1_769_903_999_999));
        assert_eq!(ms("9999-12-31T23:59:59.999Z"), Some(253_402_300_799_999));
        assert_eq!(ms("0000-01-01T00:00:00.000Z"), Some(-62_167_219_200_000));
        // A leap second counts as the second before it.
        assert_eq!(ms("2016-12-31T23:59:60.500Z"), ms("2016-12-31T23:59:59.500Z"));
        for impossible in [
            "2026-02-29T00:00:00.000Z",
            "2026-02-30T00:00:00.000Z",
            "2026-13-01T00:00:00.000Z",
            "2026-00-01T00:00:00.000Z",
            "2026-01-00T00:00:00.000Z",
            "2026-01-01T24:00:00.000Z",
            "2026-01-01T00:60:00.000Z",
            "2026-01-01T00:00:61.000Z",
        ] {
            assert_eq!(ms(impossible), None, "{impossible}");
        }
    }
}
