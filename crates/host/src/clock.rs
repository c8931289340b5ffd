//! The system clock, for display only (G6).

use std::time::SystemTime;

use jiff::Timestamp as Instant;
use workrail_model::time::Timestamp;
use workrail_ports::environment::Clock;

#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        // Years after 9999 or before 0 do not fit the format; a broken clock shows the epoch.
        shown(Instant::now()).unwrap_or_else(epoch)
    }
}

/// A file system's timestamp; `None` if it does not fit the format.
pub fn of_file(at: SystemTime) -> Option<Timestamp> {
    shown(Instant::try_from(at).ok()?)
}

fn shown(at: Instant) -> Option<Timestamp> {
    Timestamp::parse(&at.strftime("%Y-%m-%dT%H:%M:%S%.3fZ").to_string()).ok()
}

fn epoch() -> Timestamp {
    Timestamp::parse("1970-01-01T00:00:00.000Z").expect("the literal is a valid timestamp")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_uses_the_one_timestamp_format() {
        assert!(SystemClock.now() > epoch());
    }
}
