//! Full-text search over notes: all branches, checkpoints and session notes, whole where an event was cut.
//!
//! Words are compared by the one normaliser (G39). A note is found when it holds every word of the query;
//! notes that were corrected later are not searched, and neither is the mark of a cut.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::Serialize;
use workrail_model::event::{Activity, Event, EventData, OutputPayload};
use workrail_model::health::SessionHealth;
use workrail_model::id::{NodeId, RunId, SessionId};
use workrail_model::limits::TRUNCATION_MARKER;
use workrail_model::time::Timestamp;

use crate::label::RunLabel;
use crate::link::NodeLink;
use crate::project::SessionState;
use crate::report::{Material, words};
use crate::search;

/// How much of a note is on each side of the first word that was found.
const AROUND_BYTES: usize = 100;

/// The words that are looked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SearchWords(BTreeSet<String>);

impl SearchWords {
    /// `None` when the text has no word that could be found.
    pub fn new(text: &str) -> Option<Self> {
        let tokens = search::tokens(text);
        (!tokens.is_empty()).then_some(Self(tokens))
    }

    fn all_in(&self, text: &str) -> bool {
        self.0.is_subset(&search::tokens(text))
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Hit {
    pub session_id: SessionId,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run_id: Option<RunId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_id: Option<NodeId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub link: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step: Option<String>,
    pub event_index: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub activity: Option<Activity>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<Timestamp>,
    /// The session is damaged; the note is before the damage.
    pub damaged: bool,
    pub excerpt: String,
}

/// The notes of a session that hold every word; `step` names the step of a node and is asked only for hits.
pub fn hits(
    facts: &SessionState,
    events: &[Event],
    health: &SessionHealth,
    wanted: &SearchWords,
    material: &dyn Material,
    step: &dyn Fn(NodeId) -> Option<String>,
) -> Vec<Hit> {
    let superseded = superseded(facts, events);
    let mut found = Vec::new();
    for event in events {
        let EventData::NodeOutputAppended(output) = &event.data else { continue };
        let OutputPayload::Notes { notes_markdown, full_text_ref } = &output.payload else { continue };
        if superseded.contains(&event.event_index.get()) {
            continue;
        }
        let whole = full_text_ref.and_then(|reference| String::from_utf8(material.blob(reference)?).ok());
        let text = whole.unwrap_or_else(|| notes_markdown.as_str().replace(TRUNCATION_MARKER, " "));
        if !wanted.all_in(&text) {
            continue;
        }
        let (run, node) = (event.scope.run(), event.scope.node());
        let session = facts.session_id();
        found.push(Hit {
            session_id: session,
            run_id: run,
            label: run.map(|run| RunLabel::of(run).to_string()),
            node_id: node,
            link: node.map(|node| NodeLink { session, node }.to_string()),
            step: node.and_then(step),
            event_index: event.event_index.get(),
            activity: event.activity,
            at: event.at.clone(),
            damaged: !health.is_healthy(),
            excerpt: excerpt(&text, wanted),
        });
    }
    found
}

fn superseded(facts: &SessionState, events: &[Event]) -> BTreeSet<u64> {
    let nodes: BTreeMap<NodeId, ()> =
        events.iter().filter_map(|event| Some((event.scope.node()?, ()))).collect();
    let outputs = nodes.keys().flat_map(|node| facts.outputs(*node));
    outputs.filter(|output| output.superseded).map(|output| output.index.get()).collect()
}

/// The newest first, by the store-wide number, then by session and place in the log.
pub fn order(hits: &mut [Hit]) {
    hits.sort_by_key(|hit| {
        (std::cmp::Reverse(hit.activity), hit.session_id, std::cmp::Reverse(hit.event_index))
    });
}

/// The surroundings of the first word that was found, on one line.
fn excerpt(text: &str, wanted: &SearchWords) -> String {
    let mut place = 0;
    for word in text.split_whitespace() {
        // The word is a part of the text, so that its place follows from the two addresses.
        let start = text[place..].find(word).map_or(place, |offset| place + offset);
        place = start;
        if !search::tokens(word).is_disjoint(&wanted.0) {
            break;
        }
        place = start + word.len();
    }
    let from = text.floor_char_boundary(place.saturating_sub(AROUND_BYTES));
    let to = text.ceil_char_boundary((place + AROUND_BYTES).min(text.len()));
    let before = if from > 0 { "…" } else { "" };
    let after = if to < text.len() { "…" } else { "" };
    format!("{before}{}{after}", words::one_line(&text[from..to]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_must_be_there_whole_in_any_case_or_width() {
        let text = "We fixed the LOGIN form; see re-try_budget.";
        for (query, found) in [
            ("login FORM", true),
            ("ＬＯＧＩＮ", true),
            ("log", false),
            ("login missing", false),
            ("re-try_budget", true),
        ] {
            assert_eq!(SearchWords::new(query).unwrap().all_in(text), found, "{query}");
        }
        assert_eq!(SearchWords::new(" !? "), None);
    }

    #[test]
    fn an_excerpt_shows_the_word_and_never_splits_a_character() {
        let text = format!("{} needle {}", "ä ".repeat(300), "ö ".repeat(300));
        let cut = excerpt(&text, &SearchWords::new("needle").unwrap());
        assert!(
            cut.contains("needle") && cut.starts_with('…') && cut.ends_with('…') && cut.len() < 450,
            "{cut}"
        );
        assert_eq!(excerpt("needle", &SearchWords::new("needle").unwrap()), "needle");
    }
}
