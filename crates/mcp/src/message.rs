//! Strict parsing for both transports: what lenient parsers merge, round or ignore is answered with the reason
//! instead (G3, G70).

use rmcp::ErrorData;
use rmcp::model::{ClientJsonRpcMessage, GetExtensions as _, JsonRpcError, RequestId};
use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use workrail_model::strict_json::{self, JsonError};

use crate::addressee::Addressee;

/// The maximum size of a message on either transport. The largest useful call holds one step's notes and artifacts.
pub(crate) const MESSAGE_BYTES_MAX: usize = 4 * 1024 * 1024;

/// A refused message: the answer to it, or none if the protocol forbids one.
#[derive(Debug)]
pub(crate) struct RejectedMessage {
    pub(crate) answer: Option<JsonRpcError>,
    pub(crate) reason: String,
}

/// Only what is needed to answer. Everything else is skipped without interpretation, so that the id can be read from
/// a message that is refused for its content; a repeated `id` or `method` makes both unknown.
#[derive(Deserialize)]
struct MessageHead {
    #[serde(default)]
    id: Id,
    #[serde(default)]
    method: Option<IgnoredAny>,
}

/// The `id` of a message, as far as it can be used in an answer.
#[derive(Default)]
enum Id {
    #[default]
    Absent,
    Usable(RequestId),
    /// `null`, a fraction, or anything else that no answer can refer to.
    Unusable,
}

impl<'de> Deserialize<'de> for Id {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let id = Value::deserialize(deserializer)?;
        Ok(RequestId::deserialize(id).map_or(Self::Unusable, Self::Usable))
    }
}

/// Why a call is passed on only to be answered: its JSON is ambiguous or cannot be kept. Invalid input of a tool is
/// answered by the tool, with a call that would pass, and never carried out (G70).
#[derive(Clone, Debug)]
pub(crate) struct Ambiguity(pub(crate) String);

/// Reads one message strictly.
pub(crate) fn read(bytes: &[u8]) -> Result<ClientJsonRpcMessage, RejectedMessage> {
    parse_message(bytes, check(bytes)?)
}

/// Interprets a message that was checked.
pub(crate) fn parse_message(
    bytes: &[u8],
    (value, ambiguity): (Value, Option<Ambiguity>),
) -> Result<ClientJsonRpcMessage, RejectedMessage> {
    let mut message = serde_json::from_value(value).map_err(|_| refused(bytes, MessageFault::Shape))?;
    if let (ClientJsonRpcMessage::Request(call), Some(ambiguity)) = (&mut message, ambiguity) {
        call.request.extensions_mut().insert(ambiguity);
    }
    Ok(message)
}

/// Reads strictly without deciding what the message means.
pub(crate) fn check(bytes: &[u8]) -> Result<(Value, Option<Ambiguity>), RejectedMessage> {
    match strict_json::parse(bytes) {
        Ok(value) if !value.is_object() => Err(refused(bytes, MessageFault::Shape)),
        Ok(value) => match has_unusable_id(&value) {
            // Treated as a notification, it would never be answered.
            true => Err(refused(bytes, MessageFault::Id)),
            false => Ok((value, None)),
        },
        Err(error) => match ambiguous_call(bytes) {
            Some(call) => Ok((call, Some(Ambiguity(error.to_string())))),
            None => Err(refused(bytes, MessageFault::Json(error))),
        },
    }
}

fn has_unusable_id(message: &Value) -> bool {
    message.get("method").is_some() && message.get("id").is_some_and(|id| RequestId::deserialize(id).is_err())
}

/// A tool call that an ordinary parser can read.
fn ambiguous_call(bytes: &[u8]) -> Option<Value> {
    // The head refuses a repeated `id` or `method`: it would be unclear what to answer.
    let MessageHead { id: Id::Usable(_), method: Some(_) } = serde_json::from_slice(bytes).ok()? else {
        return None;
    };
    let message: Value = serde_json::from_slice(bytes).ok()?;
    let is_call = message.get("method").and_then(Value::as_str) == Some("tools/call");
    (is_call && message.get("params").is_some_and(Value::is_object)).then_some(message)
}

/// The answer to a message that was not kept.
pub(crate) fn too_long(addressee: Addressee) -> RejectedMessage {
    let reason = format!(
        "the message is longer than {MESSAGE_BYTES_MAX} bytes and none of it was recorded: send less, such as shorter notes"
    );
    let error = ErrorData::invalid_request(reason.clone(), None);
    let answer = match addressee {
        Addressee::Request(id) => Some(JsonRpcError::new(Some(id), error)),
        Addressee::Unknown => Some(JsonRpcError::new(None, error)),
        Addressee::Nobody => None,
    };
    RejectedMessage { answer, reason }
}

/// Refuses a message that is valid JSON.
pub(crate) fn refusal(bytes: &[u8], reason: &str) -> RejectedMessage {
    refused(bytes, MessageFault::Other(reason.to_owned()))
}

enum MessageFault {
    Json(JsonError),
    Shape,
    Id,
    Other(String),
}

fn refused(bytes: &[u8], fault: MessageFault) -> RejectedMessage {
    // Skipping does not look into strings, so the text encoding is checked first.
    let is_json = str::from_utf8(bytes).is_ok_and(|text| serde_json::from_str::<IgnoredAny>(text).is_ok());
    let head: Option<MessageHead> = serde_json::from_slice(bytes).ok();
    let is_notification =
        head.as_ref().is_some_and(|seen| matches!(seen.id, Id::Absent) && seen.method.is_some());
    let id = head.and_then(|seen| match seen.id {
        Id::Usable(id) => Some(id),
        Id::Absent | Id::Unusable => None,
    });
    let reason = match fault {
        MessageFault::Json(error) => format!("the message is not accepted as JSON: {error}"),
        MessageFault::Shape if bytes.trim_ascii_start().starts_with(b"[") => {
            "a batch is a list of at least one message".to_owned()
        }
        MessageFault::Id => {
            "the id of a request must be text or a whole number; only a notification has none".to_owned()
        }
        MessageFault::Other(reason) => reason,
        MessageFault::Shape => {
            "the message is not a JSON-RPC 2.0 request, notification or response".to_owned()
        }
    };
    let error = match is_json {
        true => ErrorData::invalid_request(reason.clone(), None),
        false => ErrorData::parse_error(reason.clone(), None),
    };
    // JSON-RPC: a notification is never answered.
    let answer = (!is_notification).then(|| JsonRpcError::new(id, error));
    RejectedMessage { answer, reason }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(bytes: &[u8]) -> Option<(Option<RequestId>, i32, String)> {
        let refused = read(bytes).expect_err("the message is refused");
        refused.answer.map(|answer| (answer.id, answer.error.code.0, answer.error.message.into_owned()))
    }

    fn call(arguments: &str) -> Vec<u8> {
        format!(
            r#"{{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{{"name":"x","arguments":{arguments}}}}}"#
        )
        .into_bytes()
    }

    #[test]
    fn refused_content_is_answered_under_its_id_with_the_reason() {
        let deep = format!("{}1{}", r#"{"a":"#.repeat(200), "}".repeat(200));
        let table = [
            (r#"{"goal":"\ud800"}"#, "unexpected end of hex escape"),
            (r#"{"n":1e400}"#, "number out of range"),
            (deep.as_str(), "nested deeper than 64 levels"),
        ];
        for (arguments, reason) in table {
            let (id, code, message) = answer(&call(arguments)).expect("a request is answered");
            assert_eq!((id, code), (Some(RequestId::Number(7)), -32600), "{arguments}");
            assert!(message.contains(reason), "{arguments}: {message}");
        }
    }

    #[test]
    fn an_ambiguous_call_is_passed_on_and_answered_by_its_tool() {
        let deep = format!("{}1{}", r#"{"a":"#.repeat(70), "}".repeat(70));
        let table = [
            (r#"{"goal":"a","goal":"b"}"#, "duplicate key \"goal\""),
            (r#"{"n":9007199254740993}"#, "beyond 2^53-1"),
            (deep.as_str(), "nested deeper than 64 levels"),
        ];
        for (arguments, reason) in table {
            let (_, ambiguity) = check(&call(arguments)).expect("let in");
            let given = ambiguity.expect("the reason is there").0;
            assert!(given.contains(reason), "{given}");
        }
        let other = br#"{"jsonrpc":"2.0","id":7,"method":"tools/list","params":{"a":1,"a":2}}"#;
        assert!(check(other).is_err(), "only calls are answered by a tool");
    }

    #[test]
    fn invalid_json_is_a_parse_error_without_an_id() {
        for bytes in [&b"{\"id\":7,"[..], b"hello", b"\"\xff\"", b"\xef\xbb\xbf{}", b"{}\0"] {
            let (id, code, message) = answer(bytes).expect("answered");
            assert_eq!((id, code), (None, -32700), "{message}");
        }
    }

    #[test]
    fn a_repeated_id_is_not_trusted() {
        let twice = br#"{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}"#;
        let (id, code, message) = answer(twice).expect("answered");
        assert_eq!((id, code), (None, -32600));
        assert!(message.contains("duplicate key \"id\""), "{message}");
    }

    #[test]
    fn an_empty_batch_and_a_stray_object_are_invalid_requests() {
        for (bytes, reason) in
            [(&b"[]"[..], "a batch is a list of at least one message"), (b"{}", "not a JSON-RPC 2.0")]
        {
            let (_, code, message) = answer(bytes).expect("answered");
            assert_eq!(code, -32600);
            assert!(message.contains(reason), "{message}");
        }
    }

    #[test]
    fn a_refused_notification_stays_unanswered() {
        let bytes = br#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"a":1,"a":2}}"#;
        assert!(answer(bytes).is_none());
    }

    #[test]
    fn an_unusable_id_is_refused_and_not_dropped() {
        for id in ["null", "1.5", "true", "{}", "[1]"] {
            for params in ["{}", r#"{"a":1,"a":2}"#] {
                let bytes =
                    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/list","params":{params}}}"#);
                let (answered, code, message) = answer(bytes.as_bytes()).expect("answered");
                assert_eq!((answered, code), (None, -32600), "{bytes}: {message}");
            }
        }
    }

    #[test]
    fn ordinary_messages_pass() {
        let request = br#"{"jsonrpc":"2.0","id":"a","method":"tools/list"}"#;
        assert!(matches!(read(request), Ok(ClientJsonRpcMessage::Request(_))));
        let notification = br#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
        assert!(matches!(read(notification), Ok(ClientJsonRpcMessage::Notification(_))));
        assert!(matches!(read(&call(r#"{"n":1.5}"#)), Ok(ClientJsonRpcMessage::Request(_))));
    }
}
