//! Puts freshly signed tokens into a rendered reply, stored or new.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use workrail_core::reply::answered::{self, AnsweredReply, UserReply};
use workrail_model::error::ErrorEnvelope;
use workrail_model::event::EventIndex;
use workrail_model::reply::{
    ACK_TOKEN_MARKER, CHECKPOINT_TOKEN_MARKER, ReplyBody, ReplyKind, STATE_TOKEN_MARKER, StoredReply,
    Warning, replace_state_markers,
};

use crate::ask::AttemptAwaitingUser;
use crate::error;

/// A reply as an edge sends it: the stored bytes with tokens filled in, never rendered again.
#[derive(Clone, Debug, PartialEq)]
pub struct Reply {
    parts: Vec<String>,
    body: Map<String, Value>,
    kind: ReplyKind,
    run_label: Option<String>,
    asks_user: Option<AttemptAwaitingUser>,
}

impl Reply {
    /// An answer that consists of one text and its data.
    pub(crate) fn plain<T: Serialize>(body: &T) -> Result<Self, Box<ErrorEnvelope>> {
        let body = object(body)?;
        let text = body.get("text").and_then(Value::as_str).unwrap_or_default().to_owned();
        Ok(Self { parts: vec![text], body, kind: ReplyKind::Ok, run_label: None, asks_user: None })
    }

    /// The content items, in order.
    pub fn parts(&self) -> &[String] {
        &self.parts
    }

    /// The whole reply as data; its `text` contains all parts.
    pub fn into_structured(mut self) -> Value {
        self.body.insert("text".to_owned(), Value::from(self.parts.join("\n\n")));
        Value::Object(self.body)
    }

    /// The reply as data, for an answer that has its text already.
    pub(crate) fn into_data_without_text(mut self) -> Map<String, Value> {
        self.body.remove("text");
        self.body
    }

    /// The same reply with each content item rewritten, such as cleaned for a terminal.
    pub fn rewritten(mut self, rewrite: impl FnMut(&mut String)) -> Self {
        self.parts.iter_mut().for_each(rewrite);
        self
    }

    /// Whether the call was blocked; a reply that is not about a run never is.
    pub fn kind(&self) -> ReplyKind {
        self.kind
    }

    /// The label of the run that the reply is about.
    pub fn run_label(&self) -> Option<&str> {
        self.run_label.as_deref()
    }

    /// What the call is blocked on, if only the user can give it.
    pub fn asks_user(&self) -> Option<&AttemptAwaitingUser> {
        self.asks_user.as_ref()
    }

    pub(crate) fn asking(mut self, asked: Option<AttemptAwaitingUser>) -> Self {
        self.asks_user = asked;
        self
    }

    /// The reply after the user has answered meanwhile: their words, and the call that follows from them. A reply
    /// that another version wrote in another form is sent unchanged.
    pub fn answered(self, answers: &[UserReply]) -> Self {
        let first = self.parts.first().map_or("", String::as_str);
        let changed = ReplyBody::deserialize(&self.body)
            .ok()
            .and_then(|blocked| answered::answered(first, blocked, answers))
            .and_then(|AnsweredReply { parts, body }| Some((parts, object(&body).ok()?)));
        match changed {
            Some((parts, body)) => Self { parts, body, asks_user: None, ..self },
            None => self,
        }
    }

    /// Adds a warning at the front: what follows is not what the caller expects.
    pub(crate) fn warn(&mut self, warning: &Warning) {
        if let Some(first) = self.parts.first_mut() {
            *first = format!("NOTE: {}\n\n{first}", warning.message);
        }
        self.record(warning);
    }

    /// Adds a warning about the call itself. The step stays first and the next call last.
    pub fn remark(&mut self, warning: &Warning) {
        match self.parts.len() {
            0 | 1 => self.warn(warning),
            parts => {
                self.parts.insert(parts - 1, format!("NOTE: {}", warning.message));
                self.record(warning);
            }
        }
    }

    fn record(&mut self, warning: &Warning) {
        let shown = serde_json::to_value(warning).unwrap_or_default();
        match self.body.get_mut("warnings") {
            Some(Value::Array(warnings)) => warnings.insert(0, shown),
            Some(_) | None => {
                self.body.insert("warnings".to_owned(), Value::from(vec![shown]));
            }
        }
    }

    /// Offers tokens that the stored reply does not have, replacing its own.
    pub(crate) fn offer(&mut self, tokens: &OfferedTokens) -> Result<(), Box<ErrorEnvelope>> {
        self.body.extend(object(tokens)?);
        Ok(())
    }
}

fn object<T: Serialize>(value: &T) -> Result<Map<String, Value>, Box<ErrorEnvelope>> {
    match serde_json::to_value(value) {
        Ok(Value::Object(members)) => Ok(members),
        Ok(_) => Err(error::broken_invariant("a reply is an object")),
        Err(cause) => Err(error::internal(&cause.to_string())),
    }
}

/// What a server's log keeps of a reply about a run.
#[derive(Deserialize)]
struct RunReply {
    kind: ReplyKind,
    run: LabelledRun,
}

#[derive(Deserialize)]
struct LabelledRun {
    label: String,
}

/// Tokens for recording another payload, with the same field names as in a reply's body.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct OfferedTokens {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) fork_ack_token: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) checkpoint_token: Option<String>,
}

/// The tokens of one reply.
#[derive(Clone, Debug)]
pub(crate) struct ReplyTokens {
    pub state: String,
    pub ack: Option<String>,
    pub checkpoint: Option<String>,
}

/// Signs a rendered reply; `other` signs the state token of another node in the session.
pub(crate) fn sign(
    stored: &StoredReply,
    tokens: &ReplyTokens,
    other: impl Fn(EventIndex) -> String,
) -> Result<Reply, Box<ErrorEnvelope>> {
    let value = serde_json::to_value(stored).map_err(|cause| error::internal(&cause.to_string()))?;
    sign_stored(value, tokens, other)
}

/// Signs a stored reply without changing its value, whatever version wrote it.
pub(crate) fn sign_stored(
    stored: Value,
    tokens: &ReplyTokens,
    other: impl Fn(EventIndex) -> String,
) -> Result<Reply, Box<ErrorEnvelope>> {
    let replacer = MarkerReplacer { tokens, other: &other };
    let Value::Object(mut members) = replacer.replaced(stored) else {
        return Err(error::broken_invariant("a stored reply is an object"));
    };
    match (members.remove("parts"), members.remove("body")) {
        (Some(Value::Array(parts)), Some(Value::Object(body))) => {
            let parts = parts.iter().map(|part| part.as_str().unwrap_or_default().to_owned()).collect();
            // A reply by another version is returned unchanged, even if the log cannot say what kind it was.
            let (kind, run_label) = RunReply::deserialize(&body)
                .map_or((ReplyKind::Ok, None), |reply| (reply.kind, Some(reply.run.label)));
            Ok(Reply { parts, body, kind, run_label, asks_user: None })
        }
        _ => Err(error::broken_invariant("a stored reply has parts and a body")),
    }
}

struct MarkerReplacer<'a> {
    tokens: &'a ReplyTokens,
    other: &'a dyn Fn(EventIndex) -> String,
}

impl MarkerReplacer<'_> {
    fn replaced(&self, value: Value) -> Value {
        match value {
            Value::String(text) if text.contains('\u{0}') => Value::String(self.signed(&text)),
            Value::Array(items) => Value::Array(items.into_iter().map(|item| self.replaced(item)).collect()),
            Value::Object(members) => {
                let members = members.into_iter().map(|(key, member)| (key, self.replaced(member)));
                Value::Object(members.collect())
            }
            plain @ (Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_)) => plain,
        }
    }

    fn signed(&self, text: &str) -> String {
        let text = text.replace(STATE_TOKEN_MARKER, &self.tokens.state);
        let text = text.replace(ACK_TOKEN_MARKER, self.tokens.ack.as_deref().unwrap_or_default());
        let text =
            text.replace(CHECKPOINT_TOKEN_MARKER, self.tokens.checkpoint.as_deref().unwrap_or_default());
        replace_state_markers(&text, |index| (self.other)(index))
    }
}
