//! How text becomes words that can be compared: one normaliser for every search, so that what one tool
//! finds another does not miss (G39).

use std::collections::BTreeSet;

use unicode_normalization::UnicodeNormalization as _;

/// The words of a text: NFKC, lowercase, runs of `[a-z0-9_-]`. Equal words in other widths, ligatures or
/// cases are one word; everything outside the alphabet separates.
pub(crate) fn tokens(text: &str) -> BTreeSet<String> {
    normalised(text)
        .split(|c: char| !(c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '_' | '-')))
        .filter(|word| !word.is_empty())
        .map(str::to_owned)
        .collect()
}

fn normalised(text: &str) -> String {
    text.nfkc().flat_map(char::to_lowercase).collect()
}

/// Whether every word of the query is, or begins, a word of the text. A query without words matches all.
pub(crate) fn matches(text: &BTreeSet<String>, query: &BTreeSet<String>) -> bool {
    query.iter().all(|wanted| {
        // The first word that is not before it is the only one that can start with it.
        text.range::<str, _>((std::ops::Bound::Included(wanted.as_str()), std::ops::Bound::Unbounded))
            .next()
            .is_some_and(|found| found.starts_with(wanted.as_str()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use test_case::test_case;

    #[test_case("Fix the API-key, NOW!", &["api-key", "fix", "now", "the"]; "words and signs")]
    #[test_case("ＡＢＣ ﬁle №5", &["abc", "file", "no5"]; "compatibility forms")]
    #[test_case("wr.small_change", &["small_change", "wr"]; "a dot separates")]
    #[test_case("İstanbul", &["i", "stanbul"]; "a mark that lowercasing leaves behind separates")]
    #[test_case("日本語", &[]; "other scripts have no words here")]
    #[test_case("", &[]; "nothing")]
    fn words(text: &str, expected: &[&str]) {
        let found: Vec<String> = tokens(text).into_iter().collect();
        assert_eq!(found, expected);
    }

    #[test_case("small change", "change", true)]
    #[test_case("small change", "chan sma", true; "beginnings, in any order")]
    #[test_case("small change", "ange", false; "not the middle of a word")]
    #[test_case("small change", "small large", false; "all of them")]
    #[test_case("small change", "", true; "no words")]
    fn queries(text: &str, query: &str, expected: bool) {
        assert_eq!(matches(&tokens(text), &tokens(query)), expected);
    }
}
