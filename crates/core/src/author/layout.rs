//! The one layout of workflow files: two spaces, short values on one line, comments kept.
//!
//! Only white space, trailing commas and a byte order mark change. Texts, numbers and the order of members are
//! kept, so a file means the same before and after (G101), and a second pass changes nothing.

use jsonc_parser::common::Range;
use jsonc_parser::tokens::{Token, TokenAndRange};
use jsonc_parser::{CollectOptions, CommentCollectionStrategy, parse_to_ast};

use crate::compile::parse_options;

/// What fits into this width is written on one line.
const WIDTH: usize = 110;
const INDENT: usize = 2;
/// Deeper values are easier to read on separate lines.
const FLAT_DEPTH_MAX: usize = 2;
/// Lists whose items readers look for: each item gets its own lines.
const ALWAYS_BROKEN: [&str; 2] = ["\"steps\"", "\"body\""];

/// The text in the one layout; `None` if it is not JSON or JSONC, which the compiler explains.
pub fn formatted(text: &str) -> Option<String> {
    let text = text.trim_start_matches('\u{feff}');
    let collect = CollectOptions { comments: CommentCollectionStrategy::AsTokens, tokens: true };
    let parsed = parse_to_ast(text, &collect, &parse_options()).ok()?;
    parsed.value.as_ref()?;
    let mut reader = LayoutReader { text, tokens: parsed.tokens?, next: 0, end: 0 };
    let before = reader.comments();
    let root = reader.value()?;
    let after = reader.comments();
    let mut printer = Printer { out: String::new() };
    for comment in &before {
        printer.comment(comment, 0);
    }
    printer.value(&root, 0, LineRoom::Broken);
    printer.out.push('\n');
    for comment in &after {
        printer.comment(comment, 0);
    }
    Some(printer.out)
}

enum LayoutValue<'t> {
    Scalar(&'t str),
    Container(Container<'t>),
}

struct Container<'t> {
    open: char,
    close: char,
    elements: Vec<Element<'t>>,
    /// Between the last element and the end.
    dangling: Vec<Comment<'t>>,
}

struct Element<'t> {
    /// Whether a blank line precedes it: authors group members with blank lines.
    is_apart: bool,
    leading: Vec<Comment<'t>>,
    key: Option<&'t str>,
    value: LayoutValue<'t>,
    /// On the same line, after the comma.
    trailing: Vec<Comment<'t>>,
}

#[derive(Clone, Copy)]
struct Comment<'t> {
    text: &'t str,
    is_apart: bool,
}

struct LayoutReader<'t> {
    text: &'t str,
    tokens: Vec<TokenAndRange<'t>>,
    next: usize,
    /// Where the last token ended.
    end: usize,
}

impl<'t> LayoutReader<'t> {
    fn peek(&self) -> Option<&TokenAndRange<'t>> {
        self.tokens.get(self.next)
    }

    fn take(&mut self) -> Option<&'t str> {
        let Range { start, end } = self.peek()?.range;
        self.next += 1;
        self.end = end;
        self.text.get(start..end)
    }

    /// The line breaks between the last token and the next one.
    fn lines_before(&self) -> usize {
        let start = self.peek().map_or(self.text.len(), |token| token.range.start);
        self.text.get(self.end..start).map_or(0, |gap| gap.matches('\n').count())
    }

    fn comments(&mut self) -> Vec<Comment<'t>> {
        let mut found = Vec::new();
        while matches!(self.peek(), Some(own) if is_comment(&own.token)) {
            let is_apart = self.lines_before() > 1;
            found.extend(self.take().map(|text| Comment { text: text.trim_end(), is_apart }));
        }
        found
    }

    fn value(&mut self) -> Option<LayoutValue<'t>> {
        let (open, close) = match &self.peek()?.token {
            Token::OpenBrace => ('{', '}'),
            Token::OpenBracket => ('[', ']'),
            Token::String(_) | Token::Word(_) | Token::Boolean(_) | Token::Number(_) | Token::Null => {
                return self.take().map(LayoutValue::Scalar);
            }
            Token::CloseBrace
            | Token::CloseBracket
            | Token::Comma
            | Token::Colon
            | Token::CommentLine(_)
            | Token::CommentBlock(_) => return None,
        };
        self.take()?;
        self.container(open, close).map(LayoutValue::Container)
    }

    fn container(&mut self, open: char, close: char) -> Option<Container<'t>> {
        let mut elements: Vec<Element<'t>> = Vec::new();
        loop {
            let is_apart = self.lines_before() > 1;
            let mut leading = self.comments();
            let is_apart = is_apart || leading.first().is_some_and(|first| first.is_apart);
            if matches!(self.peek()?.token, Token::CloseBrace | Token::CloseBracket) {
                self.take()?;
                return Some(Container { open, close, elements, dangling: leading });
            }
            let key = match open {
                '{' => {
                    let key = self.take()?;
                    leading.extend(self.comments());
                    self.take()?;
                    leading.extend(self.comments());
                    Some(key)
                }
                _ => None,
            };
            let value = self.value()?;
            let mut trailing = self.trailing_comments();
            if !fit_on_one_line(&trailing) {
                leading.append(&mut trailing);
            }
            elements.push(Element { is_apart, leading, key, value, trailing });
        }
    }

    /// Comments after an element on its line, before and after the comma. Those on later lines belong to what follows.
    fn trailing_comments(&mut self) -> Vec<Comment<'t>> {
        let mut trailing = self.comments_on_this_line();
        let start = self.next;
        let end = self.end;
        let later = self.comments();
        if matches!(self.peek(), Some(own) if matches!(own.token, Token::Comma)) {
            // A comment between the element and a comma on its own line would move the comma.
            trailing.extend(later);
            let _ = self.take();
            trailing.extend(self.comments_on_this_line());
        } else {
            (self.next, self.end) = (start, end);
        }
        trailing
    }

    fn comments_on_this_line(&mut self) -> Vec<Comment<'t>> {
        let mut found = Vec::new();
        while self.lines_before() == 0 && matches!(self.peek(), Some(own) if is_comment(&own.token)) {
            let (next, end) = (self.next, self.end);
            let Some(text) = self.take() else { break };
            let follows = self.peek().is_some_and(|own| {
                !matches!(own.token, Token::Comma | Token::CloseBrace | Token::CloseBracket)
                    && !is_comment(&own.token)
            });
            // `1, /* of b */ "b": 2`: it belongs to what follows it on the line.
            if follows && self.lines_before() == 0 {
                (self.next, self.end) = (next, end);
                break;
            }
            found.push(Comment { text: text.trim_end(), is_apart: false });
        }
        found
    }
}

/// A line comment hides what follows it.
fn fit_on_one_line(comments: &[Comment<'_>]) -> bool {
    let hides = |comment: &Comment<'_>| comment.text.starts_with("//");
    !comments.iter().any(|comment| comment.text.contains('\n')) && !comments.iter().rev().skip(1).any(hides)
}

fn is_comment(token: &Token<'_>) -> bool {
    matches!(token, Token::CommentLine(_) | Token::CommentBlock(_))
}

/// Whether a value may be written on the rest of its line.
#[derive(Clone, Copy, PartialEq, Eq)]
enum LineRoom {
    /// This many columns are taken before and after it.
    Line(usize),
    Broken,
}

impl LayoutValue<'_> {
    /// On one line; `None` if it has comments or is too deep.
    fn flat(&self, depth: usize) -> Option<String> {
        match self {
            LayoutValue::Scalar(text) => (!text.contains('\n')).then(|| (*text).to_owned()),
            LayoutValue::Container(own) => own.flat(depth),
        }
    }
}

impl Container<'_> {
    fn flat(&self, depth: usize) -> Option<String> {
        if self.elements.is_empty() && self.dangling.is_empty() {
            return Some(format!("{}{}", self.open, self.close));
        }
        if depth == 0 || !self.dangling.is_empty() {
            return None;
        }
        let mut parts = Vec::with_capacity(self.elements.len());
        for element in &self.elements {
            let is_plain = element.leading.is_empty() && element.trailing.is_empty();
            let is_broken = element.key.is_some_and(|key| ALWAYS_BROKEN.contains(&key));
            if !is_plain || is_broken {
                return None;
            }
            let value = element.value.flat(depth - 1)?;
            parts.push(element.key.map_or_else(|| value.clone(), |key| format!("{key}: {value}")));
        }
        let inner = parts.join(", ");
        Some(match self.open {
            '{' => format!("{{ {inner} }}"),
            open => format!("{open}{inner}{}", self.close),
        })
    }

    /// Objects in a list are read one by one.
    fn lists_objects(&self) -> bool {
        let is_object =
            |element: &Element<'_>| matches!(&element.value, LayoutValue::Container(own) if own.open == '{');
        self.open == '[' && self.elements.iter().any(is_object)
    }
}

struct Printer {
    out: String,
}

impl Printer {
    fn indent(&mut self, depth: usize) {
        self.out.push_str(&" ".repeat(depth * INDENT));
    }

    fn comment(&mut self, comment: &Comment<'_>, depth: usize) {
        self.indent(depth);
        self.out.push_str(comment.text);
        self.out.push('\n');
    }

    fn value(&mut self, value: &LayoutValue<'_>, depth: usize, room: LineRoom) {
        match value {
            LayoutValue::Scalar(text) => self.out.push_str(text),
            LayoutValue::Container(own) => {
                let flat = match room {
                    LineRoom::Line(taken) if !own.lists_objects() => {
                        own.flat(FLAT_DEPTH_MAX).filter(|flat| taken + flat.chars().count() <= WIDTH)
                    }
                    LineRoom::Line(_) | LineRoom::Broken => None,
                };
                match flat {
                    Some(flat) => self.out.push_str(&flat),
                    None => self.broken(own, depth, LineRoom::Line(0)),
                }
            }
        }
    }

    /// Each element on its own line; `room` is what its elements get.
    fn broken(&mut self, container: &Container<'_>, depth: usize, room: LineRoom) {
        self.out.push(container.open);
        if container.elements.is_empty() && container.dangling.is_empty() {
            self.out.push(container.close);
            return;
        }
        self.out.push('\n');
        let last = container.elements.len().saturating_sub(1);
        for (index, element) in container.elements.iter().enumerate() {
            if element.is_apart && index > 0 {
                self.out.push('\n');
            }
            self.element(element, depth + 1, room, index == last);
        }
        for (index, comment) in container.dangling.iter().enumerate() {
            if comment.is_apart && (index > 0 || !container.elements.is_empty()) {
                self.out.push('\n');
            }
            self.comment(comment, depth + 1);
        }
        self.indent(depth);
        self.out.push(container.close);
    }

    fn element(&mut self, element: &Element<'_>, depth: usize, room: LineRoom, is_last: bool) {
        for comment in &element.leading {
            self.comment(comment, depth);
        }
        self.indent(depth);
        let mut taken = depth * INDENT + usize::from(!is_last);
        if let Some(key) = element.key {
            self.out.push_str(key);
            self.out.push_str(": ");
            taken += key.chars().count() + 2;
        }
        let inner = if room == LineRoom::Broken { LineRoom::Broken } else { LineRoom::Line(taken) };
        match (&element.value, element.key) {
            (LayoutValue::Container(list), Some(key)) if ALWAYS_BROKEN.contains(&key) && list.open == '[' => {
                self.broken(list, depth, LineRoom::Broken);
            }
            (value, _) => self.value(value, depth, inner),
        }
        if !is_last {
            self.out.push(',');
        }
        for comment in &element.trailing {
            self.out.push(' ');
            self.out.push_str(comment.text);
        }
        self.out.push('\n');
    }
}
