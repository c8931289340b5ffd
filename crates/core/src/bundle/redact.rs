//! Drops context values from a bundle by the names of their keys, and what WorkRail rendered from them (G81).
//!
//! The values themselves are dropped in `context_set`. Where they are repeated in context that is kept, or where
//! WorkRail wrote them into a stored reply or a message of an event, they are replaced. What an agent wrote, notes and
//! artifacts, is never changed: it is scanned, and the bundle says how often a dropped value still occurs.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};
use workrail_model::canonical::value_to_canonical;
use workrail_model::event::Event;
use workrail_model::limits::TRUNCATION_MARKER;
use workrail_model::reply::without_markers;
use workrail_model::strict_json;

use super::needle::{NUMBER_CHARS_MIN, Needle, NeedlePart, REPLACEMENT};
use crate::condition::js_string;
use crate::secrets::{comparable_key, fits};

/// Patterns of keys: `*` represents anything; case, `_`, `-`, `.` and spaces do not count.
#[derive(Clone, Debug)]
pub struct KeyPatterns {
    shown: Vec<String>,
    comparable: Vec<String>,
}

impl KeyPatterns {
    pub fn new(patterns: impl IntoIterator<Item = String>) -> Self {
        let shown: Vec<String> = patterns.into_iter().collect();
        let comparable = shown.iter().map(|pattern| comparable_key(pattern)).collect();
        Self { shown, comparable }
    }

    pub(crate) fn shown(&self) -> &[String] {
        &self.shown
    }

    pub(crate) fn matches(&self, key: &str) -> bool {
        let key = comparable_key(key);
        self.comparable.iter().any(|pattern| fits(pattern, &key))
    }
}

/// The first scan of a session: which values will be dropped.
#[derive(Clone, Debug)]
pub struct RedactionScan {
    patterns: KeyPatterns,
    values: BTreeSet<String>,
    /// Whether any key is dropped, including one whose value no text could show.
    drops: bool,
    /// The nodes at which an attempt sent context, which the digest of what was submitted covers.
    sent_at: BTreeSet<String>,
}

impl RedactionScan {
    pub fn new(patterns: KeyPatterns) -> Self {
        Self { patterns, values: BTreeSet::new(), drops: false, sent_at: BTreeSet::new() }
    }

    /// Scans an event for context; everything else is ignored.
    pub fn see(&mut self, event: &Value) {
        if let Some(context) = context_of(event) {
            self.drops |= gather(context, &self.patterns, &mut self.values);
            if event.pointer("/data/attemptId").is_some()
                && let Some(node) = event.pointer("/data/nodeId").and_then(Value::as_str)
            {
                self.sent_at.insert(node.to_owned());
            }
        }
    }

    pub fn into_redactor(self) -> Redactor {
        let mut texts = BTreeSet::new();
        for value in &self.values {
            let value = without_markers(value);
            // When indented or quoted, the lines of a value are separate.
            texts.extend(value.lines().map(|line| line.trim().to_owned()));
            // Inside JSON that is shown as text, a value is escaped.
            if let Ok(escaped) = serde_json::to_string(&value) {
                texts.insert(escaped[1..escaped.len() - 1].to_owned());
            }
            texts.insert(value);
        }
        texts.retain(|text| !text.trim().is_empty());
        let mut needles: Vec<Needle> = texts.into_iter().map(Needle::new).collect();
        // The longest first, so that none is cut by a shorter one that it contains.
        needles.sort_by(|a, b| b.text.len().cmp(&a.text.len()).then_with(|| a.text.cmp(&b.text)));
        let Self { patterns, drops, sent_at, .. } = self;
        Redactor {
            patterns,
            needles,
            drops,
            sent_at,
            removed: BTreeMap::new(),
            messages_changed: 0,
            actors_removed: 0,
        }
    }
}

fn context_of(event: &Value) -> Option<&Map<String, Value>> {
    let is_context = event.get("kind").and_then(Value::as_str) == Some("context_set");
    event.pointer("/data/context").filter(|_| is_context)?.as_object()
}

/// Collects the values to drop; returns whether any key is dropped.
fn gather(members: &Map<String, Value>, patterns: &KeyPatterns, values: &mut BTreeSet<String>) -> bool {
    let mut drops = false;
    for (key, value) in members {
        if patterns.matches(key) {
            drops = true;
            leaves(value, values);
        } else {
            objects_in(value, &mut |inner| drops |= gather(inner, patterns, values));
        }
    }
    drops
}

fn objects_in(value: &Value, visit: &mut dyn FnMut(&Map<String, Value>)) {
    match value {
        Value::Object(members) => visit(members),
        Value::Array(items) => items.iter().for_each(|item| objects_in(item, visit)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Everything in a value that a text could show. Booleans are too common to be secret.
fn leaves(value: &Value, values: &mut BTreeSet<String>) {
    match value {
        Value::Null | Value::Bool(_) => {}
        Value::Number(_) | Value::String(_) => {
            values.insert(js_string(Some(value)).into_owned());
        }
        Value::Array(items) => items.iter().for_each(|item| leaves(item, values)),
        Value::Object(members) => members.values().for_each(|member| leaves(member, values)),
    }
}

/// Drops the values, event by event, and counts what it does.
#[derive(Clone, Debug)]
pub struct Redactor {
    patterns: KeyPatterns,
    needles: Vec<Needle>,
    drops: bool,
    sent_at: BTreeSet<String>,
    removed: BTreeMap<String, u64>,
    messages_changed: u64,
    actors_removed: u64,
}

/// Members of events with sentences written by WorkRail.
const MESSAGES: [&str; 6] =
    ["summary", "message", "suggestedFix", "issues", "rationale", "normalizationNotes"];

/// Members of a stored reply that are not prose: ids, tokens, closed words.
const NOT_PROSE: [&str; 10] = [
    "run",
    "stateToken",
    "ackToken",
    "checkpointToken",
    "forkAckToken",
    "nextCall",
    "returnTo",
    "preferences",
    "kind",
    "stepId",
];

impl Redactor {
    pub fn patterns(&self) -> &[String] {
        self.patterns.shown()
    }

    /// The keys dropped so far, and how often.
    pub fn removed(&self) -> &BTreeMap<String, u64> {
        &self.removed
    }

    pub fn messages_changed(&self) -> u64 {
        self.messages_changed
    }

    /// The number of events whose actor was removed.
    pub fn actors_removed(&self) -> u64 {
        self.actors_removed
    }

    pub fn finds_anything(&self) -> bool {
        !self.needles.is_empty()
    }

    /// Whether a text contains a dropped value.
    pub fn is_in(&self, text: &str) -> bool {
        self.needles.iter().any(|needle| needle.find(text, 0, NeedlePart::Beginning).is_some())
    }

    /// Drops values from an event, replaces them in its messages, and drops its actor.
    pub fn event(&mut self, event: &mut Value) {
        // Names of people and machines say nothing about the work to the recipients of a redacted bundle.
        let actor = event.as_object_mut().and_then(|members| members.remove("actor"));
        self.actors_removed += u64::from(actor.is_some());
        let kind = event.get("kind").and_then(Value::as_str).unwrap_or_default().to_owned();
        match kind.as_str() {
            "context_set" => {
                let before = event.pointer("/data/context").cloned();
                if let Some(Value::Object(context)) = event.pointer_mut("/data/context") {
                    drop_keys(context, "", &self.patterns, &mut self.removed);
                }
                self.replace_in(event, replace_context);
                if event.pointer("/data/context") != before.as_ref() {
                    drop_members(event, "/data", &["proof"]);
                }
            }
            "node_output_appended" => {}
            _ => self.replace_in(event, replace_messages),
        }
        if !self.drops {
            return;
        }
        // Digests that cover context: short values could be guessed from them.
        let node = event.pointer("/scope/nodeId").and_then(Value::as_str);
        let sent_context = node.is_some_and(|node| self.sent_at.contains(node));
        match kind.as_str() {
            "advance_recorded" if sent_context => {
                drop_members(event, "/data", &["requestDigest", "submitted"]);
            }
            "advance_recorded" => drop_members(event, "/data", &["requestDigest"]),
            "run_started" => drop_members(event, "/data/keyed", &["requestDigest"]),
            // What a passkey signed is made of the digest.
            "approval_recorded" if sent_context => drop_members(event, "/data", &["submitted", "proof"]),
            _ => {}
        }
    }

    fn replace_in(&mut self, event: &mut Value, replace: Replace) {
        let Some(data) = event.get("data") else { return };
        let mut changed = data.clone();
        if !replace(&mut changed, &|text| self.replaced(text)) {
            return;
        }
        self.messages_changed += 1;
        let before = event.clone();
        event["data"] = changed;
        // A longer text may exceed its limit: then none of it is kept.
        if Event::from_value(event.clone()).is_err() {
            *event = before;
            if let Some(data) = event.get_mut("data") {
                let whole =
                    |text: &str| if self.is_in(text) { REPLACEMENT.to_owned() } else { text.to_owned() };
                replace(data, &|text| Cow::Owned(whole(text)));
            }
        }
    }

    /// A stored reply without the values; `None` if it contained none.
    pub fn reply(&self, bytes: &[u8]) -> Option<Vec<u8>> {
        let changed = match strict_json::parse(bytes) {
            Ok(mut reply @ Value::Object(_)) => {
                let before = reply.clone();
                self.prose(&mut reply);
                if reply == before {
                    return None;
                }
                value_to_canonical(&reply).ok()?
            }
            Ok(_) | Err(_) => self.replaced(std::str::from_utf8(bytes).ok()?).into_owned().into_bytes(),
        };
        (changed != bytes).then_some(changed)
    }

    fn prose(&self, value: &mut Value) {
        match value {
            Value::String(text) => {
                if let Cow::Owned(changed) = self.replaced_outside_markers(text) {
                    *text = changed;
                }
            }
            Value::Array(items) => items.iter_mut().for_each(|item| self.prose(item)),
            Value::Object(members) => {
                let prose = members.iter_mut().filter(|(key, _)| !NOT_PROSE.contains(&key.as_str()));
                prose.for_each(|(_, member)| self.prose(member));
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    /// Skips token markers, which are between NULs and are not prose.
    fn replaced_outside_markers<'t>(&self, text: &'t str) -> Cow<'t, str> {
        if !text.contains('\u{0}') {
            return self.replaced(text);
        }
        let pieces = text.split('\u{0}').enumerate();
        let changed: Vec<Cow<'_, str>> = pieces
            .map(|(number, piece)| if number % 2 == 0 { self.replaced(piece) } else { Cow::Borrowed(piece) })
            .collect();
        Cow::Owned(changed.join("\u{0}"))
    }

    fn replaced<'t>(&self, text: &'t str) -> Cow<'t, str> {
        let mut text = Cow::Borrowed(text);
        // Whole values first: one that begins like another must not be taken for the rest of it.
        for part in [NeedlePart::Whole, NeedlePart::Beginning] {
            for needle in &self.needles {
                if let Some(changed) = needle.replaced(&text, part) {
                    text = Cow::Owned(changed);
                }
            }
        }
        self.without_cut_values(text)
    }

    /// A title or an excerpt may end inside a value, with less of it than is recognised elsewhere. Where a text was
    /// truncated, its end is compared with the beginnings of the values.
    fn without_cut_values<'t>(&self, text: Cow<'t, str>) -> Cow<'t, str> {
        let mut text = text;
        let mut from = 0;
        while let Some(marker_at) = text[from..].find(TRUNCATION_MARKER).map(|at| from + at) {
            let left = self.needles.iter().filter_map(|needle| needle.left_of_cut(&text[..marker_at])).max();
            let cut_at = marker_at - left.unwrap_or(0);
            if left.is_some() {
                text = Cow::Owned(format!("{}{REPLACEMENT}{}", &text[..cut_at], &text[marker_at..]));
                from = cut_at + REPLACEMENT.len() + TRUNCATION_MARKER.len();
            } else {
                from = marker_at + TRUNCATION_MARKER.len();
            }
        }
        text
    }
}

/// Drops members of the object at a pointer, if it is there.
pub(super) fn drop_members(event: &mut Value, pointer: &str, names: &[&str]) {
    if let Some(Value::Object(members)) = event.pointer_mut(pointer) {
        members.retain(|name, _| !names.contains(&name.as_str()));
    }
}

fn drop_keys(
    members: &mut Map<String, Value>,
    above: &str,
    patterns: &KeyPatterns,
    removed: &mut BTreeMap<String, u64>,
) {
    let named = |key: &str| if above.is_empty() { key.to_owned() } else { format!("{above}.{key}") };
    let dropped: Vec<String> = members.keys().filter(|key| patterns.matches(key)).cloned().collect();
    for key in dropped {
        members.remove(&key);
        *removed.entry(named(&key)).or_default() += 1;
    }
    for (key, value) in members.iter_mut() {
        drop_inside(value, &named(key), patterns, removed);
    }
}

fn drop_inside(value: &mut Value, at: &str, patterns: &KeyPatterns, removed: &mut BTreeMap<String, u64>) {
    match value {
        Value::Object(members) => drop_keys(members, at, patterns, removed),
        Value::Array(items) => items.iter_mut().for_each(|item| drop_inside(item, at, patterns, removed)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Changes some texts of an event's data; returns whether any was changed.
type Replace = fn(&mut Value, &dyn Fn(&str) -> Cow<'_, str>) -> bool;

/// Changes the values of a context: a kept value may repeat a dropped one.
fn replace_context(data: &mut Value, change: &dyn Fn(&str) -> Cow<'_, str>) -> bool {
    data.get_mut("context").is_some_and(|context| replace_values(context, change))
}

fn replace_values(value: &mut Value, change: &dyn Fn(&str) -> Cow<'_, str>) -> bool {
    match value {
        Value::Object(members) => {
            members.values_mut().fold(false, |changed, member| changed | replace_values(member, change))
        }
        Value::Array(items) => {
            items.iter_mut().fold(false, |changed, item| changed | replace_values(item, change))
        }
        Value::String(_) => replace_texts(value, change),
        Value::Number(_) => {
            let text = js_string(Some(value)).into_owned();
            let new = change(&text).into_owned();
            // A short number is too common to be taken for the dropped one.
            let changed = text.len() >= NUMBER_CHARS_MIN && new != text;
            if changed {
                *value = Value::String(new);
            }
            changed
        }
        Value::Null | Value::Bool(_) => false,
    }
}

/// Changes the texts under the members that hold messages; returns whether any was changed.
fn replace_messages(value: &mut Value, change: &dyn Fn(&str) -> Cow<'_, str>) -> bool {
    let mut changed = false;
    match value {
        Value::Object(members) => {
            for (key, member) in members {
                changed |= match MESSAGES.contains(&key.as_str()) {
                    true => replace_texts(member, change),
                    false => replace_messages(member, change),
                };
            }
        }
        Value::Array(items) => {
            for item in items {
                changed |= replace_messages(item, change);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
    changed
}

fn replace_texts(value: &mut Value, change: &dyn Fn(&str) -> Cow<'_, str>) -> bool {
    match value {
        Value::String(text) => {
            let new = change(text).into_owned();
            let changed = new != *text;
            *text = new;
            changed
        }
        Value::Array(items) => {
            items.iter_mut().fold(false, |changed, item| changed | replace_texts(item, change))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => false,
    }
}
