//! A search in one run: notes, artifacts, context and the notes of its session.

use std::cell::LazyCell;
use std::collections::BTreeSet;

use workrail_model::reply::without_markers;

use super::{RunRecord, gist, kind_of};
use crate::search;

const HITS_MAX: usize = 20;
const AROUND_BYTES: usize = 160;

struct RankedLine {
    /// How many of the words it contains.
    words: usize,
    line: String,
}

impl RunRecord<'_> {
    /// Texts with the most matching words first, then the newest; `None` if the query has no word.
    pub fn find(&self, query: &str) -> Option<String> {
        let wanted = search::words_with_stems(query);
        if wanted.is_empty() {
            return None;
        }
        let mut found = Vec::new();
        let mut search = |location: String, text: &str| {
            let words = matching(text, &wanted);
            if words > 0 {
                found.push(RankedLine { words, line: format!("- {location}: {}", excerpt(text, &wanted)) });
            }
        };
        for (position, step) in self.path(self.tip.node_id).iter().enumerate().rev() {
            let state = self.state(step.node);
            let title = state.as_ref().and_then(|state| self.named(step.node, state)).map(|(_, title)| title);
            let location = format!("step {} ({})", position + 1, title.unwrap_or_default());
            for entry in step.outputs.iter().rev() {
                if let Some(notes) = self.whole_notes(&entry.output.payload) {
                    search(location.clone(), &notes);
                } else if let Some(artifact) = self.artifact(&entry.output.payload) {
                    search(format!("{location}, artifact {}", kind_of(&artifact)), &artifact.to_string());
                }
            }
        }
        for (key, value) in self.context().as_map() {
            let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            search(format!("context {key}"), &format!("{key} {value}"));
        }
        for output in self.facts.session_outputs().iter().rev() {
            if let Some(notes) = self.whole_notes(&output.payload) {
                search("notes of the session".to_owned(), &notes);
            }
        }
        found.sort_by_key(|hit| std::cmp::Reverse(hit.words));
        let label = self.label();
        if found.is_empty() {
            return Some(format!("Run {label}: nothing matches."));
        }
        let more = found.len().saturating_sub(HITS_MAX);
        let mut lines: Vec<String> = found.into_iter().take(HITS_MAX).map(|hit| hit.line).collect();
        if more > 0 {
            lines.push(format!("- and {more} more; use more words"));
        }
        Some(without_markers(&format!("Run {label}, matches:\n{}", lines.join("\n"))))
    }
}

/// How many of the words a text contains; a word may be a prefix or another form of one of the text's.
fn matching(text: &str, wanted: &[(String, Vec<String>)]) -> usize {
    let words = search::word_set(text);
    let stems = LazyCell::new(|| search::stems_of(&words));
    let begins = |word: &String| search::matches(&words, &BTreeSet::from([word.clone()]));
    wanted.iter().filter(|(word, own)| begins(word) || own.iter().all(|stem| stems.contains(stem))).count()
}

/// The text around the first match, on one line.
fn excerpt(text: &str, wanted: &[(String, Vec<String>)]) -> String {
    let line = gist(text, usize::MAX);
    let lower = line.to_lowercase();
    let is_wanted = |word: &str| {
        wanted.iter().any(|(own, stems)| {
            word.starts_with(own.as_str()) || search::stems(word).iter().any(|stem| stems.contains(stem))
        })
    };
    // Lowercasing may shift positions: then the beginning is shown.
    let same_length = lower.len() == line.len();
    let first = words_at(&lower).filter(|_| same_length).find(|(_, word)| is_wanted(word));
    let first = first.map_or(0, |(at, _)| at);
    let start = line.floor_char_boundary(first.saturating_sub(AROUND_BYTES / 2));
    let end = line.floor_char_boundary((first + AROUND_BYTES).min(line.len()));
    let before = if start > 0 { "…" } else { "" };
    let after = if end < line.len() { "…" } else { "" };
    format!("{before}{}{after}", &line[start..end])
}

/// The words of a text, with their positions: one word may be part of another.
fn words_at(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let is_in_word = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-');
    let mut end = 0;
    std::iter::from_fn(move || {
        let start = end + text[end..].find(is_in_word)?;
        end = text[start..].find(|c| !is_in_word(c)).map_or(text.len(), |length| start + length);
        Some((start, &text[start..end]))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_excerpt_is_around_the_word_that_matches_and_not_a_longer_one() {
        let text = format!("We start {}and end with art.", "x ".repeat(250));
        let found = excerpt(&text, &search::words_with_stems("art"));
        assert!(found.starts_with('…') && found.ends_with("with art."), "{found}");
    }
}
