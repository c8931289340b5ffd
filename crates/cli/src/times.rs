//! Clock times for users at a terminal: in their time zone, and relative where that is clearer.

use workrail_core::report::{self, Times};
use workrail_host::local_time::local;
use workrail_model::time::Timestamp;

use crate::output;

/// In the zone of this machine, or of `TZ`.
pub(crate) const LOCAL: Times = Times::written_by(local);

/// For anything older, the date is clearer than its age.
const RELATIVE_MS_MAX: i64 = 14 * 24 * 60 * 60 * 1000;

/// Local at a terminal. A document for a pipe or a file is in UTC: equal stores give equal bytes (G76).
pub(crate) fn of_standard_output() -> Times {
    match output::is_terminal() {
        true => LOCAL,
        false => Times::UTC,
    }
}

/// How long ago it was, or the date where that is clearer.
pub(crate) fn when(at: &Timestamp, now: &Timestamp) -> String {
    let age_ms = now.epoch_ms().zip(at.epoch_ms()).map(|(now, at)| now - at);
    let recent = age_ms.is_some_and(|age| (0..RELATIVE_MS_MAX).contains(&age));
    match report::ago(at, now).filter(|_| recent) {
        Some(ago) => ago,
        None => local(at).chars().take(10).collect(),
    }
}
