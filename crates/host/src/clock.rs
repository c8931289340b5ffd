//! The system clock, for display only (G6).

use jiff::Timestamp as Instant;
use workrail_model::time::Timestamp;
use workrail_ports::environment::Clock;

#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        let text = Instant::now().strftime("%Y-%m-%dT%H:%M:%S%.3fZ").to_string();
        // Years beyond 9999 or before 0 would not fit the shape; the epoch stands in for a broken clock.
        Timestamp::parse(&text).unwrap_or_else(|_| epoch())
    }
}

fn epoch() -> Timestamp {
    // The literal has the shape that `parse` wants.
    Timestamp::parse("1970-01-01T00:00:00.000Z").expect("literal timestamp")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_gives_the_one_shape() {
        assert!(SystemClock.now() > epoch());
    }
}
