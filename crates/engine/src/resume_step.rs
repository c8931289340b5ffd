//! Includes the step itself in the answer of `resume_session` when it is clear which run is meant: one call from a few
//! words back to work.

use std::fmt::Write as _;

use serde_json::Value;
use workrail_model::preferences::RunStatus;
use workrail_model::resume::{Candidate, ResumeBody};
use workrail_model::text::truncate_with_marker;
use workrail_ports::workspace::WorkspacePath;

use crate::request::ContinueWorkflow;
use crate::resume::not_offered;
use crate::session_access::Reading;

/// Keeps the whole answer as small as other replies (G73). A step that does not fit is one call away.
const TEXT_BYTES_MAX: usize = 9_000;
const GOAL_SHOWN_BYTES_MAX: usize = 120;

impl Reading<'_> {
    /// The same answer with the first candidate's step in it. If the step cannot be shown, the answer is unchanged.
    pub(crate) fn with_step(&self, body: ResumeBody, workspace: Option<&WorkspacePath>) -> ResumeBody {
        let shown = self.continues().then(|| self.step_of(&body, workspace)).flatten();
        shown.map_or(body.clone(), |(text, step)| ResumeBody { text, step: Some(step), ..body })
    }

    fn step_of(
        &self,
        body: &ResumeBody,
        workspace: Option<&WorkspacePath>,
    ) -> Option<(String, serde_json::Map<String, Value>)> {
        let (first, others) = body.candidates.split_first()?;
        match first.status? {
            RunStatus::InProgress | RunStatus::Blocked | RunStatus::Closed => {}
            RunStatus::Complete | RunStatus::CompleteWithGaps => return None,
        }
        let call = first.next_call.as_ref()?;
        let token = call.arguments.get("stateToken")?.as_str()?;
        let reply = self.rehydrate(token, &ContinueWorkflow::default(), workspace).ok()?;
        let worked = first.last_actor.as_ref();
        let worked = worked.map_or_else(String::new, |actor| format!(" {actor} worked on it last."));
        let mut text = format!(
            "Found run {} ({}).{worked} Its step is below; to see it again, call {} with {}",
            first.label.as_deref()?,
            first.reason,
            call.tool,
            call.arguments_text()
        );
        for (position, other) in others.iter().enumerate() {
            text.push_str(if position == 0 { "\nNot this one? Others that match:" } else { "" });
            text.push_str(&in_a_line(other));
        }
        if body.unhealthy_sessions > 0 {
            let _ = write!(text, "\n{}", not_offered(body.unhealthy_sessions));
        }
        let _ = write!(text, "\n\n{}", reply.parts().join("\n\n"));
        (text.len() <= TEXT_BYTES_MAX).then(|| (text, reply.into_data_without_text()))
    }
}

fn in_a_line(candidate: &Candidate) -> String {
    let name = candidate.label.clone().unwrap_or_else(|| candidate.session_id.to_string());
    let goal = candidate.goal.as_deref().map(|goal| truncate_with_marker(goal, GOAL_SHOWN_BYTES_MAX));
    let goal = goal.map_or_else(String::new, |goal| format!(": {}", goal.replace('\n', " ")));
    let status = match candidate.status {
        Some(RunStatus::Complete | RunStatus::CompleteWithGaps) => "finished; ",
        Some(RunStatus::InProgress | RunStatus::Blocked | RunStatus::Closed) | None => "",
    };
    let call = candidate.next_call.as_ref();
    let call = call.map_or_else(String::new, |call| format!(" {}", call.in_a_line()));
    format!("\n- {name}{goal} ({status}{}).{call}", candidate.reason)
}
