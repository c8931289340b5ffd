//! From a token string to the node it names in the log, and back.

use workrail_core::project::{NodeState, SessionState};
use workrail_core::token::{self, MintTarget, NodeFacts, NodeLookup, ResolvedToken, VerifiedToken};
use workrail_model::error::ErrorEnvelope;
use workrail_model::event::EventIndex;
use workrail_model::id::{AttemptId, NodeId, SessionId};
use workrail_model::keyring::Keyring;
use workrail_model::token::{TokenEncoding, TokenKind};

use crate::error;
use crate::reply::Tokens;

/// The log as tokens see it.
struct Nodes<'a>(&'a SessionState);

impl Nodes<'_> {
    fn facts(&self, node: &NodeState) -> Option<NodeFacts> {
        let run = self.0.run(node.run_id)?;
        Some(NodeFacts {
            node: node.node_id,
            run: node.run_id,
            node_event: node.created_index,
            workflow: run.workflow_hash,
        })
    }
}

impl NodeLookup for Nodes<'_> {
    fn by_id(&self, node: NodeId) -> Option<NodeFacts> {
        self.facts(self.0.node(node)?)
    }

    fn by_event(&self, index: EventIndex) -> Option<NodeFacts> {
        self.facts(self.0.node_by_event(index)?)
    }
}

/// The facts of one node.
pub(crate) fn node_facts(state: &SessionState, node: NodeId) -> Result<NodeFacts, Box<ErrorEnvelope>> {
    Nodes(state).by_id(node).ok_or_else(|| error::internal("a node that was just folded is not there"))
}

pub(crate) fn resolve(
    state: &SessionState,
    token: &VerifiedToken,
) -> Result<ResolvedToken, Box<ErrorEnvelope>> {
    token::resolve(token, &Nodes(state)).map_err(|cause| error::token(&cause))
}

/// Signs and checks tokens with the keys of this store.
#[derive(Debug)]
pub(crate) struct Signer {
    pub keyring: Keyring,
    pub encoding: TokenEncoding,
}

impl Signer {
    /// Checks a token's shape, kind and signature; the log is not touched yet.
    pub(crate) fn verify(&self, text: &str, kind: TokenKind) -> Result<VerifiedToken, Box<ErrorEnvelope>> {
        let verified = token::decode(text)
            .and_then(|token| token.verify(&self.keyring))
            .map_err(|cause| error::token(&cause))?;
        if verified.kind() != kind {
            return Err(error::wrong_token_kind(verified.kind(), kind));
        }
        Ok(verified)
    }

    /// The tokens of a node: a bookmark, and the right to complete it when a step is pending.
    pub(crate) fn tokens(&self, session: SessionId, at: NodeFacts, attempt: Option<AttemptId>) -> Tokens {
        let mint = |target: MintTarget| token::mint(&target, self.encoding, &self.keyring.current);
        Tokens {
            state: mint(MintTarget::State { session, at }),
            ack: attempt.map(|attempt| mint(MintTarget::Ack { session, at, attempt })),
        }
    }
}
