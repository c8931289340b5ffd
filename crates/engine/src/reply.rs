//! Puts freshly signed tokens into a rendered reply, stored or new.

use serde_json::Value;
use workrail_model::canonical::CanonicalError;
use workrail_model::reply::{ACK_TOKEN_MARK, ReplyBody, STATE_TOKEN_MARK};

/// A reply as an edge sends it: the stored bytes with tokens in place, never rendered again.
#[derive(Clone, Debug, PartialEq)]
pub struct Reply {
    value: Value,
}

impl Reply {
    pub fn value(&self) -> &Value {
        &self.value
    }

    pub fn into_value(self) -> Value {
        self.value
    }

    pub fn text(&self) -> &str {
        self.value.get("text").and_then(Value::as_str).unwrap_or_default()
    }

    /// A member of the reply as text, such as `stateToken`.
    pub fn string(&self, member: &str) -> Option<&str> {
        self.value.get(member).and_then(Value::as_str)
    }
}

/// The tokens of one reply.
#[derive(Clone, Debug)]
pub(crate) struct Tokens {
    pub state: String,
    pub ack: Option<String>,
}

/// Signs a rendered body.
pub(crate) fn sign(body: &ReplyBody, tokens: &Tokens) -> Result<Reply, CanonicalError> {
    let value =
        serde_json::to_value(body).map_err(|error| CanonicalError::NotJson { detail: error.to_string() })?;
    Ok(Reply { value: replaced(value, tokens) })
}

/// Signs a stored body, which stays the value it was, whatever version wrote it.
pub(crate) fn sign_stored(value: Value, tokens: &Tokens) -> Reply {
    Reply { value: replaced(value, tokens) }
}

fn replaced(value: Value, tokens: &Tokens) -> Value {
    match value {
        Value::String(text) if text.contains('\u{0}') => {
            let signed = text.replace(STATE_TOKEN_MARK, &tokens.state);
            let ack = tokens.ack.as_deref().unwrap_or_default();
            Value::String(signed.replace(ACK_TOKEN_MARK, ack))
        }
        Value::Array(items) => Value::Array(items.into_iter().map(|item| replaced(item, tokens)).collect()),
        Value::Object(members) => {
            Value::Object(members.into_iter().map(|(key, member)| (key, replaced(member, tokens))).collect())
        }
        plain @ (Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_)) => plain,
    }
}
