//! `{{name}}` in prompts: typed lookups in the context, no expressions, a clear word where nothing is set.

use serde_json::Value;

use crate::condition::{Scope, js_string};

/// A piece of a text with variables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Token<'t> {
    Text(&'t str),
    /// Names joined by dots.
    Variable {
        path: &'t str,
    },
    /// Braces around something else, which is left as it is.
    Other {
        source: &'t str,
    },
}

/// Cuts a text into its pieces; joined they are the text again.
pub(crate) fn tokens(text: &str) -> Vec<Token<'_>> {
    let mut pieces = Vec::new();
    let mut rest = text;
    while let Some(start) = rest.find("{{") {
        let Some(length) = rest[start + 2..].find("}}") else { break };
        let inner = &rest[start + 2..start + 2 + length];
        // Of `{{{a}}` the inner pair is meant.
        let (start, inner) = match inner.rfind('{') {
            Some(last) if last == 0 || inner[..last].ends_with('{') => (start + last + 1, &inner[last + 1..]),
            Some(_) | None => (start, inner),
        };
        if start > 0 {
            pieces.push(Token::Text(&rest[..start]));
        }
        let end = start + inner.len() + 4;
        pieces.push(if is_path(inner) {
            Token::Variable { path: inner }
        } else {
            Token::Other { source: &rest[start..end] }
        });
        rest = &rest[end..];
    }
    if !rest.is_empty() {
        pieces.push(Token::Text(rest));
    }
    pieces
}

fn is_path(text: &str) -> bool {
    let is_name = |name: &str| {
        name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
    };
    text.split('.').all(is_name) && !text.starts_with("wr.")
}

/// The text with every variable filled in.
pub(crate) fn fill(text: &str, scope: &Scope<'_>) -> String {
    if !text.contains("{{") {
        return text.to_owned();
    }
    tokens(text).into_iter().fold(String::with_capacity(text.len()), |mut out, token| {
        match token {
            Token::Text(plain) | Token::Other { source: plain } => out.push_str(plain),
            Token::Variable { path } => out.push_str(&lookup(path, scope)),
        }
        out
    })
}

/// A value longer than this is shown up to here when it is not what the path needs.
const SHOWN_MAX: usize = 60;

fn lookup(path: &str, scope: &Scope<'_>) -> String {
    let mut names = path.split('.');
    let root = names.next().unwrap_or(path);
    let mut walked = root.len();
    let mut value = match scope.get(root) {
        None | Some(Value::Null) => return format!("[unset: {path}]"),
        Some(value) => value.clone(),
    };
    for name in names {
        let next = match &value {
            Value::Object(members) => members.get(name).cloned(),
            Value::Array(items) if name == "length" => Some(Value::from(items.len())),
            Value::Array(_) => None,
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
                return format!(
                    "[unset: {path} -- '{}' is {} (\"{}\"), not object]",
                    &path[..walked],
                    js_type(&value),
                    clipped(&js_string(Some(&value)))
                );
            }
        };
        match next {
            None | Some(Value::Null) => return format!("[unset: {path}]"),
            Some(next) => value = next,
        }
        walked += 1 + name.len();
    }
    js_string(Some(&value)).into_owned()
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
    #[test_case("{{user.first}}-{{user.tags}}", "Ada-a,b"; "members and lists")]
    #[test_case("{{items.length}}", "3"; "length")]
    #[test_case("{{number}}", "1"; "numbers print short")]
    #[test_case("{{user}}", "[object Object]"; "objects")]
    #[test_case("{{missing}}", "[unset: missing]"; "missing root")]
    #[test_case("{{user.missing}}", "[unset: user.missing]"; "missing member")]
    #[test_case("{{nothing}}", "[unset: nothing]"; "null")]
    #[test_case("{{name.x.y}}", "[unset: name.x.y -- 'name' is string (\"Ada\"), not object]"; "not an object")]
    #[test_case("{{itemIndex + 1}}", "{{itemIndex + 1}}"; "expressions stay")]
    #[test_case("{{wr.bindings.x}}", "{{wr.bindings.x}}"; "reserved stays")]
    #[test_case("{{{name}}}", "{Ada}"; "outer braces stay")]
    #[test_case("{{ name }}", "{{ name }}"; "spaces stay")]
    #[test_case("{{name", "{{name"; "unclosed")]
    fn filled(text: &str, expected: &str) {
        let context = json!({
            "name": "Ada", "user": { "first": "Ada", "tags": ["a", "b"] }, "items": [1, 2, 3],
            "number": 1.0, "nothing": null,
        });
        let context = Context::new(context.as_object().unwrap().clone()).unwrap();
        assert_eq!(fill(text, &Scope::new(&context)), expected);
    }
}
