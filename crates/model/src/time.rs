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

    /// Milliseconds since 1970, for the one thing that counts time: how long sessions are kept. `None` for a
    /// text of the right shape that names no day or hour there is.
    pub fn epoch_ms(&self) -> Option<i64> {
        // Every slice holds digits only: the shape was checked.
        let number = |range: std::ops::Range<usize>| self.0[range].parse::<i64>().ok();
        let (year, month, day) = (number(0..4)?, number(5..7)?, number(8..10)?);
        let (hour, minute, second, ms) = (number(11..13)?, number(14..16)?, number(17..19)?, number(20..23)?);
        let fits = (1..=12).contains(&month)
            && (1..=days_in(year, month)).contains(&day)
            && hour < 24
            && minute < 60
            // A leap second counts as the second after it.
            && second <= 60;
        fits.then(|| {
            let days =
                days_before_year(year) + (1..month).map(|month| days_in(year, month)).sum::<i64>() + day
                    - 1
                    - days_before_year(1970);
            (((days * 24 + hour) * 60 + minute) * 60 + second) * 1000 + ms
        })
    }
}

fn is_leap(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

fn days_in(year: i64, month: i64) -> i64 {
    match month {
        2 if is_leap(year) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days from the first of January of the year 0 to that of `year`.
fn days_before_year(year: i64) -> i64 {
    let past = year - 1;
    // The year 0 is a leap year of this calendar; without it the formula starts at the year 1.
    year * 365 + past.div_euclid(4) - past.div_euclid(100) + past.div_euclid(400) + 1
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

    #[test]
    fn time_is_counted_as_the_calendar_does() {
        let ms = |text: &str| Timestamp::parse(text).unwrap().epoch_ms();
        assert_eq!(ms("1970-01-01T00:00:00.000Z"), Some(0));
        assert_eq!(ms("1969-12-31T23:59:59.999Z"), Some(-1));
        assert_eq!(ms("2000-03-01T00:00:00.000Z"), Some(951_868_800_000));
        assert_eq!(ms("2026-01-31T23:59:59.999Z"), Some(1_769_903_999_999));
        assert_eq!(ms("9999-12-31T23:59:59.999Z"), Some(253_402_300_799_999));
        assert_eq!(ms("0000-01-01T00:00:00.000Z"), Some(-62_167_219_200_000));
        for impossible in ["2026-02-29T00:00:00.000Z", "2026-13-01T00:00:00.000Z", "2026-01-01T24:00:00.000Z"]
        {
            assert_eq!(ms(impossible), None, "{impossible}");
        }
    }
}
