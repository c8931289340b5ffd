//! Export and import through the engine: both sides are equal, whatever the session went through.

use std::collections::BTreeMap;
use std::io::Cursor;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use serde_json::{Map, Value, json};
use workrail_core::bundle::KeyPatterns;
use workrail_core::project::SessionState;
use workrail_engine::request::{CheckpointWorkflow, ContinueWorkflow, ResumeSession, StartWorkflow};
use workrail_engine::{ImportMode, Imported};
use workrail_model::config::SECRET_KEYS;
use workrail_model::discovery::Precedence;
use workrail_model::event::{AdvanceOutcome, EdgeCauseKind, EventData, NodeKind};
use workrail_model::id::SessionId;
use workrail_model::preferences::Mode;
use workrail_model::strict_json;
use workrail_model::submission::StepOutput;
use workrail_ports::session_store::SessionReader;

use crate::scene::{Scene, Shelf, authored};

fn shelf() -> Arc<Shelf> {
    let shelf = Arc::new(Shelf::default());
    let step = |id: &str| json!({ "id": id, "title": format!("Step {id} of {{{{goal}}}}"), "prompt": format!("Do {id} with {{{{apiKey}}}}.") });
    let steps: Vec<Value> = (0..6).map(|n| step(&format!("step-{n}"))).collect();
    shelf.put(Precedence::Project, "run.json", &authored("team.run", &json!({ "steps": steps })));
    shelf
}

fn text(reply: &Value, member: &str) -> Option<String> {
    reply[member].as_str().map(str::to_owned)
}

fn object(value: Value) -> Map<String, Value> {
    value.as_object().cloned().unwrap_or_default()
}

const SECRET: &str = "sk-0123456789abcdef";

/// A chat that works on one session: every reply it ever got stays usable.
struct Chat<'s> {
    scene: &'s Scene,
    replies: Vec<Value>,
}

impl<'s> Chat<'s> {
    fn begin(scene: &'s Scene, mode: Option<Mode>) -> Self {
        let mut chat = Self { scene, replies: Vec::new() };
        chat.start(mode, None);
        chat
    }

    fn session(&self) -> SessionId {
        SessionId::parse(self.replies[0]["run"]["sessionId"].as_str().unwrap()).unwrap()
    }

    fn keep(&mut self, reply: Value) {
        self.replies.push(reply);
    }

    fn start(&mut self, mode: Option<Mode>, parent: Option<String>) {
        let request = StartWorkflow {
            workflow_id: "team.run".to_owned(),
            goal: Some("repair the teapot".to_owned()),
            context: object(json!({ "apiKey": SECRET, "size": 3 })),
            mode,
            parent,
            ..StartWorkflow::default()
        };
        if let Ok(reply) = self.scene.engine.start_workflow(request) {
            self.keep(reply.into_structured());
        }
    }

    fn send(&mut self, ack_token: Option<String>, output: StepOutput, context: Value) {
        let request =
            ContinueWorkflow { ack_token, output, context: object(context), ..ContinueWorkflow::default() };
        if let Ok(reply) = self.scene.engine.continue_workflow(request) {
            self.keep(reply.into_structured());
        }
    }

    /// One random action at a random one of the newest replies.
    fn act(&mut self, deed: u8, at: u8, number: usize) {
        let newest = self.replies.len() - 1;
        let reply = self.replies[newest.saturating_sub(usize::from(at) % 4)].clone();
        let ack = text(&reply, "ackToken");
        let notes = |said: &str| StepOutput {
            notes_markdown: Some(format!("{said} {number}")),
            artifacts: Vec::new(),
        };
        match deed % 9 {
            0 | 1 => self.send(ack, notes("went on"), json!({})),
            // Without notes, again and again: blocked, and finally a gap if the run never stops.
            2 => {
                self.send(ack, StepOutput::default(), json!({ "size": number }));
                for _ in 0..2 {
                    let retry = self.replies.last().filter(|reply| reply["kind"] == "blocked");
                    if let Some(ack) = retry.and_then(|reply| text(reply, "ackToken")) {
                        self.send(Some(ack), StepOutput::default(), json!({}));
                    }
                }
            }
            3 => {
                let checkpoint_token = text(&reply, "checkpointToken");
                let request = CheckpointWorkflow {
                    checkpoint_token,
                    output: notes("saved"),
                    ..CheckpointWorkflow::default()
                };
                if let Ok(reply) = self.scene.engine.checkpoint_workflow(request) {
                    self.keep(reply.into_structured());
                }
            }
            // The same ack again with other words: a separate branch is offered, and taken.
            4 => {
                self.send(ack, notes("other words"), json!({}));
                let fork = self.replies.last().and_then(|reply| text(reply, "forkAckToken"));
                if fork.is_some() {
                    self.send(fork, notes("a second branch"), json!({}));
                }
            }
            // A nested run; a complete run cannot have one.
            5 if ack.is_some() => self.start(None, ack),
            5 => {}
            6 => self.send(ack, notes(&"long ".repeat(1200)), json!({ "flavour": "mint" })),
            7 => {
                let artifacts = vec![json!({ "kind": "table", "rows": [number, "ä", null] })];
                self.send(ack, StepOutput { artifacts, ..notes("with a table") }, json!({}));
            }
            _ => {
                let request = ContinueWorkflow {
                    state_token: text(&reply, "stateToken"),
                    ..ContinueWorkflow::default()
                };
                if let Ok(shown) = self.scene.engine.continue_workflow(request) {
                    let shown = shown.into_structured();
                    self.send(text(&shown, "ackToken"), notes("after a rewind"), json!({}));
                }
            }
        }
    }
}

fn export(scene: &Scene, session: SessionId, redact: Option<KeyPatterns>) -> Vec<u8> {
    let mut bytes = Vec::new();
    scene.engine.export(session, redact, &mut bytes, &mut |_, _| {}).unwrap();
    bytes
}

fn import(scene: &Scene, bundle: &[u8], mode: ImportMode) -> Imported {
    scene.engine.import(&mut Cursor::new(bundle), mode).unwrap_or_else(|error| panic!("{}", error.message))
}

/// A text in which the ids assigned by an import are replaced by the original ones.
fn with_old_ids(text: &str, imported: &Imported) -> String {
    let mut text = text.replace(&imported.session.to_string(), &imported.original.to_string());
    for (old, new) in &imported.renamed_runs {
        text = text.replace(&new.to_string(), &old.to_string());
    }
    text
}

/// A bundle without what differs by design: whose it is, when it was made, and their digests.
fn normalised(bundle: &[u8], imported: Option<&Imported>) -> Value {
    let text = String::from_utf8(bundle.to_vec()).unwrap();
    let text = imported.map_or_else(|| text.clone(), |imported| with_old_ids(&text, imported));
    let mut value: Value = strict_json::parse(text.as_bytes()).unwrap();
    for member in ["bundleId", "exportedAt", "integrity"] {
        value.as_object_mut().unwrap().remove(member);
    }
    value["session"]["events"][0]["data"].as_object_mut().unwrap().remove("importedFrom");
    for record in value["session"]["manifest"].as_array_mut().unwrap() {
        let record = record.as_object_mut().unwrap();
        if record["kind"] == "segment_closed" {
            record.remove("sha256");
            record.remove("bytes");
        }
    }
    value
}

/// The folded state, and whether it came from a bundle: the only thing in which an imported session may differ from
/// its original (G97).
fn folded(scene: &Scene, session: SessionId) -> (String, bool) {
    let events = scene.store.read(session, None).unwrap().events;
    let mut state =
        object(serde_json::to_value(SessionState::from_events(session, &events).unwrap()).unwrap());
    let is_imported = state.remove("isImported") == Some(Value::Bool(true));
    (Value::Object(state).to_string(), is_imported)
}

/// What a new chat is offered, without tokens.
fn offered(scene: &Scene, query: &str) -> String {
    let request = ResumeSession { query: Some(query.to_owned()), ..ResumeSession::default() };
    let found = scene.engine.resume_session(request).unwrap().into_structured();
    let keep = |candidate: &Value| {
        let mut candidate = object(candidate.clone());
        for member in ["stateToken", "nextCall", "label", "sessionToken"] {
            candidate.remove(member);
        }
        for tip in candidate.get_mut("openTips").and_then(Value::as_array_mut).into_iter().flatten() {
            tip["nextCall"] = Value::Null;
        }
        Value::Object(candidate)
    };
    found["candidates"].as_array().unwrap().iter().map(keep).collect::<Value>().to_string()
}

const QUERIES: [&str; 5] = ["", "teapot", "saved", "second branch", "went on"];

#[test]
fn figure_export_import_export() {
    let (cases, events, runs) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
    let seen = std::sync::Mutex::new(BTreeMap::<&str, u64>::new());
    let deeds = prop::collection::vec((any::<u8>(), any::<u8>()), 3..24);
    let mut runner = TestRunner::new(Config { cases: 64, failure_persistence: None, ..Config::default() });
    let result = runner.run(&(deeds, any::<bool>(), any::<bool>()), |(deeds, never_stop, as_new)| {
        let here = Scene::seeded(1, shelf());
        let mut chat = Chat::begin(&here, never_stop.then_some(Mode::FullAutoNeverStop));
        for (number, (deed, at)) in deeds.iter().enumerate() {
            chat.act(*deed, *at, number);
        }
        let session = chat.session();
        let bundle = export(&here, session, None);
        let there = Scene::seeded(2, shelf());
        let mode = if as_new { ImportMode::AsNew } else { ImportMode::KeepIdIfFree };
        let imported = import(&there, &bundle, mode);
        prop_assert_eq!(imported.session == session, !as_new);
        let again = export(&there, imported.session, None);
        prop_assert_eq!(normalised(&again, Some(&imported)), normalised(&bundle, None));
        let (arrived, is_imported) = folded(&there, imported.session);
        let (sent, was_imported) = folded(&here, session);
        prop_assert_eq!(with_old_ids(&arrived, &imported), sent);
        prop_assert_eq!((is_imported, was_imported), (true, false));
        for query in QUERIES {
            prop_assert_eq!(with_old_ids(&offered(&there, query), &imported), offered(&here, query));
        }
        // A copy next to the original: all ids are new, and the history is the same.
        let copy = import(&here, &bundle, ImportMode::KeepIdIfFree);
        prop_assert_ne!(copy.session, session);
        prop_assert_eq!(copy.renamed_runs.len(), copy.runs.len());
        let copied = export(&here, copy.session, None);
        prop_assert_eq!(normalised(&copied, Some(&copy)), normalised(&bundle, None));
        cases.fetch_add(1, Ordering::Relaxed);
        runs.fetch_add(imported.runs.len() as u64, Ordering::Relaxed);
        events.fetch_add(imported.events, Ordering::Relaxed);
        for event in here.store.read(session, None).unwrap().events {
            if let Some(kind) = notable(&event.data) {
                *seen.lock().unwrap().entry(kind).or_default() += 1;
            }
        }
        Ok(())
    });
    result.unwrap();
    let seen = seen.into_inner().unwrap();
    println!(
        "figure: export-import-export, sessions {}, runs {}, events {} {seen:?}, differences 0",
        cases.load(Ordering::Relaxed),
        runs.load(Ordering::Relaxed),
        events.load(Ordering::Relaxed),
    );
    assert_eq!(
        seen.keys().copied().collect::<Vec<_>>(),
        ["blocks", "checkpoints", "forks", "gaps", "nested runs"]
    );
}

/// What makes a history more than a straight line.
fn notable(data: &EventData) -> Option<&'static str> {
    if let EventData::NodeCreated(node) = data {
        return (node.node_kind == NodeKind::Checkpoint).then_some("checkpoints");
    }
    if let EventData::AdvanceRecorded(advance) = data {
        return matches!(advance.outcome, AdvanceOutcome::Blocked { .. }).then_some("blocks");
    }
    if let EventData::EdgeCreated(edge) = data {
        let forks = [EdgeCauseKind::IntentionalFork, EdgeCauseKind::NonTipAdvance];
        return forks.contains(&edge.cause.kind).then_some("forks");
    }
    if let EventData::RunStarted(run) = data {
        return run.parent.is_some().then_some("nested runs");
    }
    matches!(data, EventData::GapRecorded(_)).then_some("gaps")
}

#[test]
fn a_copy_never_shows_the_ids_of_its_original() {
    let here = Scene::seeded(1, shelf());
    let mut chat = Chat::begin(&here, None);
    for number in 0..4 {
        chat.act(u8::from(number == 2) * 3, 0, number);
    }
    chat.act(5, 0, 4);
    let bundle = export(&here, chat.session(), None);
    let copy = import(&here, &bundle, ImportMode::KeepIdIfFree);
    let mut old: Vec<String> = vec![copy.original.to_string()];
    for run in copy.renamed_runs.keys() {
        old.extend([run.to_string(), workrail_core::label::RunLabel::of(*run).to_string()]);
    }
    let request = ResumeSession { session_id: Some(copy.session.to_string()), ..ResumeSession::default() };
    let found = here.engine.resume_session(request).unwrap().into_structured();
    let candidate = found["candidates"]
        .as_array()
        .unwrap()
        .iter()
        .find(|candidate| candidate["sessionId"] == copy.session.to_string())
        .unwrap();
    let mut shown = vec![candidate.to_string()];
    let mut reply = candidate.clone();
    for _ in 0..3 {
        let state_token =
            text(&reply, "stateToken").or_else(|| text(&reply["nextCall"]["arguments"], "stateToken"));
        let look = ContinueWorkflow { state_token, ..ContinueWorkflow::default() };
        let looked = here.engine.continue_workflow(look).unwrap().into_structured();
        shown.push(looked.to_string());
        let go_on = ContinueWorkflow {
            ack_token: text(&looked, "ackToken"),
            output: StepOutput { notes_markdown: Some("on the copy".to_owned()), artifacts: Vec::new() },
            ..ContinueWorkflow::default()
        };
        reply = here.engine.continue_workflow(go_on.clone()).unwrap().into_structured();
        let again = here.engine.continue_workflow(go_on).unwrap().into_structured();
        assert_eq!(again, reply, "a replay in the copy is the copy's own");
        shown.push(reply.to_string());
    }
    for text in &shown {
        for id in &old {
            assert!(!text.contains(id.as_str()), "{id} is shown: {text}");
        }
    }
}

fn redacted(extra: &[&str]) -> KeyPatterns {
    KeyPatterns::new(SECRET_KEYS.iter().chain(extra).map(|pattern| (*pattern).to_owned()))
}

#[test]
fn redaction_removes_every_value_and_the_session_can_continue() {
    let here = Scene::seeded(1, shelf());
    let mut chat = Chat::begin(&here, None);
    for number in 0..3 {
        chat.act(0, 0, number);
    }
    chat.act(3, 0, 3);
    let plain = String::from_utf8(export(&here, chat.session(), None)).unwrap();
    assert!(plain.matches(SECRET).count() >= 4, "the secret is in the context and in the replies");
    let mut bytes = Vec::new();
    let exported =
        here.engine.export(chat.session(), Some(redacted(&["goal"])), &mut bytes, &mut |_, _| {}).unwrap();
    let text = String::from_utf8(bytes.clone()).unwrap();
    assert!(!text.contains(SECRET) && !text.contains("repair the teapot"), "a dropped value is still there");
    let redaction = exported.redaction.unwrap();
    assert_eq!(redaction.removed, BTreeMap::from([("apiKey".to_owned(), 1), ("goal".to_owned(), 1)]));
    assert!(redaction.replies_changed >= 3, "{redaction:?}");
    assert_eq!((redaction.notes_with_values, redaction.artifacts_with_values), (0, 0));
    let there = Scene::seeded(2, shelf());
    let imported = import(&there, &bytes, ImportMode::KeepIdIfFree);
    assert_eq!(imported.redaction.as_ref(), Some(&redaction));
    let found = there
        .engine
        .resume_session(ResumeSession { query: Some("went on".to_owned()), ..ResumeSession::default() })
        .unwrap()
        .into_structured();
    let look = ContinueWorkflow {
        state_token: text_of(&found["nextCall"]["arguments"]["stateToken"]),
        ..ContinueWorkflow::default()
    };
    let looked = there.engine.continue_workflow(look).unwrap().into_structured();
    assert!(looked.to_string().contains("[unset: apiKey]"), "{looked}");
}

fn text_of(value: &Value) -> Option<String> {
    value.as_str().map(str::to_owned)
}

#[test]
fn a_value_that_an_agent_wrote_into_its_notes_is_counted_and_kept() {
    let here = Scene::seeded(1, shelf());
    let mut chat = Chat::begin(&here, None);
    let output = StepOutput {
        notes_markdown: Some(format!("I used {SECRET} for it")),
        artifacts: vec![json!({ "kind": "request", "header": SECRET })],
    };
    chat.send(text(&chat.replies[0], "ackToken"), output, json!({}));
    let mut bytes = Vec::new();
    let exported =
        here.engine.export(chat.session(), Some(redacted(&[])), &mut bytes, &mut |_, _| {}).unwrap();
    let redaction = exported.redaction.unwrap();
    assert_eq!((redaction.notes_with_values, redaction.artifacts_with_values), (1, 1));
    import(&Scene::seeded(2, shelf()), &bytes, ImportMode::KeepIdIfFree);
}

#[test]
fn activity_numbers_that_are_too_large_are_renumbered_in_order() {
    let here = Scene::seeded(1, shelf());
    let mut chat = Chat::begin(&here, None);
    chat.act(0, 0, 0);
    chat.act(5, 0, 1);
    let session = chat.session();
    let far = Scene::seeded(3, shelf());
    let mut events = here.store.read(session, None).unwrap().events;
    for event in &mut events {
        let moved = event.activity.unwrap().get() + (1 << 50);
        event.activity = workrail_model::event::Activity::new(moved);
    }
    write(&far, &here, events);
    let there = Scene::seeded(2, shelf());
    let imported = import(&there, &export(&far, session, None), ImportMode::KeepIdIfFree);
    assert!(imported.renumbered);
    let after: Vec<u64> = there
        .store
        .read(session, None)
        .unwrap()
        .events
        .iter()
        .filter_map(|event| event.activity.map(|activity| activity.get()))
        .collect();
    assert!(after.is_sorted() && after.last() <= Some(&10), "{after:?}");
    assert_eq!(offered(&there, "teapot"), offered(&here, "teapot"), "the order is the same");
    let mut later = Chat::begin(&there, None);
    later.act(0, 0, 0);
    let log = there.store.read(later.session(), None).unwrap().events;
    assert!(log[0].activity.unwrap().get() > *after.last().unwrap(), "what comes after ranks after");
}

/// Puts a log into a store as one plan, with the content of another store.
fn write(into: &Scene, from: &Scene, events: Vec<workrail_model::event::Event>) {
    use workrail_model::plan::{AppendPlan, Attachment, AttachmentKind};
    use workrail_ports::archive::SessionArchive;
    use workrail_ports::session_store::{LockedSession, SessionStore};
    let raw = |kind, digest| SessionArchive::content(&from.store, kind, digest).unwrap();
    let mut attachments = Vec::new();
    for event in &events {
        for blob in event.data.blob_refs() {
            attachments.push(Attachment::blob(raw(AttachmentKind::Blob, blob.digest())));
        }
        if let Some(snapshot) = event.data.snapshot_ref() {
            attachments.push(Attachment::snapshot(raw(AttachmentKind::Snapshot, snapshot.digest())));
        }
        if let EventData::RunStarted(run) = &event.data {
            attachments.push(Attachment::workflow(raw(AttachmentKind::Workflow, run.workflow_hash.digest())));
        }
    }
    let session = events[0].session_id;
    let plan = AppendPlan::new(events, attachments).unwrap();
    into.store.create(session).unwrap().append(plan).unwrap();
}
