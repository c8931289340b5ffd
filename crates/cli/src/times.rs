//! Clock times as the person at the terminal reads them: in their zone, and how long ago where that says more.

use workrail_core::report::{self, Times};
use workrail_host::local_time::local;
use workrail_model::time::Timestamp;

use crate::output;

/// In the zone of this machine, or of `TZ`.
pub(crate) const LOCAL: Times = Times::written_by(local);

/// Older than this, a day says more than how long ago it was.
const RELATIVE_MS_MAX: i64 = 14 * 24 * 60 * 60 * 1000;

/// Local at a terminal. A document that goes into a pipe or a file is in UTC: equal stores give equal bytes (G76).
pub(crate) fn of_standard_output() -> Times {
    match output::is_terminal() {
        true => LOCAL,
        false => Times::UTC,
    }
}

/// How long ago it was, or the day where that says more.
pub(crate) fn when(at: &Timestamp, now: &Timestamp) -> String {
    let age_ms = now.epoch_ms().zip(at.epoch_ms()).map(|(now, at)| now - at);
    let recent = age_ms.is_some_and(|age| (0..RELATIVE_MS_MAX).contains(&age));
    match report::ago(at, now).filter(|_| recent) {
        Some(ago) => ago,
        None => local(at).chars().take(10).collect(),
    }
}
