//! A run's status, as seen from its preferred tip (G52).

use workrail_model::id::RunId;
use workrail_model::preferences::{Autonomy, RunStatus};

use super::SessionState;

impl SessionState {
    /// The run's status. Whether the preferred tip is complete is in its snapshot, which the caller has
    /// read. `None` for an unknown run or one without nodes.
    ///
    /// A complete run stays complete: gaps then only qualify it. A run is blocked if its tip waits for
    /// something: an open critical gap there, or a newest attempt that was refused. Never-stop never
    /// waits. A run that a person closed is closed, whatever it waited for (G65).
    pub fn run_status(&self, run: RunId, tip_is_complete: bool) -> Option<RunStatus> {
        let tip = self.preferred_tip(run)?;
        if tip_is_complete {
            let has_gaps = self.unresolved_critical(run) > 0;
            return Some(if has_gaps { RunStatus::CompleteWithGaps } else { RunStatus::Complete });
        }
        if self.run(run).is_some_and(|run| run.closed.is_some()) {
            return Some(RunStatus::Closed);
        }
        let stops = match self.preferences(tip).autonomy {
            Autonomy::Guided | Autonomy::FullAutoStopOnUserDeps => true,
            Autonomy::FullAutoNeverStop => false,
        };
        let waits = stops && (self.node_has_blocking_gap(tip) || self.is_refused(tip));
        Some(if waits { RunStatus::Blocked } else { RunStatus::InProgress })
    }
}
