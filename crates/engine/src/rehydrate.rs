//! `continue_workflow` without an ack: the pending step again, from facts, without any write (G36).

use workrail_core::reply::{ReplyInput, ReplyMoment, render};
use workrail_model::token::TokenKind;

use crate::gate::Reading;
use crate::mint::fresh_attempt;
use crate::request::ContinueWorkflow;
use crate::{Answer, error, reply, token};

impl Reading<'_> {
    pub(crate) fn rehydrate(&self, request: ContinueWorkflow) -> Answer {
        let text = request.state_token.as_deref().ok_or_else(error::no_token)?;
        if request.notes_markdown.is_some() || !request.artifacts.is_empty() || !request.context.is_empty() {
            return Err(error::output_without_ack());
        }
        let verified = self.signer.verify(text, TokenKind::State)?;
        let session = verified.session();
        self.look(session, |facts| {
            let resolved = token::resolve(facts, &verified)?;
            let at = *resolved.at().ok_or_else(|| error::internal("a state token names a node"))?;
            let node = facts.node(at.node).ok_or_else(|| error::internal("a resolved node is folded"))?;
            let snapshot = self.content.snapshot(node.snapshot_ref).map_err(error::content)?;
            let workflow = self.content.workflow(at.workflow).map_err(error::content)?;
            let context = facts.context_at(at.node).map_err(|cause| error::context(&cause))?;
            let state = snapshot.state();
            let body = render(&ReplyInput {
                facts,
                run: at.run,
                workflow: &workflow,
                state,
                context: &context,
                preferences: facts.preferences(at.node),
                moment: ReplyMoment::Rehydrated,
            });
            // A fresh attempt: two chats that resume one node fork instead of one losing its work.
            let attempt = state.pending_step().map(|_| fresh_attempt(self.entropy)).transpose()?;
            reply::sign(&body, &self.signer.tokens(session, at, attempt))
                .map_err(|cause| error::internal(&cause.to_string()))
        })
    }
}
