//! What one console holds while it runs: its guard, the use cases, deletions that can still be undone, and the last list
//! of sessions.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use workrail_engine::sessions::SessionsList;

use crate::administration::Administration;
use crate::guard::Guard;
use crate::held::HeldDeletions;
use crate::passkeys::Nonces;
use crate::use_cases::{Answer, Environment, UseCases};

/// A write changes the mark before it is committed, so a list is kept only if the mark was quiet for this long before.
const QUIET: Duration = Duration::from_secs(5);
/// How long a list is kept while nothing changes. Damage that no write reports is seen after this.
const CACHED_FOR: Duration = Duration::from_secs(30);

/// Pages that are rendered for the same look share a list; the next look at the store is later than this.
const SHARED: Duration = Duration::from_millis(100);

pub(crate) struct Console {
    pub(crate) guard: Guard,
    pub(crate) use_cases: Arc<dyn UseCases>,
    pub(crate) environment: Arc<dyn Environment>,
    pub(crate) administration: Arc<dyn Administration>,
    pub(crate) held: HeldDeletions,
    pub(crate) nonces: Nonces,
    list: Mutex<CachedList>,
}

impl std::fmt::Debug for Console {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Console").field("guard", &self.guard).finish_non_exhaustive()
    }
}

#[derive(Default)]
struct CachedList {
    /// The mark that was seen last, and since when.
    mark: Option<(u64, Instant)>,
    /// Until when a list can be used, and the list.
    cached: Option<(Instant, Arc<SessionsList>)>,
}

impl Console {
    pub(crate) fn new(
        guard: Guard,
        use_cases: Arc<dyn UseCases>,
        environment: Arc<dyn Environment>,
        administration: Arc<dyn Administration>,
    ) -> Self {
        Self {
            guard,
            use_cases,
            environment,
            administration,
            held: HeldDeletions::default(),
            nonces: Nonces::default(),
            list: Mutex::default(),
        }
    }

    /// Every run, as the store is now; looking at ten thousand sessions again is spared while nothing changed.
    pub(crate) fn sessions(&self) -> Answer<Arc<SessionsList>> {
        let mut known = self.list.lock().unwrap_or_else(PoisonError::into_inner);
        let (now, mark) = (Instant::now(), self.use_cases.change_mark());
        let quiet_since = match (known.mark, mark) {
            (Some((before, since)), Some(mark)) if before == mark => Some(since),
            (_, Some(mark)) => {
                known.mark = Some((mark, now));
                known.cached = None;
                None
            }
            // Nothing says whether it changed.
            (_, None) => {
                known.cached = None;
                None
            }
        };
        let is_quiet = quiet_since.is_some_and(|since| now.duration_since(since) >= QUIET);
        if let Some((until, list)) = &known.cached
            && now < *until
        {
            return Ok(Arc::clone(list));
        }
        let list = Arc::new(self.use_cases.sessions()?);
        // One that was taken soon after a write may miss it, so it serves this look alone.
        known.cached = Some((now + if is_quiet { CACHED_FOR } else { SHARED }, Arc::clone(&list)));
        Ok(list)
    }
}
