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
use workrail_ports::session_store::{SessionReader, StoreError};

use crate::error;
use crate::reply::ReplyTokens;

/// The log as seen by tokens.
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
    Nodes(state).by_id(node).ok_or_else(|| error::broken_invariant("a folded node has facts"))
}

pub(crate) fn resolve(state: &SessionState, token: &VerifiedToken) -> Result<ResolvedToken, TokenError> {
    token::resolve(token, &Nodes(state))
}

/// The node and attempt of an ack or checkpoint token.
pub(crate) fn target(resolved: &ResolvedToken) -> Result<(NodeFacts, AttemptId), Box<ErrorEnvelope>> {
    match (resolved.at(), resolved.attempt()) {
        (Some(at), Some(attempt)) => Ok((*at, attempt)),
        _ => Err(error::broken_invariant("the token names a node and an attempt")),
    }
}

/// Why a token is refused for an argument.
#[derive(Clone, Debug)]
pub(crate) enum ArgumentTokenError {
    Token(TokenError),
    /// Genuine, but of a different kind than the argument takes.
    Kind {
        found: Box<VerifiedToken>,
        wanted: TokenKind,
    },
}

impl From<TokenError> for ArgumentTokenError {
    fn from(cause: TokenError) -> Self {
        Self::Token(cause)
    }
}

/// Why there are no keys to sign with.
enum KeysError {
    Keyring(KeyringError),
    /// Sessions exist, but the keyring does not.
    Lost,
    Sessions(StoreError),
}

impl From<KeyringError> for KeysError {
    fn from(cause: KeyringError) -> Self {
        Self::Keyring(cause)
    }
}

impl From<StoreError> for KeysError {
    fn from(cause: StoreError) -> Self {
        Self::Sessions(cause)
    }
}

/// How a call uses the store's keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyUse {
    /// The call writes: existing keys are made durable, and a store without sessions gets its first ones.
    CreateIfNew,
    /// The call writes to an existing session: existing keys are made durable, and none are created.
    Existing,
    /// The call only reads, so it takes no lock and leaves a new store as it is (G16). Its tokens may be signed with
    /// keys that are not durable yet; if those are lost, the agent asks again.
    ReadOnly,
}

#[derive(Clone)]
struct KnownKeys {
    keyring: Arc<Keyring>,
    /// Whether they are certain to survive a power failure.
    durable: bool,
}

/// Signs and checks tokens with the keys of this store (G33).
///
/// Keys are read when a call needs them, not when the engine is opened: reading sessions needs none.
pub(crate) struct Signer {
    source: Arc<dyn KeyringStore>,
    sessions: Arc<dyn SessionReader>,
    /// Absent until a call has read them. A call uses the same keys from start to end: keys lost meanwhile are
    /// noticed by the next call.
    known: RwLock<Option<KnownKeys>>,
    encoding: TokenEncoding,
}

impl std::fmt::Debug for Signer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Signer").field("encoding", &self.encoding).finish_non_exhaustive()
    }
}

impl Signer {
    pub(crate) fn new(
        source: Arc<dyn KeyringStore>,
        sessions: Arc<dyn SessionReader>,
        encoding: TokenEncoding,
    ) -> Self {
        Self { source, sessions, known: RwLock::new(None), encoding }
    }

    pub(crate) fn keyring(&self) -> Option<Arc<Keyring>> {
        self.known().map(|known| known.keyring)
    }

    fn known(&self) -> Option<KnownKeys> {
        self.known.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn remember(&self, keyring: Keyring, durable: bool) {
        let known = KnownKeys { keyring: Arc::new(keyring), durable };
        *self.known.write().unwrap_or_else(PoisonError::into_inner) = Some(known);
    }

    /// Adopts keys that the store has just made durable.
    pub(crate) fn adopt(&self, keyring: Keyring) {
        self.remember(keyring, true);
    }

    /// Reads the current keys at the start of a call: another process may have rotated them, and a retired key must
    /// neither sign nor be accepted. A lost or unusable keyring is an error; it is never replaced here.
    pub(crate) fn refresh(&self, key_use: KeyUse) -> Result<(), Box<ErrorEnvelope>> {
        match self.read_keys(key_use) {
            Ok(()) => Ok(()),
            // A temporary disk failure says nothing about the known keys.
            Err(KeysError::Keyring(KeyringError::Io(cause)))
                if self.has_keys() && !cause.kind.is_verdict_on_file() =>
            {
                Ok(())
            }
            Err(KeysError::Keyring(cause)) => Err(error::keyring(cause)),
            Err(KeysError::Lost) => Err(error::keyring_lost(self.source.location())),
            Err(KeysError::Sessions(cause)) => Err(error::store(cause)),
        }
    }

    fn read_keys(&self, key_use: KeyUse) -> Result<(), KeysError> {
        let Some(found) = self.source.peek()? else {
            // Keys are made before the first session. If there are sessions, the keys were lost.
            if !self.sessions.sessions()?.is_empty() {
                return Err(KeysError::Lost);
            }
            if key_use == KeyUse::CreateIfNew {
                self.adopt(self.source.load_or_create()?);
            }
            return Ok(());
        };
        if self.known().is_some_and(|known| known.durable && *known.keyring == found) {
            return Ok(());
        }
        // New keys are made durable before a call that writes signs tokens with them. If that fails, as on a read-only
        // mount, they are used anyway, and the next call tries again.
        let durable = match key_use {
            KeyUse::CreateIfNew | KeyUse::Existing => self.source.load_or_create().ok(),
            KeyUse::ReadOnly => None,
        };
        match durable {
            Some(keyring) => self.adopt(keyring),
            None => self.remember(found, false),
        }
        Ok(())
    }

    /// Checks a token's format and signature without touching the log. Without keys no token is genuine.
    pub(crate) fn verify_any(&self, text: &str) -> Result<VerifiedToken, TokenError> {
        let decoded = token::decode(text)?;
        match self.keyring() {
            Some(keyring) => decoded.verify(&keyring),
            None => Err(TokenError::BadSignature { label: None }),
        }
    }

    /// The same, for an argument that takes one kind only.
    pub(crate) fn verify(&self, text: &str, wanted: TokenKind) -> Result<VerifiedToken, ArgumentTokenError> {
        let found = self.verify_any(text)?;
        if found.kind() == wanted {
            Ok(found)
        } else {
            Err(ArgumentTokenError::Kind { found: Box::new(found), wanted })
        }
    }

    /// Whether tokens can be signed: not before `refresh` has found keys.
    pub(crate) fn has_keys(&self) -> bool {
        self.keyring().is_some()
    }

    /// Returns an empty text without keys; callers that continue without them check `has_keys` first.
    fn mint(&self, target: &MintTarget) -> String {
        let keyring = self.keyring();
        keyring.map_or_else(String::new, |keyring| token::mint(target, self.encoding, &keyring.current))
    }

    /// The tokens of a node: its state token, and with an attempt the rights to checkpoint and to complete.
    pub(crate) fn tokens(&self, session: SessionId, at: NodeFacts, attempts: Attempts) -> ReplyTokens {
        let ack = |attempt| self.mint(&MintTarget::Ack { session, at, attempt });
        let checkpoint = |attempt| self.mint(&MintTarget::Checkpoint { session, at, attempt });
        ReplyTokens {
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

    /// Signs the state token of another node of the same session, named in a stored reply.
    pub(crate) fn state_signer<'a>(&'a self, facts: &'a SessionState) -> impl Fn(EventIndex) -> String + 'a {
        move |index| {
            let at = Nodes(facts).by_event(index);
            at.map_or_else(String::new, |at| self.state(facts.session_id(), at))
        }
    }
}

/// Which rights a reply grants.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Attempts {
    pub ack: Option<AttemptId>,
    pub checkpoint: Option<AttemptId>,
}

impl Attempts {
    /// Both rights under one attempt; a complete point can take notes but cannot be completed again.
    pub(crate) fn both(attempt: AttemptId, is_pending: bool) -> Self {
        Self { ack: is_pending.then_some(attempt), checkpoint: Some(attempt) }
    }
}
