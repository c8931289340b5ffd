//! The suggestion of a diagnostic for an unknown word.

use workrail_model::nearest::nearest;

/// "did you mean `x`?" or the allowed words.
pub(crate) fn suggestion(word: &str, known: &[&str]) -> String {
    if known.is_empty() {
        return "none is declared: declare it, or remove the reference".to_owned();
    }
    // A built-in without its prefix is the likeliest mistake.
    let same_name = known.iter().copied().find(|name| name.rsplit('.').next() == Some(word));
    match same_name.or_else(|| nearest(word, known.iter().copied())) {
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
