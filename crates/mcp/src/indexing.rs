//! When a server adds what it recorded to the index: in the next pause between calls.
//!
//! An agent that calls again at once does not share the processor with the indexing, and what several calls recorded
//! is added once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use crate::call::Execution;

/// This long without a new call is a pause.
const PAUSE: Duration = Duration::from_millis(20);
/// How often new calls may prolong the wait: a server that is always busy indexes as well.
const PROLONGED_MAX: u32 = 10;

#[derive(Clone, Debug, Default)]
pub(crate) struct IndexingPauses(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    calls: AtomicU64,
    is_waiting: AtomicBool,
}

impl IndexingPauses {
    pub(crate) fn call_begins(&self) {
        self.0.calls.fetch_add(1, Ordering::SeqCst);
    }

    /// Called after a call. If something waits to be indexed, that happens in the next pause.
    pub(crate) fn call_ended(&self, execution: Arc<dyn Execution>) {
        if !execution.has_unindexed() || self.0.is_waiting.swap(true, Ordering::SeqCst) {
            return;
        }
        let shared = Arc::clone(&self.0);
        // Not awaited: the reply is sent meanwhile. If the server ends first, its end adds what is left.
        drop(tokio::spawn(async move {
            for _ in 0..PROLONGED_MAX {
                let calls = shared.calls.load(Ordering::SeqCst);
                tokio::time::sleep(PAUSE).await;
                if shared.calls.load(Ordering::SeqCst) == calls {
                    break;
                }
            }
            // First: what is recorded from here on waits for another pause.
            shared.is_waiting.store(false, Ordering::SeqCst);
            drop(tokio::task::spawn_blocking(move || execution.index_appended()));
        }));
    }
}
