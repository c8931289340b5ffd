//! Spreads the work over two threads; no result depends on the order of the work.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// The proofs are sized for a machine with two cores.
const THREADS: usize = 2;

/// The combined findings of all parts of a proof.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    pub(crate) states: u64,
    pub(crate) violations: Vec<String>,
}

/// Messages beyond this many say nothing new.
const VIOLATIONS_MAX: usize = 20;

impl Findings {
    pub(crate) fn record(&mut self, violation: String) {
        self.violations.push(violation);
    }

    pub(crate) fn absorb(&mut self, other: Self) {
        self.states += other.states;
        self.violations.extend(other.violations);
    }

    /// Fails the calling test with the findings, if there are any.
    pub(crate) fn assert_none(&self, what: &str) {
        let shown = self.violations.iter().take(VIOLATIONS_MAX).map(String::as_str);
        let shown: Vec<&str> = shown.collect();
        assert!(
            self.violations.is_empty(),
            "{what}: {} violations\n{}",
            self.violations.len(),
            shown.join("\n---\n")
        );
    }
}

/// Calls `work` once for each number below `count` and combines the findings.
pub(crate) fn each(count: usize, work: impl Fn(usize, &mut Findings) + Sync) -> Findings {
    let next = AtomicUsize::new(0);
    let total = Mutex::new(Findings::default());
    let run = || {
        let mut mine = Findings::default();
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            // Enough violations are reported; the rest would only cost time.
            if index >= count || mine.violations.len() >= VIOLATIONS_MAX {
                break;
            }
            work(index, &mut mine);
        }
        total.lock().unwrap_or_else(PoisonError::into_inner).absorb(mine);
    };
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(run);
        }
    });
    total.into_inner().unwrap_or_else(PoisonError::into_inner)
}
