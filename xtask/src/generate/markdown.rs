//! JSON Schema in words: the type of a field, and tables of fields.

use std::fmt::Write as _;

use serde_json::{Map, Value};

/// A cell of a table: one line, with the column separator escaped.
pub(super) fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}

/// A table of an object's fields, sorted by name; `None` for an object without fields.
pub(super) fn field_table(schema: &Value) -> Option<String> {
    let fields = schema.get("properties").and_then(Value::as_object).filter(|map| !map.is_empty())?;
    let mut table = String::from("| field | type | needed | meaning |\n|---|---|---|---|\n");
    for (name, field) in fields {
        let needed = if is_required(schema, name) { "yes" } else { "" };
        let meaning = field.get("description").and_then(Value::as_str).unwrap_or("");
        // Writing to a String cannot fail.
        writeln!(table, "| `{name}` | {} | {needed} | {} |", cell(&type_text(field)), cell(meaning))
            .expect("string write");
    }
    Some(table)
}

fn is_required(schema: &Value, name: &str) -> bool {
    let required = schema.get("required").and_then(Value::as_array);
    required.is_some_and(|names| names.iter().any(|required| required == name))
}

/// The type of a field in a few words.
pub(super) fn type_text(schema: &Value) -> String {
    let Some(map) = schema.as_object() else { return "any JSON value".to_owned() };
    if let Some(name) = map.get("$ref").and_then(Value::as_str).and_then(ref_name) {
        return format!("[{name}](#{})", name.to_lowercase());
    }
    if let Some(value) = map.get("const") {
        return format!("`{value}`");
    }
    if let Some(values) = map.get("enum").and_then(Value::as_array) {
        return code_list(values.iter());
    }
    for union in ["anyOf", "oneOf"] {
        if let Some(variants) = map.get(union).and_then(Value::as_array) {
            let named: Vec<String> = variants.iter().filter(|one| !is_null(one)).map(type_text).collect();
            return named.join(" or ");
        }
    }
    match base_type(map) {
        "string" => string_text(map),
        "integer" => integer_text(map),
        "array" => {
            let items = map.get("items").map_or_else(|| "any JSON value".to_owned(), type_text);
            format!("list of {items}{}", bounds(map, "minItems", "maxItems"))
        }
        "boolean" => "`true` or `false`".to_owned(),
        "object" => "JSON object".to_owned(),
        "number" => "number".to_owned(),
        _ => "any JSON value".to_owned(),
    }
}

/// The name in `#/$defs/NAME`.
pub(super) fn ref_name(reference: &str) -> Option<&str> {
    reference.strip_prefix("#/$defs/")
}

/// Values in code marks, separated by commas.
pub(super) fn code_list<'a>(values: impl Iterator<Item = &'a Value>) -> String {
    let quoted: Vec<String> = values
        .map(|value| format!("`{}`", value.as_str().map_or_else(|| value.to_string(), str::to_owned)))
        .collect();
    quoted.join(", ")
}

fn is_null(schema: &Value) -> bool {
    schema.get("type").is_some_and(|kind| kind == "null")
}

fn base_type(map: &Map<String, Value>) -> &str {
    match map.get("type") {
        Some(Value::String(name)) => name,
        Some(Value::Array(names)) => {
            names.iter().filter_map(Value::as_str).find(|name| *name != "null").unwrap_or("")
        }
        Some(Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_)) | None => "",
    }
}

fn string_text(map: &Map<String, Value>) -> String {
    if map.get("format").is_some_and(|format| format == "date-time") {
        return "time, RFC 3339".to_owned();
    }
    let Some(pattern) = map.get("pattern").and_then(Value::as_str) else { return "text".to_owned() };
    if pattern.starts_with("^sha256:") {
        return "digest `sha256:...`".to_owned();
    }
    match pattern.strip_prefix('^').and_then(|rest| rest.split_once("[0-9a-hjkmnp-tv-z]")) {
        Some((prefix, _)) => format!("id `{prefix}...`"),
        None => format!("text, `{pattern}`"),
    }
}

fn integer_text(map: &Map<String, Value>) -> String {
    let (min, max) = (map.get("minimum"), map.get("maximum"));
    match (min, max) {
        (Some(min), Some(max)) if min == max => format!("`{min}`"),
        (Some(min), Some(max)) => format!("integer, {min} to {max}"),
        (Some(min), None) => format!("integer from {min}"),
        (None, Some(max)) => format!("integer up to {max}"),
        (None, None) => "integer".to_owned(),
    }
}

fn bounds(map: &Map<String, Value>, min: &str, max: &str) -> String {
    match (map.get(min), map.get(max)) {
        (Some(min), Some(max)) => format!(", {min} to {max}"),
        (Some(min), None) => format!(", at least {min}"),
        (None, Some(max)) => format!(", at most {max}"),
        (None, None) => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn check(schema: Value, expected: &str) {
        assert_eq!(type_text(&schema), expected);
    }

    #[test]
    fn types_read_as_words() {
        check(json!({"$ref": "#/$defs/EdgeCause"}), "[EdgeCause](#edgecause)");
        check(json!({"const": "set", "type": "string"}), "`\"set\"`");
        check(json!({"enum": ["a", "b"], "type": "string"}), "`a`, `b`");
        check(json!({"anyOf": [{"$ref": "#/$defs/A"}, {"type": "null"}]}), "[A](#a)");
        check(
            json!({"type": ["string", "null"], "pattern": "^sess_[0-9a-hjkmnp-tv-z]{16}$"}),
            "id `sess_...`",
        );
        check(json!({"type": "string", "pattern": "^sha256:[0-9a-f]{64}$"}), "digest `sha256:...`");
        check(json!({"type": "string", "pattern": "^[a-z]+$"}), "text, `^[a-z]+$`");
        check(json!({"type": "integer", "minimum": 1, "maximum": 1}), "`1`");
        check(
            json!({"type": "array", "items": {"type": "string"}, "maxItems": 3}),
            "list of text, at most 3",
        );
        check(json!(true), "any JSON value");
    }

    #[test]
    fn a_table_marks_required_fields_and_escapes_its_separator() {
        let schema = json!({
            "properties": { "b": { "type": "string", "pattern": "^(x|y)$" }, "a": { "type": "boolean" } },
            "required": ["b"],
        });
        let table = field_table(&schema).unwrap();
        let rows: Vec<&str> = table.lines().skip(2).collect();
        assert_eq!(rows, ["| `a` | `true` or `false` |  |  |", "| `b` | text, `^(x\\|y)$` | yes |  |"]);
        assert_eq!(field_table(&json!({"type": "object"})), None);
    }
}
