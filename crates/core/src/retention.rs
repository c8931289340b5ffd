//! Which sessions are old enough to be removed: the one place where a clock decides something (G6, G25).
//!
//! A session is retained if any of these holds: it is kept, it has an unfinished run, its time is missing or makes
//! no sense, or the clock is behind what the store has already seen.

use workrail_model::retention::Ttl;
use workrail_model::time::Timestamp;

/// What is known of a session when its age is judged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionFacts<'a> {
    /// The newest time of any of its events.
    pub newest_at: Option<&'a Timestamp>,
    pub unfinished_runs: usize,
    pub is_kept: bool,
}

/// Why a session is not removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RetainReason {
    /// A user marked it with `session keep`.
    Kept,
    Unfinished,
    Recent,
    /// None of its events has a time.
    WithoutTimestamp,
    /// The clock is behind the newest event in the store: it cannot tell how old anything is.
    ClockBehind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RetentionDecision {
    Retain(RetainReason),
    Expired { age_ms: u64 },
}

/// The current time, if the store can trust the clock.
#[derive(Clone, Debug)]
pub struct Now {
    /// `None` if the clock cannot be right.
    ms: Option<i64>,
}

impl Now {
    /// `newest_of_store` is the newest time of any event in any session.
    pub fn new(clock: &Timestamp, newest_of_store: Option<&Timestamp>) -> Self {
        let newest_ms = newest_of_store.and_then(Timestamp::epoch_ms);
        let ms = clock.epoch_ms().filter(|now| newest_ms.is_none_or(|newest| newest <= *now));
        Self { ms }
    }

    pub fn is_clock_trusted(&self) -> bool {
        self.ms.is_some()
    }
}

pub fn judge(session: &SessionFacts<'_>, ttl: Ttl, now: &Now) -> RetentionDecision {
    if session.is_kept {
        return RetentionDecision::Retain(RetainReason::Kept);
    }
    if session.unfinished_runs > 0 {
        return RetentionDecision::Retain(RetainReason::Unfinished);
    }
    let Some(newest) = session.newest_at.and_then(Timestamp::epoch_ms) else {
        return RetentionDecision::Retain(RetainReason::WithoutTimestamp);
    };
    // Not negative: a trusted clock is not behind any event.
    let age_ms = now.ms.and_then(|now| u64::try_from(now - newest).ok());
    match age_ms {
        None => RetentionDecision::Retain(RetainReason::ClockBehind),
        Some(age_ms) if age_ms >= ttl.ms() => RetentionDecision::Expired { age_ms },
        Some(_) => RetentionDecision::Retain(RetainReason::Recent),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        Timestamp::parse(text).unwrap()
    }

    /// G6: the one place where clock times decide, and only if the clock can be right.
    #[test]
    fn every_reason_alone_retains_a_session() {
        let (old, now) = (at("2026-01-01T00:00:00.000Z"), at("2026-04-01T00:00:00.000Z"));
        let facts = SessionFacts { newest_at: Some(&old), unfinished_runs: 0, is_kept: false };
        let ttl = Ttl::parse("90d").unwrap();
        let clock = Now::new(&now, Some(&old));
        assert!(
            matches!(judge(&facts, ttl, &clock), RetentionDecision::Expired { age_ms } if age_ms == ttl.ms())
        );
        let stays = |facts: &SessionFacts<'_>, clock: &Now| judge(facts, ttl, clock);
        assert_eq!(
            stays(&SessionFacts { is_kept: true, ..facts.clone() }, &clock),
            RetentionDecision::Retain(RetainReason::Kept)
        );
        assert_eq!(
            stays(&SessionFacts { unfinished_runs: 1, ..facts.clone() }, &clock),
            RetentionDecision::Retain(RetainReason::Unfinished)
        );
        assert_eq!(
            stays(&SessionFacts { newest_at: None, ..facts.clone() }, &clock),
            RetentionDecision::Retain(RetainReason::WithoutTimestamp)
        );
        let nonsense = at("2026-99-99T00:00:00.000Z");
        assert_eq!(
            stays(&SessionFacts { newest_at: Some(&nonsense), ..facts.clone() }, &clock),
            RetentionDecision::Retain(RetainReason::WithoutTimestamp)
        );
        let a_millisecond_less = Now::new(&at("2026-03-31T23:59:59.999Z"), Some(&old));
        assert_eq!(stays(&facts, &a_millisecond_less), RetentionDecision::Retain(RetainReason::Recent));
        // One event in another session is ahead of the clock, so nothing at all is removed.
        let behind = Now::new(&now, Some(&at("2026-04-01T00:00:00.001Z")));
        assert!(!behind.is_clock_trusted());
        assert_eq!(stays(&facts, &behind), RetentionDecision::Retain(RetainReason::ClockBehind));
    }

    #[test]
    fn a_zero_ttl_removes_finished_sessions_at_once() {
        let now = at("2026-01-01T00:00:00.000Z");
        let facts = SessionFacts { newest_at: Some(&now), unfinished_runs: 0, is_kept: false };
        let verdict = judge(&facts, Ttl::parse("0d").unwrap(), &Now::new(&now, Some(&now)));
        assert_eq!(verdict, RetentionDecision::Expired { age_ms: 0 });
    }
}
