//! Tokens that are refused, and calls whose tokens do not belong together (G34, G35).

use serde_json::Value;
use workrail_core::token::{ScopePart, TokenError};
use workrail_model::error::{ErrorCode, Retry};
use workrail_model::id::SessionId;
use workrail_model::limits::LOCK_RETRY_AFTER_MS;
use workrail_model::reply::NextCall;
use workrail_model::token::TokenKind;
use workrail_model::tool::ToolName;

use super::{Advice, BoxedError, envelope, invalid, sentence};
use crate::request::ContinueWorkflow;

/// Where else a run may be, for an agent that cannot change the store of its server.
const OTHER_SERVER: &str =
    "Check that the run was started through this server, with a token of the same team.";

pub(crate) fn token(cause: &TokenError) -> BoxedError {
    let text = if let TokenError::ScopeMismatch { part: ScopePart::Node, found, .. } = cause {
        format!("the two tokens belong to different steps of run {found}")
    } else {
        cause.to_string()
    };
    let message = format!("{}. Nothing was changed.", sentence(&text));
    let retry = match cause {
        TokenError::SessionLocked => Retry::RetryableAfterMs { after_ms: LOCK_RETRY_AFTER_MS },
        TokenError::ScopeMismatch { .. } => Retry::RetryableImmediate,
        TokenError::InvalidFormat { .. }
        | TokenError::UnsupportedVersion { .. }
        | TokenError::BadSignature { .. }
        | TokenError::UnknownNode { .. }
        | TokenError::WorkflowHashMismatch { .. } => Retry::NotRetryable,
    };
    let suggestion = match cause {
        TokenError::InvalidFormat { .. } | TokenError::BadSignature { .. } => {
            "Copy the token again, exactly, from the last reply of this run. If it is lost, send the run's stateToken alone."
        }
        TokenError::UnsupportedVersion { .. } => {
            let advice = Advice::from("Update WorkRail, or use a token that this version returned.").in_team(
                "Use a token from a reply of this server. If it is one, tell an admin of the team to update WorkRail on \
                 the server.",
            );
            return envelope(cause.code(), retry, message, advice);
        }
        TokenError::ScopeMismatch { .. } => {
            "Send only the ackToken, or the stateToken and ackToken of the same reply."
        }
        TokenError::UnknownNode { .. } => {
            let advice = Advice::from(
                "Check that WORKRAIL_DATA_DIR and the setting `store` are those that the run was started with.",
            )
            .in_team(OTHER_SERVER);
            return envelope(cause.code(), retry, message, advice);
        }
        TokenError::WorkflowHashMismatch { .. } => "Use a token from the latest reply of this run.",
        TokenError::SessionLocked => {
            let advice = Advice::repeat_soon_or(
                "in a data directory, `workrail doctor` names the lock that is held; end the WorkRail process that hangs",
            );
            return envelope(cause.code(), retry, message, advice);
        }
    };
    envelope(cause.code(), retry, message, suggestion)
}

pub(crate) fn unknown_session(session: SessionId) -> BoxedError {
    envelope(
        ErrorCode::TokenUnknownNode,
        Retry::NotRetryable,
        format!("The token is genuine, but session {session} is not in this store. Nothing was changed."),
        Advice::from(
            "Check that WORKRAIL_DATA_DIR and the setting `store` are those that the run was started with. If the session \
             was removed, start the work again.",
        )
        .in_team(format!("{OTHER_SERVER} If the session was removed, start the work again.")),
    )
}

pub(crate) fn wrong_token_kind(found: TokenKind, wanted: TokenKind) -> BoxedError {
    let message = format!(
        "The token starts with `{}`, but this argument takes one that starts with `{}`. Nothing was changed.",
        found.prefix(),
        wanted.prefix()
    );
    let suggestion = "Send each token in the matching argument: `st.` in stateToken, `ack.` in ackToken.";
    envelope(ErrorCode::TokenScopeMismatch, Retry::RetryableImmediate, message, suggestion)
}

pub(crate) fn other_session(of_state: SessionId, of_ack: SessionId) -> BoxedError {
    let message =
        format!("The two tokens belong to different sessions, {of_state} and {of_ack}. Nothing was changed.");
    let suggestion = "Send one of them alone, or both tokens of the same reply.";
    envelope(ErrorCode::TokenScopeMismatch, Retry::RetryableImmediate, message, suggestion)
}

pub(crate) fn no_token() -> BoxedError {
    invalid(
        "continue_workflow needs a token: ackToken to complete the pending step, or stateToken to see it again."
            .to_owned(),
        "Send the ackToken of the last reply, or its stateToken alone.",
    )
}

pub(crate) fn output_without_ack(state_token: &str, request: &ContinueWorkflow) -> BoxedError {
    let mut error = invalid(
        "`output` and `context` were sent with a stateToken alone, which only reads the step; they would \
         be lost."
            .to_owned(),
        "Make the call below to get the step with a new ackToken, then send `output` and `context` with that token.",
    );
    let mut arguments = vec![("stateToken", Value::from(state_token))];
    arguments.extend(request.run.clone().map(|run| ("run", Value::from(run))));
    // The token may have come in another argument than `stateToken`.
    error.next_call = Some(NextCall::new(ToolName::ContinueWorkflow, arguments));
    error
}

pub(crate) fn too_many_tokens() -> BoxedError {
    invalid(
        "`continueToken` replaces the other tokens, but `ackToken` or `stateToken` was sent with it."
            .to_owned(),
        "Send the ackToken alone to complete the step, or the stateToken alone to see it again.",
    )
}

/// The caller's words and the token refer to different things; `token` is what the token belongs to.
pub(crate) fn mixed_up(token: &str, claimed: &str) -> BoxedError {
    envelope(
        ErrorCode::TokenScopeMismatch,
        Retry::RetryableImmediate,
        format!("The token belongs to {token}, but the call says {claimed}. Nothing was changed."),
        "Make the call below to get the step that you mean with its own tokens, then complete that step.",
    )
}
