//! The way back from a refused token: the right call if it is certain, candidates if it is not, never a guess (G34).
//!
//! Every call offered here is read-only. Whatever was mixed up, following it literally cannot advance the
//! wrong run.

use serde_json::Value;
use workrail_core::label::RunLabel;
use workrail_core::project::SessionState;
use workrail_core::reply::rehydrate_call;
use workrail_core::token::{NodeFacts, TokenError, VerifiedToken, readable_label};
use workrail_model::error::{ErrorCode, ErrorDetails, ErrorEnvelope};
use workrail_model::name::StepId;
use workrail_model::reply::NextCall;
use workrail_model::token::TokenKind;
use workrail_model::tool::ToolName;

use crate::error::{self, BoxedError};
use crate::find::spelled_label;
use crate::request::Echo;
use crate::session_access::Reading;
use crate::summaries::{LabelMatch, tip_of};
use crate::token::{self, ArgumentTokenError};

impl Reading<'_> {
    /// The error for a refused token, with the call that leads back to its run.
    pub(crate) fn refused(&self, cause: ArgumentTokenError, echo: Echo<'_>) -> BoxedError {
        match cause {
            ArgumentTokenError::Kind { found, wanted } => self.wrong_kind(&found, wanted, echo),
            ArgumentTokenError::Token(cause) => {
                let label = match &cause {
                    // A typo in the version digit is like any other: the label still says which run.
                    TokenError::InvalidFormat { label, .. }
                    | TokenError::UnsupportedVersion { label, .. }
                    | TokenError::BadSignature { label } => *label,
                    TokenError::ScopeMismatch { .. }
                    | TokenError::UnknownNode { .. }
                    | TokenError::WorkflowHashMismatch { .. }
                    | TokenError::SessionLocked => None,
                };
                self.leading_back(error::token(&cause), echo, label)
            }
        }
    }

    /// Adds the call that shows the intended run again, or a search if that is not certain. `label` is what
    /// the refused token says.
    pub(crate) fn leading_back(
        &self,
        mut refused: BoxedError,
        echo: Echo<'_>,
        label: Option<RunLabel>,
    ) -> BoxedError {
        // What the caller says besides the token counts first: it was typed, not truncated.
        let labels = [echoed_label(echo), label, label_in_tokens(echo)].into_iter().flatten();
        let named = labels
            .map(|label| (label, self.runs_with_label(label).unwrap_or(LabelMatch::NoRun)))
            .find(|(_, named)| !matches!(named, LabelMatch::NoRun));
        match named {
            Some((label, LabelMatch::One(found))) => {
                let (session, position) = *found;
                let state = self.signer.state(session, tip_of(&position));
                refused.next_call = Some(rehydrate_call(&state, label));
                let suggestion = format!(
                    "Make the call below: it shows the pending step of run {label} with new tokens and changes nothing."
                );
                error::advise_agents(&mut refused, suggestion);
            }
            Some((label, LabelMatch::Several(count))) => {
                refused.next_call = Some(search_call(&label.to_string()));
                if refused.code == ErrorCode::SessionNotFound {
                    // A name that was not found because several runs have it.
                    refused.message = format!("`{label}` does not say which run is meant.");
                }
                let suggestion = format!(
                    "{count} runs are called {label}. Make the call below and pick yours by its goal and notes."
                );
                error::advise_agents(&mut refused, suggestion);
            }
            Some((_, LabelMatch::NoRun)) | None => {
                refused.next_call = Some(NextCall::new(ToolName::ResumeSession, []));
                error::also_advise_agents(&mut refused, "If that fails, find the run with the call below.");
            }
        }
        refused
    }

    fn wrong_kind(&self, found: &VerifiedToken, wanted: TokenKind, echo: Echo<'_>) -> BoxedError {
        let mut refused = error::wrong_token_kind(found.kind(), wanted);
        let node = self.look(found.session(), |facts| {
            let resolved = token::resolve(facts, found).map_err(|cause| error::token(&cause))?;
            Ok(resolved.at().copied())
        });
        match node {
            Ok(Some(at)) if echo.run.is_none() || names(echo, at) => {
                let state = self.signer.state(found.session(), at);
                refused.next_call = Some(rehydrate_call(&state, RunLabel::of(at.run)));
                refused
            }
            Ok(Some(at)) => {
                let own = rehydrate_call(&self.signer.state(found.session(), at), RunLabel::of(at.run));
                self.back_to_echoed(refused, echo, own)
            }
            Ok(None) | Err(_) => self.leading_back(refused, echo, None),
        }
    }

    /// Leads to the run that the caller names; if no run has that name, to the token's own run, which is
    /// then the only certain one.
    fn back_to_echoed(&self, refused: BoxedError, echo: Echo<'_>, own: NextCall) -> BoxedError {
        let refused = self.leading_back(refused, echo, None);
        if refused.next_call.as_ref().is_some_and(|call| call.tool == own.tool) {
            return refused;
        }
        Box::new(ErrorEnvelope { next_call: Some(own), ..*refused })
    }

    /// Two tokens of one call, or a token and the caller's words, belong to different runs or steps.
    pub(crate) fn mixed_up(
        &self,
        facts: &SessionState,
        at: NodeFacts,
        step: Option<&StepId>,
        echo: Echo<'_>,
    ) -> BoxedError {
        let label = RunLabel::of(at.run);
        let step = step.map_or_else(|| "no step".to_owned(), |step| format!("step `{step}`"));
        let claimed = claimed(echo);
        let mut refused = error::mixed_up(&format!("run {label}, {step}"), &claimed);
        refused.details = Some(ErrorDetails::MixedUp {
            token_run: label.to_string(),
            echoed_run: echo.run.map(str::to_owned),
        });
        let same_run = echo.run.is_none() || names(echo, at);
        if same_run {
            let tip =
                facts.preferred_tip(at.run).and_then(|tip| token::node_facts(facts, tip).ok()).unwrap_or(at);
            let state = self.signer.state(facts.session_id(), tip);
            refused.next_call = Some(rehydrate_call(&state, label));
            return refused;
        }
        let own = rehydrate_call(&self.signer.state(facts.session_id(), at), label);
        self.back_to_echoed(refused, echo, own)
    }
}

/// Checks what the caller believes against the token (G35).
pub(crate) fn fits(echo: Echo<'_>, at: NodeFacts, step: Option<&StepId>) -> bool {
    let run_fits = echo.run.is_none() || names(echo, at);
    let step_fits = echo.step_id.is_none_or(|echoed| step.is_some_and(|step| step.as_str() == echoed));
    run_fits && step_fits
}

/// Whether the echoed run, by label or id, is the token's.
fn names(echo: Echo<'_>, at: NodeFacts) -> bool {
    let run = echo.run.map(str::trim).unwrap_or_default();
    echoed_label(echo) == Some(RunLabel::of(at.run)) || run == at.run.to_string()
}

/// The one label that the tokens of a call show, whatever else is wrong with them.
fn label_in_tokens(echo: Echo<'_>) -> Option<RunLabel> {
    let tokens: Vec<&str> = echo.tokens.into_iter().flatten().collect();
    readable_label(&tokens.join(" "))
}

fn echoed_label(echo: Echo<'_>) -> Option<RunLabel> {
    echo.run.and_then(|run| RunLabel::parse(&spelled_label(run)).ok())
}

fn claimed(echo: Echo<'_>) -> String {
    let run = echo.run.map(|run| format!("run {}", error::quoted(run)));
    let step = echo.step_id.map(|step| format!("step `{}`", error::quoted(step)));
    [run, step].into_iter().flatten().collect::<Vec<_>>().join(", ")
}

fn search_call(query: &str) -> NextCall {
    NextCall::new(ToolName::ResumeSession, [("query", Value::from(query))])
}
