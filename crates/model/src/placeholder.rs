//! The placeholders that replies, errors and suggested calls show in place of the caller's own words.
//!
//! An agent that sends one back has supplied nothing: it is never accepted as notes, an artifact's text or a context
//! value (G55). Every placeholder is made here, so that all of them are recognised.

use serde_json::Value;

/// In the call that completes a step.
pub const STEP_NOTES: &str = "<what you did in this step>";
/// In a corrected call whose notes were too long.
pub const SHORTER_STEP_NOTES: &str = "<the same in fewer words: what you did in this step>";
/// In the call that makes a checkpoint.
pub const CHECKPOINT_NOTES: &str = "<what is done, what is next>";
/// In the call that adds notes to a session.
pub const SESSION_NOTES: &str = "<what is worth keeping>";

/// In the artifact that closes a gap.
pub const GAP_ID: &str = "<id of the gap>";
pub const GAP_SUMMARY: &str = "<how the gap was closed>";

/// In the fields of an artifact and in context values that the caller fills in.
pub const YOUR_TEXT: &str = "<your text>";
pub const A_NUMBER: &str = "<a number>";
pub const TRUE_OR_FALSE: &str = "<true or false, without quotes>";
pub const AN_ITEM: &str = "<one item>";
pub const USERS_ANSWER: &str = "<the user's answer>";
/// In the call that reads a run, if it is unknown which one.
pub const RUN_LABEL: &str = "<the run's label, from the user>";

const FIXED: [&str; 12] = [
    RUN_LABEL,
    STEP_NOTES,
    SHORTER_STEP_NOTES,
    CHECKPOINT_NOTES,
    SESSION_NOTES,
    GAP_ID,
    GAP_SUMMARY,
    YOUR_TEXT,
    A_NUMBER,
    TRUE_OR_FALSE,
    AN_ITEM,
    USERS_ANSWER,
];
const WHOLE_NUMBER_START: &str = "<a whole number";
const ONE_OF_START: &str = "<one of: ";
const TEXT_LIKE_START: &str = "<text like ";
const TEXT_OF_START: &str = "<your text, ";
/// No longer printed; stored replies may still contain them.
const FORMER: [&str; 3] = ["<id>", "<how>", "<true or false>"];
const LONG_TEXT_START: &str = "<your text of ";
const LONG_TEXT_END: &str = " bytes>";
/// A placeholder with all its decoration is not longer than this; longer texts are not checked.
const DECORATED_BYTES_MAX: usize = 2048;

/// Represents a text by the caller that is too long to be repeated.
pub fn long_text(bytes: usize) -> String {
    format!("{LONG_TEXT_START}{bytes}{LONG_TEXT_END}")
}

/// Represents one of these values, so that none of them is the easy answer.
pub fn one_of<T: AsRef<str>>(values: &[T]) -> String {
    let values: Vec<&str> = values.iter().map(AsRef::as_ref).collect();
    format!("{ONE_OF_START}{}>", values.join(" | "))
}

/// Represents an integer within these limits.
pub fn whole_number(least: Option<i64>, most: Option<i64>) -> String {
    match (least, most) {
        (Some(least), Some(most)) => format!("{WHOLE_NUMBER_START} from {least} to {most}>"),
        (Some(least), None) => format!("{WHOLE_NUMBER_START}, at least {least}>"),
        (None, Some(most)) => format!("{WHOLE_NUMBER_START}, at most {most}>"),
        (None, None) => format!("{WHOLE_NUMBER_START}>"),
    }
}

/// Represents a text of at least and at most this many characters; a minimum of one goes without saying.
pub fn text_of(least: Option<u64>, most: Option<u64>) -> String {
    match (least.filter(|least| *least > 1), most) {
        (None, None) => YOUR_TEXT.to_owned(),
        (Some(least), None) => format!("{TEXT_OF_START}at least {least} characters>"),
        (None, Some(most)) => format!("{TEXT_OF_START}at most {most} characters>"),
        (Some(least), Some(most)) => format!("{TEXT_OF_START}{least} to {most} characters>"),
    }
}

/// The placeholder without its limits.
pub fn without_limits(placeholder: &str) -> &str {
    if placeholder.starts_with(TEXT_OF_START) {
        YOUR_TEXT
    } else if placeholder.starts_with(WHOLE_NUMBER_START) {
        A_NUMBER
    } else {
        placeholder
    }
}

/// Represents a text that matches this pattern.
pub fn text_like(pattern: &str) -> String {
    format!("{TEXT_LIKE_START}{pattern}>")
}

/// Whether a text is one of our placeholders and nothing else. Quotes, Markdown, escapes, white space and a full stop
/// around it do not make it the caller's own words.
pub fn is_placeholder(text: &str) -> bool {
    if !may_contain_one(text) {
        return false;
    }
    let bare = undecorated(text);
    let is_long_text = || {
        let bytes = bare.strip_prefix(LONG_TEXT_START)?.strip_suffix(LONG_TEXT_END)?;
        Some(!bytes.is_empty() && bytes.bytes().all(|byte| byte.is_ascii_digit()))
    };
    let begins = [ONE_OF_START, TEXT_LIKE_START].iter().any(|start| bare.starts_with(start));
    let is_choice = begins && bare.ends_with('>') && bare.matches('<').count() == 1;
    is_choice
        || is_limited(&bare)
        || FIXED.contains(&bare.as_str())
        || FORMER.contains(&bare.as_str())
        || is_long_text() == Some(true)
}

/// Words before a colon that name the notes and say nothing.
const LABELS: [&str; 7] = ["note", "notes", "notesmarkdown", "output", "step notes", "summary", "text"];
/// Tags of HTML that only lay a text out.
const LAYOUT_TAGS: [&str; 22] = [
    "b",
    "blockquote",
    "br",
    "br/",
    "code",
    "div",
    "em",
    "h1",
    "h2",
    "h3",
    "h4",
    "h5",
    "h6",
    "i",
    "li",
    "ol",
    "p",
    "pre",
    "section",
    "span",
    "strong",
    "ul",
];

/// Whether notes consist only of our placeholders: one or several, with Markdown headings, list numbers, layout tags,
/// labels such as `Notes:` and punctuation around them, or as the strings of a JSON text. Any other word outside the
/// headings makes them the caller's own.
pub fn are_placeholder_notes(notes: &str) -> bool {
    if is_placeholder(notes) {
        return true;
    }
    if !may_contain_one(notes) {
        return false;
    }
    if let Ok(value @ (Value::Object(_) | Value::Array(_))) = serde_json::from_str(notes) {
        return holds_only_placeholders(&value) == Some(true);
    }
    let plain = unescaped(notes);
    let (headings, body): (Vec<&str>, Vec<&str>) = plain.lines().partition(|line| is_heading(line));
    let has_words = |text: &str| text.chars().any(char::is_alphanumeric);
    let mut has_placeholder = headings.into_iter().any(is_placeholder);
    let body = body.join("\n");
    let mut rest = body.as_str();
    while let Some((before, begun)) = rest.split_once('<') {
        let Some((inner, after)) = begun.split_once('>') else { return false };
        if !says_nothing(before) {
            return false;
        }
        rest = after;
        if LAYOUT_TAGS.contains(&inner.trim_start_matches('/').trim()) {
            continue;
        }
        if !is_placeholder(&format!("<{inner}>")) {
            return false;
        }
        has_placeholder = true;
    }
    has_placeholder && !has_words(rest)
}

/// Whether all strings of a JSON value are placeholders; `None` if it has none. A number or a truth value is the caller's
/// own.
fn holds_only_placeholders(value: &Value) -> Option<bool> {
    let all = |mut parts: Box<dyn Iterator<Item = &Value> + '_>| {
        parts.try_fold(None, |known, part| match holds_only_placeholders(part) {
            Some(false) => Err(()),
            found => Ok(found.or(known)),
        })
    };
    match value {
        Value::Null => None,
        Value::Bool(_) | Value::Number(_) => Some(false),
        Value::String(text) => Some(are_placeholder_notes(text)),
        Value::Array(items) => all(Box::new(items.iter())).unwrap_or(Some(false)),
        Value::Object(members) => all(Box::new(members.values())).unwrap_or(Some(false)),
    }
}

/// Whether a text before a placeholder holds nothing but punctuation, list numbers and one of the labels.
fn says_nothing(before: &str) -> bool {
    let is_list_number = |word: &&str| {
        let digits = word.trim_end_matches(['.', ')']);
        digits.len() < word.len() && digits.len() <= 3 && digits.bytes().all(|byte| byte.is_ascii_digit())
    };
    let words = before.split_whitespace().filter(|word| !is_list_number(word));
    let words =
        words.map(|word| word.trim_matches(|c: char| !c.is_alphanumeric())).filter(|word| !word.is_empty());
    let words: Vec<&str> = words.collect();
    words.is_empty() || (before.contains(':') && LABELS.contains(&words.join(" ").as_str()))
}

/// Whether a text could be a placeholder. Each begins with `<`, plain or escaped; most texts contain none.
fn may_contain_one(text: &str) -> bool {
    let has_start = text.bytes().any(|byte| matches!(byte, b'<' | b'&' | b'\\'));
    has_start && text.trim().len() <= DECORATED_BYTES_MAX
}

/// Whether a line is a heading of Markdown: `#` to `######`, then a space or nothing.
fn is_heading(line: &str) -> bool {
    let line = line.trim();
    let after = line.trim_start_matches('#');
    let level = line.len() - after.len();
    (1..=6).contains(&level) && (after.is_empty() || after.starts_with(char::is_whitespace))
}

/// Whether it is the placeholder of a text or an integer with limits: these words and numbers and nothing else.
fn is_limited(bare: &str) -> bool {
    let shape: String =
        bare.split(|c: char| c.is_ascii_digit() || c == '-').filter(|part| !part.is_empty()).collect();
    const SHAPES: [&str; 7] = [
        "<your text, at least  characters>",
        "<your text, at most  characters>",
        "<your text,  to  characters>",
        "<a whole number>",
        "<a whole number from  to >",
        "<a whole number, at least >",
        "<a whole number, at most >",
    ];
    SHAPES.contains(&shape.as_str())
}

/// The text without escapes, in lower case.
fn unescaped(text: &str) -> String {
    const ESCAPES: [(&str, &str); 8] = [
        ("&amp;", "&"),
        ("&lt;", "<"),
        ("&gt;", ">"),
        ("&quot;", "\""),
        ("&#39;", "'"),
        ("\\u003c", "<"),
        ("\\u003e", ">"),
        ("\\", ""),
    ];
    ESCAPES.iter().fold(text.to_lowercase(), |text, (escaped, plain)| text.replace(escaped, plain))
}

/// The text without escapes and decoration, in lower case, with single spaces.
fn undecorated(text: &str) -> String {
    let text = unescaped(text);
    // A placeholder begins with `<` and ends with `>`: neither is removed at its own end.
    let surrounds = |c: char| !c.is_alphanumeric() && c != '<' && c != '>';
    let text = text.trim_start_matches(|c| surrounds(c) || c == '>').trim_end_matches(surrounds);
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    text.replace("< ", "<").replace(" >", ">")
}

/// The path of the first placeholder inside a value, such as `.findings[0].text`; empty for the value itself.
pub fn placeholder_in(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => is_placeholder(text).then(String::new),
        Value::Array(items) => items
            .iter()
            .enumerate()
            .find_map(|(position, item)| Some(format!("[{position}]{}", placeholder_in(item)?))),
        Value::Object(members) => members.iter().find_map(|(key, member)| {
            let inner = placeholder_in(member)?;
            Some(format!(".{key}{inner}"))
        }),
        Value::Null | Value::Bool(_) | Value::Number(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// G55: quoted, escaped or formatted, a placeholder is recognised.
    #[test]
    fn every_placeholder_is_recognised_and_other_words_are_not() {
        for text in FIXED.into_iter().chain(FORMER).map(str::to_owned).chain([
            long_text(9005),
            one_of(&["small", "large"]),
            text_like("^[0-9]+$"),
            text_of(Some(20), None),
            text_of(Some(1), Some(200)),
            text_of(Some(20), Some(200)),
            whole_number(None, None),
            whole_number(Some(0), Some(100)),
            whole_number(Some(1), None),
            whole_number(None, Some(9)),
        ]) {
            assert!(is_placeholder(&text), "{text}");
            let escaped = text.replace('<', "&lt;").replace('>', "&gt;");
            for decorated in [
                format!(" \"{text}\"\n"),
                format!("{text}."),
                format!("**{text}**"),
                format!("`{text}`"),
                format!("```\n{text}\n```"),
                format!("- {text}"),
                format!("> {text}"),
                format!("\u{201c}{text}\u{201d}"),
                text.replace('<', "\\<").replace('>', "\\>"),
                text.to_uppercase(),
                text.replace(' ', "\n "),
                escaped,
            ] {
                assert!(is_placeholder(&decorated), "{decorated}");
            }
            assert!(!is_placeholder(&format!("{text} and more")), "{text}");
        }
        for text in [
            "",
            "<br>",
            "<your text of bytes>",
            "<your text of many bytes>",
            "what you did in this step",
            "<id> is now a required attribute",
            "Replaced `<how>` by `<why>`.",
            "<p>Done.</p>",
            "Added <what is worth keeping> to the template",
            "Vec<id>",
            "<Your text, translated>",
            "<a whole number of seconds>",
            "<your text, 3 lines>",
            "<>",
        ] {
            assert!(!is_placeholder(text), "{text}");
        }
    }

    /// Broke: a heading above the placeholder, or the placeholder twice, was accepted as notes.
    #[test]
    fn notes_of_placeholders_and_headings_only_are_placeholders() {
        for notes in [
            STEP_NOTES.to_owned(),
            format!("# Notes\n{STEP_NOTES}"),
            format!("## Done\n\n- {STEP_NOTES}\n\n## Next\n\n- {CHECKPOINT_NOTES}\n"),
            format!("{STEP_NOTES}\n{STEP_NOTES}"),
            format!("{STEP_NOTES}{STEP_NOTES}."),
            format!("**{STEP_NOTES}**; `{SESSION_NOTES}`"),
            format!("# Notes\n# {STEP_NOTES}"),
            format!("# Notes\n{}", STEP_NOTES.replace('<', "&lt;").replace('>', "&gt;")),
            format!("#\n{}", STEP_NOTES.replace(' ', "\n")),
            format!("# Notes\n{}", text_of(Some(20), None)),
            format!("1. {STEP_NOTES}"),
            format!("1) {STEP_NOTES}\n2) {CHECKPOINT_NOTES}"),
            format!("<p>{STEP_NOTES}</p>"),
            format!("<ul>\n<li>{STEP_NOTES}</li>\n</ul>"),
            format!("{STEP_NOTES} <p>"),
            json!({ "notesMarkdown": STEP_NOTES }).to_string(),
            json!({ "output": { "notesMarkdown": STEP_NOTES, "artifacts": [] } }).to_string(),
            format!("Notes: {STEP_NOTES}"),
            format!("**Step notes:** {STEP_NOTES}"),
            "< what you did in this step >".to_owned(),
        ] {
            assert!(are_placeholder_notes(&notes), "{notes}");
        }
        for notes in [
            "# Fixed the parser".to_owned(),
            "# Fixed `<br>`".to_owned(),
            "# Notes\n<br>".to_owned(),
            format!("# Notes\n{STEP_NOTES}\nFixed it."),
            format!("# Notes\nFixed it.\n{STEP_NOTES}"),
            format!("{STEP_NOTES}: done"),
            format!("{STEP_NOTES} {STEP_NOTES} 42"),
            format!("{STEP_NOTES} <Vec>"),
            format!("<p>Fixed it: {STEP_NOTES}</p>"),
            format!("Fixed: {STEP_NOTES}"),
            format!("42 {STEP_NOTES}"),
            json!({ "notesMarkdown": "Fixed it." }).to_string(),
            json!({ "notesMarkdown": STEP_NOTES, "tests": 4 }).to_string(),
            "{}".to_owned(),
            format!("{STEP_NOTES} <"),
            format!("#42\n{STEP_NOTES}"),
            format!("####### Notes\n{STEP_NOTES}"),
            format!("{STEP_NOTES}\n已完成"),
            String::new(),
        ] {
            assert!(!are_placeholder_notes(&notes), "{notes}");
        }
    }

    #[test]
    fn the_path_of_a_placeholder_is_found() {
        let value = json!({ "kind": "x", "findings": [{ "text": "a" }, { "text": long_text(5) }] });
        assert_eq!(placeholder_in(&value).as_deref(), Some(".findings[1].text"));
        assert_eq!(placeholder_in(&json!({ "kind": "x" })), None);
    }
}
