//! `continue_workflow` with an ack: under the lock, decided once, recorded once, replayed forever.

use serde_json::Value;
use workrail_core::decide::advance::{Advance, AdvanceRequest, Decision, advance, recorded};
use workrail_core::derive;
use workrail_core::project::{AdvanceRecord, SessionState};
use workrail_core::token::{NodeFacts, ResolvedToken, check_scope};
use workrail_model::error::ErrorEnvelope;
use workrail_model::event::{AdvanceOutcome, Context};
use workrail_model::id::{AttemptId, NodeId, SessionId};
use workrail_model::reply::{Warning, WarningCode};
use workrail_model::strict_json;
use workrail_model::token::TokenKind;

use crate::reply::{Reply, sign, sign_stored};
use crate::request::ContinueWorkflow;
use crate::{Answer, Engine, Store, error, token};

impl<S: Store> Engine<S> {
    pub(crate) fn advance(&self, ack: &str, request: ContinueWorkflow) -> Answer {
        let ack = self.signer.verify(ack, TokenKind::Ack)?;
        let bookmark = request
            .state_token
            .as_deref()
            .map(|text| self.signer.verify(text, TokenKind::State))
            .transpose()?;
        if let Some(bookmark) = &bookmark
            && bookmark.session() != ack.session()
        {
            return Err(error::other_session(bookmark.session(), ack.session()));
        }
        let session = ack.session();
        let sent = AdvanceRequest {
            notes: request.notes_markdown,
            artifacts: request.artifacts,
            context: Context::new(request.context).map_err(|cause| error::context(&cause))?,
        };
        self.hold(session, |held| {
            let resolved = token::resolve(held.state(), &ack)?;
            if let Some(bookmark) = &bookmark {
                let bookmark = token::resolve(held.state(), bookmark)?;
                check_scope(&bookmark, &resolved).map_err(|cause| error::token(&cause))?;
            }
            let (at, attempt) = ack_target(&resolved)?;
            let decision = self.decide(held.state(), at, attempt, &sent)?;
            match decision {
                Decision::Replay { record, input_differs } => {
                    self.replay(held.state(), at, &record, input_differs.then_some(&sent))
                }
                Decision::Append(decided) => {
                    let body = decided.reply;
                    held.append(decided.plan)?;
                    let state = held.state();
                    let record = state
                        .advance(at.node, attempt)
                        .ok_or_else(|| error::internal("an appended advance is folded"))?;
                    let tokens = self.outcome_tokens(state, at, record)?;
                    sign(&body, &tokens).map_err(|cause| error::internal(&cause.to_string()))
                }
            }
        })
    }

    fn decide(
        &self,
        facts: &SessionState,
        at: NodeFacts,
        attempt: AttemptId,
        request: &AdvanceRequest,
    ) -> Result<Decision, Box<ErrorEnvelope>> {
        // Asked first: a replay mints nothing and reads no snapshot.
        let before = recorded(facts, at.node, attempt, request).map_err(|cause| error::decide(&cause))?;
        if let Some(replay) = before {
            return Ok(replay);
        }
        let node = facts.node(at.node).ok_or_else(|| error::internal("a resolved node is folded"))?;
        let snapshot = self.store.snapshot(node.snapshot_ref).map_err(error::content)?;
        let workflow = self.store.workflow(at.workflow).map_err(error::content)?;
        let minting = self.minting()?;
        advance(Advance {
            facts,
            node: at.node,
            attempt,
            snapshot: &snapshot,
            workflow: &workflow,
            request,
            minting,
        })
        .map_err(|cause| error::decide(&cause))
    }

    /// Answers from the recorded bytes; nothing is selected, validated or rendered again (G30).
    fn replay(
        &self,
        facts: &SessionState,
        at: NodeFacts,
        record: &AdvanceRecord,
        other_input: Option<&AdvanceRequest>,
    ) -> Result<Reply, Box<ErrorEnvelope>> {
        let reference = record.reply_ref.ok_or_else(|| {
            error::internal("a recorded attempt has no recorded reply; it is not recomputed")
        })?;
        let bytes = self.store.blob(reference).map_err(error::content)?;
        let value = strict_json::parse(&bytes).map_err(|cause| error::internal(&cause.to_string()))?;
        let tokens = self.outcome_tokens(facts, at, record)?;
        let reply = sign_stored(value, &tokens);
        match other_input {
            None => Ok(reply),
            Some(request) => self.with_fork(facts, at, record, request, reply),
        }
    }

    /// The tokens that an outcome leads to: the child's, or the retry of a blocked attempt.
    fn outcome_tokens(
        &self,
        facts: &SessionState,
        at: NodeFacts,
        record: &AdvanceRecord,
    ) -> Result<crate::reply::Tokens, Box<ErrorEnvelope>> {
        let session = facts.session_id();
        let (node, attempt) = match &record.outcome {
            AdvanceOutcome::Advanced { to_node_id } => {
                (*to_node_id, derive::next_attempt(record.attempt, *to_node_id))
            }
            AdvanceOutcome::Blocked { .. } => (at.node, derive::retry_attempt(record.attempt)),
        };
        self.tokens_at(facts, session, node, attempt)
    }

    fn tokens_at(
        &self,
        facts: &SessionState,
        session: SessionId,
        node: NodeId,
        attempt: AttemptId,
    ) -> Result<crate::reply::Tokens, Box<ErrorEnvelope>> {
        Ok(self.signer.tokens(session, token::node_facts(facts, node)?, Some(attempt)))
    }

    /// The same ack came with other words: the record stands, and the way to keep both is offered (G31).
    fn with_fork(
        &self,
        facts: &SessionState,
        at: NodeFacts,
        record: &AdvanceRecord,
        request: &AdvanceRequest,
        reply: Reply,
    ) -> Result<Reply, Box<ErrorEnvelope>> {
        let digest = request.digest().map_err(|cause| error::decide(&cause))?;
        let attempt = match &record.outcome {
            AdvanceOutcome::Advanced { .. } => derive::fork_attempt(record.attempt, digest),
            AdvanceOutcome::Blocked { .. } => derive::retry_attempt(record.attempt),
        };
        let tokens = self.tokens_at(facts, facts.session_id(), at.node, attempt)?;
        let fork = tokens.ack.unwrap_or_default();
        let message = format!(
            "This step was completed before with another payload; the recorded result is shown and nothing \
             was changed. To record this payload as well, on a branch of its own, send it again with \
             ackToken {fork}"
        );
        let warning = Warning { code: WarningCode::ReplayInputDiffers, message: message.clone() };
        let mut value = reply.into_value();
        if let Value::Object(members) = &mut value {
            let text = members.get("text").and_then(Value::as_str).unwrap_or_default();
            let text = format!("NOTE: {message}\n\n{text}");
            members.insert("text".to_owned(), Value::from(text));
            members.insert("warnings".to_owned(), serde_json::json!([warning]));
            members.insert("forkAckToken".to_owned(), Value::from(fork));
        }
        Ok(sign_stored(value, &crate::reply::Tokens { state: String::new(), ack: None }))
    }
}

fn ack_target(resolved: &ResolvedToken) -> Result<(NodeFacts, AttemptId), Box<ErrorEnvelope>> {
    match (resolved.at(), resolved.attempt()) {
        (Some(at), Some(attempt)) => Ok((*at, attempt)),
        _ => Err(error::internal("an ack token names a node and an attempt")),
    }
}
