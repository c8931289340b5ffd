//! How long finished sessions are kept, as people write it: `90d`, `12h`, `30m` (G25).

use std::fmt;
use std::str::FromStr;

/// How long to keep sessions. Zero is allowed: then everything that is finished is old.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ttl {
    ms: u64,
}

/// The text is not a duration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TtlError {
    #[error(
        "`{text}` has no unit: write a whole number and `d` (days), `h` (hours) or `m` (minutes), such as 90d"
    )]
    Unit { text: String },
    #[error("`{text}` does not start with a whole number: write a number and a unit, such as 90d or 12h")]
    Number { text: String },
    #[error(
        "`{text}` is longer than a thousand years; to keep sessions for good, mark them with `session keep`"
    )]
    TooLong { text: String },
}

const MINUTE_MS: u64 = 60 * 1000;
const HOUR_MS: u64 = 60 * MINUTE_MS;
const DAY_MS: u64 = 24 * HOUR_MS;
const TTL_MS_MAX: u64 = 365_250 * DAY_MS;

impl Ttl {
    /// A number of days.
    pub const fn of_days(days: u32) -> Self {
        Self { ms: days as u64 * DAY_MS }
    }

    pub fn parse(text: &str) -> Result<Self, TtlError> {
        let shown = || text.chars().filter(|c| !c.is_control()).take(40).collect::<String>();
        let trimmed = text.trim();
        let (digits, unit_ms) = match trimmed.char_indices().next_back() {
            Some((at, 'd')) => (&trimmed[..at], DAY_MS),
            Some((at, 'h')) => (&trimmed[..at], HOUR_MS),
            Some((at, 'm')) => (&trimmed[..at], MINUTE_MS),
            Some(_) | None => return Err(TtlError::Unit { text: shown() }),
        };
        // `parse` would accept a sign.
        if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(TtlError::Number { text: shown() });
        }
        let ms = digits.parse::<u64>().ok().and_then(|count| count.checked_mul(unit_ms));
        match ms {
            Some(ms) if ms <= TTL_MS_MAX => Ok(Self { ms }),
            Some(_) | None => Err(TtlError::TooLong { text: shown() }),
        }
    }

    pub fn ms(self) -> u64 {
        self.ms
    }
}

impl FromStr for Ttl {
    type Err = TtlError;

    fn from_str(text: &str) -> Result<Self, TtlError> {
        Self::parse(text)
    }
}

impl fmt::Display for Ttl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (count, unit) = match self.ms {
            ms if ms % DAY_MS == 0 => (ms / DAY_MS, "d"),
            ms if ms % HOUR_MS == 0 => (ms / HOUR_MS, "h"),
            ms => (ms / MINUTE_MS, "m"),
        };
        write!(f, "{count}{unit}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_and_a_unit_are_a_duration() {
        for (text, ms, shown) in [
            ("90d", 90 * DAY_MS, "90d"),
            ("0d", 0, "0d"),
            (" 36h ", 36 * HOUR_MS, "36h"),
            ("48h", 2 * DAY_MS, "2d"),
            ("90m", 90 * MINUTE_MS, "90m"),
        ] {
            let ttl = Ttl::parse(text).unwrap();
            assert_eq!((ttl.ms(), ttl.to_string().as_str()), (ms, shown), "{text}");
        }
        assert_eq!(Ttl::parse("90d"), Ok(Ttl::of_days(90)));
    }

    #[test]
    fn anything_else_is_refused_with_what_is_accepted() {
        for text in ["90", "", "days", "90D", "1y"] {
            assert!(
                matches!(Ttl::parse(text), Err(TtlError::Unit { .. } | TtlError::Number { .. })),
                "{text}"
            );
        }
        for text in ["d", "-1d", "+1d", "1.5d", "1 d", "٣d"] {
            assert!(matches!(Ttl::parse(text), Err(TtlError::Number { .. })), "{text}");
        }
        for text in ["365251d", "99999999999999999999d"] {
            assert!(matches!(Ttl::parse(text), Err(TtlError::TooLong { .. })), "{text}");
        }
    }
}
