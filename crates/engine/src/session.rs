//! `start_session`: a place for notes before any workflow, or without one.

use serde_json::{Value, json};
use workrail_core::decide::checkpoint::open_session;
use workrail_model::id::SessionId;
use workrail_model::reply::NextCall;
use workrail_model::session::SessionBody;
use workrail_model::submission::StepOutput;
use workrail_model::team::Act;
use workrail_model::tool::{ToolName, ToolSet};

use crate::reply::Reply;
use crate::request::StartSession;
use crate::token::KeyUse;
use crate::{Engine, ReplyResult, Store, error};

impl<S: Store> Engine<S> {
    /// Opens a session that can hold notes without a run.
    pub fn start_session(&self, request: StartSession) -> ReplyResult {
        self.permit(Act::Work)?;
        self.signer.refresh(KeyUse::CreateIfNew)?;
        let id = self.fresh_session()?;
        let goal = request.goal.map(|goal| StepOutput::notes(format!("Goal: {goal}")));
        let plan = open_session(id, &goal.unwrap_or_default(), self.minting(Act::Work)?)
            .map_err(|cause| error::decide(&cause))?;
        self.create(id, plan).map_err(|failed| {
            let check_call =
                NextCall::new(ToolName::ResumeSession, [("sessionId", Value::from(id.to_string()))]);
            error::check_before_repeating(
                failed,
                &format!("session {id}"),
                "open a session again.",
                check_call,
            )
        })?;
        Reply::plain(&body(id, self.signer.session(id), self.environment.tools, "The session is open."))
    }
}

pub(crate) fn body(id: SessionId, session_token: String, tools: ToolSet, opening: &str) -> SessionBody {
    let notes = NextCall::new(
        ToolName::CheckpointWorkflow,
        [
            ("sessionToken", Value::from(session_token.clone())),
            ("output", json!({ "notesMarkdown": workrail_model::placeholder::SESSION_NOTES })),
        ],
    );
    let next_call = tools.offers(notes.tool).then_some(notes);
    let token = match next_call {
        Some(_) => "the same sessionToken.".to_owned(),
        None => format!("sessionToken {session_token}"),
    };
    let keep = next_call.as_ref().map_or_else(String::new, |call| {
        format!("To keep notes in it, call {} with:\n{}\n\n", call.tool, call.arguments_text())
    });
    let text =
        format!("{opening} Session {id}.\n\n{keep}To run a workflow in it, call start_workflow with {token}");
    SessionBody { text, session_id: id, session_token, next_call }
}
