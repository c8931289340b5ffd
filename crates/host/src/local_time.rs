//! Clock times in the reader's time zone. For display only; records are in UTC (G6).

use jiff::tz::TimeZone;
use workrail_model::time::Timestamp;

/// `2026-01-31 23:59` in the zone of this machine, or of `TZ`. A time that does not exist is shown as recorded.
pub fn local(at: &Timestamp) -> String {
    in_zone(at, TimeZone::system(), "%Y-%m-%d %H:%M")
}

/// `2026-01-31 23:59:08`, for a log.
pub fn local_to_the_second(at: &Timestamp) -> String {
    in_zone(at, TimeZone::system(), "%Y-%m-%d %H:%M:%S")
}

/// `23:59:08`, for current events.
pub fn local_clock(at: &Timestamp) -> String {
    in_zone(at, TimeZone::system(), "%H:%M:%S")
}

/// When a day such as `2026-01-31` began in the zone of this machine, in milliseconds since 1970.
pub fn start_of_day_ms(day: &str) -> Option<i64> {
    let day: jiff::civil::Date = day.parse().ok()?;
    Some(day.to_zoned(TimeZone::system()).ok()?.timestamp().as_millisecond())
}

fn in_zone(at: &Timestamp, zone: TimeZone, format: &str) -> String {
    let instant = at.epoch_ms().and_then(|ms| jiff::Timestamp::from_millisecond(ms).ok());
    instant.map_or_else(|| at.to_string(), |instant| instant.to_zoned(zone).strftime(format).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_shown_in_the_zone_of_the_reader() {
        let at = Timestamp::parse("2026-01-31T23:59:08.999Z").unwrap();
        let zone = TimeZone::fixed(jiff::tz::offset(1));
        assert_eq!(in_zone(&at, zone.clone(), "%Y-%m-%d %H:%M"), "2026-02-01 00:59");
        assert_eq!(in_zone(&at, zone, "%H:%M:%S"), "00:59:08");
    }

    #[test]
    fn a_nonexistent_day_is_shown_as_recorded() {
        let at = Timestamp::parse("2026-02-30T00:00:00.000Z").unwrap();
        assert_eq!(local(&at), "2026-02-30T00:00:00.000Z");
    }
}
