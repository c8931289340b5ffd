//! Arguments that are refused, and things that are not found.

use workrail_core::interpret::AskedProof;
use workrail_core::label::RunLabel;
use workrail_core::read_run::NoSuchStep;
use workrail_model::compiled::AcceptedValues;
use workrail_model::error::{ErrorCode, ErrorDetails, RefusedArgument, Retry, SizeMethod};
use workrail_model::event::ContextError;
use workrail_model::id::{RunId, SessionId};
use workrail_model::limits::{CONTEXT_BYTES_MAX, GOAL_BYTES_MAX};
use workrail_model::name::NameError;
use workrail_model::name::{ContextKey, WorkflowId};
use workrail_model::reply::NextCall;
use workrail_model::tool::ToolName;
use workrail_ports::workspace::{WorkspacePath, WorkspacePathError};

use super::{Advice, BoxedError, advise, envelope, invalid, oversize, quoted};
use crate::approve::Question;
use crate::request::ResumeSession;

pub(crate) fn bad_idempotency_key(bytes: usize, max: usize) -> BoxedError {
    let mut error = invalid(
        format!("`idempotencyKey` has {bytes} bytes, at most {max} are allowed. Nothing was started."),
        "Send a text that is unique to this start, such as a UUID, or leave it out.",
    );
    error.details = Some(oversize(Some(RefusedArgument::IdempotencyKey), bytes, max, SizeMethod::Bytes));
    error
}

/// The key was used for another start, which is unchanged.
pub(crate) fn key_used(run: RunId) -> BoxedError {
    let label = RunLabel::of(run).to_string();
    let mut error = invalid(
        format!(
            "`idempotencyKey` was used before with other arguments and started run {label}. Nothing was started."
        ),
        "To start another run, send a new `idempotencyKey`. To continue that run, make the call below.",
    );
    error.details =
        Some(ErrorDetails::KeyUsed { argument: RefusedArgument::IdempotencyKey, run_id: run, run: label });
    error
}

pub(crate) fn two_target_sessions() -> BoxedError {
    let mut error = invalid(
        "`parent` and `sessionToken` both say where the run belongs.".to_owned(),
        "Send `parent` to start inside a run, or `sessionToken` to start next to it, not both.",
    );
    error.details = Some(ErrorDetails::Argument { argument: RefusedArgument::SessionToken });
    error
}

pub(crate) fn one_checkpoint_token() -> BoxedError {
    invalid(
        "checkpoint_workflow needs either `checkpointToken` (of a run's last reply) or `sessionToken`."
            .to_owned(),
        "Send the checkpointToken of the last reply. If it is lost, show the step again as below: the reply has a \
         fresh one.",
    )
}

pub(crate) fn goal_too_long(bytes: usize) -> BoxedError {
    let mut error = invalid(
        format!(
            "`goal` has {bytes} bytes, at most {GOAL_BYTES_MAX} are allowed: it names the work in lists."
        ),
        "Say it in a sentence; put details into `context` or the notes.",
    );
    error.details = Some(oversize(None, bytes, GOAL_BYTES_MAX, SizeMethod::Bytes));
    error
}

pub(crate) fn workspace(cause: &WorkspacePathError) -> BoxedError {
    let mut error = invalid(
        format!("`workspacePath` cannot be used: {cause}."),
        "Send the absolute path of the folder you work in, or leave it out.",
    );
    error.details = Some(ErrorDetails::Argument { argument: RefusedArgument::WorkspacePath });
    error
}

/// `own` is the workspace of calls that name no folder.
pub(crate) fn no_such_workspace(path: &WorkspacePath, own: Option<&WorkspacePath>) -> BoxedError {
    let without = own.map_or_else(String::new, |path| format!(", which means {path}"));
    let mut error = invalid(
        format!("`workspacePath` is {path}, and there is no such folder. Nothing was changed."),
        format!("Send the absolute path of the folder you work in, or leave it out{without}."),
    );
    error.details = Some(ErrorDetails::Argument { argument: RefusedArgument::WorkspacePath });
    error
}

/// `unhealthy` sessions could not be searched.
pub(crate) fn session_not_found(request: &ResumeSession, unhealthy: usize) -> BoxedError {
    let named = request.session_id.as_ref().or(request.run_id.as_ref()).or(request.run.as_ref());
    let named = quoted(named.map_or("it", String::as_str));
    let error = envelope(
        ErrorCode::SessionNotFound,
        Retry::NotRetryable,
        format!("No healthy session in this store has the id `{named}` or a run with that name."),
        Advice::from(
            "Make the call below for the latest runs, or check that WORKRAIL_DATA_DIR and the setting `store` are those it \
             was started with.",
        )
        .in_team(
            "Make the call below for the latest runs, or check that it was started through this server, with a token of the \
             same team.",
        ),
    );
    among_unhealthy(error, unhealthy)
}

/// The same refusal if this many sessions could not be searched for what was not found.
pub(crate) fn among_unhealthy(mut error: BoxedError, unhealthy: usize) -> BoxedError {
    let count = match unhealthy {
        0 => return error,
        1 => "1 session is damaged or unreadable".to_owned(),
        count => format!("{count} sessions are damaged or unreadable"),
    };
    error.message.push_str(&format!(" {count} and may contain it."));
    let advice = Advice::for_the_user("`workrail session list` shows the damaged sessions");
    let advice = advice.for_agents_as_in(&error);
    advise(&mut error, advice);
    error.details = Some(ErrorDetails::Unsearched { unhealthy_sessions: unhealthy });
    error
}

pub(crate) fn unknown_label(label: &str) -> BoxedError {
    let shown = quoted(label);
    envelope(
        ErrorCode::SessionNotFound,
        Retry::NotRetryable,
        format!("No run of this store is called `{shown}`."),
        "Use the two-word label at the top of the run's replies, such as amber-falcon.",
    )
}

/// An id that no run in this store has; the error is for an agent.
pub(crate) fn unknown_run(text: &str) -> BoxedError {
    let shown = quoted(text);
    envelope(
        ErrorCode::SessionNotFound,
        Retry::NotRetryable,
        format!("There is no run `{shown}` in this store."),
        "Find the run as below and use its label.",
    )
}

pub(crate) fn no_such_step(missing: &NoSuchStep, label: RunLabel, overview: NextCall) -> BoxedError {
    let NoSuchStep { asked, count } = missing;
    let shown = quoted(asked);
    let mut error = invalid(
        format!("Run {label} has no step `{shown}`; its steps are numbered from 1 to {count}."),
        "Send a number or a step id from the overview, which the call below shows.",
    );
    // The call that failed may name the run by an id or a token.
    error.next_call = Some(overview);
    error
}

const NAMES_OF_RUNS: &str = "Use a session id, a run id, a prefix of one, or a run's two-word label.";

/// A name that may be that of a session, a run or a label.
pub(crate) fn unknown_reference(text: &str) -> BoxedError {
    let shown = quoted(text);
    envelope(
        ErrorCode::SessionNotFound,
        Retry::NotRetryable,
        format!("No session or run is named `{shown}`."),
        Advice::from(format!("{NAMES_OF_RUNS} `workrail session list` shows them."))
            .in_team(format!("{NAMES_OF_RUNS} The page Runs shows them.")),
    )
}

/// The same if this many sessions are damaged from their beginning: the run may be in one of them.
pub(crate) fn unknown_reference_among(text: &str, unreadable: usize) -> BoxedError {
    let mut error = unknown_reference(text);
    let may_be = match unreadable {
        0 => return error,
        1 => "1 session is damaged, so its runs are unknown; it may be one of them.".to_owned(),
        count => format!("{count} sessions are damaged, so their runs are unknown; it may be one of them."),
    };
    error.message.push_str(&format!(" {may_be}"));
    let what = "`workrail store verify` says what can be repaired";
    let advice = Advice::from(format!("{} {}.", error.suggestion, what)).by_an_admin(what);
    advise(&mut error, advice);
    error
}

const NAMES_OF_PARTS: &str = "Name a part as RUN, RUN@BRANCH, RUN@POINT or RUN@POINT:ATTEMPT.";

/// A part of a run that is misspelled or that the run does not have.
pub(crate) fn wrong_part(cause: &dyn std::fmt::Display) -> BoxedError {
    let mut text: String = cause.to_string().chars().filter(|c| !c.is_control()).take(400).collect();
    if let Some(first) = text.get(..1).map(str::to_uppercase) {
        text.replace_range(..1, &first);
    }
    envelope(
        ErrorCode::ValidationError,
        Retry::NotRetryable,
        format!("{text}."),
        Advice::from(format!("{NAMES_OF_PARTS} `workrail tree RUN` shows branches and points."))
            .in_team(format!("{NAMES_OF_PARTS} The run's page shows branches and points.")),
    )
}

/// How many candidates are named.
const CANDIDATES_NAMED: usize = 8;

/// A name that fits several runs or sessions.
pub(crate) fn ambiguous_name(text: &str, candidates: &[String]) -> BoxedError {
    let advice = Advice::from("Name one of them, or use its whole id. `workrail session list` shows them.")
        .in_team("Name one of them, or use its whole id.");
    ambiguous(text, candidates, advice)
}

/// A name that fits several sessions of a backup, whose sessions no command lists.
pub(crate) fn ambiguous_in_backup(text: &str, sessions: &[SessionId]) -> BoxedError {
    let candidates: Vec<String> = sessions.iter().map(SessionId::to_string).collect();
    ambiguous(text, &candidates, "Use the whole session id.")
}

fn ambiguous(text: &str, candidates: &[String], advice: impl Into<Advice>) -> BoxedError {
    let shown = quoted(text.trim());
    let more = candidates.len().saturating_sub(CANDIDATES_NAMED);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let named = candidates.iter().take(CANDIDATES_NAMED).map(String::as_str).collect::<Vec<_>>().join(", ");
    let message = format!("`{shown}` could be {named}{more}.");
    let mut error = envelope(ErrorCode::SessionNotFound, Retry::NotRetryable, message, advice);
    error.details = Some(ErrorDetails::Candidates { candidates: candidates.to_vec() });
    error
}

/// A name that is almost a label, where the exact one is required.
pub(crate) fn nearly_named(text: &str, candidates: &[String]) -> BoxedError {
    let shown = quoted(text.trim());
    let named = candidates.iter().take(CANDIDATES_NAMED).map(String::as_str).collect::<Vec<_>>().join(", ");
    let mut error = envelope(
        ErrorCode::SessionNotFound,
        Retry::NotRetryable,
        format!("No run is called exactly `{shown}`. Close to it: {named}. Nothing was changed."),
        "What cannot be undone needs the whole label or an id.",
    );
    error.details = Some(ErrorDetails::Candidates { candidates: candidates.to_vec() });
    error
}

pub(crate) fn no_words(text: &str) -> BoxedError {
    let shown = quoted(text);
    invalid(
        format!(
            "`{shown}` contains no word to search for. Words consist of letters a to z, digits, `_` and `-`."
        ),
        "Search with a word from the notes.",
    )
}

pub(crate) fn ambiguous_label(label: &str, count: usize) -> BoxedError {
    envelope(
        ErrorCode::SessionNotFound,
        Retry::NotRetryable,
        format!("{count} runs are named `{label}`."),
        Advice::from("Name it by its whole id; `workrail session list` shows the ids.")
            .in_team("Name it by its whole id; resume_session and the team's console show the ids."),
    )
}

const ONCE_SUBMITTED: &str = "You can decide once the agent has submitted the step.";

pub(crate) fn nothing_to_approve(label: &str) -> BoxedError {
    invalid(
        format!("Run {label} has submitted nothing that needs a decision."),
        Advice::from(format!("Run `workrail show {label}` to see where it is. {ONCE_SUBMITTED}"))
            .in_team(ONCE_SUBMITTED),
    )
}

/// A decision that would not count.
pub(crate) fn passkey_needed(label: &str, asked: AskedProof) -> BoxedError {
    let next = match asked {
        AskedProof::PasskeyToEnrol => Advice::from(
            "Open the console with `workrail console`, enrol a passkey under Settings, Passkeys, and decide there.",
        )
        .in_team("In the team's console, enrol a passkey under Settings, Passkeys, and decide with it."),
        AskedProof::Passkey | AskedProof::Any => {
            Advice::from("Open the console with `workrail console` and decide there with a passkey.")
                .in_team("Decide in the team's console with a passkey.")
        }
    };
    invalid(format!("Run {label} requires a passkey, so this would not count. Nothing was recorded."), next)
}

pub(crate) fn no_reason() -> BoxedError {
    invalid(
        "A run is closed with a reason. Nothing was recorded.".to_owned(),
        "Say why nobody will finish it.",
    )
}

pub(crate) fn closed_already(label: &str, reason: &str) -> BoxedError {
    invalid(
        format!("Run {label} is already closed: {reason}"),
        "Nothing more is needed. The next attempt, checkpoint, decision or answer reopens it.",
    )
}

pub(crate) fn finished_already(label: &str) -> BoxedError {
    invalid(
        format!("Run {label} is complete, so there is nothing to close."),
        "Nothing to do: the run is finished.",
    )
}

/// A session with several runs was named where one run is needed.
pub(crate) fn which_run(labels: impl Iterator<Item = RunLabel>) -> BoxedError {
    let labels: Vec<String> = labels.map(|label| label.to_string()).collect();
    match labels.is_empty() {
        true => {
            let advice = Advice::from("`workrail session list` shows the runs.")
                .in_team("The page Runs shows the runs.");
            invalid("The session has no run to close.".to_owned(), advice)
        }
        false => invalid(
            format!("The session has {} runs: {}.", labels.len(), labels.join(", ")),
            "Name one of them.",
        ),
    }
}

pub(crate) fn changed_since_shown(label: &str) -> BoxedError {
    invalid(
        format!("Run {label} has changed since it was shown to you. Nothing was recorded."),
        Advice::from("Run the command again to see what is submitted now.")
            .in_team("Load the run's page again to see what is submitted now."),
    )
}

pub(crate) fn workflow_copy(id: &WorkflowId, copy: &WorkflowId) -> BoxedError {
    invalid(
        format!(
            "The file of `{id}` cannot be copied as `{copy}`: its id was not found in it. Nothing was written."
        ),
        "Copy the file by hand and change its id.",
    )
}

pub(crate) fn not_accepted(key: &ContextKey, accepts: &AcceptedValues) -> BoxedError {
    let wanted = match accepts {
        AcceptedValues::OneOf { values } => format!("one of {}", values.join(", ")),
        AcceptedValues::Boolean => "true or false".to_owned(),
        AcceptedValues::Number => "a number".to_owned(),
        AcceptedValues::Text => "text".to_owned(),
        AcceptedValues::List { .. } => "a list, as JSON".to_owned(),
    };
    let advice = match accepts {
        AcceptedValues::OneOf { .. } | AcceptedValues::Boolean => "Send one of the allowed values.",
        AcceptedValues::Number | AcceptedValues::Text | AcceptedValues::List { .. } => {
            "Send a value of that kind."
        }
    };
    invalid(format!("The answer to `{key}` must be {wanted}. Nothing was recorded."), advice)
}

pub(crate) fn no_answer(key: &str) -> BoxedError {
    invalid(format!("`{key}=null` is not an answer. Nothing was recorded."), "Answer with a value.")
}

pub(crate) fn a_question(label: &str, questions: &[Question]) -> BoxedError {
    invalid(
        format!(
            "Run {label} asks a question, which is answered before anything is approved. Nothing was recorded."
        ),
        Advice::from(format!("Answer it: {}", answers(label, questions)))
            .in_team(format!("Answer it on the run's page: {}", descriptions(questions))),
    )
}

pub(crate) fn not_a_question(label: &str, key: &str, questions: &[Question]) -> BoxedError {
    let suggestion = match questions {
        [] => Advice::from(format!(
            "The step has no open question. Run `workrail show {label}` to see what it waits for."
        ))
        .in_team("The step has no open question. The run's page shows what it waits for."),
        questions => Advice::from(format!("Answer what is asked: {}", answers(label, questions)))
            .in_team(format!("Answer what is asked on the run's page: {}", descriptions(questions))),
    };
    invalid(format!("Run {label} does not ask for `{key}`. Nothing was recorded."), suggestion)
}

/// The commands that answer the questions, each with its question.
fn answers(label: &str, questions: &[Question]) -> String {
    let each: Vec<String> = questions
        .iter()
        .map(|question| {
            format!("`workrail answer {label} {}=VALUE` ({})", question.key, question.description)
        })
        .collect();
    each.join("; ")
}

fn descriptions(questions: &[Question]) -> String {
    questions.iter().map(|question| question.description.as_str()).collect::<Vec<_>>().join("; ")
}

pub(crate) fn no_open_run() -> BoxedError {
    invalid(
        "All runs of this session are complete, so there are no preferences to change.".to_owned(),
        "Choose the mode when you start the next run.",
    )
}

pub(crate) fn workflow_id(cause: &NameError) -> BoxedError {
    let mut error =
        invalid(format!("`workflowId`: {cause}."), "Send the id as it is listed, such as wr.small_change.");
    // Neither the code nor a detail tells a malformed id from other refused arguments.
    error.next_call = Some(NextCall::new(ToolName::ListWorkflows, []));
    error
}

pub(crate) fn context(cause: &ContextError) -> BoxedError {
    let mut error = invalid(
        format!("`context`: {cause}. Nothing was recorded."),
        "Remove large values from `context` and pass references (paths, ids) instead.",
    );
    match cause {
        ContextError::OverBudget { bytes } => {
            error.details = Some(oversize(
                Some(RefusedArgument::Context),
                *bytes,
                CONTEXT_BYTES_MAX,
                SizeMethod::MergedCanonicalJson,
            ));
        }
        ContextError::Reserved { .. } => {
            "Use another name for this key.".clone_into(&mut error.suggestion);
            error.details = Some(ErrorDetails::Argument { argument: RefusedArgument::Context });
        }
        ContextError::TooDeep => {
            "Flatten the value, or write it to a file and pass the path.".clone_into(&mut error.suggestion);
            error.details = Some(ErrorDetails::Argument { argument: RefusedArgument::Context });
        }
        ContextError::NotCanonical(_) => {
            "Send integers beyond 2^53-1 as strings.".clone_into(&mut error.suggestion);
            error.details = Some(ErrorDetails::Argument { argument: RefusedArgument::Context });
        }
    }
    error
}

pub(crate) fn too_many_tags(count: usize, max: usize) -> BoxedError {
    let mut error =
        invalid(format!("`tags` has {count} entries, at most {max} are allowed."), "Search with fewer tags.");
    error.next_call = Some(NextCall::new(ToolName::ListWorkflows, []));
    error
}

pub(crate) fn query_too_long(what: &str, bytes: usize, max: usize) -> BoxedError {
    let mut error = invalid(
        format!("`{what}` has {bytes} bytes, at most {max} are allowed."),
        "Search with fewer words.",
    );
    error.details = Some(oversize(None, bytes, max, SizeMethod::Bytes));
    error
}
