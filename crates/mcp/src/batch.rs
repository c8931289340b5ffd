//! Several messages in one array, answered by one array, as in JSON-RPC and revision 2025-03-26.
//!
//! Other revisions have no batches. They are accepted there as well, because refusing one would leave every request
//! in it without an answer.

use std::fmt;

use rmcp::ErrorData;
use rmcp::model::{ClientJsonRpcMessage, JsonRpcError, RequestId};
use serde::de::{IgnoredAny, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::message::{self, RejectedMessage};

/// The maximum number of messages in a batch. As many calls run at once.
pub(crate) const MESSAGES_MAX: usize = 64;

/// A longer list is refused as a whole: an answer to each element would need many times the memory of the request.
const ANSWERED_MAX: usize = 1024;

/// The messages of a batch; `None` unless the bytes are a list of at least one.
pub(crate) fn elements(bytes: &[u8]) -> Option<Result<Vec<Box<RawValue>>, RejectedMessage>> {
    if !bytes.trim_ascii_start().starts_with(b"[") {
        return None;
    }
    let BatchElements { kept, more } =
        serde_json::from_slice(bytes).ok().filter(|read: &BatchElements| !read.kept.is_empty())?;
    Some(match more {
        0 => Ok(kept),
        _ => {
            let reason = format!(
                "a batch has at most {MESSAGES_MAX} messages, and this one has {}: none of them was read",
                kept.len() + more
            );
            Err(message::refusal(b"[]", &reason))
        }
    })
}

/// The beginning of a list.
struct BatchElements {
    kept: Vec<Box<RawValue>>,
    /// How many elements follow, which were not kept.
    more: usize,
}

impl<'de> Deserialize<'de> for BatchElements {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ListVisitor;
        impl<'de> Visitor<'de> for ListVisitor {
            type Value = BatchElements;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<BatchElements, A::Error> {
                let mut elements = BatchElements { kept: Vec::new(), more: 0 };
                while elements.kept.len() < ANSWERED_MAX {
                    let Some(element) = list.next_element()? else { return Ok(elements) };
                    elements.kept.push(element);
                }
                while list.next_element::<IgnoredAny>()?.is_some() {
                    elements.more += 1;
                }
                Ok(elements)
            }
        }
        deserializer.deserialize_seq(ListVisitor)
    }
}

/// One message of a batch, or the reason why it is refused.
pub(crate) fn element(
    index: usize,
    bytes: &[u8],
) -> Result<(Value, Option<message::Ambiguity>), RejectedMessage> {
    let (message, ambiguity) = message::check(bytes)?;
    if index >= MESSAGES_MAX {
        return Err(message::refusal(bytes, &format!("a batch has at most {MESSAGES_MAX} messages")));
    }
    if message.get("method").and_then(Value::as_str) == Some("initialize") {
        return Err(message::refusal(bytes, "initialize cannot be part of a batch: send it on its own"));
    }
    Ok((message, ambiguity))
}

/// Joins answers, which are JSON, into an array.
pub(crate) fn array(answers: &[Vec<u8>]) -> Vec<u8> {
    let mut array = vec![b'['];
    array.extend(answers.join(&b','));
    array.push(b']');
    array
}

/// The batches of one connection with incomplete answers.
#[derive(Debug, Default)]
pub(crate) struct Batches {
    open: Vec<OpenBatch>,
}

#[derive(Debug, Default)]
struct OpenBatch {
    waiting: Vec<RequestId>,
    answers: Vec<Vec<u8>>,
}

/// What happens to an answer.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum BatchedAnswer {
    /// It belongs to no batch.
    Alone(Vec<u8>),
    /// Other answers of its batch are missing.
    Incomplete,
    /// It completes its batch.
    Together(Vec<u8>),
}

impl Batches {
    /// Opens a batch: the messages to handle, and the answer if there is nothing to wait for.
    pub(crate) fn open(
        &mut self,
        elements: &[Box<RawValue>],
    ) -> (Vec<ClientJsonRpcMessage>, Option<Vec<u8>>) {
        let mut batch = OpenBatch::default();
        let mut messages = Vec::new();
        for (index, element) in elements.iter().enumerate() {
            let bytes = element.get().as_bytes();
            let read = self::element(index, bytes).and_then(|checked| message::parse_message(bytes, checked));
            match read {
                Ok(ClientJsonRpcMessage::Request(request)) if self.awaits(&batch, &request.id) => {
                    let error = ErrorData::invalid_request("this id is used by another request", None);
                    batch.refuse(&JsonRpcError::new(Some(request.id), error));
                }
                Ok(message) => {
                    if let ClientJsonRpcMessage::Request(request) = &message {
                        batch.waiting.push(request.id.clone());
                    }
                    messages.push(message);
                }
                Err(RejectedMessage { answer, reason }) => {
                    tracing::warn!(reason, "a message of a batch was refused");
                    if let Some(answer) = answer {
                        batch.refuse(&answer);
                    }
                }
            }
        }
        if !batch.waiting.is_empty() {
            self.open.push(batch);
            return (messages, None);
        }
        let answer = (!batch.answers.is_empty()).then(|| array(&batch.answers));
        (messages, answer)
    }

    fn awaits(&self, new: &OpenBatch, id: &RequestId) -> bool {
        self.open.iter().chain([new]).any(|batch| batch.waiting.contains(id))
    }

    /// Takes the answer of a request.
    pub(crate) fn answered(&mut self, id: &RequestId, answer: Vec<u8>) -> BatchedAnswer {
        let Some(position) = self.open.iter().position(|batch| batch.waiting.contains(id)) else {
            return BatchedAnswer::Alone(answer);
        };
        self.open[position].answers.push(answer);
        self.settle(position, id).map_or(BatchedAnswer::Incomplete, BatchedAnswer::Together)
    }

    /// A cancelled request is not answered: its batch is complete without it.
    pub(crate) fn cancelled(&mut self, id: &RequestId) -> Option<Vec<u8>> {
        let position = self.open.iter().position(|batch| batch.waiting.contains(id))?;
        self.settle(position, id)
    }

    /// The answer of a batch that was waiting only for this request.
    fn settle(&mut self, position: usize, id: &RequestId) -> Option<Vec<u8>> {
        let batch = &mut self.open[position];
        batch.waiting.retain(|waiting| waiting != id);
        if !batch.waiting.is_empty() {
            return None;
        }
        let batch = self.open.remove(position);
        (!batch.answers.is_empty()).then(|| array(&batch.answers))
    }
}

impl OpenBatch {
    fn refuse(&mut self, error: &JsonRpcError) {
        // Strings and numbers: an error always serialises.
        self.answers.extend(serde_json::to_vec(error).ok());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(batches: &mut Batches, text: &str) -> (usize, Option<Value>) {
        let elements = elements(text.as_bytes()).expect("a batch").expect("a short one");
        let (messages, answer) = batches.open(&elements);
        (messages.len(), answer.map(|answer| serde_json::from_slice(&answer).unwrap()))
    }

    fn ping(id: u64) -> String {
        format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping"}}"#)
    }

    #[test]
    fn only_a_nonempty_list_is_a_batch() {
        for other in ["{}", "[]", " [ ] ", "[1", "", "hello"] {
            assert!(elements(other.as_bytes()).is_none(), "{other}");
        }
        let two = elements(b" [1, {}]").and_then(Result::ok);
        assert_eq!(two.map(|elements| elements.len()), Some(2));
    }

    /// Broke: a body of 4 MB with two million numbers was answered with two million errors.
    #[test]
    fn a_list_that_is_far_too_long_is_refused_as_a_whole() {
        let list = |length: usize| format!("[{}]", vec!["1"; length].join(","));
        assert!(elements(list(ANSWERED_MAX).as_bytes()).is_some_and(|read| read.is_ok()));
        let refused = elements(list(2_000_000).as_bytes()).and_then(Result::err).expect("it is refused");
        assert_eq!(
            refused.reason,
            "a batch has at most 64 messages, and this one has 2000000: none of them was read"
        );
        assert!(refused.answer.is_some_and(|answer| answer.id.is_none()));
    }

    #[test]
    fn the_last_answer_completes_the_batch() {
        let mut batches = Batches::default();
        let both = format!("[{},{}]", ping(1), ping(2));
        assert_eq!(open(&mut batches, &both), (2, None));
        let (one, two, other) = (RequestId::Number(1), RequestId::Number(2), RequestId::Number(3));
        assert_eq!(batches.answered(&other, b"{}".to_vec()), BatchedAnswer::Alone(b"{}".to_vec()));
        assert_eq!(batches.answered(&two, b"2".to_vec()), BatchedAnswer::Incomplete);
        assert_eq!(batches.answered(&one, b"1".to_vec()), BatchedAnswer::Together(b"[2,1]".to_vec()));
        assert_eq!(batches.answered(&one, b"1".to_vec()), BatchedAnswer::Alone(b"1".to_vec()));
    }

    #[test]
    fn a_cancelled_request_does_not_hold_up_the_others() {
        let mut batches = Batches::default();
        let both = format!("[{},{}]", ping(1), ping(2));
        assert_eq!(open(&mut batches, &both), (2, None));
        assert_eq!(batches.answered(&RequestId::Number(1), b"1".to_vec()), BatchedAnswer::Incomplete);
        assert_eq!(batches.cancelled(&RequestId::Number(2)), Some(b"[1]".to_vec()));
        assert_eq!(batches.cancelled(&RequestId::Number(2)), None);
    }

    #[test]
    fn every_refused_element_is_answered_under_its_id() {
        let mut batches = Batches::default();
        let initialize = r#"{"jsonrpc":"2.0","id":3,"method":"initialize","params":{}}"#;
        let text = format!(
            "[{},{},7,{initialize},{}]",
            ping(1),
            ping(1),
            r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#
        );
        assert_eq!(open(&mut batches, &text), (1, None));
        let BatchedAnswer::Together(answer) = batches.answered(&RequestId::Number(1), b"{}".to_vec()) else {
            panic!("the batch is complete")
        };
        let answers: Vec<Value> = serde_json::from_slice(&answer).unwrap();
        let ids: Vec<&Value> = answers.iter().map(|answer| &answer["id"]).collect();
        assert_eq!(ids, [&Value::from(1), &Value::Null, &Value::from(3), &Value::Null, &Value::Null]);
    }

    #[test]
    fn notifications_alone_have_no_answer() {
        let notification = r#"[{"jsonrpc":"2.0","method":"notifications/initialized"}]"#;
        assert_eq!(open(&mut Batches::default(), notification), (1, None));
    }

    #[test]
    fn too_many_messages_are_answered_one_by_one() {
        let many: Vec<String> = (0..MESSAGES_MAX as u64 + 2).map(ping).collect();
        let (handled, answer) = open(&mut Batches::default(), &format!("[{}]", many.join(",")));
        assert_eq!((handled, answer), (MESSAGES_MAX, None));
    }
}
