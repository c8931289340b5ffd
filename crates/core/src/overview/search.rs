//! Full-text search over what was recorded: goals, labels and workflows of runs, and notes and artifacts of all branches,
//! checkpoints and sessions, in full where an event was truncated.
//!
//! Words are compared with the one normaliser (G39). A text matches if it contains every word of the query; notes
//! that were corrected later are not searched, and neither is the truncation marker.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use workrail_model::event::{Activity, Event, EventData, OutputPayload};
use workrail_model::health::SessionHealth;
use workrail_model::id::{NodeId, RunId, SessionId};
use workrail_model::limits::TRUNCATION_MARKER;
use workrail_model::time::Timestamp;

use crate::label::RunLabel;
use crate::link::NodeLink;
use crate::project::{RunState, SessionState};
use crate::report::{ContentReader, words};
use crate::search;

/// How much of a note is shown on each side of the first match.
const AROUND_BYTES: usize = 100;

/// Beyond the beginning, a large artifact is data, not what a person remembers of the work.
const ARTIFACT_SEARCHED_BYTES_MAX: usize = 64 * 1024;

/// Where the words were found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FoundIn {
    Label,
    Goal,
    /// The id or the name of the workflow.
    Workflow,
    /// The label, the goal and the workflow together; none of them has all the words.
    Run,
    Notes,
    Artifact,
}

/// The words to search for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SearchWords(BTreeSet<String>);

impl SearchWords {
    /// `None` if the text has no searchable word.
    pub fn new(text: &str) -> Option<Self> {
        let words = search::word_set(text);
        (!words.is_empty()).then_some(Self(words))
    }

    fn all_in(&self, text: &str) -> bool {
        self.0.is_subset(&search::word_set(text))
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Hit {
    pub session_id: SessionId,
    pub found_in: FoundIn,
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

/// The hits of a session; `step` names the step of a node and is called only for hits.
pub fn hits(
    facts: &SessionState,
    events: &[Event],
    health: &SessionHealth,
    wanted: &SearchWords,
    content: &dyn ContentReader,
    step: &dyn Fn(NodeId) -> Option<String>,
) -> Vec<Hit> {
    let superseded = superseded(facts, events);
    let mut found: Vec<Hit> =
        facts.runs().filter_map(|run| run_hit(facts, run, health, wanted, content)).collect();
    for event in events {
        let EventData::NodeOutputAppended(output) = &event.data else { continue };
        if superseded.contains(&event.event_index.get()) {
            continue;
        }
        let (found_in, text) = match &output.payload {
            OutputPayload::Notes { notes_markdown, full_text_ref } => {
                let whole =
                    full_text_ref.and_then(|reference| String::from_utf8(content.blob(reference)?).ok());
                let text = whole.unwrap_or_else(|| notes_markdown.as_str().replace(TRUNCATION_MARKER, " "));
                (FoundIn::Notes, text)
            }
            OutputPayload::ArtifactRef { sha256, .. } => {
                let Some(text) = content.blob(*sha256).and_then(artifact_text) else { continue };
                (FoundIn::Artifact, text)
            }
        };
        if !wanted.all_in(&text) {
            continue;
        }
        let (run, node) = (event.scope.run(), event.scope.node());
        let session = facts.session_id();
        found.push(Hit {
            session_id: session,
            found_in,
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

/// A run whose label, goal or workflow, alone or together, contain every word.
fn run_hit(
    facts: &SessionState,
    run: &RunState,
    health: &SessionHealth,
    wanted: &SearchWords,
    content: &dyn ContentReader,
) -> Option<Hit> {
    let label = RunLabel::of(run.run_id).to_string();
    let tip = facts.preferred_tip(run.run_id);
    let context = tip.and_then(|tip| facts.context_at(tip).ok()).unwrap_or_default();
    let goal = context.get("goal").and_then(Value::as_str).unwrap_or_default().to_owned();
    let name = content.workflow(run.workflow_hash).map(|workflow| workflow.name.clone());
    let id = run.workflow_id.as_str();
    let workflow =
        format!("{id} {} {}", id.replace(['_', '-', '.'], " "), name.as_deref().unwrap_or_default());
    let label_words = format!("{label} {}", label.replace('-', " "));
    let found_in = if wanted.all_in(&label_words) {
        FoundIn::Label
    } else if wanted.all_in(&workflow) {
        FoundIn::Workflow
    } else if wanted.all_in(&goal) {
        FoundIn::Goal
    } else if wanted.all_in(&format!("{goal} {label_words} {workflow}")) {
        FoundIn::Run
    } else {
        return None;
    };
    Some(Hit {
        session_id: facts.session_id(),
        found_in,
        run_id: Some(run.run_id),
        label: Some(label),
        node_id: None,
        link: None,
        step: None,
        event_index: run.started_at_index.get(),
        activity: run.last_activity,
        at: run.last_at.clone(),
        damaged: !health.is_healthy(),
        excerpt: match (goal.is_empty(), name) {
            (true, Some(name)) => words::one_line(&name),
            (true, None) => id.to_owned(),
            (false, _) => excerpt(&goal, wanted),
        },
    })
}

/// The texts of an artifact, each after its name, or the bytes as text if they are not JSON; `None` if they are neither.
fn artifact_text(mut bytes: Vec<u8>) -> Option<String> {
    let value: Value = serde_json::from_slice(&bytes).ok().or_else(|| {
        bytes.truncate(ARTIFACT_SEARCHED_BYTES_MAX);
        String::from_utf8(bytes).ok().map(Value::String)
    })?;
    let mut text = String::new();
    write_texts(None, &value, &mut text);
    text.truncate(text.floor_char_boundary(ARTIFACT_SEARCHED_BYTES_MAX));
    Some(text)
}

fn write_texts(name: Option<&str>, value: &Value, text: &mut String) {
    if text.len() > ARTIFACT_SEARCHED_BYTES_MAX {
        return;
    }
    match value {
        Value::Object(members) => {
            members.iter().for_each(|(name, member)| write_texts(Some(name), member, text))
        }
        Value::Array(items) => items.iter().for_each(|item| write_texts(name, item, text)),
        Value::Null => {}
        Value::String(own) => write_text(name, own, text),
        Value::Bool(_) | Value::Number(_) => write_text(name, &value.to_string(), text),
    }
}

fn write_text(name: Option<&str>, value: &str, text: &mut String) {
    if !text.is_empty() {
        text.push_str("; ");
    }
    if let Some(name) = name {
        text.push_str(&format!("{name}: "));
    }
    text.push_str(value);
}

fn superseded(facts: &SessionState, events: &[Event]) -> BTreeSet<u64> {
    let nodes: BTreeSet<NodeId> = events.iter().filter_map(|event| event.scope.node()).collect();
    let outputs = nodes.iter().flat_map(|node| facts.outputs(*node));
    outputs.filter(|output| output.superseded).map(|output| output.index.get()).collect()
}

/// The newest first, by the store-wide number, then by session and position in the log.
pub fn order(hits: &mut [Hit]) {
    hits.sort_by_key(|hit| {
        (std::cmp::Reverse(hit.activity), hit.session_id, std::cmp::Reverse(hit.event_index))
    });
}

/// The text around the first match, or its beginning if nothing in it matches, on one line.
fn excerpt(text: &str, wanted: &SearchWords) -> String {
    let position = first_match(text, wanted).unwrap_or(0);
    let from = text.floor_char_boundary(position.saturating_sub(AROUND_BYTES));
    let to = text.ceil_char_boundary((position + AROUND_BYTES).min(text.len()));
    // Do not cut words unless there is no other way.
    let from = match text[from..position].find(char::is_whitespace) {
        Some(offset) if from > 0 => from + offset,
        Some(_) | None => from,
    };
    let to = match text[position..to].rfind(char::is_whitespace) {
        Some(offset) if to < text.len() && offset > 0 => position + offset,
        Some(_) | None => to,
    };
    let before = if from > 0 { "…" } else { "" };
    let after = if to < text.len() { "…" } else { "" };
    format!("{before}{}{after}", words::one_line(&text[from..to]))
}

fn first_match(text: &str, wanted: &SearchWords) -> Option<usize> {
    let mut position = 0;
    for word in text.split_whitespace() {
        // Only white space comes before the next word, so the first match is that word.
        let start = text[position..].find(word).map_or(position, |offset| position + offset);
        if !search::word_set(word).is_disjoint(&wanted.0) {
            return Some(start);
        }
        position = start + word.len();
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_excerpt_without_a_match_is_the_beginning() {
        let goal = format!("Fix the login{}", " of the portal".repeat(40));
        let excerpt = |query: &str| excerpt(&goal, &SearchWords::new(query).unwrap());
        assert!(excerpt("amber").starts_with("Fix the login of the portal"), "{}", excerpt("amber"));
        assert!(excerpt("login").starts_with("Fix the login of the portal"), "{}", excerpt("login"));
    }

    #[test]
    fn every_word_must_occur_as_a_whole_word_in_any_case_or_width() {
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
    fn the_texts_of_an_artifact_follow_their_names() {
        let artifact =
            br#"{"kind":"finding","items":[{"path":"src/a.rs","line":7},{"path":"src/b.rs","ok":true}]}"#;
        let text = artifact_text(artifact.to_vec()).unwrap();
        assert_eq!(text, "line: 7; path: src/a.rs; ok: true; path: src/b.rs; kind: finding");
        assert_eq!(artifact_text(b"plain text".to_vec()).as_deref(), Some("plain text"));
        assert_eq!(artifact_text(vec![0xff, 0xfe]), None);
    }

    #[test]
    fn an_excerpt_begins_and_ends_between_words() {
        let text = format!("{} needle {}", "before ".repeat(40), "after ".repeat(40));
        let cut = excerpt(&text, &SearchWords::new("needle").unwrap());
        let inner = cut.trim_matches('…');
        assert!(inner.split(' ').all(|word| ["before", "needle", "after"].contains(&word)), "{cut}");
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
