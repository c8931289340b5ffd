//! Explains what is wrong with a text that is not JSON, and where to look (G45).

use jsonc_parser::errors::{ParseError, ParseErrorKind};

use super::diagnostic::{Code, SourceSpan};
use super::report::DraftDiagnostic;

/// The problem for a parser's error. `offset` is where the parsed text starts in the file.
pub(super) fn problem(text: &str, offset: usize, error: &ParseError) -> DraftDiagnostic {
    if let Some(other) = other_format(text, offset) {
        return other;
    }
    let range = error.range();
    let at = SourceSpan { start: range.start + offset, end: range.end + offset };
    let end = SourceSpan { start: text.trim_end().len(), end: text.trim_end().len() };
    let opened = || format!("opened at {}", line_and_column(text, at.start));
    let (span, message, fix) = match error.kind() {
        ParseErrorKind::NestingDepthExceeded => return too_deep(at),
        ParseErrorKind::UnterminatedObject => (
            end,
            format!("the file ends, but the object {} is not closed", opened()),
            "add a } here".to_owned(),
        ),
        ParseErrorKind::UnterminatedArray => (
            end,
            format!("the file ends, but the list {} is not closed", opened()),
            "add a ] here".to_owned(),
        ),
        ParseErrorKind::UnexpectedCloseBrace => (
            at,
            "unexpected }: a value is missing before it, or a list is still open".to_owned(),
            "write the value, or close the list with ]".to_owned(),
        ),
        ParseErrorKind::UnexpectedCloseBracket => (
            at,
            "unexpected ]: a value is missing before it, or an object is still open".to_owned(),
            "write the value, or close the object with }".to_owned(),
        ),
        ParseErrorKind::ExpectedComma => (
            at,
            "a comma is missing before this".to_owned(),
            "add a comma after the previous value".to_owned(),
        ),
        ParseErrorKind::ExpectedColonAfterObjectKey => {
            (at, "a colon is missing after this key".to_owned(), "write \"key\": value".to_owned())
        }
        ParseErrorKind::ExpectedObjectValue | ParseErrorKind::UnexpectedComma => {
            (at, "a value is missing here".to_owned(), "write the value, or remove the key".to_owned())
        }
        ParseErrorKind::ExpectedStringObjectProperty => (
            at,
            "this key has no quotes".to_owned(),
            "write the key in double quotes, as in \"name\"".to_owned(),
        ),
        ParseErrorKind::SingleQuotedStringsNotAllowed => {
            (at, "this text is in single quotes".to_owned(), "use double quotes".to_owned())
        }
        ParseErrorKind::MultipleRootJsonValues => (
            at,
            "there is more text after the end of the workflow".to_owned(),
            "remove it: a file holds one workflow; a second one needs a file of its own".to_owned(),
        ),
        ParseErrorKind::UnterminatedCommentBlock => {
            (at, "this comment is not closed".to_owned(), "add */ at its end".to_owned())
        }
        ParseErrorKind::UnexpectedToken
        | ParseErrorKind::UnexpectedTokenInObject
        | ParseErrorKind::UnexpectedWord
        | ParseErrorKind::UnexpectedColon => return unexpected(text, at),
        ParseErrorKind::String(_) => (
            at,
            format!("this string cannot be read: {}", lower_first(&error.kind().to_string())),
            "write a backslash as \\\\, a quote as \\\", a line break as \\n".to_owned(),
        ),
        ParseErrorKind::BareDecimalPointNumbersNotAllowed
        | ParseErrorKind::CommentsNotAllowed
        | ParseErrorKind::ExpectedDigit
        | ParseErrorKind::ExpectedDigitFollowingNegativeSign
        | ParseErrorKind::ExpectedPlusMinusOrDigitInNumberLiteral
        | ParseErrorKind::HexadecimalNumbersNotAllowed
        | ParseErrorKind::NonFiniteNumbersNotAllowed
        | ParseErrorKind::TrailingCommasNotAllowed
        | ParseErrorKind::UnaryPlusNumbersNotAllowed => (
            at,
            lower_first(&error.kind().to_string()),
            "correct the JSON here; comments and trailing commas are allowed".to_owned(),
        ),
    };
    DraftDiagnostic::at(Code::Syntax, span).message(message).why(UNREADABLE).fix(fix)
}

const UNREADABLE: &str = "the file is not JSON, so nothing after this point can be checked";

/// Nested too deeply to be parsed.
pub(super) fn too_deep(at: SourceSpan) -> DraftDiagnostic {
    DraftDiagnostic::at(Code::TooDeep, SourceSpan { start: at.start, end: at.start + 1 })
        .message(format!("nested deeper than {} levels", workrail_model::limits::JSON_DEPTH_MAX))
        .why("no workflow needs it, and deep nesting exhausts parsers")
        .fix("flatten the document")
}

/// A string with a line break or another control character in it, which JSON forbids.
pub(super) fn raw_control(text: &str, span: SourceSpan) -> Option<DraftDiagnostic> {
    let inner = text.get(span.start..span.end)?;
    // All bytes of multi-byte characters are above these.
    let (offset, found) = inner.bytes().enumerate().find(|(_, byte)| *byte < 0x20)?;
    let (what, instead) = match found {
        b'\n' | b'\r' => ("a line break", "\\n"),
        b'\t' => ("a tab", "\\t"),
        _ => ("a control character", "\\u00XX"),
    };
    let start = span.start + offset;
    Some(
        DraftDiagnostic::at(Code::Syntax, SourceSpan { start, end: start + 1 })
            .message(format!("this string contains {what}"))
            .why("JSON forbids it, and editors and other tools refuse such a file")
            .fix(format!("write {instead} instead, on one line")),
    )
}

/// A file in another format altogether.
fn other_format(text: &str, offset: usize) -> Option<DraftDiagnostic> {
    let at_line = |start: usize| SourceSpan {
        start,
        end: start + text[start..].find('\n').unwrap_or(text.len() - start),
    };
    let lines = || {
        text.split_inclusive('\n').scan(0, |next, line| {
            let start = *next;
            *next += line.len();
            Some((start, line))
        })
    };
    let marker = lines().find(|(_, line)| {
        ["<<<<<<< ", ">>>>>>> "].iter().any(|mark| line.starts_with(mark)) || line.trim_end() == "======="
    });
    if let Some((start, _)) = marker {
        return Some(
            DraftDiagnostic::at(Code::Syntax, at_line(start))
                .message("this line is a marker of a merge conflict")
                .why("the file holds two versions at once")
                .fix("keep one version, and remove the lines with <<<<<<<, ======= and >>>>>>>"),
        );
    }
    let (start, first) = lines()
        .map(|(start, line)| (start.max(offset), line.trim_start_matches('\u{feff}').trim()))
        .find(|(_, line)| !line.is_empty() && !line.starts_with("//"))?;
    let (what, fix) = if first.starts_with('<') {
        ("HTML", "download the file itself; this is a web page, perhaps an error page")
    } else if first.starts_with("```") {
        ("Markdown", "remove the lines with ``` around the JSON")
    } else if first.starts_with("version https://git-lfs") {
        ("a Git LFS pointer", "fetch the file with `git lfs pull`")
    } else if first == "---" || is_yaml_key(first) {
        ("YAML", "write the workflow as JSON; `workrail workflow new` writes an example")
    } else if is_toml(first) {
        ("TOML", "write the workflow as JSON; `workrail workflow new` writes an example")
    } else if ["module.exports", "export ", "const ", "import "].iter().any(|word| first.starts_with(word)) {
        ("JavaScript", "keep only the object, and write its keys and texts in double quotes")
    } else {
        return None;
    };
    Some(
        DraftDiagnostic::at(Code::Syntax, at_line(start))
            .message(format!("this looks like {what}, not JSON"))
            .why("a workflow is one JSON object that starts with {")
            .fix(fix),
    )
}

fn is_yaml_key(line: &str) -> bool {
    line.split_once(':').is_some_and(|(key, rest)| is_word(key) && (rest.is_empty() || rest.starts_with(' ')))
}

fn is_toml(line: &str) -> bool {
    let header = line.trim_start_matches('[').trim_end_matches(']');
    let is_header = line.starts_with('[') && line.ends_with(']') && is_word(header);
    is_header || line.split_once('=').is_some_and(|(key, _)| is_word(key.trim_end()))
}

fn is_word(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-'))
}

fn unexpected(text: &str, at: SourceSpan) -> DraftDiagnostic {
    let found: String = text[text.floor_char_boundary(at.start)..]
        .chars()
        .take_while(|c| c.is_alphanumeric() || *c == '_')
        .take(24)
        .collect();
    let before = text[..text.floor_char_boundary(at.start)].trim_end();
    let (message, fix) = match found.as_str() {
        "None" | "undefined" => {
            (format!("`{found}` is not JSON"), "write null, or leave the field out".to_owned())
        }
        "True" | "False" => (format!("`{found}` is not JSON"), format!("write {}", found.to_lowercase())),
        _ if text[text.floor_char_boundary(at.start)..]
            .starts_with(['\u{201c}', '\u{201d}', '\u{2018}', '\u{2019}']) =>
        {
            ("this is a typographic quote".to_owned(), "use plain double quotes: \"".to_owned())
        }
        "" => (
            "this is not expected here".to_owned(),
            "look at the line above too: a quote, comma or bracket may be missing there".to_owned(),
        ),
        word if before.ends_with('"') => (
            format!("`{word}` is not expected after a string"),
            "look for a missing quote in the line above, or one inside a text that needs \\\"".to_owned(),
        ),
        word => (format!("`{word}` is not JSON here"), "write text in double quotes".to_owned()),
    };
    DraftDiagnostic::at(Code::Syntax, at).message(message).why(UNREADABLE).fix(fix)
}

fn line_and_column(text: &str, offset: usize) -> String {
    let before = &text[..text.floor_char_boundary(offset.min(text.len()))];
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
    format!("{line}:{column}")
}

fn lower_first(text: &str) -> String {
    let mut characters = text.chars();
    characters.next().map_or_else(String::new, |first| first.to_lowercase().chain(characters).collect())
}
