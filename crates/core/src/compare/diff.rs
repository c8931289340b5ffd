//! Differences between two texts line by line, and between two JSON values field by field.

use serde_json::Value;
use similar::{Algorithm, DiffOp, capture_diff_slices, group_diff_ops};
use workrail_model::text::truncate_with_marker;

use super::{DiffLine, FieldDifference};

/// Lines of one text that are compared: the time grows with the square of what differs.
const LINES_MAX: usize = 2_000;
/// Equal lines shown around a difference.
const LINES_AROUND: usize = 3;
/// Fields of one artifact that are listed.
const FIELDS_MAX: usize = 200;
/// A longer value is shown by its beginning.
const VALUE_BYTES_MAX: usize = 2_000;

/// The lines in which two texts differ, with some context; empty for equal texts.
pub fn lines(a: &str, b: &str) -> Vec<DiffLine> {
    if a == b {
        return Vec::new();
    }
    let (all_a, all_b): (Vec<&str>, Vec<&str>) = (a.lines().collect(), b.lines().collect());
    if all_a == all_b {
        return vec![DiffLine::Skipped { lines: all_a.len() as u64 }, DiffLine::OnlyLineEnds];
    }
    // Equal lines at both ends cost nothing, so that a change is found wherever it is in a long text.
    let same = |pairs: &mut dyn Iterator<Item = (&&str, &&str)>| pairs.take_while(|(a, b)| a == b).count();
    let before = same(&mut all_a.iter().zip(&all_b));
    let after = same(&mut all_a[before..].iter().rev().zip(all_b[before..].iter().rev()));
    let start = before.saturating_sub(LINES_AROUND);
    let context_after = after.min(LINES_AROUND);
    let between = |all: &[&'_ str]| all.len() - after + context_after - start;
    let compared = |all: &[&str]| start..start + between(all).min(LINES_MAX);
    let (a, b) = (&all_a[compared(&all_a)], &all_b[compared(&all_b)]);
    let mut found = Vec::new();
    let mut seen = 0;
    let skip = |found: &mut Vec<DiffLine>, lines: usize| {
        if lines > 0 {
            found.push(DiffLine::Skipped { lines: lines as u64 });
        }
    };
    for group in group_diff_ops(capture_diff_slices(Algorithm::Myers, a, b), LINES_AROUND) {
        for operation in group {
            skip(&mut found, (start + operation.old_range().start).saturating_sub(seen));
            seen = start + operation.old_range().end;
            operation_lines(&operation, (a, b), &mut found);
        }
    }
    let left = between(&all_a).max(between(&all_b)).saturating_sub(LINES_MAX);
    if left > 0 {
        found.push(DiffLine::NotCompared { lines: left as u64 });
    } else {
        skip(&mut found, all_a.len().saturating_sub(seen));
    }
    found
}

fn operation_lines(operation: &DiffOp, (a, b): (&[&str], &[&str]), found: &mut Vec<DiffLine>) {
    let owned = |line: &&str| (*line).to_owned();
    let (old, new) = (&a[operation.old_range()], &b[operation.new_range()]);
    match operation {
        DiffOp::Equal { .. } => found.extend(old.iter().map(|line| DiffLine::Both { text: owned(line) })),
        DiffOp::Delete { .. } | DiffOp::Insert { .. } | DiffOp::Replace { .. } => {
            found.extend(old.iter().map(|line| DiffLine::A { text: owned(line) }));
            found.extend(new.iter().map(|line| DiffLine::B { text: owned(line) }));
        }
    }
}

/// The fields in which two values differ, and how many more there are.
pub(super) fn fields(a: Option<&Value>, b: Option<&Value>) -> (Vec<FieldDifference>, u64) {
    let mut found = FieldDifferences::default();
    found.at(String::new(), a, b);
    (found.listed, found.left_out)
}

#[derive(Debug, Default)]
struct FieldDifferences {
    listed: Vec<FieldDifference>,
    left_out: u64,
}

impl FieldDifferences {
    fn at(&mut self, path: String, a: Option<&Value>, b: Option<&Value>) {
        match (a, b) {
            (Some(a), Some(b)) if a == b => {}
            (Some(Value::Object(a)), Some(Value::Object(b))) => {
                for key in a.keys().chain(b.keys().filter(|key| !a.contains_key(*key))) {
                    self.at(member(&path, key), a.get(key), b.get(key));
                }
            }
            (Some(Value::Array(a)), Some(Value::Array(b))) => {
                for index in 0..a.len().max(b.len()) {
                    self.at(format!("{path}[{index}]"), a.get(index), b.get(index));
                }
            }
            (None, None) => {}
            (a, b) => self.list(path, a, b),
        }
    }

    fn list(&mut self, path: String, a: Option<&Value>, b: Option<&Value>) {
        if self.listed.len() == FIELDS_MAX {
            self.left_out += 1;
            return;
        }
        self.listed.push(FieldDifference { path, a: a.map(shortened), b: b.map(shortened) });
    }
}

fn member(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}

fn shortened(value: &Value) -> Value {
    let text = match value {
        Value::String(text) => text.clone(),
        Value::Null | Value::Bool(_) | Value::Number(_) => return value.clone(),
        Value::Array(_) | Value::Object(_) => value.to_string(),
    };
    match text.len() > VALUE_BYTES_MAX {
        true => Value::String(truncate_with_marker(&text, VALUE_BYTES_MAX).into_owned()),
        false => value.clone(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn drawn(a: &str, b: &str) -> Vec<String> {
        let line = |line: DiffLine| match line {
            DiffLine::Both { text } => format!(" {text}"),
            DiffLine::A { text } => format!("-{text}"),
            DiffLine::B { text } => format!("+{text}"),
            DiffLine::Skipped { lines } => format!("({lines})"),
            DiffLine::NotCompared { lines } => format!("!{lines}"),
            DiffLine::OnlyLineEnds => "!ends".to_owned(),
        };
        lines(a, b).into_iter().map(line).collect()
    }

    #[test]
    fn lines_far_from_a_difference_are_counted() {
        let a: String = (1..=12).map(|n| format!("{n}\n")).collect();
        let b = a.replace("6\n", "six\n");
        assert_eq!(drawn(&a, &b), ["(2)", " 3", " 4", " 5", "-6", "+six", " 7", " 8", " 9", "(3)"]);
        assert!(drawn(&a, &a).is_empty());
        assert_eq!(drawn("", "x\ny"), ["+x", "+y"]);
    }

    #[test]
    fn long_texts_are_compared_up_to_the_limit() {
        let (a, b) = ("a\n".repeat(LINES_MAX + 7), "b\n".repeat(LINES_MAX));
        let lines = drawn(&a, &b);
        assert_eq!((lines.len(), lines.last().map(String::as_str)), (2 * LINES_MAX + 1, Some("!7")));
    }

    #[test]
    fn a_change_far_down_in_a_long_text_is_shown() {
        let a: String = (1..=3 * LINES_MAX).map(|n| format!("{n}\n")).collect();
        let b = a.replace("\n5000\n", "\nfive\n");
        let lines =
            ["(4996)", " 4997", " 4998", " 4999", "-5000", "+five", " 5001", " 5002", " 5003", "(997)"];
        assert_eq!(drawn(&a, &b), lines);
        assert_eq!(drawn("a\na\na\n", "a\n"), [" a", "-a", "-a"]);
        assert_eq!(drawn("a\n", "a\nb\na\n"), [" a", "+b", "+a"]);
    }

    #[test]
    fn texts_that_differ_only_in_line_endings_say_so() {
        assert_eq!(drawn("a\nb\n", "a\r\nb"), ["(2)", "!ends"]);
        assert_eq!(drawn("a\n", "a"), ["(1)", "!ends"]);
        assert_eq!(drawn("a\r\nb", "a\nc"), [" a", "-b", "+c"]);
    }

    #[test]
    fn values_differ_field_by_field() {
        let a = json!({ "level": 1, "list": [{ "x": 1 }, 2], "gone": null, "same": "s" });
        let b = json!({ "level": "1", "list": [{ "x": 2 }], "new": [1], "same": "s" });
        let (listed, left_out) = fields(Some(&a), Some(&b));
        let lines: Vec<_> =
            listed.iter().map(|field| (field.path.as_str(), field.a.clone(), field.b.clone())).collect();
        let expected = [
            ("gone", Some(json!(null)), None),
            ("level", Some(json!(1)), Some(json!("1"))),
            ("list[0].x", Some(json!(1)), Some(json!(2))),
            ("list[1]", Some(json!(2)), None),
            ("new", None, Some(json!([1]))),
        ];
        assert_eq!(lines, expected);
        assert_eq!(left_out, 0);
    }

    #[test]
    fn many_fields_and_long_values_are_truncated() {
        let many: Vec<u32> = (0..FIELDS_MAX as u32 + 5).collect();
        let long = json!("x".repeat(VALUE_BYTES_MAX + 1));
        let (listed, left_out) = fields(Some(&json!(many)), Some(&json!([])));
        assert_eq!((listed.len(), left_out), (FIELDS_MAX, 5));
        let (listed, _) = fields(Some(&long), None);
        assert!(
            listed[0].a.as_ref().and_then(Value::as_str).is_some_and(|text| text.len() == VALUE_BYTES_MAX)
        );
    }
}
