//! `checkpoint_workflow`: saves work in progress on a step, once per token (G38).

use serde_json::Value;
use workrail_core::decide::checkpoint::{
    Checkpoint, RecordedCheckpoint, ack_attempt, checkpoint, recorded, session_notes,
};
use workrail_core::derive;
use workrail_core::label::RunLabel;
use workrail_core::project::SessionState;
use workrail_core::token::{NodeFacts, TokenError, check_scope};
use workrail_model::error::ErrorEnvelope;
use workrail_model::id::AttemptId;
use workrail_model::reply::{NextCall, Warning, WarningCode};
use workrail_model::session::SessionBody;
use workrail_model::team::Act;
use workrail_model::token::TokenKind;
use workrail_model::tool::ToolName;

use crate::reply::{OfferedTokens, Reply, ReplyTokens, sign};
use crate::request::CheckpointWorkflow;
use crate::token::Attempts;
use crate::{Engine, ReplyResult, Store, error, session, token};

impl<S: Store> Engine<S> {
    pub(crate) fn checkpoint(&self, request: CheckpointWorkflow) -> ReplyResult {
        match (&request.checkpoint_token, &request.session_token) {
            (Some(text), None) => self.checkpoint_step(text, &request),
            (None, Some(text)) => self.checkpoint_session(text, &request),
            (Some(_), Some(_)) | (None, None) => Err(self.one_checkpoint_token(&request)),
        }
    }

    fn one_checkpoint_token(&self, request: &CheckpointWorkflow) -> Box<ErrorEnvelope> {
        let mut error = error::one_checkpoint_token();
        let Some(token) = &request.state_token else {
            return self.reading().leading_back(error, request.echo(), None);
        };
        error.next_call =
            Some(NextCall::new(ToolName::ContinueWorkflow, [("stateToken", Value::from(token.clone()))]));
        error
    }

    fn checkpoint_step(&self, text: &str, request: &CheckpointWorkflow) -> ReplyResult {
        let reading = self.reading();
        let refused = |cause| reading.refused(cause, request.echo());
        let verified = self.signer.verify(text, TokenKind::Checkpoint).map_err(refused)?;
        let state_token = request
            .state_token
            .as_deref()
            .map(|text| self.signer.verify(text, TokenKind::State).map_err(refused))
            .transpose()?;
        if let Some(other) = state_token.filter(|token| token.session() != verified.session()) {
            let cause = error::other_session(other.session(), verified.session());
            return Err(reading.leading_back(cause, request.echo(), None));
        }
        let refused = |cause: TokenError| reading.refused(cause.into(), request.echo());
        self.hold(verified.session(), |held| {
            let facts = held.state();
            let resolved = token::resolve(facts, &verified).map_err(refused)?;
            let (at, attempt) = token::target(&resolved)?;
            if let Some(state_token) = &state_token {
                let shown = token::resolve(facts, state_token).map_err(refused)?;
                check_scope(&shown, &resolved).map_err(|cause| {
                    reading.leading_back(error::token(&cause), request.echo(), Some(RunLabel::of(at.run)))
                })?;
            }
            reading.check_echo(facts, at, request.echo())?;
            let before =
                recorded(facts, at.node, attempt, &request.output).map_err(|cause| error::decide(&cause))?;
            if let Some(before) = before {
                return self.replay_checkpoint(facts, at, attempt, before);
            }
            let node =
                facts.node(at.node).ok_or_else(|| error::broken_invariant("a resolved node is folded"))?;
            let snapshot = self.content().snapshot(node.snapshot_ref)?;
            let workflow = self.content().workflow(at.workflow)?;
            let minting = self.minting(Act::Work)?;
            let decided = checkpoint(Checkpoint {
                facts,
                node: at.node,
                attempt,
                snapshot: &snapshot,
                workflow: &workflow,
                output: &request.output,
                minting,
            })
            .map_err(|cause| error::decide(&cause))?;
            held.append(decided.plan)?;
            let facts = held.state();
            let tokens = self.checkpoint_tokens(facts, at, attempt);
            sign(&decided.reply, &tokens, self.signer.state_signer(facts))
        })
    }

    /// The step's own tokens again, and the right to the next checkpoint.
    fn checkpoint_tokens(&self, facts: &SessionState, at: NodeFacts, attempt: AttemptId) -> ReplyTokens {
        let made = derive::checkpoint_node_id(at.node, attempt);
        let attempts = Attempts {
            ack: Some(ack_attempt(facts, at.node, attempt)),
            checkpoint: Some(derive::next_attempt(attempt, made)),
        };
        self.signer.tokens(facts.session_id(), at, attempts)
    }

    fn replay_checkpoint(
        &self,
        facts: &SessionState,
        at: NodeFacts,
        attempt: AttemptId,
        before: RecordedCheckpoint,
    ) -> Result<Reply, Box<ErrorEnvelope>> {
        let tokens = self.checkpoint_tokens(facts, at, attempt);
        let mut reply = self.recorded_reply(facts, at.run, before.record.reply_ref, &tokens)?;
        if before.input_differs {
            let next = tokens.checkpoint.unwrap_or_default();
            let message = format!(
                "This checkpointToken was already used with different content. That checkpoint is shown; nothing was \
                 changed. To record the new content as well, send it with checkpointToken {next}"
            );
            reply.warn(&Warning { code: WarningCode::ReplayInputDiffers, message });
            reply.offer(&OfferedTokens { checkpoint_token: Some(next), ..OfferedTokens::default() })?;
        }
        Ok(reply)
    }

    /// Notes on a session without a run: repeating the same words records one note.
    fn checkpoint_session(&self, text: &str, request: &CheckpointWorkflow) -> ReplyResult {
        let reading = self.reading();
        let refused = |cause| reading.refused(cause, request.echo());
        let verified = self.signer.verify(text, TokenKind::Session).map_err(refused)?;
        let id = verified.session();
        self.hold(id, |held| {
            let plan = session_notes(held.state(), &request.output, self.minting(Act::Work)?)
                .map_err(|cause| error::decide(&cause))?;
            if let Some(plan) = plan {
                held.append(plan)?;
            }
            let body: SessionBody =
                session::body(id, self.signer.session(id), self.environment.tools, "Noted in the session.");
            Reply::plain(&body)
        })
    }
}
