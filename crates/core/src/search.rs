//! Splits text into comparable words: one normaliser for every search, so that all tools
//! find the same (G39).

use std::collections::BTreeSet;

use unicode_normalization::UnicodeNormalization as _;

/// The words of a text: NFKC, lowercase, runs of `[a-z0-9_-]`. Equal words in other widths, ligatures or
/// cases are one word; everything outside the alphabet separates.
pub(crate) fn word_set(text: &str) -> BTreeSet<String> {
    split(&normalised(text)).map(str::to_owned).collect()
}

/// The words of a text in order.
pub(crate) fn sequence(text: &str) -> Vec<String> {
    split(&normalised(text)).map(str::to_owned).collect()
}

fn split(normalised: &str) -> impl Iterator<Item = &str> {
    normalised
        .split(|c: char| !(c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '_' | '-')))
        .filter(|word| !word.is_empty())
}

/// The words of a text as compared when resuming: the parts of `retry-budget` and `max_retries` are separate words,
/// and common English endings are cut off, so that `renamed` is `rename` and `timeouts` is `timeout`.
pub(crate) fn stems(text: &str) -> BTreeSet<String> {
    stems_of(&word_set(text))
}

/// The same for words that are already split.
pub(crate) fn stems_of(words: &BTreeSet<String>) -> BTreeSet<String> {
    words.iter().flat_map(|word| parts(word)).map(stem).collect()
}

/// Every word of a text, once, with its stems, in order.
pub(crate) fn words_with_stems(text: &str) -> Vec<(String, Vec<String>)> {
    let mut seen = BTreeSet::new();
    sequence(text).into_iter().filter(|word| seen.insert(word.clone())).filter_map(with_stems).collect()
}

fn with_stems(word: String) -> Option<(String, Vec<String>)> {
    let stems: Vec<String> = parts(&word).map(stem).collect();
    (!stems.is_empty()).then_some((word, stems))
}

/// The significant words of a query as the caller wrote them, each with its stems, in order. Filler
/// words do not count unless there is nothing else.
pub(crate) fn query_words(text: &str) -> Vec<(String, Vec<String>)> {
    let mut seen = BTreeSet::new();
    let mut all = sequence(text);
    all.retain(|word| seen.insert(word.clone()));
    let telling: Vec<String> =
        all.iter().filter(|word| FILLERS.binary_search(&word.as_str()).is_err()).cloned().collect();
    let meant = if telling.is_empty() { all } else { telling };
    meant.into_iter().filter_map(with_stems).collect()
}

fn parts(word: &str) -> impl Iterator<Item = &str> {
    word.split(['-', '_']).filter(|part| !part.is_empty())
}

/// A word without its ending. Rough on purpose: it only has to map the forms of one word to the same text, and a rare
/// collision at worst ranks a run too high.
fn stem(word: &str) -> String {
    const SHORTEST: usize = 3;
    if word.bytes().any(|byte| byte.is_ascii_digit()) {
        return word.to_owned();
    }
    if let Some(rest) =
        ["ies", "ied"].iter().find_map(|ending| word.strip_suffix(ending)).filter(|rest| rest.len() >= 2)
    {
        return format!("{rest}y");
    }
    let without = |ending: &str| word.strip_suffix(ending).filter(|rest| rest.len() >= SHORTEST);
    let (rest, ending) = if let Some(rest) = without("ing") {
        (rest, SuffixKind::Verb)
    } else if let Some(rest) = without("ed") {
        (rest, SuffixKind::Verb)
    } else if let Some(rest) = without("es") {
        (rest, SuffixKind::Other)
    } else if let Some(rest) = without("s").filter(|rest| !rest.ends_with(['s', 'u', 'i'])) {
        (rest, SuffixKind::Other)
    } else {
        (word, SuffixKind::Other)
    };
    let rest = rest.strip_suffix('e').filter(|rest| rest.len() >= SHORTEST).unwrap_or(rest);
    let doubled = rest.as_bytes().last_chunk::<2>().is_some_and(|[a, b]| a == b && !b"aeiouls".contains(a));
    match ending {
        // `stopped` and `stop`.
        SuffixKind::Verb if doubled && rest.len() > SHORTEST => rest[..rest.len() - 1].to_owned(),
        SuffixKind::Verb | SuffixKind::Other => rest.to_owned(),
    }
}

enum SuffixKind {
    Verb,
    Other,
}

/// Words that say nothing about the work: common English words and phrases for continuing. Sorted.
#[rustfmt::skip]
const FILLERS: [&str; 103] = [
    "a", "about", "again", "am", "an", "and", "any", "are", "as", "at", "back", "be", "been", "but", "by", "can",
    "continue", "could", "did", "do", "does", "doing", "done", "for", "from", "get", "go", "going", "had", "has",
    "have", "he", "her", "him", "his", "how", "i", "if", "in", "into", "is", "it", "its", "just", "keep", "last",
    "let", "lets", "me", "my", "no", "not", "of", "off", "on", "one", "or", "our", "out", "pick", "please", "resume",
    "run", "session", "she", "so", "some", "something", "stuff", "that", "the", "their", "them", "then", "there",
    "these", "they", "thing", "things", "this", "those", "to", "today", "up", "us", "want", "was", "we", "were",
    "what", "when", "where", "which", "who", "will", "with", "work", "worked", "working", "would", "yesterday", "you",
    "your",
];

fn normalised(text: &str) -> String {
    // ASCII is in NFKC already; this is the common case and many times faster.
    if text.is_ascii() {
        return text.to_ascii_lowercase();
    }
    text.nfkc().flat_map(char::to_lowercase).collect()
}

/// Whether every word of the query is a prefix of a word of the text. A query without words matches everything.
pub(crate) fn matches(text: &BTreeSet<String>, query: &BTreeSet<String>) -> bool {
    query.iter().all(|wanted| {
        // The first word that does not sort before it is the only one that can start with it.
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
        let found: Vec<String> = word_set(text).into_iter().collect();
        assert_eq!(found, expected);
    }

    #[test_case("rename renamed renames renaming", &["renam"]; "forms of a verb")]
    #[test_case("timeout timeouts", &["timeout"]; "plural")]
    #[test_case("stop stopped stopping", &["stop"]; "doubled letters")]
    #[test_case("retry retries retried", &["retry"]; "a y at the end")]
    #[test_case("cache caches cached", &["cach"]; "an e at the end")]
    #[test_case("process status this bus", &["bus", "process", "status", "this"]; "an s that is no plural")]
    #[test_case("retry-budget max_retries", &["budget", "max", "retry"]; "parts of names")]
    #[test_case("call calls called", &["call"]; "a word that ends in two l")]
    #[test_case("step-12 v2s", &["12", "step", "v2s"]; "digits")]
    fn stems_of(text: &str, expected: &[&str]) {
        let found: Vec<String> = stems(text).into_iter().collect();
        assert_eq!(found, expected);
    }

    #[test_case("the timeout thing", &["timeout"])]
    #[test_case("please rename the delimiter", &["rename", "delimiter"])]
    #[test_case("Where was I? The Median BUG, the median bug", &["median", "bug"]; "once, in their order")]
    #[test_case("the thing", &["the", "thing"]; "nothing but fillers")]
    #[test_case("-- _", &[]; "no letters")]
    fn words_that_count(text: &str, expected: &[&str]) {
        let found: Vec<String> = query_words(text).into_iter().map(|(word, _)| word).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn fillers_are_sorted_for_the_binary_search() {
        assert!(FILLERS.is_sorted_by(|a, b| a < b));
    }

    #[test_case("small change", "change", true)]
    #[test_case("small change", "chan sma", true; "beginnings, in any order")]
    #[test_case("small change", "ange", false; "not the middle of a word")]
    #[test_case("small change", "small large", false; "all of them")]
    #[test_case("small change", "", true; "no words")]
    fn queries(text: &str, query: &str, expected: bool) {
        assert_eq!(matches(&word_set(text), &word_set(query)), expected);
    }
}
