//! Whether a team's server can answer calls, for probes, which need no token (G115).
//!
//! However many probes there are, the store is asked by one of them at a time, and at most about once a second.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::Mutex;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use crate::team::{ProbeFailure, TeamBackend};

/// How long a probe waits for the store.
const WAIT: Duration = Duration::from_secs(5);
/// How old an answer may be. Load balancers probe every few seconds.
const FRESH_FOR: Duration = Duration::from_secs(1);

#[derive(Clone)]
pub(crate) struct ReadinessProbes {
    members: Arc<dyn TeamBackend>,
    wait: Duration,
    fresh_for: Duration,
    /// When the store answered last, and what. Locked while it is asked.
    last: Arc<Mutex<Option<Answer>>>,
}

#[derive(Clone, Copy)]
struct Answer {
    at: Instant,
    found: Result<(), ProbeFailure>,
}

impl ReadinessProbes {
    pub(crate) fn new(members: Arc<dyn TeamBackend>) -> Self {
        Self { members, wait: WAIT, fresh_for: FRESH_FOR, last: Arc::default() }
    }

    /// What the store answered within the last second, or answers now.
    pub(crate) async fn current(&self) -> Result<(), ProbeFailure> {
        let answered = timeout(self.wait, async {
            let mut last = Arc::clone(&self.last).lock_owned().await;
            if let Some(answer) = *last
                && answer.at.elapsed() < self.fresh_for
            {
                return answer.found;
            }
            let members = Arc::clone(&self.members);
            // The lock moves along: the next probe waits until the store has answered, also if this one has left.
            let asked = spawn_blocking(move || {
                let found = members.readiness();
                *last = Some(Answer { at: Instant::now(), found });
                found
            });
            asked.await.unwrap_or(Err(ProbeFailure::Store))
        });
        answered.await.unwrap_or(Err(ProbeFailure::Store))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::sync::mpsc::{Receiver, Sender, channel};

    use tokio::runtime::Builder;
    use tokio::task::JoinSet;
    use workrail_model::team::Caller;

    use super::*;
    use crate::metrics::StoreNumbers;
    use crate::team::CallerError;

    /// A store that answers each question when the test lets it.
    struct Slow {
        asked: AtomicU32,
        answers: std::sync::Mutex<Receiver<Result<(), ProbeFailure>>>,
    }

    impl TeamBackend for Slow {
        fn caller(&self, _token: &str) -> Result<Caller, CallerError> {
            Err(CallerError::InvalidToken)
        }

        fn readiness(&self) -> Result<(), ProbeFailure> {
            self.asked.fetch_add(1, Ordering::SeqCst);
            self.answers.lock().unwrap().recv().unwrap()
        }

        fn store_numbers(&self) -> StoreNumbers {
            StoreNumbers::default()
        }
    }

    /// The probes of a store, the store, which counts its questions, and the sender of its answers.
    fn slow(fresh_for: Duration) -> (ReadinessProbes, Arc<Slow>, Sender<Result<(), ProbeFailure>>) {
        let (answer, answers) = channel();
        let store = Arc::new(Slow { asked: AtomicU32::new(0), answers: std::sync::Mutex::new(answers) });
        let readiness = ReadinessProbes { fresh_for, ..ReadinessProbes::new(Arc::clone(&store) as _) };
        (readiness, store, answer)
    }

    fn run<T>(test: impl Future<Output = T>) -> T {
        Builder::new_current_thread().enable_time().build().unwrap().block_on(test)
    }

    /// Broke: each probe took a thread and asked the store.
    #[test]
    fn many_probes_ask_the_store_once() {
        let (readiness, store, answer) = slow(Duration::MAX);
        run(async {
            let mut probes = JoinSet::new();
            for _ in 0..200 {
                let readiness = readiness.clone();
                probes.spawn(async move { readiness.current().await });
            }
            answer.send(Ok(())).unwrap();
            assert!(probes.join_all().await.into_iter().all(|found| found == Ok(())));
        });
        assert_eq!(store.asked.load(Ordering::SeqCst), 1);
    }

    #[test]
    fn a_store_that_hangs_is_not_asked_again_until_it_has_answered() {
        let (readiness, store, answer) = slow(Duration::MAX);
        let impatient = ReadinessProbes { wait: Duration::ZERO, ..readiness.clone() };
        run(async {
            for _ in 0..3 {
                assert_eq!(impatient.current().await, Err(ProbeFailure::Store));
            }
            answer.send(Err(ProbeFailure::Keys)).unwrap();
            assert_eq!(
                readiness.current().await,
                Err(ProbeFailure::Keys),
                "the late answer is the next probe's"
            );
        });
        assert_eq!(store.asked.load(Ordering::SeqCst), 1);
    }

    #[test]
    fn an_old_answer_is_not_used() {
        let (readiness, store, answer) = slow(Duration::ZERO);
        run(async {
            for found in [Ok(()), Err(ProbeFailure::Store), Ok(())] {
                answer.send(found).unwrap();
                assert_eq!(readiness.current().await, found);
            }
        });
        assert_eq!(store.asked.load(Ordering::SeqCst), 3);
    }
}
