//! The pairs of a query or a form, read and written.

use form_urlencoded::Serializer;
use percent_encoding::percent_decode;

use super::FormOutcome;

/// A search is a few words.
const WORDS_CHARS_MAX: usize = 200;

/// The pairs of a query or a form, in the order in which they were sent.
#[derive(Clone, Debug, Default)]
pub(crate) struct QueryPairs(Vec<(String, String)>);

impl QueryPairs {
    pub(crate) fn parse(text: &str) -> Self {
        let pairs = form_urlencoded::parse(text.as_bytes());
        Self(pairs.map(|(name, value)| (name.into_owned(), value.into_owned())).collect())
    }

    /// The fields of a form; `None` if they are not UTF-8, which a browser never sends.
    pub(crate) fn parse_form(bytes: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(bytes).ok()?;
        percent_decode(bytes).decode_utf8().ok()?;
        Some(Self::parse(text))
    }

    /// The first value of that name.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(other, _)| other == name).map(|(_, value)| value.as_str())
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    pub(super) fn words(&self, name: &str) -> String {
        self.get(name).unwrap_or_default().trim().chars().take(WORDS_CHARS_MAX).collect()
    }

    pub(crate) fn done(&self) -> Option<FormOutcome> {
        self.get("done")?.parse().ok()
    }
}

pub(super) fn with_query(path: &str, query: &str) -> String {
    if query.is_empty() { path.to_owned() } else { format!("{path}?{query}") }
}

pub(super) fn searched(path: &str, filters: &[(&str, &str)]) -> String {
    let mut pairs = Serializer::new(String::new());
    for (name, value) in filters.iter().filter(|(_, value)| !value.is_empty()) {
        pairs.append_pair(name, value);
    }
    with_query(path, &pairs.finish())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_form_that_is_not_text_is_refused() {
        let taken =
            |bytes: &[u8]| QueryPairs::parse_form(bytes).and_then(|own| own.get("a").map(str::to_owned));
        assert_eq!(taken(b"a=x+%C3%A9%").as_deref(), Some("x \u{e9}%"));
        for other in [&b"a=%FF"[..], b"a=%C3&b=%A9", b"a=\xff", b"a=%ED%A0%80"] {
            assert_eq!(taken(other), None, "{other:?}");
        }
    }
}
