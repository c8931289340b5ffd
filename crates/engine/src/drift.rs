//! Whether the file of a run's workflow has changed since the run was started.
//!
//! Digests of the source are compared, never compiled workflows: a new compiler is not a change (G21). A missing file
//! is not a change either: the run does not need it.

use workrail_core::project::{RunState, SessionState};
use workrail_core::report::Report;
use workrail_model::id::NodeId;
use workrail_model::reply::{Warning, WarningCode};
use workrail_model::strict_json;
use workrail_ports::workspace::WorkspacePath;

use crate::catalog::SourceDigests;
use crate::session_access::Reading;

/// Shown wherever such a run is looked at.
pub(crate) const SOURCE_CHANGED: &str = "The workflow's file has changed since this run was started. The run keeps the \
                                         version it was started with.";

fn changed() -> Warning {
    Warning { code: WarningCode::PinnedWorkflowDiffers, message: SOURCE_CHANGED.to_owned() }
}

/// A warning if the file of a run's workflow has changed, by sources that were listed before.
pub(crate) fn drift_from(run: &RunState, sources: &SourceDigests) -> Option<Warning> {
    let now = sources.digest(&run.workflow_id)?;
    run.source_digest.filter(|then| *then != now).map(|_| changed())
}

impl Reading<'_> {
    /// Whether the reply that led to this node mentioned the change: the reply to an advance does not repeat it.
    pub(crate) fn drift_was_reported(&self, facts: &SessionState, node: NodeId) -> bool {
        let reported = || {
            let at = facts.node(node)?;
            let attempt = at.edge.as_ref()?.attempt?;
            let reply = facts.advance(at.parent?, attempt)?.reply_ref?;
            let value = strict_json::parse(&self.content.store.blob(reply).ok()?).ok()?;
            value.get("body")?.get("workflowChanged")?.as_bool()
        };
        reported().unwrap_or(false)
    }

    /// Whether the workflow's id now refers to a different file than the one the run was started from. False if the
    /// run did not record its file.
    pub(crate) fn has_drifted(&self, run: &RunState, workspace: Option<&WorkspacePath>) -> bool {
        let now = || self.catalog.source_digest(&run.workflow_id, workspace);
        run.source_digest.is_some_and(|then| now().is_some_and(|now| now != then))
    }

    /// Adds a remark for every reported run whose file has changed.
    pub(crate) fn remark_drift(&self, report: &mut Report, facts: &SessionState) {
        let workspace = self.environment.workspace.as_ref();
        for run in &report.runs {
            let state = facts.run(run.run_id);
            if state.is_some_and(|state| self.has_drifted(state, workspace)) {
                let remark = format!("Run {}: {SOURCE_CHANGED}", run.label);
                report.remarks.push(remark);
            }
        }
    }
}
