//! Finds a dropped value in a text, also if the text has only its beginning or was truncated within it (G81).

/// Replaces a value.
pub(super) const REPLACEMENT: &str = "[redacted]";

/// A shorter value is replaced only where it is a separate word.
const SUBSTRING_CHARS_MIN: usize = 4;
/// The same for numbers: short ones are part of many others.
pub(super) const NUMBER_CHARS_MIN: usize = 6;
/// A text may contain only the beginning of a long value; this many characters of it are recognised.
const BEGINNING_CHARS: usize = 8;
/// Where a text was truncated, this few characters of a value are recognised; fewer are part of many words.
const CUT_CHARS_MIN: usize = 2;

/// How much of a needle must match.
#[derive(Clone, Copy, Debug)]
pub(super) enum NeedlePart {
    Whole,
    Beginning,
}

/// A text to find in others.
#[derive(Clone, Debug)]
pub(super) struct Needle {
    pub(super) text: String,
    /// What is searched for; the rest of the text is then included in the match.
    beginning: String,
    word_only: bool,
}

impl Needle {
    pub(super) fn new(text: String) -> Self {
        let chars = text.chars().count();
        let beginning = text.chars().take(BEGINNING_CHARS).collect();
        let is_number = text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.' || byte == b'-');
        let enough = if is_number { NUMBER_CHARS_MIN } else { SUBSTRING_CHARS_MIN };
        Self { text, beginning, word_only: chars < enough }
    }

    /// The next match of the needle at or after `from`.
    pub(super) fn find(&self, haystack: &str, from: usize, part: NeedlePart) -> Option<(usize, usize)> {
        let mut from = from;
        let text = match part {
            NeedlePart::Whole => &self.text,
            NeedlePart::Beginning => &self.beginning,
        };
        while let Some(at) = haystack[from..].find(text).map(|at| from + at) {
            let same = haystack[at..].chars().zip(self.text.chars()).take_while(|(a, b)| a == b);
            let end = at + same.map(|(c, _)| c.len_utf8()).sum::<usize>();
            let part_of_word = haystack[..at].ends_with(char::is_alphanumeric)
                || haystack[end..].starts_with(char::is_alphanumeric);
            if !(self.word_only && part_of_word) {
                return Some((at, end));
            }
            from = at + self.beginning.chars().next().map_or(1, char::len_utf8);
        }
        None
    }

    /// The text with every match replaced; `None` if there is none.
    pub(super) fn replaced(&self, text: &str, part: NeedlePart) -> Option<String> {
        let mut out = String::new();
        let mut from = 0;
        while let Some((at, end)) = self.find(text, from, part) {
            out.push_str(&text[from..at]);
            out.push_str(REPLACEMENT);
            from = end;
        }
        (from > 0).then(|| out + &text[from..])
    }

    /// How many bytes at the end of a truncated text are the beginning of this value.
    pub(super) fn left_of_cut(&self, text: &str) -> Option<usize> {
        let ends = self.text.char_indices().skip(CUT_CHARS_MIN).take(BEGINNING_CHARS).map(|(end, _)| end);
        ends.filter(|end| text.ends_with(&self.text[..*end])).max()
    }
}
