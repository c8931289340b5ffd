//! Evidence in words: one line for lists and logs, the same in every rendering.

use workrail_model::evidence::{
    CheckResult, CheckRun, Evidence, NotRunReason, NotSeenReason, PathList, WorkspaceState,
};

/// How many paths a line names.
const PATHS_IN_LINE: usize = 5;
/// Enough digits to distinguish commits and trees.
const SHORT: usize = 12;

pub fn line(evidence: &Evidence) -> String {
    match evidence {
        Evidence::WorkspaceState(state) => workspace(state),
        Evidence::WorkspaceNotSeen { reason } => {
            format!("the repository was not looked at: {}", not_seen(*reason))
        }
        Evidence::CheckRun(run) => check(run),
        Evidence::CommandRun { command, exit_code, duration_ms, .. } => {
            let ended =
                exit_code.map_or_else(|| "exit code unknown".to_owned(), |code| format!("exit code {code}"));
            let took = duration_ms.map(|ms| format!(", {}", duration(ms))).unwrap_or_default();
            format!("ran `{command}` ({ended}{took})")
        }
        Evidence::FilesEdited { files } => format!("edited {}", paths(files)),
        Evidence::EditRefused { files } => format!("an edit was refused: {}", paths(files)),
        Evidence::CommandRefused { command } => format!("a command was refused: `{command}`"),
        Evidence::SubagentStarted { agent } => format!("started the agent {agent}"),
        Evidence::SubagentEnded { agent } => format!("the agent {agent} ended"),
        Evidence::ChatWatched => {
            "hooks watched the chat of this step; commands run in it would be listed".to_owned()
        }
    }
}

fn workspace(state: &WorkspaceState) -> String {
    let location = match (&state.branch, &state.head) {
        (Some(branch), Some(head)) => format!("{branch} at {}", short(head.as_str())),
        (Some(branch), None) => format!("{branch}, without commits"),
        (None, Some(head)) => short(head.as_str()).to_owned(),
        (None, None) => "a repository without commits".to_owned(),
    };
    let changed = match &state.changed {
        None => "what changed since the step began is not known".to_owned(),
        Some(files) if files.is_empty() => "no files changed since the step began".to_owned(),
        Some(files) => format!("changed since the step began: {}", paths(files)),
    };
    format!("{location}, tree {}; {changed}", &state.tree.hex()[..SHORT])
}

/// A check and its outcome.
pub(crate) fn check(run: &CheckRun) -> String {
    let name = &run.name;
    match &run.outcome {
        CheckResult::Passed(ended) => format!("check `{name}` passed ({})", duration(ended.duration_ms)),
        CheckResult::Failed(ended) => {
            let how = ended
                .exit_code
                .map_or_else(|| "killed by a signal".to_owned(), |code| format!("exit code {code}"));
            format!("check `{name}` failed ({how}, {})", duration(ended.duration_ms))
        }
        CheckResult::TimedOut(ended) => {
            format!("check `{name}` timed out after {}", duration(ended.duration_ms))
        }
        CheckResult::NotRun { reason } => format!("check `{name}` was not run: {}", not_run(*reason)),
    }
}

/// Why a check was not run, as the end of a sentence.
pub fn not_run(reason: NotRunReason) -> &'static str {
    match reason {
        NotRunReason::Untrusted => "nobody has trusted its command for this workspace and workflow",
        NotRunReason::Undefined => "`.workrail/checks.toml` does not define it",
        NotRunReason::InvalidFile => "`.workrail/checks.toml` is invalid",
        NotRunReason::ProgramMissing => "its program was not found",
        NotRunReason::OutsideWorkspace => "its directory is outside the workspace",
        NotRunReason::NoWorkspace => "the call names no workspace",
        NotRunReason::NotStarted => "its program could not be started",
        NotRunReason::NotHere => "this server runs no checks",
    }
}

fn not_seen(reason: NotSeenReason) -> &'static str {
    match reason {
        NotSeenReason::TooLarge => "too many files differ from HEAD",
        NotSeenReason::TimedOut => "git took too long",
        NotSeenReason::GitFailed => "git failed",
    }
}

/// The first paths, and how many more.
pub(crate) fn paths(files: &PathList) -> String {
    let mut words = files.paths().take(PATHS_IN_LINE).collect::<Vec<_>>().join(", ");
    match files.total().saturating_sub(PATHS_IN_LINE as u64) {
        0 => {}
        more => words.push_str(&format!(" and {more} more")),
    }
    words
}

fn duration(ms: u64) -> String {
    match ms {
        0..1000 => format!("{ms} ms"),
        _ => format!("{}.{} s", ms / 1000, ms % 1000 / 100),
    }
}

fn short(text: &str) -> &str {
    &text[..text.floor_char_boundary(SHORT)]
}
