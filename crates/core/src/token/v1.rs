//! The long encoding, `st.v1.<payload>.<signature>`: canonical JSON with all ids, and its whole HMAC.
//!
//! Only the payload's bytes are signed; the kind is inside, so that a changed prefix
//! is noticed before the signature is checked.

use data_encoding::BASE64URL_NOPAD;
use serde::{Deserialize, Serialize};
use workrail_model::canonical::to_canonical;
use workrail_model::digest::WorkflowHash;
use workrail_model::id::{AttemptId, NodeId, RunId, SessionId};
use workrail_model::keyring::SigningKey;
use workrail_model::strict_json;
use workrail_model::token::{TokenKind, TokenTarget};

use super::{TokenProblem, TokenRef, TokenSignature, Unverified, signature};

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Payload {
    token_version: u32,
    token_kind: TokenKind,
    session_id: SessionId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    run_id: Option<RunId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    node_id: Option<NodeId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    workflow_hash: Option<WorkflowHash>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    attempt_id: Option<AttemptId>,
}

impl Payload {
    fn of(target: &TokenTarget) -> Self {
        let (run_id, node_id, workflow_hash, attempt_id) = match *target {
            TokenTarget::State { run, node, workflow, .. } => (Some(run), Some(node), Some(workflow), None),
            TokenTarget::Ack { run, node, attempt, .. }
            | TokenTarget::Checkpoint { run, node, attempt, .. } => {
                (Some(run), Some(node), None, Some(attempt))
            }
            TokenTarget::Session { .. } => (None, None, None, None),
        };
        Self {
            token_version: 1,
            token_kind: target.kind(),
            session_id: target.session(),
            run_id,
            node_id,
            workflow_hash,
            attempt_id,
        }
    }

    /// `None` if a field of the kind is missing or one of another kind is present.
    fn target(&self) -> Option<TokenTarget> {
        let session = self.session_id;
        match (self.token_kind, self.run_id, self.node_id, self.workflow_hash, self.attempt_id) {
            (TokenKind::State, Some(run), Some(node), Some(workflow), None) => {
                Some(TokenTarget::State { session, run, node, workflow })
            }
            (TokenKind::Ack, Some(run), Some(node), None, Some(attempt)) => {
                Some(TokenTarget::Ack { session, run, node, attempt })
            }
            (TokenKind::Checkpoint, Some(run), Some(node), None, Some(attempt)) => {
                Some(TokenTarget::Checkpoint { session, run, node, attempt })
            }
            (TokenKind::Session, None, None, None, None) => Some(TokenTarget::Session { session }),
            (TokenKind::State | TokenKind::Ack | TokenKind::Checkpoint | TokenKind::Session, ..) => None,
        }
    }
}

fn payload_bytes(target: &TokenTarget) -> Vec<u8> {
    to_canonical(&Payload::of(target)).expect("strings and the number 1 have a canonical form")
}

pub(super) fn mint(target: &TokenTarget, key: &SigningKey) -> String {
    let payload = payload_bytes(target);
    let signature = signature(key, &payload);
    let prefix = target.kind().prefix();
    format!("{prefix}.v1.{}.{}", BASE64URL_NOPAD.encode(&payload), BASE64URL_NOPAD.encode(&signature))
}

pub(super) fn decode(kind: TokenKind, payload: &str, signature: &str) -> Result<Unverified, TokenProblem> {
    // The decoder refuses padding, other alphabets and non-zero trailing bits: one text per byte string.
    let message = BASE64URL_NOPAD.decode(payload.as_bytes()).map_err(|_| TokenProblem::Payload)?;
    let signature = BASE64URL_NOPAD
        .decode(signature.as_bytes())
        .ok()
        .and_then(|bytes| <[u8; 32]>::try_from(bytes).ok())
        .ok_or(TokenProblem::SignatureForm)?;
    let target = read(&message)?;
    if target.kind() != kind {
        return Err(TokenProblem::KindDiffers);
    }
    if payload_bytes(&target) != message {
        return Err(TokenProblem::NotCanonical);
    }
    Ok(Unverified { reference: TokenRef::Full(target), message, signature: TokenSignature::Whole(signature) })
}

fn read(message: &[u8]) -> Result<TokenTarget, TokenProblem> {
    let unreadable = |detail: String| TokenProblem::PayloadFields { detail };
    let value = strict_json::parse(message).map_err(|error| unreadable(error.to_string()))?;
    let payload: Payload = serde_json::from_value(value).map_err(|error| unreadable(error.to_string()))?;
    if payload.token_version != 1 {
        return Err(unreadable("`tokenVersion` is not 1".to_owned()));
    }
    payload.target().ok_or_else(|| unreadable("the fields do not match `tokenKind`".to_owned()))
}
