//! Limits one member's requests at once, requests per second and new sessions, so that a client that runs wild neither
//! keeps others waiting nor fills the store.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use workrail_model::id::AccessTokenId;

/// An agent waits for each answer; several agents with one token run some calls at once.
const AT_ONCE_MAX: u32 = 16;
/// Enough for a whole run of a long workflow without a pause.
const REQUESTS: Rate = Rate { burst: 120.0, per_second: 20.0 };
/// More than a busy team starts, and far less than a loop that only starts sessions.
const NEW_SESSIONS: Rate = Rate { burst: 120.0, per_second: 1.0 };
/// The maximum number of members counted at once; the least recent is forgotten first.
const MEMBERS_MAX: usize = 4096;

#[derive(Clone, Copy, Debug)]
struct Rate {
    burst: f64,
    per_second: f64,
}

/// What a member has left of a rate.
#[derive(Debug)]
struct Allowance {
    left: f64,
    last: Instant,
}

impl Allowance {
    fn full(rate: Rate, now: Instant) -> Self {
        Self { left: rate.burst, last: now }
    }

    fn refill(&mut self, rate: Rate, now: Instant) {
        let passed = now.saturating_duration_since(self.last).as_secs_f64();
        self.left = (self.left + passed * rate.per_second).min(rate.burst);
        self.last = now;
    }

    /// Takes all of them, or none; false if there are too few.
    fn take(&mut self, count: u32) -> bool {
        let is_enough = self.left >= f64::from(count);
        if is_enough {
            self.left -= f64::from(count);
        }
        is_enough
    }

    /// How long until so many can be taken, if nothing else is.
    fn wait_for(&self, count: u32, rate: Rate) -> Duration {
        let missing = (f64::from(count) - self.left).max(0.0);
        Duration::from_secs_f64(missing / rate.per_second)
    }
}

/// How long until the same request can be sent again, if nothing else is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct MustWait(pub(crate) Duration);

#[derive(Clone, Debug, Default)]
pub(crate) struct Quotas(Arc<Mutex<BTreeMap<AccessTokenId, Usage>>>);

#[derive(Debug)]
struct Usage {
    running: u32,
    allowance: Allowance,
}

/// A request, counted until this is dropped.
#[derive(Debug)]
pub(crate) struct CountedRequest {
    quotas: Quotas,
    member: AccessTokenId,
}

impl Quotas {
    /// Counts a request; `None` if the member must wait.
    pub(crate) fn take(&self, member: AccessTokenId, now: Instant) -> Option<CountedRequest> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() >= MEMBERS_MAX && !all.contains_key(&member) {
            let idle = all.iter().filter(|(_, usage)| usage.running == 0);
            let oldest = idle.min_by_key(|(_, usage)| usage.allowance.last).map(|(member, _)| *member);
            all.remove(&oldest?);
        }
        let usage = all
            .entry(member)
            .or_insert_with(|| Usage { running: 0, allowance: Allowance::full(REQUESTS, now) });
        usage.allowance.refill(REQUESTS, now);
        if usage.running >= AT_ONCE_MAX || !usage.allowance.take(1) {
            return None;
        }
        usage.running += 1;
        Some(CountedRequest { quotas: self.clone(), member })
    }

    /// Counts further calls of a request that is counted once.
    fn take_more(&self, member: AccessTokenId, count: u32, now: Instant) -> Result<(), MustWait> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // A member with a running request is not forgotten.
        let Some(usage) = all.get_mut(&member) else { return Err(MustWait(Duration::ZERO)) };
        usage.allowance.refill(REQUESTS, now);
        if usage.allowance.take(count) {
            return Ok(());
        }
        // Sent again, the request itself counts once more.
        Err(MustWait(usage.allowance.wait_for(count.saturating_add(1), REQUESTS)))
    }
}

impl CountedRequest {
    /// What the handler of the request counts with, if the request turns out to hold several messages.
    pub(crate) fn batch_quota(&self) -> BatchQuota {
        BatchQuota { quotas: self.quotas.clone(), member: self.member }
    }
}

/// Counts the messages of a batch like requests, so that a batch is not a way around the rate.
#[derive(Clone, Debug)]
pub(crate) struct BatchQuota {
    quotas: Quotas,
    member: AccessTokenId,
}

impl BatchQuota {
    /// Counts a batch whose request is counted once already.
    pub(crate) fn take(&self, messages: usize, now: Instant) -> Result<(), MustWait> {
        let more = u32::try_from(messages.saturating_sub(1)).unwrap_or(u32::MAX);
        self.quotas.take_more(self.member, more, now)
    }
}

/// The answer to a member who must wait.
pub(crate) fn too_many_requests(wait: Duration) -> Response {
    // A whole number of seconds, at least one.
    let seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
    let retry_after = (header::RETRY_AFTER, HeaderValue::from(seconds.max(1)));
    let reason = "Too Many Requests: this token has too many requests under way, or sent too many lately. Nothing was \
                  recorded. Send the same call again in a moment.\n";
    (StatusCode::TOO_MANY_REQUESTS, [retry_after], reason).into_response()
}

impl Drop for CountedRequest {
    fn drop(&mut self) {
        let mut all = self.quotas.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(usage) = all.get_mut(&self.member) {
            usage.running = usage.running.saturating_sub(1);
        }
    }
}

/// How many sessions each member may still start.
#[derive(Clone, Debug, Default)]
pub struct SessionQuotas(Arc<Mutex<BTreeMap<AccessTokenId, Allowance>>>);

impl SessionQuotas {
    /// Counts a new session; false if the member must wait.
    pub fn take(&self, member: AccessTokenId, now: Instant) -> bool {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() >= MEMBERS_MAX && !all.contains_key(&member) {
            let oldest = all.iter().min_by_key(|(_, allowance)| allowance.last).map(|(member, _)| *member);
            oldest.and_then(|oldest| all.remove(&oldest));
        }
        let allowance = all.entry(member).or_insert_with(|| Allowance::full(NEW_SESSIONS, now));
        allowance.refill(NEW_SESSIONS, now);
        allowance.take(1)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::batch::MESSAGES_MAX;

    fn member(n: u8) -> AccessTokenId {
        AccessTokenId::from_bits([n; 10])
    }

    #[test]
    fn each_member_has_a_separate_limit_of_concurrent_requests() {
        let (quotas, now) = (Quotas::default(), Instant::now());
        let mut running: Vec<_> = (0..AT_ONCE_MAX).map(|_| quotas.take(member(1), now).unwrap()).collect();
        assert!(quotas.take(member(1), now).is_none());
        assert!(quotas.take(member(2), now).is_some());
        running.pop();
        assert!(quotas.take(member(1), now).is_some());
    }

    #[test]
    fn a_burst_is_used_up_and_recovers_with_time() {
        let (quotas, now) = (Quotas::default(), Instant::now());
        let served = (0..1000).filter(|_| quotas.take(member(1), now).is_some()).count();
        assert_eq!(served, REQUESTS.burst as usize);
        let later = now + Duration::from_secs(1);
        let served = (0..1000).filter(|_| quotas.take(member(1), later).is_some()).count();
        assert_eq!(served, REQUESTS.per_second as usize);
    }

    /// Broke: a batch of 64 calls counted as one request.
    #[test]
    fn every_message_of_a_batch_counts() {
        let (quotas, now) = (Quotas::default(), Instant::now());
        let batch = |messages: usize, now: Instant| {
            let request = quotas.take(member(1), now)?;
            request.batch_quota().take(messages, now).is_ok().then_some(request)
        };
        let burst = REQUESTS.burst as usize;
        let most = batch(MESSAGES_MAX, now).expect("the largest batch is within the burst");
        assert!(batch(MESSAGES_MAX, now).is_none(), "two of them are not");
        drop(most);
        // A batch that is refused uses up one request, not as many as it has messages.
        let served = (0..1000).filter(|_| quotas.take(member(1), now).is_some()).count();
        assert_eq!(served, burst - MESSAGES_MAX - 1);
        let later = now + Duration::from_secs(1);
        assert!(batch(REQUESTS.per_second as usize + 1, later).is_none());
        let later = later + Duration::from_secs(1);
        assert!(batch(REQUESTS.per_second as usize, later).is_some());
    }

    /// Broke: the wait left out the repeated request itself, so that a batch came one message too early.
    #[test]
    fn a_batch_that_waits_as_long_as_required_is_accepted() {
        let now = Instant::now();
        // Of 120, 65 are taken: 55 are left, and sent again it needs all 64. One more comes every 50 ms.
        let told = Duration::from_millis((64 - 55) * 50);
        for (waited, is_accepted) in [(told, true), (told - Duration::from_nanos(1), false)] {
            let quotas = Quotas::default();
            let batch =
                |at: Instant| quotas.take(member(1), at).unwrap().batch_quota().take(MESSAGES_MAX, at);
            assert_eq!(batch(now), Ok(()));
            assert_eq!(batch(now), Err(MustWait(told)));
            assert_eq!(batch(now + waited).is_ok(), is_accepted, "{waited:?}");
        }
    }

    #[test]
    fn a_wait_is_given_in_whole_seconds() {
        let millis = Duration::from_millis;
        for (wait, seconds) in
            [(Duration::ZERO, "1"), (millis(450), "1"), (millis(1000), "1"), (millis(3150), "4")]
        {
            assert_eq!(too_many_requests(wait).headers()[header::RETRY_AFTER], seconds);
        }
    }

    #[test]
    fn new_sessions_have_a_limit_of_their_own() {
        let (quotas, now) = (SessionQuotas::default(), Instant::now());
        let started = (0..1000).filter(|_| quotas.take(member(1), now)).count();
        assert_eq!(started, NEW_SESSIONS.burst as usize);
        assert!(quotas.take(member(2), now), "another member is not limited by it");
        let later = now + Duration::from_secs(10);
        let started = (0..1000).filter(|_| quotas.take(member(1), later)).count();
        assert_eq!(started, 10 * NEW_SESSIONS.per_second as usize);
    }

    #[test]
    fn the_number_of_counted_members_is_bounded() {
        let (quotas, now) = (SessionQuotas::default(), Instant::now());
        for n in 0..=MEMBERS_MAX {
            let mut bits = [0; 10];
            bits[..8].copy_from_slice(&n.to_be_bytes());
            assert!(quotas.take(AccessTokenId::from_bits(bits), now));
        }
        assert_eq!(quotas.0.lock().unwrap().len(), MEMBERS_MAX);
    }
}
