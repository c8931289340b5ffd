//! `{{name}}` in prompts: typed lookups in the context, no expressions, a clear message for unset ones.

use serde_json::Value;

use super::limited::{Full, LimitedText, Overflow, Values};
use crate::condition::{ValueScope, js_string};

/// A part of a text with variables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TemplatePart<'t> {
    Text(&'t str),
    /// Names joined by dots.
    Variable {
        path: &'t str,
    },
    /// Braces around something else, left as they are.
    Other {
        source: &'t str,
    },
}

/// Splits a text into its parts; joined they are the text again.
pub(crate) fn parts(text: &str) -> TemplateParts<'_> {
    TemplateParts { rest: text, next: None }
}

/// The parts of a text, one at a time: a text of a megabyte may have hundreds of thousands.
pub(crate) struct TemplateParts<'t> {
    rest: &'t str,
    /// What follows the plain text that was last returned.
    next: Option<TemplatePart<'t>>,
}

impl<'t> Iterator for TemplateParts<'t> {
    type Item = TemplatePart<'t>;

    fn next(&mut self) -> Option<TemplatePart<'t>> {
        if let Some(part) = self.next.take() {
            return Some(part);
        }
        if self.rest.is_empty() {
            return None;
        }
        let rest = self.rest;
        let found = rest.find("{{").and_then(|start| Some((start, rest[start + 2..].find("}}")?)));
        let Some((start, length)) = found else {
            self.rest = "";
            return Some(TemplatePart::Text(rest));
        };
        let inner = &rest[start + 2..start + 2 + length];
        // In `{{{a}}` the inner pair counts.
        let (start, inner) = match inner.rfind('{') {
            Some(last) if last == 0 || inner[..last].ends_with('{') => (start + last + 1, &inner[last + 1..]),
            Some(_) | None => (start, inner),
        };
        let end = start + inner.len() + 4;
        let path = inner.trim_matches(' ');
        let part = match is_path(path) {
            true => TemplatePart::Variable { path },
            false => TemplatePart::Other { source: &rest[start..end] },
        };
        self.rest = &rest[end..];
        if start == 0 {
            return Some(part);
        }
        self.next = Some(part);
        Some(TemplatePart::Text(&rest[..start]))
    }
}

fn is_path(text: &str) -> bool {
    let is_name = |name: &str| {
        name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
    };
    text.split('.').all(is_name) && !text.starts_with("wr.")
}

/// Writes the text with every variable filled in.
pub(crate) fn fill(text: &str, scope: &ValueScope<'_>, out: &mut LimitedText) -> Result<(), Full> {
    for part in parts(text) {
        match part {
            TemplatePart::Text(plain) | TemplatePart::Other { source: plain } => out.push(plain)?,
            TemplatePart::Variable { path } => fill_variable(path, scope, out)?,
        }
    }
    Ok(())
}

/// The size limit of a filled text in a blocker, which has its own limit.
const FILLED_BYTES_MAX: usize = 4096;

/// A short text with every variable filled in; what exceeds the limit is cut off.
pub(crate) fn filled(text: &str, scope: &ValueScope<'_>) -> String {
    let mut out = LimitedText::new(FILLED_BYTES_MAX, Values::Whole, Overflow::Cut);
    // What did not fit is cut off.
    let _ = fill(text, scope, &mut out);
    out.into_text()
}

/// A value of the wrong shape is shown up to this length.
const SHOWN_MAX: usize = 60;

fn fill_variable(path: &str, scope: &ValueScope<'_>, out: &mut LimitedText) -> Result<(), Full> {
    let unset = |out: &mut LimitedText| {
        out.push("[unset: ")?;
        out.push(path)?;
        out.push("]")
    };
    let mut names = path.split('.');
    let root = names.next().unwrap_or(path);
    if scope.withholds(path) {
        return out.push("[withheld]");
    }
    let mut walked = root.len();
    let mut value = match scope.get(root) {
        None | Some(Value::Null) => return unset(out),
        Some(value) => value,
    };
    while let Some(name) = names.next() {
        let next = match value {
            Value::Object(members) => members.get(name),
            Value::Array(items) if name == "length" && names.clone().next().is_none() => {
                return out.push_value(root, &Value::from(items.len()));
            }
            Value::Array(items) if name == "length" => {
                return not_an_object(root, path, walked + 7, &Value::from(items.len()), out);
            }
            Value::Array(_) => None,
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
                return not_an_object(root, path, walked, value, out);
            }
        };
        match next {
            None | Some(Value::Null) => return unset(out),
            Some(next) => value = next,
        }
        walked += 1 + name.len();
    }
    out.push_value(root, value)
}

fn not_an_object(
    root: &str,
    path: &str,
    walked: usize,
    value: &Value,
    out: &mut LimitedText,
) -> Result<(), Full> {
    let shown = clipped(&js_string(Some(value)));
    let kind = js_type(value);
    let remark = format!("[unset: {path} -- '{}' is {kind} (\"{shown}\"), not object]", &path[..walked]);
    out.push_about(root, &remark)
}

fn js_type(value: &Value) -> &'static str {
    match value {
        Value::Null | Value::Array(_) | Value::Object(_) => "object",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
    }
}

fn clipped(text: &str) -> String {
    match text.char_indices().nth(SHOWN_MAX) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}\u{2026}", &text[..end]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use test_case::test_case;
    use workrail_model::event::Context;

    #[test_case("{{name}}", "Ada"; "plain")]
    #[test_case("{{user.first}}-{{user.tags}}", "Ada-[\"a\",\"b\"]"; "members and lists")]
    #[test_case("{{items.length}}", "3"; "length")]
    #[test_case("{{items.length.x}}", "[unset: items.length.x -- 'items.length' is number (\"3\"), not object]"; "member of a length")]
    #[test_case("{{number}}", "1"; "numbers print short")]
    #[test_case("{{user}}", "{\"first\":\"Ada\",\"tags\":[\"a\",\"b\"]}"; "objects")]
    #[test_case("{{missing}}", "[unset: missing]"; "missing root")]
    #[test_case("{{user.missing}}", "[unset: user.missing]"; "missing member")]
    #[test_case("{{nothing}}", "[unset: nothing]"; "null")]
    #[test_case("{{name.x.y}}", "[unset: name.x.y -- 'name' is string (\"Ada\"), not object]"; "not an object")]
    #[test_case("{{itemIndex + 1}}", "{{itemIndex + 1}}"; "expressions stay")]
    #[test_case("{{wr.bindings.x}}", "{{wr.bindings.x}}"; "reserved stays")]
    #[test_case("{{{name}}}", "{Ada}"; "outer braces stay")]
    #[test_case("{{ name }}", "Ada"; "spaces inside the braces")]
    #[test_case("{{ user.first }}", "Ada"; "spaces around a path")]
    #[test_case("{{wr . x}}", "{{wr . x}}"; "spaces inside a path stay")]
    #[test_case("{{name", "{{name"; "unclosed")]
    fn filled(text: &str, expected: &str) {
        let context = json!({
            "name": "Ada", "user": { "first": "Ada", "tags": ["a", "b"] }, "items": [1, 2, 3],
            "number": 1.0, "nothing": null,
        });
        let context = Context::new(context.as_object().unwrap().clone()).unwrap();
        let mut out = LimitedText::new(1000, Values::Whole, Overflow::Refuse);
        fill(text, &ValueScope::new(&context), &mut out).unwrap();
        assert_eq!(out.into_text(), expected);
    }
}
