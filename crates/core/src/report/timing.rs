//! Clock times for display. Nothing is ordered or decided by them (G6): if a clock went backwards, only the
//! elapsed time is missing.

use workrail_model::time::Timestamp;

use super::TimeSpan;

impl TimeSpan {
    pub(super) fn between(from: Option<&Timestamp>, to: Option<&Timestamp>) -> Self {
        Self { from: from.cloned(), to: to.cloned(), elapsed_ms: elapsed(from, to) }
    }
}

/// Milliseconds from one time to a later one.
pub(crate) fn elapsed(from: Option<&Timestamp>, to: Option<&Timestamp>) -> Option<u64> {
    u64::try_from(to?.epoch_ms()? - from?.epoch_ms()?).ok()
}

/// How clock times are written: recorded views use UTC, so that equal stores give equal bytes (G76); a person
/// at a terminal sees their own zone, which only the edge knows.
#[derive(Clone, Copy, Debug)]
pub struct Times(fn(&Timestamp) -> String);

impl Times {
    pub const UTC: Self = Self(shown);

    pub const fn written_by(write: fn(&Timestamp) -> String) -> Self {
        Self(write)
    }

    pub(super) fn shown(self, at: &Timestamp) -> String {
        (self.0)(at)
    }
}

/// `2026-01-31 23:59 UTC`.
pub fn shown(at: &Timestamp) -> String {
    let text = at.as_str();
    // A timestamp always has this format.
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

/// How long ago something was, in the largest useful unit: `3 min ago`. `None` if the clock went backwards.
pub fn ago(at: &Timestamp, now: &Timestamp) -> Option<String> {
    const MINUTE: u64 = 60_000;
    const HOUR: u64 = 60 * MINUTE;
    const DAY: u64 = 24 * HOUR;
    const YEAR: u64 = 365 * DAY;
    let ms = elapsed(Some(at), Some(now))?;
    Some(match ms {
        YEAR.. => format!("{} y ago", ms / YEAR),
        DAY.. => format!("{} d ago", ms / DAY),
        HOUR.. => format!("{} h ago", ms / HOUR),
        MINUTE.. => format!("{} min ago", ms / MINUTE),
        _ => "just now".to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elapsed_time_is_shown_in_its_largest_unit() {
        let now = at("2026-03-01T12:00:00.000Z");
        let shown = |text: &str| ago(&at(text), &now);
        assert_eq!(shown("2026-03-01T11:59:01.000Z").as_deref(), Some("just now"));
        assert_eq!(shown("2026-03-01T11:57:00.000Z").as_deref(), Some("3 min ago"));
        assert_eq!(shown("2026-03-01T03:00:00.000Z").as_deref(), Some("9 h ago"));
        assert_eq!(shown("2026-02-20T12:00:00.000Z").as_deref(), Some("9 d ago"));
        assert_eq!(shown("2023-01-01T12:00:00.000Z").as_deref(), Some("3 y ago"));
        assert_eq!(shown("2026-03-01T12:00:01.000Z"), None);
    }

    fn at(text: &str) -> Timestamp {
        Timestamp::parse(text).unwrap()
    }

    #[test]
    fn a_clock_that_went_backwards_gives_no_elapsed_time() {
        let (early, late) = (at("2026-01-01T00:00:00.000Z"), at("2026-01-01T03:20:30.000Z"));
        assert_eq!(elapsed(Some(&early), Some(&late)), Some(12_030_000));
        assert_eq!(elapsed(Some(&late), Some(&early)), None);
        assert_eq!(elapsed(Some(&early), Some(&at("2026-02-30T00:00:00.000Z"))), None, "no such day");
        assert_eq!(elapsed_text(12_030_000), "3 h 20 min");
        assert_eq!(elapsed_text(60_000), "1 min");
        assert_eq!(elapsed_text(999), "999 ms");
        assert_eq!(elapsed_text(90_061_000), "1 d 1 h");
    }
}
