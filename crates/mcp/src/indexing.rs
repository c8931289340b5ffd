//! When a server adds what it recorded to the index: in the next pause between calls.
//!
//! An agent that calls again at once does not share the processor with the indexing, and what several calls recorded
//! is added once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use crate::call::Execution;

/// This long without a call is a pause.
const PAUSE: Duration = Duration::from_millis(20);
/// How often calls may prolong the wait: a server that is always busy indexes as well.
const PROLONGED_MAX: u32 = 10;

#[derive(Clone, Debug, Default)]
pub(crate) struct IndexingPauses(Arc<IndexingState>);

#[derive(Debug, Default)]
struct IndexingState {
    begun: AtomicU64,
    running: AtomicU64,
    is_waiting: AtomicBool,
}

/// A call that is being answered; dropped when it ends, also when it is cancelled.
#[derive(Debug)]
pub(crate) struct RunningCall(Arc<IndexingState>);

impl IndexingPauses {
    pub(crate) fn call_begins(&self) -> RunningCall {
        self.0.begun.fetch_add(1, Ordering::SeqCst);
        self.0.running.fetch_add(1, Ordering::SeqCst);
        RunningCall(Arc::clone(&self.0))
    }
}

impl Drop for RunningCall {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, Ordering::SeqCst);
    }
}

impl RunningCall {
    /// If something waits to be indexed, that happens in the next pause.
    pub(crate) fn ended(self, execution: &Arc<dyn Execution>) {
        if !execution.has_unindexed() || self.0.is_waiting.swap(true, Ordering::SeqCst) {
            return;
        }
        let (state, execution) = (Arc::clone(&self.0), Arc::clone(execution));
        // Not awaited: the reply is sent meanwhile. If the server ends first, its end adds what is left.
        drop(tokio::spawn(async move {
            for _ in 0..PROLONGED_MAX {
                let begun = state.begun.load(Ordering::SeqCst);
                tokio::time::sleep(PAUSE).await;
                let is_idle = state.running.load(Ordering::SeqCst) == 0;
                if is_idle && state.begun.load(Ordering::SeqCst) == begun {
                    break;
                }
            }
            // First: what is recorded from here on waits for another pause.
            state.is_waiting.store(false, Ordering::SeqCst);
            drop(tokio::task::spawn_blocking(move || execution.index_appended()));
        }));
    }
}
