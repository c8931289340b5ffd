//! From a token string to the node it names in the log, and back.

use std::sync::{Arc, PoisonError, RwLock};

use workrail_core::project::{NodeState, SessionState};
use workrail_core::token::{
    self, MintTarget, NodeFacts, NodeLookup, ResolvedToken, TokenError, VerifiedToken,
};
use workrail_model::error::ErrorEnvelope;
use workrail_model::event::EventIndex;
use workrail_model::id::{AttemptId, NodeId, SessionId};
use workrail_model::keyring::Keyring;
use workrail_model::token::{TokenEncoding, TokenKind};
use workrail_ports::keyring::{KeyringError, KeyringStore};

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
            created_by: node.created_by,
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

pub(crate) fn resolve(state: &SessionState, token: &VerifiedToken) -> Result<ResolvedToken, TokenError> {
    token::resolve(token, &Nodes(state))
}

/// The node and attempt of an ack or checkpoint token.
pub(crate) fn target(resolved: &ResolvedToken) -> Result<(NodeFacts, AttemptId), Box<ErrorEnvelope>> {
    match (resolved.at(), resolved.attempt()) {
        (Some(at), Some(attempt)) => Ok((*at, attempt)),
        _ => Err(error::internal("the token names a node and an attempt")),
    }
}

/// Why a token is not taken where it was given.
#[derive(Clone, Debug)]
pub(crate) enum Refused {
    Token(TokenError),
    /// Genuine, but of another kind than the argument takes.
    Kind {
        found: Box<VerifiedToken>,
        wanted: TokenKind,
    },
}

impl From<TokenError> for Refused {
    fn from(cause: TokenError) -> Self {
        Self::Token(cause)
    }
}

/// Signs and checks tokens with the keys of this store (G33).
pub(crate) struct Signer {
    source: Arc<dyn KeyringStore>,
    keyring: RwLock<Arc<Keyring>>,
    encoding: TokenEncoding,
}

impl std::fmt::Debug for Signer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Signer").field("encoding", &self.encoding).finish_non_exhaustive()
    }
}

impl Signer {
    /// Loads the keys, making them on first use.
    pub(crate) fn open(source: Arc<dyn KeyringStore>, encoding: TokenEncoding) -> Result<Self, KeyringError> {
        let keyring = RwLock::new(Arc::new(source.load_or_create()?));
        Ok(Self { source, keyring, encoding })
    }

    fn keyring(&self) -> Arc<Keyring> {
        Arc::clone(&self.keyring.read().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn adopt(&self, keyring: Keyring) {
        *self.keyring.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(keyring);
    }

    /// The keys as they are now: another process may have rotated them, and a key that is retired must neither
    /// sign nor be accepted. One small file is read at the start of a call. Keys that are new are made durable
    /// before tokens are signed with them.
    pub(crate) fn refresh(&self) -> Arc<Keyring> {
        let known = self.keyring();
        let Some(keys) = self.source.peek().ok().flatten().filter(|keys| *keys != *known) else {
            return known;
        };
        match self.source.load_or_create() {
            Ok(keys) => {
                self.adopt(keys);
                self.keyring()
            }
            // They decide all the same what is genuine, and the next call asks again.
            Err(_) => Arc::new(keys),
        }
    }

    /// Checks a token's shape and signature; the log is not touched yet.
    pub(crate) fn verify_any(&self, text: &str) -> Result<VerifiedToken, TokenError> {
        token::decode(text)?.verify(&self.refresh())
    }

    /// The same, for an argument that takes one kind only.
    pub(crate) fn verify(&self, text: &str, wanted: TokenKind) -> Result<VerifiedToken, Refused> {
        let found = self.verify_any(text)?;
        if found.kind() == wanted { Ok(found) } else { Err(Refused::Kind { found: Box::new(found), wanted }) }
    }

    fn mint(&self, target: &MintTarget) -> String {
        token::mint(target, self.encoding, &self.keyring().current)
    }

    /// The tokens of a node: a bookmark, and with an attempt the rights to checkpoint and to complete.
    pub(crate) fn tokens(&self, session: SessionId, at: NodeFacts, attempts: Attempts) -> Tokens {
        let ack = |attempt| self.mint(&MintTarget::Ack { session, at, attempt });
        let checkpoint = |attempt| self.mint(&MintTarget::Checkpoint { session, at, attempt });
        Tokens {
            state: self.state(session, at),
            ack: attempts.ack.map(ack),
            checkpoint: attempts.checkpoint.map(checkpoint),
        }
    }

    pub(crate) fn state(&self, session: SessionId, at: NodeFacts) -> String {
        self.mint(&MintTarget::State { session, at })
    }

    pub(crate) fn session(&self, session: SessionId) -> String {
        self.mint(&MintTarget::Session { session })
    }

    /// Signs the bookmark of another node of the same session, named in a stored reply.
    pub(crate) fn bookmarks<'a>(&'a self, facts: &'a SessionState) -> impl Fn(EventIndex) -> String + 'a {
        move |index| {
            let at = Nodes(facts).by_event(index);
            at.map_or_else(String::new, |at| self.state(facts.session_id(), at))
        }
    }
}

/// Which rights a reply hands out.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Attempts {
    pub ack: Option<AttemptId>,
    pub checkpoint: Option<AttemptId>,
}

impl Attempts {
    /// Both rights under one attempt; a complete point can be noted but not completed again.
    pub(crate) fn both(attempt: AttemptId, is_pending: bool) -> Self {
        Self { ack: is_pending.then_some(attempt), checkpoint: Some(attempt) }
    }
}
