//! "Did you mean": the known word closest to a misspelled one.

/// A longer word is not a misspelling, and comparing it would be slow.
const WORD_BYTES_MAX: usize = 100;

/// The closest of the known words, if it is close enough: a third of the letters may be wrong, at most six.
/// Case does not count.
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    if word.is_empty() || word.len() > WORD_BYTES_MAX {
        return None;
    }
    let edits_max = (word.chars().count() / 3).clamp(1, 6);
    let folded = word.to_lowercase();
    known
        .into_iter()
        .map(|candidate| (strsim::osa_distance(&folded, &candidate.to_lowercase()), candidate))
        .filter(|(edits, _)| *edits <= edits_max)
        .min()
        .map(|(_, candidate)| candidate)
}

/// Whether one text becomes the other by one typo: an extra letter, a missing one, a wrong one, or two swapped.
pub fn is_one_slip(typed: &str, meant: &str) -> bool {
    strsim::osa_distance(typed, meant) == 1
}

#[cfg(test)]
mod tests {
    use test_case::test_case;

    #[test_case("promt", Some("prompt"))]
    #[test_case("porpmt", Some("prompt"); "swapped letters")]
    #[test_case("PROMPT", Some("prompt"); "case")]
    #[test_case("promptFragment", Some("promptFragments"))]
    #[test_case("promptFragmentsList", Some("promptFragments"); "longer")]
    #[test_case("zzz", None; "too far")]
    #[test_case("", None; "empty")]
    fn nearest(word: &str, expected: Option<&str>) {
        assert_eq!(super::nearest(word, ["prompt", "promptFragments", "title"]), expected);
    }
}
