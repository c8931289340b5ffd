//! The suggestion of a diagnostic for an unknown word.

use workrail_model::nearest::nearest;

/// The known word that was probably meant.
pub(crate) fn likely_meant<'a>(word: &str, known: &[&'a str]) -> Option<&'a str> {
    // A built-in without its prefix is the likeliest mistake.
    let same_name = known.iter().copied().find(|name| name.rsplit('.').next() == Some(word));
    same_name.or_else(|| nearest(word, known.iter().copied()))
}

/// "did you mean `x`?" or the allowed words.
pub(crate) fn suggestion(word: &str, known: &[&str]) -> String {
    if known.is_empty() {
        return "none is declared: declare it, or remove the reference".to_owned();
    }
    match likely_meant(word, known) {
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
