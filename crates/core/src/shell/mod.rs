//! The commands in a shell line, as far as they can be determined without running it.
//!
//! Handles quotes, escapes, substitutions, subshells, pipes, redirections, here-documents and variables that the same
//! line sets. Does not handle globs, aliases, functions and program output. Where it is unclear whether words are a
//! command, they are read as one, such as the terms of an arithmetic expression.

mod compound;

use std::collections::BTreeMap;

use compound::{Parentheses, arithmetic, without_keywords};

/// Nested substitutions are parsed to this depth.
const DEPTH_MAX: usize = 8;
/// How much of a line is parsed; hosts refuse longer ones.
const CHARS_MAX: usize = 256 * 1024;
/// How much of the values of its variables is filled in: a value may contain another one twice, and so on.
const EXPANDED_BYTES_MAX: usize = 256 * 1024;

/// One command with its arguments, without quotes and redirections.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ShellCommand {
    pub(crate) words: Vec<String>,
    /// What it reads as input, if that is in the line itself.
    pub(crate) input: Vec<String>,
    /// Whether the next command reads what this one writes.
    pub(crate) is_piped: bool,
}

/// Every command in the text, those in substitutions before the one that contains them.
pub(crate) fn commands(text: &str) -> Vec<ShellCommand> {
    let chars: Vec<char> = text.chars().take(CHARS_MAX).collect();
    let mut reader = LineReader {
        arithmetic: arithmetic(&chars),
        chars,
        at: 0,
        depth: 0,
        variables: BTreeMap::new(),
        arithmetic_end: 0,
        expandable: EXPANDED_BYTES_MAX,
        documents: Vec::new(),
        found: Vec::new(),
    };
    reader.list(Until::End);
    reader.found
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Until {
    End,
    Parenthesis,
}

struct LineReader {
    chars: Vec<char>,
    at: usize,
    depth: usize,
    /// What the line itself assigned.
    variables: BTreeMap<String, String>,
    /// Where arithmetic expressions may be.
    arithmetic: BTreeMap<usize, usize>,
    /// Up to here, `<<` and `#` belong to an arithmetic expression.
    arithmetic_end: usize,
    /// What is left of `EXPANDED_BYTES_MAX`.
    expandable: usize,
    /// The delimiters of here-documents that begin after this line, and the commands that read them.
    documents: Vec<(String, usize)>,
    found: Vec<ShellCommand>,
}

/// The command that is being parsed.
#[derive(Default)]
struct CommandBuilder {
    command: ShellCommand,
    word: Option<String>,
    /// What the next word is for.
    next: Next,
    documents: Vec<String>,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Next {
    #[default]
    Argument,
    RedirectTarget,
    HereString,
    DocumentEnd,
}

impl CommandBuilder {
    fn push(&mut self, c: char) {
        self.word.get_or_insert_default().push(c);
    }

    fn push_text(&mut self, text: &str) {
        self.word.get_or_insert_default().push_str(text);
    }

    fn end_word(&mut self) {
        let Some(word) = self.word.take() else { return };
        match std::mem::take(&mut self.next) {
            Next::Argument => self.command.words.push(word),
            Next::RedirectTarget => {}
            Next::HereString => self.command.input.push(word),
            Next::DocumentEnd => self.documents.push(word),
        }
    }

    /// A number before `<` or `>` names a descriptor.
    fn end_word_before_redirect(&mut self) {
        if self.word.as_ref().is_some_and(|word| word.bytes().all(|byte| byte.is_ascii_digit())) {
            self.word = None;
        }
        self.end_word();
    }
}

impl LineReader {
    fn peek(&self, ahead: usize) -> Option<char> {
        self.chars.get(self.at + ahead).copied()
    }

    fn take(&mut self) -> Option<char> {
        let next = self.peek(0)?;
        self.at += 1;
        Some(next)
    }

    fn take_if(&mut self, wanted: char) -> bool {
        let is_next = self.peek(0) == Some(wanted);
        self.at += usize::from(is_next);
        is_next
    }

    fn list(&mut self, until: Until) {
        let mut current = CommandBuilder::default();
        let mut parentheses = Parentheses::new();
        while let Some(c) = self.take() {
            if matches!(c, '\n' | ';' | '&' | '|' | '(' | ')') {
                current.end_word();
                parentheses.see(&current.command.words);
            }
            match c {
                ' ' | '\t' | '\r' => current.end_word(),
                '\n' => {
                    self.end(&mut current);
                    self.read_documents();
                }
                ';' | '&' => self.end(&mut current),
                '(' => {
                    self.end(&mut current);
                    parentheses.open();
                    self.see_arithmetic(self.at);
                }
                '|' => {
                    current.command.is_piped = !self.take_if('|');
                    self.end(&mut current);
                }
                ')' if parentheses.close() && until == Until::Parenthesis => break,
                ')' => self.end(&mut current),
                '#' if current.word.is_none() && self.at > self.arithmetic_end => self.skip_line(),
                '<' | '>' => self.redirect(c, &mut current),
                '\\' => self.escaped(&mut current),
                '\'' => self.single_quoted(&mut current),
                '"' => self.double_quoted(&mut current),
                '`' => self.backquoted(&mut current),
                '$' => self.dollar(&mut current, Quoting::Bare),
                '[' => {
                    self.see_arithmetic(self.at - 1);
                    current.push('[');
                }
                other => current.push(other),
            }
        }
        self.end(&mut current);
    }

    /// At a sign that may begin an arithmetic expression.
    fn see_arithmetic(&mut self, begin: usize) {
        if let Some(end) = self.arithmetic.get(&begin) {
            self.arithmetic_end = self.arithmetic_end.max(*end);
        }
    }

    fn end(&mut self, current: &mut CommandBuilder) {
        current.end_word();
        let CommandBuilder { command, documents, .. } = std::mem::take(current);
        self.documents.extend(documents.into_iter().map(|end| (end, self.found.len())));
        if command.words.is_empty() && command.input.is_empty() && self.documents.is_empty() {
            return;
        }
        let assigned = command.words.iter().skip_while(|word| *word == "export").map(|word| assignment(word));
        // Before a command, an assignment applies to that command alone.
        if let Some(assigned) = assigned.collect::<Option<Vec<_>>>() {
            self.variables
                .extend(assigned.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())));
        }
        self.found.push(command);
    }

    fn skip_line(&mut self) {
        while self.peek(0).is_some_and(|c| c != '\n') {
            self.at += 1;
        }
    }

    fn escaped(&mut self, current: &mut CommandBuilder) {
        match self.take() {
            // A line that is continued.
            Some('\n') | None => {}
            Some(c) => current.push(c),
        }
    }

    fn single_quoted(&mut self, current: &mut CommandBuilder) {
        current.push_text("");
        while let Some(c) = self.take() {
            match c {
                '\'' => return,
                other => current.push(other),
            }
        }
    }

    fn double_quoted(&mut self, current: &mut CommandBuilder) {
        current.push_text("");
        while let Some(c) = self.take() {
            match c {
                '"' => return,
                '\\' => match self.take() {
                    Some('\n') | None => {}
                    Some(c @ ('"' | '\\' | '$' | '`')) => current.push(c),
                    Some(other) => {
                        current.push('\\');
                        current.push(other);
                    }
                },
                '`' => self.backquoted(current),
                '$' => self.dollar(current, Quoting::Double),
                other => current.push(other),
            }
        }
    }

    /// `$'...'`: the escapes that can hide a letter.
    fn ansi_quoted(&mut self, current: &mut CommandBuilder) {
        current.push_text("");
        while let Some(c) = self.take() {
            match c {
                '\'' => return,
                '\\' => match self.take() {
                    Some('n') => current.push('\n'),
                    Some('t') => current.push('\t'),
                    Some('x') => self.code(current, 16, 2),
                    Some('u') => self.code(current, 16, 4),
                    Some(digit @ '0'..='7') => {
                        self.at -= 1;
                        debug_assert_eq!(self.peek(0), Some(digit));
                        self.code(current, 8, 3);
                    }
                    Some(other) => current.push(other),
                    None => {}
                },
                other => current.push(other),
            }
        }
    }

    fn code(&mut self, current: &mut CommandBuilder, radix: u32, digits_max: usize) {
        let mut value = 0;
        for _ in 0..digits_max {
            let Some(digit) = self.peek(0).and_then(|c| c.to_digit(radix)) else { break };
            value = value * radix + digit;
            self.at += 1;
        }
        current.push(char::from_u32(value).unwrap_or(char::REPLACEMENT_CHARACTER));
    }

    fn backquoted(&mut self, current: &mut CommandBuilder) {
        let mut inner = String::new();
        while let Some(c) = self.take() {
            match c {
                '`' => break,
                '\\' => inner.extend(self.take()),
                other => inner.push(other),
            }
        }
        if self.depth < DEPTH_MAX {
            let inner: Vec<char> = inner.chars().collect();
            let arithmetic = std::mem::replace(&mut self.arithmetic, arithmetic(&inner));
            let outer = std::mem::replace(&mut self.chars, inner);
            let at = std::mem::take(&mut self.at);
            let arithmetic_end = std::mem::take(&mut self.arithmetic_end);
            self.substitution(current, Until::End);
            self.arithmetic = arithmetic;
            self.chars = outer;
            self.at = at;
            self.arithmetic_end = arithmetic_end;
        }
    }

    /// Parses the commands of a substitution. Its output is assumed to be its last word, as in `$(which workrail)`.
    fn substitution(&mut self, current: &mut CommandBuilder, until: Until) {
        if self.depth >= DEPTH_MAX {
            return;
        }
        self.depth += 1;
        let before = self.found.len();
        self.list(until);
        self.depth -= 1;
        let printed = self.found.get(before..).and_then(|inner| inner.last()?.words.last().cloned());
        current.push_text(&printed.unwrap_or_default());
    }

    fn dollar(&mut self, current: &mut CommandBuilder, quoting: Quoting) {
        match self.peek(0) {
            Some('(') => {
                self.at += 1;
                self.see_arithmetic(self.at);
                self.substitution(current, Until::Parenthesis);
            }
            // `$"..."`: a text that is translated; the quote is read next.
            Some('"') if quoting == Quoting::Bare => {}
            Some('\'') if quoting == Quoting::Bare => {
                self.at += 1;
                self.ansi_quoted(current);
            }
            Some('{') => {
                self.at += 1;
                self.braced(current, quoting);
            }
            Some(c) if c.is_ascii_alphabetic() || c == '_' => {
                let name = self.name();
                self.expand(&name, current, quoting);
            }
            Some(_) | None => current.push('$'),
        }
    }

    /// `${...}` after its brace. The text after the name may contain substitutions, and take the value's place.
    fn braced(&mut self, current: &mut CommandBuilder, quoting: Quoting) {
        let name = self.name();
        if self.depth >= DEPTH_MAX {
            while self.take().is_some_and(|c| c != '}') {}
            return self.expand(&name, current, quoting);
        }
        self.depth += 1;
        let mut text = CommandBuilder::default();
        while let Some(c) = self.take() {
            match c {
                '}' => break,
                '\\' => self.escaped(&mut text),
                '\'' if quoting == Quoting::Bare => self.single_quoted(&mut text),
                '"' => self.double_quoted(&mut text),
                '`' => self.backquoted(&mut text),
                '$' => self.dollar(&mut text, quoting),
                '<' | '>' if quoting == Quoting::Bare && self.take_if('(') => {
                    self.substitution(&mut text, Until::Parenthesis);
                }
                other => text.push(other),
            }
        }
        self.depth -= 1;
        let text: Vec<String> = text.command.words.into_iter().chain(text.word).collect();
        let text = text.join(" ");
        let text = text.strip_prefix(':').unwrap_or(&text);
        let is_known = self.variables.contains_key(&name);
        match text.split_at_checked(1) {
            Some(("+", other)) => push_expanded(other, current, quoting),
            Some(("-", other)) if !is_known => push_expanded(other, current, quoting),
            Some(("=", other)) if !is_known => {
                push_expanded(other, current, quoting);
                self.variables.insert(name, other.to_owned());
            }
            Some(_) | None => self.expand(&name, current, quoting),
        }
    }

    fn name(&mut self) -> String {
        let mut name = String::new();
        while let Some(c) = self.peek(0).filter(|c| c.is_ascii_alphanumeric() || *c == '_') {
            name.push(c);
            self.at += 1;
        }
        name
    }

    fn expand(&mut self, name: &str, current: &mut CommandBuilder, quoting: Quoting) {
        match self.variables.get(name).filter(|value| value.len() <= self.expandable) {
            Some(value) => {
                self.expandable -= value.len();
                push_expanded(value, current, quoting);
            }
            None => {
                current.push('$');
                current.push_text(name);
            }
        }
    }

    fn redirect(&mut self, sign: char, current: &mut CommandBuilder) {
        current.end_word_before_redirect();
        if self.take_if('(') {
            self.substitution(current, Until::Parenthesis);
            return;
        }
        if self.at <= self.arithmetic_end {
            // A comparison or a shift.
            return;
        }
        if sign == '<' && self.take_if('<') {
            current.next = if self.take_if('<') { Next::HereString } else { Next::DocumentEnd };
            self.take_if('-');
            return;
        }
        while self.take_if('>') || self.take_if('&') || self.take_if('|') {}
        current.next = Next::RedirectTarget;
    }

    /// Here-documents begin on the line after the one with their delimiters.
    fn read_documents(&mut self) {
        for (end, reader) in std::mem::take(&mut self.documents) {
            let mut body = String::new();
            while self.at < self.chars.len() {
                let begin = self.at;
                self.skip_line();
                let line: String = self.chars[begin..self.at].iter().collect();
                self.at += 1;
                if line.trim_start_matches('\t') == end {
                    break;
                }
                body.push_str(&line);
                body.push('\n');
            }
            if let Some(command) = self.found.get_mut(reader) {
                command.input.push(body);
            }
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Quoting {
    Bare,
    Double,
}

/// Outside quotes, a value is split into words.
fn push_expanded(value: &str, current: &mut CommandBuilder, quoting: Quoting) {
    match quoting {
        Quoting::Double => current.push_text(value),
        Quoting::Bare => {
            for (position, part) in value.split_whitespace().enumerate() {
                if position > 0 {
                    current.end_word();
                }
                current.push_text(part);
            }
        }
    }
}

/// The name and value of a word such as `NAME=value`.
pub(crate) fn assignment(word: &str) -> Option<(&str, &str)> {
    let (name, value) = word.split_once('=')?;
    let is_name = !name.is_empty()
        && !name.starts_with(|c: char| c.is_ascii_digit())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    is_name.then_some((name, value))
}

/// The words from the program on, without what may precede it: keywords and assignments.
pub(crate) fn from_program(words: &[String]) -> &[String] {
    let mut rest = without_keywords(words);
    while let [first, after @ ..] = rest
        && assignment(first).is_some()
    {
        rest = without_keywords(after);
    }
    rest
}
