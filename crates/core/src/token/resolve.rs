//! From a signed reference to its node, checked against the log.

use workrail_model::event::EventIndex;
use workrail_model::id::{AttemptId, NodeId, RunId, SessionId};
use workrail_model::token::{ShortTarget, TokenKind, TokenTarget};

use super::{MintTarget, NodeFacts, NodeRef, ScopePart, TokenError, TokenRef, VerifiedToken};
use crate::label::RunLabel;

/// The nodes of the one session that a token names.
pub trait NodeLookup {
    fn by_id(&self, node: NodeId) -> Option<NodeFacts>;
    /// The node whose `node_created` has this index.
    fn by_event(&self, index: EventIndex) -> Option<NodeFacts>;
}

/// A token of this store, and what it points at. Only `resolve` makes one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResolvedToken(MintTarget);

impl ResolvedToken {
    /// What the token points at; minting it again gives the same token while the key is the same.
    #[cfg(test)]
    pub(crate) fn target(&self) -> &MintTarget {
        &self.0
    }

    pub(crate) fn session(&self) -> SessionId {
        self.0.session()
    }

    pub fn at(&self) -> Option<&NodeFacts> {
        self.0.at()
    }

    pub fn attempt(&self) -> Option<AttemptId> {
        self.0.attempt()
    }

    pub(crate) fn label(&self) -> RunLabel {
        self.0.label()
    }
}

/// Finds the token's node in the log of its session, and checks that both say the same about it.
pub fn resolve(token: &VerifiedToken, lookup: &impl NodeLookup) -> Result<ResolvedToken, TokenError> {
    match *token.reference() {
        TokenRef::Full(target) => resolve_full(target, lookup),
        TokenRef::Short { target, label } => resolve_short(target, label, lookup).and_then(|found| {
            // Something else is there now: the log was truncated or restored since, and has continued differently.
            match token.is_of(found.at().map(|at| at.created_by)) {
                true => Ok(found),
                false => Err(TokenError::BadSignature { label: Some(label) }),
            }
        }),
    }
    .map(ResolvedToken)
}

fn resolve_full(target: TokenTarget, lookup: &impl NodeLookup) -> Result<MintTarget, TokenError> {
    match target {
        TokenTarget::State { session, run, node, workflow } => {
            let at = named(session, run, node, lookup)?;
            if at.workflow != workflow {
                return Err(TokenError::WorkflowHashMismatch { token: workflow, run: at.workflow });
            }
            Ok(MintTarget::State { session, at })
        }
        TokenTarget::Ack { session, run, node, attempt } => {
            Ok(MintTarget::Ack { session, at: named(session, run, node, lookup)?, attempt })
        }
        TokenTarget::Checkpoint { session, run, node, attempt } => {
            Ok(MintTarget::Checkpoint { session, at: named(session, run, node, lookup)?, attempt })
        }
        TokenTarget::Session { session } => Ok(MintTarget::Session { session }),
    }
}

fn named(
    session: SessionId,
    run: RunId,
    node: NodeId,
    lookup: &impl NodeLookup,
) -> Result<NodeFacts, TokenError> {
    let unknown = TokenError::UnknownNode { session, node: NodeRef::Id(node) };
    let at = lookup.by_id(node).ok_or(unknown)?;
    if at.run != run {
        let (found, expected) = (RunLabel::of(run), RunLabel::of(at.run));
        return Err(TokenError::ScopeMismatch { part: ScopePart::Run, found, expected });
    }
    Ok(at)
}

fn resolve_short(
    target: ShortTarget,
    label: RunLabel,
    lookup: &impl NodeLookup,
) -> Result<MintTarget, TokenError> {
    let session = target.session;
    let at = || {
        let unknown = TokenError::UnknownNode { session, node: NodeRef::Event(target.node_event) };
        lookup.by_event(target.node_event).ok_or(unknown)
    };
    let resolved = match (target.kind, target.attempt) {
        (TokenKind::State, _) => MintTarget::State { session, at: at()? },
        (TokenKind::Ack, Some(attempt)) => MintTarget::Ack { session, at: at()?, attempt },
        (TokenKind::Checkpoint, Some(attempt)) => MintTarget::Checkpoint { session, at: at()?, attempt },
        (TokenKind::Session, _) => MintTarget::Session { session },
        // Decoding gives every ack and checkpoint an attempt; without one there is nothing to resolve.
        (TokenKind::Ack | TokenKind::Checkpoint, None) => {
            return Err(TokenError::UnknownNode { session, node: NodeRef::Event(target.node_event) });
        }
    };
    // The signature covers the label, so this differs only if the log is not the one it was minted
    // from: a restored or repaired session whose event index now names another run's node.
    if resolved.label() != label {
        let part = ScopePart::Run;
        return Err(TokenError::ScopeMismatch { part, found: label, expected: resolved.label() });
    }
    Ok(resolved)
}

/// Both tokens of one call must be about the same node; the widest difference is named.
pub fn check_scope(state: &ResolvedToken, ack: &ResolvedToken) -> Result<(), TokenError> {
    let run = |token: &ResolvedToken| token.at().map(|at| at.run);
    let node = |token: &ResolvedToken| token.at().map(|at| at.node);
    let part = if state.session() != ack.session() {
        ScopePart::Session
    } else if run(state) != run(ack) {
        ScopePart::Run
    } else if node(state) != node(ack) {
        ScopePart::Node
    } else {
        return Ok(());
    };
    Err(TokenError::ScopeMismatch { part, found: state.label(), expected: ack.label() })
}
