//! Evaluates conditions on context values, with the lenient equality that existing files rely on.
//!
//! Total: every expression gives an answer on every context; a malformed part that evaluation reaches makes the
//! whole false.
//! The rules are those of JavaScript where files depend on them (G44).

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde_json::Value;
use workrail_model::canonical::value_to_canonical;
use workrail_model::compiled::Expr;
use workrail_model::event::Context;

/// The values a condition or a prompt may read: the context, overlaid with loop variables.
#[derive(Clone, Debug)]
pub struct ValueScope<'a> {
    context: &'a Context,
    overlay: BTreeMap<&'a str, Overlaid<'a>>,
    is_secret: fn(&str) -> bool,
}

#[derive(Clone, Debug)]
enum Overlaid<'a> {
    Own(Value),
    /// An item of the list under this context key; never copied, because lists may be long.
    Item {
        value: &'a Value,
        context_key: &'a str,
    },
}

static NOTHING: Value = Value::Null;

impl<'a> ValueScope<'a> {
    pub fn new(context: &'a Context) -> Self {
        Self { context, overlay: BTreeMap::new(), is_secret: |_| false }
    }

    /// The same values, except those under secret keys: prompts and titles withhold them.
    pub(crate) fn withholding(self, is_secret: fn(&str) -> bool) -> Self {
        Self { is_secret, ..self }
    }

    pub(crate) fn set(&mut self, name: &'a str, value: Value) {
        self.overlay.insert(name, Overlaid::Own(value));
    }

    /// Overlays the scope with an item of a context list.
    pub(crate) fn set_item(&mut self, name: &'a str, value: Option<&'a Value>, context_key: &'a str) {
        self.overlay.insert(name, Overlaid::Item { value: value.unwrap_or(&NOTHING), context_key });
    }

    /// A flat lookup: dots are part of the key.
    pub(crate) fn get(&self, key: &str) -> Option<&Value> {
        match self.overlay.get(key) {
            Some(Overlaid::Own(value)) => Some(value),
            Some(Overlaid::Item { value, .. }) => Some(value),
            None => self.context.get(key),
        }
    }

    /// The context key that a variable's value comes from.
    pub(crate) fn context_key<'s>(&'s self, name: &'s str) -> &'s str {
        match self.overlay.get(name) {
            Some(Overlaid::Item { context_key, .. }) => context_key,
            Some(Overlaid::Own(_)) | None => name,
        }
    }

    /// Whether a path of names leads to a value that must not be shown.
    pub(crate) fn withholds(&self, path: &str) -> bool {
        let root = path.split('.').next().unwrap_or(path);
        (self.is_secret)(self.context_key(root)) || path.split('.').any(self.is_secret)
    }
}

/// The condition's answer. A malformed part that evaluation reaches makes the whole false.
pub fn holds(expr: &Expr, scope: &ValueScope<'_>) -> bool {
    eval(expr, scope).unwrap_or(false)
}

/// A malformed part was reached.
struct Malformed;

fn eval(expr: &Expr, scope: &ValueScope<'_>) -> Result<bool, Malformed> {
    let ordered = |var: &str, bound: &Value, test: fn(f64, f64) -> bool| {
        let value = scope.get(var).filter(|value| value.is_number()).and_then(Value::as_f64);
        value.zip(bound.as_f64()).is_some_and(|(value, bound)| test(value, bound))
    };
    Ok(match expr {
        Expr::Always => true,
        Expr::Malformed => return Err(Malformed),
        Expr::Truthy { var } => is_truthy(scope.get(var)),
        Expr::Equals { var, value } => lenient_equals(scope.get(var), value),
        Expr::NotEquals { var, value } => !lenient_equals(scope.get(var), value),
        Expr::Gt { var, value } => ordered(var, value, |a, b| a > b),
        Expr::Gte { var, value } => ordered(var, value, |a, b| a >= b),
        Expr::Lt { var, value } => ordered(var, value, |a, b| a < b),
        Expr::Lte { var, value } => ordered(var, value, |a, b| a <= b),
        Expr::Contains { var, value } => {
            comparable_text(&js_string(scope.get(var))).contains(&comparable_text(&js_string(Some(value))))
        }
        Expr::In { var, values } => {
            let found = scope.get(var);
            values.iter().any(|value| lenient_equals(found, value))
        }
        Expr::And { all } => {
            for part in all {
                if !eval(part, scope)? {
                    return Ok(false);
                }
            }
            true
        }
        Expr::Or { any } => {
            for part in any {
                if eval(part, scope)? {
                    return Ok(true);
                }
            }
            false
        }
        Expr::Not { inner } => !eval(inner, scope)?,
    })
}

fn is_truthy(value: Option<&Value>) -> bool {
    match value {
        None | Some(Value::Null) => false,
        Some(Value::Bool(flag)) => *flag,
        Some(Value::Number(number)) => number.as_f64().is_some_and(|number| number != 0.0),
        Some(Value::String(text)) => !text.is_empty(),
        Some(Value::Array(_) | Value::Object(_)) => true,
    }
}

/// Missing and `null` equal each other and nothing else; lists and objects equal nothing.
fn lenient_equals(found: Option<&Value>, wanted: &Value) -> bool {
    let found = found.unwrap_or(&Value::Null);
    match (found, wanted) {
        (Value::Null, Value::Null) => true,
        (Value::String(a), Value::String(b)) => comparable_text(a) == comparable_text(b),
        (Value::String(text), Value::Number(number)) | (Value::Number(number), Value::String(text)) => {
            js_number(text).zip(number.as_f64()).is_some_and(|(a, b)| a == b)
        }
        (Value::String(text), Value::Bool(flag)) | (Value::Bool(flag), Value::String(text)) => {
            let word = comparable_text(text);
            if *flag {
                matches!(word.as_str(), "true" | "1" | "yes")
            } else {
                matches!(word.as_str(), "false" | "0" | "no")
            }
        }
        (Value::Number(a), Value::Number(b)) => a.as_f64() == b.as_f64(),
        (Value::Bool(a), Value::Bool(b)) => a == b,
        (Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_), _)
        | (Value::Array(_) | Value::Object(_), _) => false,
    }
}

pub(crate) fn comparable_text(text: &str) -> String {
    js_trim(text).to_lowercase()
}

/// What JavaScript's `trim` removes, which is not quite Rust's white space.
fn js_trim(text: &str) -> &str {
    text.trim_matches(|c: char| {
        matches!(
            c,
            '\t' | '\n' | '\u{b}' | '\u{c}' | '\r' | ' ' | '\u{a0}' | '\u{1680}' | '\u{2000}'
                ..='\u{200a}' | '\u{2028}' | '\u{2029}' | '\u{202f}' | '\u{205f}' | '\u{3000}' | '\u{feff}'
        )
    })
}

/// JavaScript's `Number(text)`; `None` for NaN.
fn js_number(text: &str) -> Option<f64> {
    let text = js_trim(text);
    if text.is_empty() {
        return Some(0.0);
    }
    for (prefix, radix) in [("0x", 16), ("0b", 2), ("0o", 8)] {
        if let Some(digits) = text.strip_prefix(prefix).or_else(|| text.strip_prefix(&prefix.to_uppercase()))
        {
            // `from_str_radix` would accept a sign.
            let plain = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
            return u64::from_str_radix(digits, radix).ok().filter(|_| plain).map(|number| number as f64);
        }
    }
    match text {
        "Infinity" | "+Infinity" => return Some(f64::INFINITY),
        "-Infinity" => return Some(f64::NEG_INFINITY),
        _ => {}
    }
    let decimal = text.bytes().all(|byte| byte.is_ascii_digit() || b"+-.eE".contains(&byte));
    text.parse().ok().filter(|_| decimal)
}

/// JavaScript's `String(value)`, with an empty text for a missing value.
pub(crate) fn js_string(value: Option<&Value>) -> Cow<'_, str> {
    match value {
        None | Some(Value::Null) => Cow::Borrowed(""),
        Some(Value::Bool(true)) => Cow::Borrowed("true"),
        Some(Value::Bool(false)) => Cow::Borrowed("false"),
        Some(number @ Value::Number(plain)) => Cow::Owned(
            // The canonical form prints numbers as JavaScript does.
            value_to_canonical(number)
                .ok()
                .and_then(|bytes| String::from_utf8(bytes).ok())
                .unwrap_or_else(|| plain.to_string()),
        ),
        Some(Value::String(text)) => Cow::Borrowed(text),
        Some(Value::Array(items)) => {
            Cow::Owned(items.iter().map(|item| js_string(Some(item))).collect::<Vec<_>>().join(","))
        }
        Some(Value::Object(_)) => Cow::Borrowed("[object Object]"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use test_case::test_case;

    fn context(value: Value) -> Context {
        Context::new(value.as_object().unwrap().clone()).unwrap()
    }

    #[test_case(json!(null), json!(null), true; "null is null")]
    #[test_case(json!(null), json!(""), false; "null is not empty text")]
    #[test_case(json!(" Small "), json!("sMALL"), true; "text is trimmed and folded")]
    #[test_case(json!("\u{feff}x"), json!("x"), true; "a byte order mark is white space")]
    #[test_case(json!("\u{85}x"), json!("x"), false; "next line is not")]
    #[test_case(json!("3.0"), json!(3), true; "numeric text")]
    #[test_case(json!(""), json!(0), true; "empty text is zero")]
    #[test_case(json!("0x10"), json!(16), true; "hexadecimal")]
    #[test_case(json!("nan"), json!(0), false; "nan spelled out")]
    #[test_case(json!("inf"), json!(1), false; "inf spelled out")]
    #[test_case(json!("YES"), json!(true), true; "yes is true")]
    #[test_case(json!(false), json!(" no "), true; "no is false")]
    #[test_case(json!("2"), json!(true), false; "two is not true")]
    #[test_case(json!(1), json!(true), false; "number is not boolean")]
    #[test_case(json!(1.0), json!(1), true; "one is one")]
    #[test_case(json!([]), json!([]), false; "lists equal nothing")]
    #[test_case(json!({}), json!({}), false; "objects equal nothing")]
    fn equality(found: Value, wanted: Value, equal: bool) {
        assert_eq!(lenient_equals(Some(&found), &wanted), equal);
        assert_eq!(lenient_equals(Some(&wanted), &found), equal, "symmetric");
    }

    #[test]
    fn a_missing_variable_equals_null_only() {
        assert!(lenient_equals(None, &json!(null)));
        assert!(!lenient_equals(None, &json!("")));
        let context = context(json!({}));
        let expr = Expr::NotEquals { var: "taskComplexity".into(), value: json!("Small") };
        assert!(holds(&expr, &ValueScope::new(&context)));
    }

    #[test_case(json!(["alpha", "Beta"]), json!("a,b"), true; "joined list")]
    #[test_case(json!({"k": 1}), json!("object obj"), true; "objects print as objects")]
    #[test_case(json!(null), json!(""), true; "nothing contains nothing")]
    #[test_case(json!(12.50), json!("12.5"), true; "numbers print as in javascript")]
    #[test_case(json!("abc"), json!("d"), false; "absent")]
    fn contains(found: Value, wanted: Value, expected: bool) {
        let context = context(json!({ "v": found }));
        let expr = Expr::Contains { var: "v".into(), value: wanted };
        assert_eq!(holds(&expr, &ValueScope::new(&context)), expected);
    }

    #[test]
    fn order_needs_json_numbers() {
        let context = context(json!({ "n": 3, "s": "3" }));
        let scope = ValueScope::new(&context);
        assert!(holds(&Expr::Gte { var: "n".into(), value: json!(3) }, &scope));
        assert!(!holds(&Expr::Gte { var: "s".into(), value: json!(3) }, &scope));
    }

    #[test]
    fn a_malformed_part_counts_only_when_reached() {
        let context = context(json!({}));
        let scope = ValueScope::new(&context);
        let or = |any| Expr::Or { any };
        assert!(holds(&or(vec![Expr::Always, Expr::Malformed]), &scope));
        assert!(!holds(&or(vec![Expr::Malformed, Expr::Always]), &scope));
        assert!(!holds(&Expr::Not { inner: Box::new(Expr::Malformed) }, &scope), "false as a whole");
    }

    #[test]
    fn empty_and_is_true_empty_or_is_false() {
        let context = context(json!({}));
        let scope = ValueScope::new(&context);
        assert!(holds(&Expr::And { all: vec![] }, &scope));
        assert!(!holds(&Expr::Or { any: vec![] }, &scope));
    }

    #[test_case(json!(0), false)]
    #[test_case(json!(""), false)]
    #[test_case(json!([]), true)]
    #[test_case(json!({}), true)]
    #[test_case(json!("0"), true)]
    fn truthiness(value: Value, expected: bool) {
        let context = context(json!({ "v": value }));
        assert_eq!(holds(&Expr::Truthy { var: "v".into() }, &ValueScope::new(&context)), expected);
    }
}
