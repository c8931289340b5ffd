//! Fetches git sources while a server runs, so that no call ever waits for the network (G92).

use std::time::Duration;

use super::git::{Mirror, SyncError, Synced};

/// A fetch by another process is looked at again after this.
const BUSY: Duration = Duration::from_secs(60);
/// Clocks are set and laptops sleep: what is due is looked at again at least this often.
const ASLEEP_MAX: Duration = Duration::from_secs(3600);

/// Fetches what is due now, and keeps doing so for as long as the process lives.
pub fn refresh_in_background(
    mirrors: Vec<Mirror>,
    tell: impl Fn(&Mirror, &Result<Synced, SyncError>) + Send + 'static,
) {
    if mirrors.iter().all(|mirror| mirror.due_in().is_none()) {
        return;
    }
    let work = move || {
        while let Some(wait) = round(&mirrors, &tell) {
            std::thread::sleep(wait.min(ASLEEP_MAX));
        }
    };
    // Without the thread the sources are served as they are, and `workrail workflow sources sync` still works.
    let _ = std::thread::Builder::new().name("git-sources".to_owned()).spawn(work);
}

/// Fetches what is due, and says how long nothing will be; `None` when nothing ever will.
fn round(mirrors: &[Mirror], tell: &impl Fn(&Mirror, &Result<Synced, SyncError>)) -> Option<Duration> {
    let mut next: Option<Duration> = None;
    for mirror in mirrors {
        let Some(due) = mirror.due_in() else { continue };
        let wait = if due.is_zero() {
            let done = mirror.sync();
            tell(mirror, &done);
            // What could not even be written down must not be tried again at once.
            mirror.due_in().map(|due| due.max(BUSY))
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
