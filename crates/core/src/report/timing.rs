//! Clock times for display. Nothing is ordered or decided by them (G6): a clock that went backwards gives no
//! elapsed time, and nothing else.

use workrail_model::time::Timestamp;

use super::Span;

impl Span {
    pub(super) fn between(from: Option<&Timestamp>, to: Option<&Timestamp>) -> Self {
        Self { from: from.cloned(), to: to.cloned(), elapsed_ms: elapsed(from, to) }
    }
}

/// Milliseconds from one time to a later one.
pub(super) fn elapsed(from: Option<&Timestamp>, to: Option<&Timestamp>) -> Option<u64> {
    u64::try_from(epoch_ms(to?)? - epoch_ms(from?)?).ok()
}

/// `2026-01-31 23:59 UTC`.
pub fn shown(at: &Timestamp) -> String {
    let text = at.as_str();
    // A timestamp has exactly this shape.
    format!("{} {} UTC", &text[..10], &text[11..16])
}

/// The two largest units that matter: `3 h 20 min`.
pub fn elapsed_text(ms: u64) -> String {
    const SECOND: u64 = 1_000;
    const MINUTE: u64 = 60 * SECOND;
    const HOUR: u64 = 60 * MINUTE;
    const DAY: u64 = 24 * HOUR;
    let two = |large: u64, name: &str, small: u64, small_name: &str| {
        let rest = ms % large / small;
        if rest == 0 {
            format!("{} {name}", ms / large)
        } else {
            format!("{} {name} {rest} {small_name}", ms / large)
        }
    };
    match ms {
        DAY.. => two(DAY, "d", HOUR, "h"),
        HOUR.. => two(HOUR, "h", MINUTE, "min"),
        MINUTE.. => two(MINUTE, "min", SECOND, "s"),
        SECOND.. => format!("{} s", ms / SECOND),
        _ => format!("{ms} ms"),
    }
}

/// Milliseconds since 1970; `None` for dates that no calendar has.
fn epoch_ms(at: &Timestamp) -> Option<i64> {
    let text = at.as_str();
    let part = |from: usize, to: usize| text.get(from..to)?.parse::<i64>().ok();
    let (year, month, day) = (part(0, 4)?, part(5, 7)?, part(8, 10)?);
    if !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    // Years that start in March end with the leap day, so that days follow from the month by one formula.
    let (shifted_year, shifted_month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let leap_days = shifted_year.div_euclid(4) - shifted_year.div_euclid(100) + shifted_year.div_euclid(400);
    let days = shifted_year * 365 + leap_days + (153 * shifted_month + 2) / 5 + day - 1 - 719_468;
    let seconds = part(11, 13)? * 3_600 + part(14, 16)? * 60 + part(17, 19)?;
    Some((days * 86_400 + seconds) * 1_000 + part(20, 23)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        Timestamp::parse(text).unwrap()
    }

    #[test]
    fn times_are_read_as_the_calendar_counts() {
        for (text, ms) in [
            ("1970-01-01T00:00:00.000Z", 0),
            ("1970-01-02T00:00:00.001Z", 86_400_001),
            ("2000-02-29T12:00:00.000Z", 951_825_600_000),
            ("2026-11-15T16:49:47.000Z", 1_794_761_387_000),
        ] {
            assert_eq!(epoch_ms(&at(text)), Some(ms), "{text}");
        }
        assert_eq!(epoch_ms(&at("2026-13-01T00:00:00.000Z")), None);
    }

    #[test]
    fn a_clock_that_went_backwards_tells_no_time() {
        let (early, late) = (at("2026-01-01T00:00:00.000Z"), at("2026-01-01T03:20:30.000Z"));
        assert_eq!(elapsed(Some(&early), Some(&late)), Some(12_030_000));
        assert_eq!(elapsed(Some(&late), Some(&early)), None);
        assert_eq!(elapsed_text(12_030_000), "3 h 20 min");
        assert_eq!(elapsed_text(60_000), "1 min");
        assert_eq!(elapsed_text(999), "999 ms");
        assert_eq!(elapsed_text(90_061_000), "1 d 1 h");
    }
}
