//! How a model gets a string wrong: cut, changed, re-cased, doubled, wrapped.

use serde_json::Value;
use workrail_testkit::mcp_client::ToolReply;

use crate::support::label;

/// Prefixes of `text`, of every length.
pub(crate) fn cut(text: &str) -> impl Iterator<Item = String> {
    text.char_indices().map(|(at, _)| text[..at].to_owned())
}

/// Every other single mistake in `text`; none of them is `text` itself.
pub(crate) fn slips(text: &str) -> Vec<String> {
    let chars: Vec<char> = text.chars().collect();
    let joined = |parts: [&[char]; 3]| parts.concat().into_iter().collect::<String>();
    let mut wrong = Vec::new();
    for at in 0..chars.len() {
        let (before, here, after) = (&chars[..at], chars[at], &chars[at + 1..]);
        wrong.push(joined([before, &[], after]));
        wrong.push(joined([before, &[neighbour(here)], after]));
        wrong.push(joined([before, &[here, here], after]));
        wrong.push(joined([before, &[swapped_case(here)], after]));
        if let Some((next, rest)) = after.split_first() {
            wrong.push(joined([before, &[*next, here], rest]));
        }
    }
    wrong.extend([
        text.to_uppercase(),
        format!("{text}{text}"),
        format!("{text} {text}"),
        format!("\"{text}\""),
        format!("`{text}`"),
        format!("{text}..."),
        format!("{text}\u{0}"),
        format!("<{text}>"),
        chars.iter().rev().collect(),
    ]);
    wrong.retain(|wrong| wrong != text);
    wrong
}

fn neighbour(c: char) -> char {
    match c {
        'z' => 'a',
        '9' => '0',
        '0'..='8' | 'a'..='y' => char::from_u32(u32::from(c) + 1).unwrap_or(c),
        _ => 'x',
    }
}

fn swapped_case(c: char) -> char {
    if c.is_ascii_lowercase() { c.to_ascii_uppercase() } else { c.to_ascii_lowercase() }
}

/// The same mistake in the calls of another run, so that its effects do not touch the next one.
pub(crate) fn renew(value: &mut Value, from: &ToolReply, to: &ToolReply) {
    match value {
        Value::String(text) => {
            for token in ["ackToken", "stateToken", "checkpointToken"] {
                if *text == from.string(token) {
                    *text = to.string(token);
                }
            }
            if *text == label(from) {
                *text = label(to);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| renew(item, from, to)),
        Value::Object(members) => members.values_mut().for_each(|member| renew(member, from, to)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}
