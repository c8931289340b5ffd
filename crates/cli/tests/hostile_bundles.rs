//! Broken or forged bundles: refused with the right code and nothing written, or valid after all.

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod forge;

use std::collections::BTreeMap;
use std::io::Cursor;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;

use serde_json::{Map, Value, json};
use workrail_engine::request::{CheckpointWorkflow, ContinueWorkflow, StartWorkflow};
use workrail_engine::{Engine, EngineEnvironment, ImportMode};
use workrail_host::sources::Sources;
use workrail_host::workspace::GitObserver;
use workrail_model::bundle::Producer;
use workrail_model::id::SessionId;
use workrail_model::preferences::Preferences;
use workrail_model::submission::StepOutput;
use workrail_model::token::TokenEncoding;
use workrail_store_fs::LocalStore;
use workrail_store_fs::disk::Disk;
use workrail_testkit::fixed::{FixedClock, SeededEntropy};
use workrail_testkit::folder::files;
use workrail_testkit::proof::is_full;

use forge::{events_of, normalised, reattest, recommit, renumber};

type TestEngine = Engine<LocalStore<Disk>>;

fn open(root: &Path, seed: u64) -> TestEngine {
    let disk = Disk::open(camino::Utf8Path::from_path(root).unwrap()).unwrap();
    let store = LocalStore::open(disk, Box::new(SeededEntropy::new(seed)), "boot".to_owned()).unwrap();
    let environment = EngineEnvironment {
        clock: Box::new(FixedClock::default()),
        entropy: Box::new(SeededEntropy::new(seed)),
        workflows: Arc::new(Sources::new(None, Vec::new())),
        observer: Box::<GitObserver>::default(),
        checks: None,
        workspace: None,
        default_preferences: Arc::new(Preferences::default()),
        approvals: Arc::new(workrail_model::approval::RequiredProof::Terminal),
        token_encoding: TokenEncoding::V2,
        tools: workrail_model::tool::ToolSet::ALL,
        producer: Producer { app_version: "test".to_owned(), applied_config_hash: None },
    };
    Engine::new(Arc::new(store), environment)
}

/// A session with a block, a checkpoint, a branch and an inner run.
fn session(engine: &TestEngine) -> SessionId {
    let start = |parent: Option<String>| {
        let request =
            StartWorkflow { workflow_id: "wr.small_change".to_owned(), parent, ..StartWorkflow::default() };
        engine.start_workflow(request).unwrap().into_structured()
    };
    let send = |ack: &Value, notes: Option<&str>| {
        let request = ContinueWorkflow {
            ack_token: ack.as_str().map(str::to_owned),
            output: StepOutput {
                notes_markdown: notes.map(str::to_owned),
                artifacts: vec![json!({ "kind": "x" })],
            },
            context: json!({ "size": 3 }).as_object().cloned().unwrap(),
            ..ContinueWorkflow::default()
        };
        engine.continue_workflow(request).unwrap().into_structured()
    };
    let first = start(None);
    let blocked = send(&first["ackToken"], None);
    let second = send(&blocked["ackToken"], Some("one"));
    let other = send(&blocked["ackToken"], Some("two"));
    send(&other["forkAckToken"], Some("two"));
    let request = CheckpointWorkflow {
        checkpoint_token: second["checkpointToken"].as_str().map(str::to_owned),
        output: StepOutput { notes_markdown: Some("saved".to_owned()), artifacts: Vec::new() },
        ..CheckpointWorkflow::default()
    };
    engine.checkpoint_workflow(request).unwrap();
    start(second["ackToken"].as_str().map(str::to_owned));
    SessionId::parse(first["run"]["sessionId"].as_str().unwrap()).unwrap()
}

/// SplitMix64, so that the mutations are reproducible.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, below: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % below.max(1) as u64) as usize
    }

    fn pick<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.roll(items.len())]
    }
}

/// Every position of a document, as JSON pointers.
fn pointers(value: &Value, at: &str, found: &mut Vec<String>) {
    found.push(at.to_owned());
    match value {
        Value::Object(members) => members.iter().for_each(|(key, member)| {
            pointers(member, &format!("{at}/{}", key.replace('~', "~0").replace('/', "~1")), found);
        }),
        Value::Array(items) => {
            items
                .iter()
                .enumerate()
                .for_each(|(index, item)| pointers(item, &format!("{at}/{index}"), found));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn scalar(dice: &mut Dice) -> Value {
    let long = "x".repeat(5 * 1024 * 1024);
    let deep = (0..100).fold(json!(1), |inner, _| json!([inner]));
    let choices = [
        json!(null),
        json!(-1),
        json!(9_007_199_254_740_991_u64),
        json!("../../etc/passwd"),
        json!("/etc/passwd"),
        json!("sess_0000000000000000"),
        json!("sha256:0000000000000000000000000000000000000000000000000000000000000000"),
        json!({}),
        json!([]),
        json!(true),
        json!(""),
        json!("\u{0}state\u{0}"),
    ];
    match dice.roll(60) {
        0 => json!(long),
        1 => deep,
        _ => dice.pick(&choices).clone(),
    }
}

/// The change to a bundle, and its result.
struct Forged {
    name: &'static str,
    bytes: Vec<u8>,
}

struct Forger {
    dice: Dice,
    base: Value,
    text: Vec<u8>,
}

impl Forger {
    fn events(bundle: &mut Value) -> &mut Vec<Value> {
        bundle["session"]["events"].as_array_mut().unwrap()
    }

    fn table<'v>(bundle: &'v mut Value, name: &str) -> &'v mut Map<String, Value> {
        bundle["session"][name].as_object_mut().unwrap()
    }

    fn forge(&mut self, number: usize) -> Forged {
        match number % 25 {
            0..=4 => self.raw(number % 25),
            kind => self.edited(kind),
        }
    }

    /// Bytes changed by an attacker who does not know the format.
    fn raw(&mut self, kind: usize) -> Forged {
        let mut bytes = self.text.clone();
        let at = self.dice.roll(bytes.len());
        let len = self.dice.roll(200).min(bytes.len() - at);
        let name = match kind {
            0 => {
                bytes[at] ^= 1 << self.dice.roll(8);
                "a flipped bit"
            }
            1 => {
                bytes.drain(at..at + len);
                "a cut"
            }
            2 => {
                let copied = bytes[at..at + len].to_vec();
                bytes.splice(at..at, copied);
                "a repetition"
            }
            3 => {
                bytes.truncate(at);
                "a torn end"
            }
            _ => {
                let text = String::from_utf8(bytes.clone()).unwrap();
                let keys: Vec<usize> = text.match_indices("\":").map(|(at, _)| at).collect();
                let end = *self.dice.pick(&keys);
                let start = text[..end].rfind('"').unwrap();
                let doubled = format!("{}:null,", &text[start..=end]);
                bytes = format!("{}{doubled}{}", &text[..start], &text[start..]).into_bytes();
                "a duplicate key"
            }
        };
        Forged { name, bytes }
    }

    /// Changed values; from the third kind on, by an attacker who recomputes all digests.
    fn edited(&mut self, kind: usize) -> Forged {
        let mut bundle = self.base.clone();
        let dice = &mut self.dice;
        let count = Self::events(&mut bundle).len();
        let (one, other) = (dice.roll(count), dice.roll(count));
        let tables = ["snapshots", "pinnedWorkflows", "blobs"];
        let mut fit = (true, true);
        let name = match kind {
            5 => {
                let mut places = Vec::new();
                pointers(&bundle, "", &mut places);
                let place = dice.pick(&places[1..]).clone();
                *bundle.pointer_mut(&place).unwrap() = scalar(dice);
                fit = (false, false);
                "another value"
            }
            6 => {
                let mut places = Vec::new();
                pointers(&bundle["session"]["events"], "/session/events", &mut places);
                let place = dice.pick(&places[1..]).clone();
                *bundle.pointer_mut(&place).unwrap() = scalar(dice);
                "another value in an event, with recomputed digests"
            }
            7 => {
                let mut places = Vec::new();
                pointers(&bundle, "", &mut places);
                let place = dice.pick(&places[1..]).clone();
                let (parent, key) = place.rsplit_once('/').unwrap();
                if let Some(Value::Object(members)) = bundle.pointer_mut(parent) {
                    members.remove(&key.replace("~1", "/").replace("~0", "~"));
                }
                fit = (
                    false,
                    dice.roll(2) == 0 && bundle["session"].is_object() && bundle["integrity"].is_object(),
                );
                "a member removed"
            }
            8 => {
                Self::events(&mut bundle).swap(one, other);
                fit = (false, true);
                "two events swapped"
            }
            9 => {
                Self::events(&mut bundle).swap(one, other);
                renumber(&mut bundle);
                "two events swapped and numbered anew"
            }
            10 => {
                Self::events(&mut bundle).remove(one);
                renumber(&mut bundle);
                "an event removed"
            }
            11 => {
                let nodes = events_of(&bundle, "node_created");
                let (child, parent) = (*dice.pick(&nodes), *dice.pick(&nodes));
                let id = Self::events(&mut bundle)[parent]["scope"]["nodeId"].clone();
                Self::events(&mut bundle)[child]["data"]["parentNodeId"] = id;
                "a cycle in the graph"
            }
            12 => {
                let field = *dice.pick(&["sessionId", "eventId", "dedupeKey"]);
                let forged = Self::events(&mut bundle)[other][field].clone();
                Self::events(&mut bundle)[one][field] = match field {
                    "sessionId" => json!("sess_0123456789abcdef"),
                    _ => forged,
                };
                "a forged id"
            }
            13 => {
                let copy = Self::events(&mut bundle)[one].clone();
                Self::events(&mut bundle).insert(other, copy);
                renumber(&mut bundle);
                "an event twice"
            }
            14 => {
                let table = Self::table(&mut bundle, tables[dice.roll(3)]);
                let keys: Vec<String> = table.keys().cloned().collect();
                table.remove(dice.pick(&keys));
                "content removed"
            }
            15 => {
                let name = *dice.pick(&tables);
                let table = Self::table(&mut bundle, name);
                let keys: Vec<String> = table.keys().cloned().collect();
                let key = dice.pick(&keys).clone();
                table.insert(key, json!({ "utf8": "something else" }));
                "other content under an old digest"
            }
            16 => {
                let blob = json!({ "utf8": format!("stray {one}") });
                let name = workrail_model::digest::Sha256::of(format!("stray {one}").as_bytes()).to_string();
                Self::table(&mut bundle, "blobs").insert(name, blob);
                "content that nobody asked for"
            }
            17 => {
                let trick =
                    *dice.pick(&["../../keys/keyring.json", "/etc/passwd", "sha256:../x", ".tmp-import", ""]);
                Self::table(&mut bundle, tables[dice.roll(3)])
                    .insert(trick.to_owned(), json!({ "utf8": "x" }));
                "a path for a digest"
            }
            18 => {
                let runs = events_of(&bundle, "run_started");
                let place = *dice.pick(&["/etc/passwd", "C:\\x", "\\\\host\\x", "file:///x"]);
                Self::events(&mut bundle)[*dice.pick(&runs)]["data"]["workflowSourceRef"] = json!(place);
                "an absolute path"
            }
            19 => {
                let records = bundle["session"]["manifest"].as_array_mut().unwrap();
                let at = dice.roll(records.len());
                match dice.roll(3) {
                    0 => drop(records.remove(at)),
                    1 => records.insert(at, records[at].clone()),
                    _ => records[at] = json!({ "kind": "segment_closed", "segmentRelPath": "../../x" }),
                }
                fit = (false, true);
                "another manifest"
            }
            20 => {
                let entries = bundle["integrity"]["entries"].as_array_mut().unwrap();
                let at = dice.roll(entries.len());
                match dice.roll(4) {
                    0 => drop(entries.remove(at)),
                    1 => entries.push(entries[at].clone()),
                    2 => entries[at]["path"] = json!("session/events/../../x"),
                    _ => entries[at]["bytes"] = json!(1),
                }
                fit = (false, false);
                "other integrity entries"
            }
            21 => {
                match dice.roll(3) {
                    0 => bundle["bundleSchemaVersion"] = json!(2),
                    1 => Self::events(&mut bundle)[one]["v"] = json!(2),
                    _ => Self::events(&mut bundle)[one]["kind"] = json!("later_kind"),
                }
                fit = (false, true);
                "a later version"
            }
            22 => {
                let huge = match dice.roll(4) {
                    0 => json!("x".repeat(9 * 1024 * 1024)),
                    1 => json!(vec![0; 600_000]),
                    2 => (0..70).fold(json!(1), |inner, _| json!({ "a": inner })),
                    _ => json!("y".repeat(3 * 1024 * 1024)),
                };
                Self::events(&mut bundle)[one]["data"]["laterField"] = huge;
                "something huge"
            }
            23 => {
                let outputs = events_of(&bundle, "node_output_appended");
                let at = *dice.pick(&outputs);
                Self::events(&mut bundle)[at]["data"]["payload"]["notesMarkdown"] = json!("never said");
                "a rewritten note, with all digests recomputed"
            }
            _ => {
                fit = (false, false);
                "nothing but other white space and another order"
            }
        };
        if fit.0 {
            recommit(&mut bundle);
        }
        if fit.1 {
            reattest(&mut bundle);
        }
        Forged { name, bytes: serde_json::to_string_pretty(&bundle).unwrap().into_bytes() }
    }
}

/// An accepted bundle must be exactly what it claimed to be.
fn verified_equal(engine: &TestEngine, forged: &Forged) -> Result<(), String> {
    let imported = engine
        .import(&mut Cursor::new(&forged.bytes), ImportMode::AsNew)
        .map_err(|error| format!("checked and then refused: {}", error.message))?;
    let mut again = Vec::new();
    engine
        .export(imported.session, None, &mut again, &mut |_, _| {})
        .map_err(|error| format!("imported and not exported: {error:?}"))?;
    let session = imported.original.to_string();
    let mut again = String::from_utf8(again).unwrap();
    for (old, new) in &imported.renamed_runs {
        again = again.replace(&new.to_string(), &old.to_string());
    }
    let (given, kept): (Value, Value) =
        (serde_json::from_slice(&forged.bytes).unwrap(), serde_json::from_str(&again).unwrap());
    match normalised(given, &session) == normalised(kept, &session) {
        true => Ok(()),
        false => Err("imported and not equal".to_owned()),
    }
}

#[test]
fn figure_hostile_bundles() {
    let cases: usize = if is_full() { 4_000 } else { 500 };
    let data = tempfile::tempdir().unwrap();
    let engine = open(data.path(), 1);
    let mut text = Vec::new();
    engine.export(session(&engine), None, &mut text, &mut |_, _| {}).unwrap();
    let base: Value = serde_json::from_slice(&text).unwrap();
    let mut forger = Forger { dice: Dice(7), base, text };
    let target = tempfile::tempdir().unwrap();
    let victim = open(target.path(), 2);
    session(&victim);
    let before = files(target.path());
    let taking = tempfile::tempdir().unwrap();
    let taker = open(taking.path(), 3);
    let (mut codes, mut accepted, mut violations) = (BTreeMap::<&str, u64>::new(), 0_u64, Vec::new());
    for number in 0..cases {
        let forged = forger.forge(number);
        let checked = catch_unwind(AssertUnwindSafe(|| {
            victim.import(&mut Cursor::new(&forged.bytes), ImportMode::CheckOnly).map(|_| ())
        }));
        match checked {
            Err(_) => violations.push(format!("{number}, {}: a panic", forged.name)),
            Ok(Ok(())) => match verified_equal(&taker, &forged) {
                Ok(()) => accepted += 1,
                Err(what) => violations.push(format!("{number}, {}: {what}", forged.name)),
            },
            Ok(Err(refused)) => {
                let really = || victim.import(&mut Cursor::new(&forged.bytes), ImportMode::KeepIdIfFree);
                if !refused.code.as_str().starts_with("BUNDLE_") || (number % 7 == 0 && really().is_ok()) {
                    violations
                        .push(format!("{number}, {}: {:?} {}", forged.name, refused.code, refused.message));
                }
                *codes.entry(refused.code.as_str()).or_default() += 1;
            }
        }
        if number % 25 == 24 && files(target.path()) != before {
            violations.push(format!("{number}: bytes were written on a refusal"));
        }
    }
    println!(
        "figure: hostile bundles {cases}, refused {} {codes:?}, accepted and verified equal {accepted}, panics or \
         violations {}, bytes written on refusal 0",
        codes.values().sum::<u64>(),
        violations.len()
    );
    assert!(violations.is_empty(), "{}", violations.join("\n"));
    assert_eq!(files(target.path()), before);
    assert_eq!(codes.len(), 7, "every code is met: {codes:?}");
    assert_eq!(codes.values().sum::<u64>() + accepted, cases as u64);
}
