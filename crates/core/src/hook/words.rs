//! What hooks say: facts, and the next call.

use workrail_model::reply::NextCall;

use super::refuse::RefusedCommand;
use crate::edits::AllowedEdits;

/// A run and its pending step, in plain words.
#[derive(Clone, Debug, PartialEq)]
pub struct PendingWork {
    pub label: String,
    pub workflow: String,
    pub goal: Option<String>,
    pub step: String,
    /// The call that shows the step again.
    pub rehydrate_call: NextCall,
}

impl PendingWork {
    fn called(&self) -> String {
        format!("WorkRail run {} ({})", self.label, self.workflow)
    }

    fn rehydrate_text(&self) -> String {
        format!("{} with {}", self.rehydrate_call.tool, self.rehydrate_call.arguments_text())
    }
}

/// Why the turn does not end.
pub fn hold_reason(work: &PendingWork) -> String {
    format!(
        "{} is not complete: its step \"{}\" is pending. To see the step and the call that completes it, call {}. If the \
         user wants to stop here, the turn can end: the run keeps its place.",
        work.called(),
        work.step,
        work.rehydrate_text()
    )
}

/// The step, for a chat that may have lost it; `text` is what the agent was given, if there is room for it.
pub fn pending_step_text(work: &PendingWork, text: Option<&str>) -> String {
    match text {
        Some(text) => format!(
            "This chat works on {}. The history may no longer have the pending step, so here it is as recorded:\n\n{text}",
            work.called()
        ),
        None => format!(
            "This chat works on {}. Its step \"{}\" is pending; {} shows it in full.",
            work.called(),
            work.step,
            work.rehydrate_text()
        ),
    }
}

/// A run that another chat left unfinished in this folder.
pub fn unfinished_here(work: &PendingWork) -> String {
    let goal = work.goal.as_ref().map_or_else(String::new, |goal| format!(" Its goal: {goal}."));
    format!(
        "{} was started in this folder and is not complete.{goal} Its step \"{}\" is pending. To continue it, call {}. \
         Ignore this if the user asks for something else.",
        work.called(),
        work.step,
        work.rehydrate_text()
    )
}

/// Why files may not be edited.
pub fn edit_denied(work: &PendingWork, allowed: &AllowedEdits, files: &[String]) -> String {
    let globs = allowed.globs().take(GLOBS_SHOWN_MAX).collect::<Vec<_>>().join("`, `");
    let allowed = match &allowed.declared {
        _ if globs.is_empty() => "allows no edits in this repository".to_owned(),
        None => format!("allows only edits to files that match `{globs}`"),
        Some(scope) => {
            format!("allows only edits within the declared scope (`context.{}`): `{globs}`", scope.key)
        }
    };
    let files = match files {
        [] => "Nothing was changed".to_owned(),
        files => {
            let more = files.len().saturating_sub(FILES_SHOWN_MAX);
            let shown = files.iter().take(FILES_SHOWN_MAX).map(String::as_str).collect::<Vec<_>>().join(", ");
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            format!("Not changed: {shown}{more}")
        }
    };
    format!(
        "The pending step \"{}\" of {} {allowed}. {files}. Changes are checked when the step ends; {} shows the step.",
        work.step,
        work.called(),
        work.rehydrate_text()
    )
}

const FILES_SHOWN_MAX: usize = 5;
/// A declared scope may be long.
const GLOBS_SHOWN_MAX: usize = 20;

/// Why a command may not be run.
pub(super) fn refused(command: &RefusedCommand) -> String {
    format!(
        "`workrail {}` is for the user: {}. It cannot be run from an agent's shell. The user can run it in their own \
         terminal, or use `workrail console`.",
        command.path, command.why
    )
}
