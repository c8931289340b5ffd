//! Compound commands of a shell: the words before a command, `case` within parentheses, arithmetic expressions.

use std::collections::BTreeMap;

/// Words before a command that are not commands themselves.
const KEYWORDS: [&str; 13] =
    ["if", "then", "elif", "else", "while", "until", "do", "!", "time", "{", "}", "spawn", "coproc"];

/// Words that end a compound command. Others may follow without a separator.
const ENDS: [&str; 4] = ["esac", "fi", "done", "}"];

/// The words from the command on, without keywords and the names of functions and coprocesses.
pub(super) fn without_keywords(mut words: &[String]) -> &[String] {
    while let [first, rest @ ..] = words {
        words = match (first.as_str(), rest) {
            ("function", [_, rest @ ..]) => rest,
            ("coproc", [_, brace, ..]) if brace == "{" => &rest[1..],
            ("time", [option, rest @ ..]) if option == "-p" => rest,
            (keyword, rest) if KEYWORDS.contains(&keyword) => rest,
            _ => break,
        };
    }
    words
}

/// Arithmetic expressions by where they begin, with their end: `((...))` by the second parenthesis, both of which are
/// closed together, unlike those of `((a); b)`; `$[...]` and `NAME[...]` by the bracket.
pub(super) fn arithmetic(chars: &[char]) -> BTreeMap<usize, usize> {
    let (mut parentheses, mut brackets) = (Vec::new(), Vec::new());
    let mut found = BTreeMap::new();
    let mut is_escaped = false;
    for (at, c) in chars.iter().enumerate() {
        if std::mem::take(&mut is_escaped) {
            continue;
        }
        match c {
            '\\' => is_escaped = true,
            '(' => parentheses.push(at),
            '[' => brackets.push(at),
            ')' => {
                let begin = parentheses.pop().filter(|begin| *begin > 0 && chars[begin - 1] == '(');
                found.extend(begin.filter(|_| chars.get(at + 1) == Some(&')')).map(|begin| (begin, at + 1)));
            }
            ']' => {
                let is_name = |c: char| c == '$' || c == '_' || c.is_ascii_alphanumeric();
                let begin = brackets.pop().filter(|begin| *begin > 0 && is_name(chars[begin - 1]));
                found.extend(begin.map(|begin| (begin, at)));
            }
            _ => {}
        }
    }
    found
}

/// The `case` commands that are open in each parenthesis: there, `)` ends a pattern.
pub(super) struct Parentheses {
    open_cases: Vec<usize>,
}

impl Parentheses {
    pub(super) fn new() -> Self {
        Self { open_cases: vec![0] }
    }

    pub(super) fn open(&mut self) {
        self.open_cases.push(0);
    }

    /// Whether `)` ends the list that contains all others.
    pub(super) fn close(&mut self) -> bool {
        match self.open_cases.as_slice() {
            [.., cases] if *cases > 0 => false,
            [_] => true,
            _ => {
                self.open_cases.pop();
                false
            }
        }
    }

    /// `case WORD in` opens, `esac` closes.
    pub(super) fn see(&mut self, words: &[String]) {
        let Some(cases) = self.open_cases.last_mut() else { return };
        // Nested commands may end together: `fi esac`.
        let ends = words.iter().take_while(|word| ENDS.contains(&word.as_str()));
        let ended = ends.filter(|word| *word == "esac").count();
        *cases = cases.saturating_sub(ended);
        if let [first, rest @ ..] = without_keywords(words)
            && first == "case"
            && rest.get(2).is_none_or(|word| word != "esac")
        {
            *cases += 1;
        }
    }
}
