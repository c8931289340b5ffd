//! Fetches git sources while a server runs, so that no call ever waits for the network (G92).

use std::time::Duration;

use super::git::{Mirror, SyncError, Synced};

/// The shortest wait between two fetches of a source, whatever the outcome.
const REFETCH_AFTER_MIN: Duration = Duration::from_secs(60);
/// Clocks are set and laptops sleep: check for due sources at least this often.
const ASLEEP_MAX: Duration = Duration::from_secs(3600);

/// Fetches what is due now, and continues to do so for as long as the process lives; `report` gets each outcome.
pub fn refresh_in_background(
    mirrors: Vec<Mirror>,
    report: impl Fn(&Mirror, &Result<Synced, SyncError>) + Send + 'static,
) {
    if mirrors.iter().all(|mirror| mirror.due_in().is_none()) {
        return;
    }
    let work = move || {
        while let Some(wait) = round(&mirrors, &report) {
            std::thread::sleep(wait.min(ASLEEP_MAX));
        }
    };
    // Without the thread, sources are served as they are, and `workrail workflow sources sync` still works.
    let _ = std::thread::Builder::new().name("git-sources".to_owned()).spawn(work);
}

/// Fetches what is due and returns the time until the next fetch; `None` if there is none.
fn round(mirrors: &[Mirror], report: &impl Fn(&Mirror, &Result<Synced, SyncError>)) -> Option<Duration> {
    let mut next: Option<Duration> = None;
    for mirror in mirrors {
        let Some(due) = mirror.due_in() else { continue };
        let wait = if due.is_zero() {
            let done = mirror.sync();
            report(mirror, &done);
            // If the failure could not be recorded, it must not be retried at once.
            mirror.due_in().map(|due| due.max(REFETCH_AFTER_MIN))
        } else {
            Some(due)
        };
        next = match (next, wait) {
            (Some(known), Some(wait)) => Some(known.min(wait)),
            (known, wait) => known.or(wait),
        };
    }
    next
}
