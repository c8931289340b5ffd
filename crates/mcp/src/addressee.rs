//! Finds out who waits for the answer to a message that is too long to keep.
//!
//! Scans the whole message but keeps only the relevant members of its outermost object, wherever they are: some
//! clients write `id` first, some last.

use rmcp::model::RequestId;

/// A longer member is neither a relevant name nor an id.
const MEMBER_BYTES_MAX: usize = 256;

/// The request to answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Addressee {
    /// A request is waiting under this id.
    Request(RequestId),
    /// A notification or a response: JSON-RPC forbids an answer.
    Nobody,
    /// The message is not a single JSON object, or its id is missing, repeated or invalid.
    Unknown,
}

/// Finds the addressee in bytes that arrive in pieces.
#[derive(Debug, Default)]
pub(crate) struct Scan {
    depth: usize,
    string: StringState,
    /// The name or the value being read, at depth one.
    member: Vec<u8>,
    name: Option<String>,
    has_method: bool,
    ids: Vec<Option<RequestId>>,
    is_object: bool,
    is_broken: bool,
}

/// Where the scan is inside a JSON string.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum StringState {
    #[default]
    Outside,
    Inside,
    AfterBackslash,
}

impl Scan {
    pub(crate) fn feed(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.step(*byte);
        }
    }

    fn step(&mut self, byte: u8) {
        match (self.string, byte) {
            (StringState::AfterBackslash, _) => self.string = StringState::Inside,
            (StringState::Inside, b'\\') => self.string = StringState::AfterBackslash,
            (StringState::Inside, b'"') => self.string = StringState::Outside,
            (StringState::Inside, _) => {}
            (StringState::Outside, b'"') => self.string = StringState::Inside,
            (StringState::Outside, b'{' | b'[') => {
                if self.depth == 0 {
                    self.is_broken |= self.is_object || byte == b'[';
                    self.is_object = true;
                    self.depth = 1;
                    return;
                }
                self.keep(byte);
                self.depth += 1;
                return;
            }
            (StringState::Outside, b'}' | b']') => {
                if self.depth == 1 {
                    self.end_member();
                }
                self.is_broken |= self.depth == 0;
                self.depth = self.depth.saturating_sub(1);
                return;
            }
            (StringState::Outside, b':') if self.depth == 1 => {
                self.name = serde_json::from_slice(&self.member).ok();
                self.member.clear();
                return;
            }
            (StringState::Outside, b',') if self.depth == 1 => {
                self.end_member();
                return;
            }
            (StringState::Outside, b' ' | b'\t' | b'\r' | b'\n') => return,
            (StringState::Outside, _) => self.is_broken |= self.depth == 0,
        }
        self.keep(byte);
    }

    fn keep(&mut self, byte: u8) {
        if self.depth == 1 && self.member.len() <= MEMBER_BYTES_MAX {
            self.member.push(byte);
        }
    }

    fn end_member(&mut self) {
        match self.name.take().as_deref() {
            // Two are as wrong as a million, which must not be kept.
            Some("id") if self.ids.len() < 2 => self.ids.push(serde_json::from_slice(&self.member).ok()),
            Some("method") => self.has_method = true,
            Some(_) | None => {}
        }
        self.member.clear();
    }

    /// The result, once the message has ended.
    pub(crate) fn finish(mut self) -> Addressee {
        if self.is_broken || !self.is_object || self.depth != 0 || self.string != StringState::Outside {
            return Addressee::Unknown;
        }
        match (self.has_method, self.ids.len(), self.ids.pop().flatten()) {
            (true, 1, Some(id)) => Addressee::Request(id),
            (true, 0, _) | (false, 1, _) => Addressee::Nobody,
            (true | false, _, _) => Addressee::Unknown,
        }
    }
}

#[cfg(test)]
mod tests {
    use test_case::test_case;

    use super::*;

    fn found(message: &str) -> Addressee {
        let mut scan = Scan::default();
        // Piece by piece: the result must not depend on how the bytes arrive.
        message.as_bytes().chunks(3).for_each(|piece| scan.feed(piece));
        scan.finish()
    }

    fn number(id: i64) -> Addressee {
        Addressee::Request(RequestId::Number(id))
    }

    #[test_case(r#"{"jsonrpc":"2.0","id":7,"method":"a","params":{"id":1,"x":[{"id":2}]}}"#, number(7); "first")]
    #[test_case(r#"{"method":"a","params":{"id":1,"t":"\\\"id\":3}"},"jsonrpc":"2.0","id":7}"#, number(7); "last")]
    #[test_case(r#" { "method" : "a" , "id" : 7 , "params" : { } } "#, number(7); "in the middle, with blanks")]
    #[test_case(r#"{"\u0069d":7,"method":"a"}"#, number(7); "an escaped name")]
    #[test_case(r#"{"id":"a\"b","method":"a"}"#, Addressee::Request(RequestId::String("a\"b".into())); "text")]
    #[test_case(r#"{"method":"a","params":{"id":7}}"#, Addressee::Nobody; "a notification")]
    #[test_case(r#"{"id":7,"result":{"method":"a"}}"#, Addressee::Nobody; "a response")]
    #[test_case(r#"{"id":7,"id":8,"method":"a"}"#, Addressee::Unknown; "two ids")]
    #[test_case(r#"{"id":null,"method":"a"}"#, Addressee::Unknown; "null")]
    #[test_case(r#"{"id":{"id":7},"method":"a"}"#, Addressee::Unknown; "an object as id")]
    #[test_case(r#"{"params":{"a":{"id":7,"method":"a"}"#, Addressee::Unknown; "cut off")]
    #[test_case(r#"[{"id":7,"method":"a"}]"#, Addressee::Unknown; "a batch")]
    #[test_case(r#"{"id":7,"method":"a"}{"id":8,"method":"a"}"#, Addressee::Unknown; "two messages")]
    #[test_case("xxxx", Addressee::Unknown; "not JSON")]
    fn the_addressee_is_in_the_outermost_object(message: &str, expected: Addressee) {
        assert_eq!(found(message), expected);
    }
}
