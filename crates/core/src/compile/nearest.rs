//! "Did you mean": the nearest known word to a misspelled one.

/// The nearest of the words, when it is near enough to be a slip.
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // Beyond this a word is no misspelling, and the table would cost more than it tells.
    if word.len() > 100 {
        return None;
    }
    let limit = (word.chars().count() / 3).clamp(1, 4);
    let folded = word.to_lowercase();
    known
        .into_iter()
        .map(|candidate| (distance(&folded, &candidate.to_lowercase()), candidate))
        .filter(|(distance, _)| *distance <= limit)
        .min()
        .map(|(_, candidate)| candidate)
}

/// Edits (insert, delete, replace) between two words.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.chars().enumerate() {
        let mut diagonal = i;
        if let Some(first) = row.first_mut() {
            *first = i + 1;
        }
        for (j, to) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(from != *to);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row.last().copied().unwrap_or(0)
}

/// "did you mean `x`?" or the allowed set.
pub(crate) fn suggestion(word: &str, known: &[&str]) -> String {
    match nearest(word, known.iter().copied()) {
        Some(near) => format!("did you mean `{near}`?"),
        None => {
            let mut list: Vec<String> = known.iter().take(24).map(|name| format!("`{name}`")).collect();
            if known.len() > list.len() {
                list.push(format!("and {} more", known.len() - list.len()));
            }
            format!("allowed: {}", list.join(", "))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_are_found_and_strangers_are_not() {
        assert_eq!(nearest("promt", ["prompt", "title"]), Some("prompt"));
        assert_eq!(nearest("promptFragment", ["promptFragments", "prompt"]), Some("promptFragments"));
        assert_eq!(nearest("zzz", ["prompt", "title"]), None);
        assert_eq!(nearest("", ["ab"]), None);
    }
}
