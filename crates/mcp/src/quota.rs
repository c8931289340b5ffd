//! Limits one member's requests at once and per second, so that a client that runs wild does not keep others waiting.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use workrail_model::id::AccessTokenId;

/// An agent waits for each answer; several agents with one token run some calls at once.
const AT_ONCE_MAX: u32 = 16;
/// Enough for a whole run of a long workflow without a pause.
const BURST: f64 = 120.0;
const PER_SECOND: f64 = 20.0;
/// The maximum number of members counted at once; the least recent is forgotten first.
const MEMBERS_MAX: usize = 4096;

#[derive(Clone, Debug, Default)]
pub(crate) struct Quotas(Arc<Mutex<BTreeMap<AccessTokenId, Usage>>>);

#[derive(Debug)]
struct Usage {
    running: u32,
    left: f64,
    last: Instant,
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
            let oldest = idle.min_by_key(|(_, usage)| usage.last).map(|(member, _)| *member);
            all.remove(&oldest?);
        }
        let usage = all.entry(member).or_insert(Usage { running: 0, left: BURST, last: now });
        let passed = now.saturating_duration_since(usage.last).as_secs_f64();
        usage.left = (usage.left + passed * PER_SECOND).min(BURST);
        usage.last = now;
        if usage.running >= AT_ONCE_MAX || usage.left < 1.0 {
            return None;
        }
        usage.running += 1;
        usage.left -= 1.0;
        Some(CountedRequest { quotas: self.clone(), member })
    }
}

impl Drop for CountedRequest {
    fn drop(&mut self) {
        let mut all = self.quotas.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(usage) = all.get_mut(&self.member) {
            usage.running = usage.running.saturating_sub(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

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
        assert_eq!(served, BURST as usize);
        let later = now + Duration::from_secs(1);
        let served = (0..1000).filter(|_| quotas.take(member(1), later).is_some()).count();
        assert_eq!(served, PER_SECOND as usize);
    }
}
