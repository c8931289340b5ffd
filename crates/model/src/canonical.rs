//! RFC 8785 canonical JSON: the one byte form that is hashed, signed and compared (G3).
//!
//! Written by hand because no crate both refuses what must be refused (integers that a double cannot
//! represent) and is fast; `serde_json_canonicalizer` is the oracle in the property tests.

use std::cmp::Ordering;

use serde::Serialize;
use serde_json::{Number, Value};

use crate::digest::Sha256;
use crate::limits::{JSON_DEPTH_MAX, SAFE_INTEGER_MAX};

/// Why a value has no canonical form.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CanonicalError {
    #[error("integer {number} does not fit a JSON number exactly (limit 2^53-1)")]
    UnsafeInteger { number: String },
    /// Nothing is written that `strict_json` would refuse to parse.
    #[error("nested deeper than {JSON_DEPTH_MAX} levels")]
    TooDeep,
    #[error("value cannot be written as JSON: {detail}")]
    NotJson { detail: String },
}

/// The canonical bytes of a typed value.
pub fn to_canonical<T: Serialize + ?Sized>(value: &T) -> Result<Vec<u8>, CanonicalError> {
    let value =
        serde_json::to_value(value).map_err(|error| CanonicalError::NotJson { detail: error.to_string() })?;
    value_to_canonical(&value)
}

/// The canonical bytes of a JSON value.
pub fn value_to_canonical(value: &Value) -> Result<Vec<u8>, CanonicalError> {
    let mut out = Vec::with_capacity(256);
    write_value(value, 0, &mut out)?;
    Ok(out)
}

/// The digest of the canonical bytes of a typed value.
pub fn canonical_digest<T: Serialize + ?Sized>(value: &T) -> Result<Sha256, CanonicalError> {
    to_canonical(value).map(|bytes| Sha256::of(&bytes))
}

fn write_value(value: &Value, depth: usize, out: &mut Vec<u8>) -> Result<(), CanonicalError> {
    let is_nested = value.is_array() || value.is_object();
    if is_nested && depth >= JSON_DEPTH_MAX {
        return Err(CanonicalError::TooDeep);
    }
    match value {
        Value::Null => out.extend_from_slice(b"null"),
        Value::Bool(true) => out.extend_from_slice(b"true"),
        Value::Bool(false) => out.extend_from_slice(b"false"),
        Value::Number(number) => write_number(number, out)?,
        Value::String(text) => write_string(text, out),
        Value::Array(items) => {
            out.push(b'[');
            for (position, item) in items.iter().enumerate() {
                if position > 0 {
                    out.push(b',');
                }
                write_value(item, depth + 1, out)?;
            }
            out.push(b']');
        }
        Value::Object(members) => {
            let mut members: Vec<_> = members.iter().collect();
            members.sort_by(|a, b| by_utf16(a.0, b.0));
            out.push(b'{');
            for (position, (key, member)) in members.into_iter().enumerate() {
                if position > 0 {
                    out.push(b',');
                }
                write_string(key, out);
                out.push(b':');
                write_value(member, depth + 1, out)?;
            }
            out.push(b'}');
        }
    }
    Ok(())
}

/// RFC 8785 sorts by UTF-16 code units, which differs from byte order above U+FFFF.
fn by_utf16(a: &str, b: &str) -> Ordering {
    if a.is_ascii() && b.is_ascii() { a.cmp(b) } else { a.encode_utf16().cmp(b.encode_utf16()) }
}

fn write_number(number: &Number, out: &mut Vec<u8>) -> Result<(), CanonicalError> {
    let unsafe_integer = || CanonicalError::UnsafeInteger { number: number.to_string() };
    if let Some(integer) = number.as_u64() {
        if integer > SAFE_INTEGER_MAX {
            return Err(unsafe_integer());
        }
        out.extend_from_slice(integer.to_string().as_bytes());
    } else if let Some(integer) = number.as_i64() {
        if integer.unsigned_abs() > SAFE_INTEGER_MAX {
            return Err(unsafe_integer());
        }
        out.extend_from_slice(integer.to_string().as_bytes());
    } else {
        // A number that is neither u64 nor i64 must be a finite double: serde_json has no other.
        let double = number.as_f64().ok_or_else(unsafe_integer)?;
        if is_unsafe_integer(double) {
            return Err(unsafe_integer());
        }
        out.extend_from_slice(double_text(double).as_bytes());
    }
    Ok(())
}

/// Whether a double is spelled as an integer that could not be read back: below 1e21 it has no exponent to distinguish
/// it from a literal that was rounded.
pub(crate) fn is_unsafe_integer(double: f64) -> bool {
    double.fract() == 0.0 && double.abs() > SAFE_INTEGER_MAX as f64 && double.abs() < 1e21
}

/// The one spelling of a finite double in RFC 8785.
pub fn double_text(double: f64) -> String {
    ryu_js::Buffer::new().format_finite(double).to_owned()
}

fn write_string(text: &str, out: &mut Vec<u8>) {
    out.push(b'"');
    let mut plain_from = 0;
    for (position, byte) in text.bytes().enumerate() {
        let short: Option<&[u8]> = match byte {
            b'"' => Some(b"\\\""),
            b'\\' => Some(b"\\\\"),
            0x08 => Some(b"\\b"),
            0x09 => Some(b"\\t"),
            0x0a => Some(b"\\n"),
            0x0c => Some(b"\\f"),
            0x0d => Some(b"\\r"),
            0x00..=0x1f => None,
            _ => continue,
        };
        out.extend_from_slice(&text.as_bytes()[plain_from..position]);
        match short {
            Some(escape) => out.extend_from_slice(escape),
            None => out.extend_from_slice(format!("\\u{byte:04x}").as_bytes()),
        }
        plain_from = position + 1;
    }
    out.extend_from_slice(&text.as_bytes()[plain_from..]);
    out.push(b'"');
}
