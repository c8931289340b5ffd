//! Records with correct digests and hostile contents: a newer version, path tricks, NUL, a megabyte, lone surrogates,
//! decomposed letters. The error names the record and the field, and nothing is written (G5).
#![expect(clippy::wildcard_enum_match_arm, reason = "a variant that is not expected fails the test")]

mod support;

use serde_json::{Value, json};
use workrail_model::compiled::CompiledError;
use workrail_model::digest::{Sha256, SnapshotRef, WorkflowHash};
use workrail_model::event::{Event, EventIndex};
use workrail_model::health::{CorruptionReason, SessionHealth};
use workrail_model::id::SessionId;
use workrail_model::manifest::{ManifestIndex, ManifestRecord, commit_group, group_bytes, segment_rel_path};
use workrail_model::plan::Attachment;
use workrail_model::snapshot::SnapshotError;
use workrail_ports::content::{ContentError, ContentStore};
use workrail_ports::keyring::{KeyringError, KeyringStore};
use workrail_ports::session_store::{SessionReader, SessionStore, StoreError};
use workrail_store_fs::sim::SimFs;
use workrail_testkit::history::{self, PlanParts, Step};

use support::{open, path, session_of, within};

/// A disk on which a session's only segment holds these lines, attested unchanged.
fn forged(session: SessionId, lines: &[Vec<u8>]) -> SimFs {
    let mut segment = lines.join(&b'\n');
    segment.push(b'\n');
    let last = EventIndex::new(lines.len() as u64 - 1).expect("few lines");
    let name = segment_rel_path(EventIndex::ZERO, last);
    let record = ManifestRecord::SegmentClosed {
        v: 1,
        manifest_index: ManifestIndex::ZERO,
        session_id: session,
        first_event_index: EventIndex::ZERO,
        last_event_index: last,
        segment_rel_path: name.clone(),
        sha256: Sha256::of(&segment),
        bytes: segment.len() as u64,
    };
    let mut group = record.to_canonical().expect("canonical");
    group.push(b'\n');
    if let Ok(events) = lines.iter().map(|line| Event::parse(line)).collect::<Result<Vec<_>, _>>() {
        let records = commit_group(ManifestIndex::ZERO, &events, &segment);
        group = group_bytes(&records).expect("canonical");
    }
    let fs = SimFs::new();
    drop(open(fs.clone()));
    fs.write_raw(&within(session, &name), &segment);
    fs.write_raw(&within(session, "manifest.jsonl"), &group);
    fs
}

/// The health of a forged session, which must not be written to.
fn judge(fs: &SimFs, session: SessionId) -> SessionHealth {
    let store = open(fs.clone());
    let writes = fs.op_count();
    let health = store.read(session, None).expect("a forged session is readable").health;
    match (store.lock(session), health.is_healthy()) {
        (Ok(_), true) => {}
        (Err(StoreError::Unhealthy { health: refused, .. }), false) => {
            assert_eq!(refused, health);
            assert_eq!(fs.op_count(), writes, "something was written");
        }
        (outcome, _) => panic!("{health:?}, but {outcome:?}"),
    }
    health
}

fn plans() -> Vec<PlanParts> {
    history::plans(1, &[Step::Advance])
}

/// The events of the first plan as JSON.
fn first_events() -> (SessionId, Vec<Value>) {
    let plans = plans();
    let values = plans[0].events.iter().map(|event| {
        serde_json::from_slice(&event.to_canonical().expect("canonical")).expect("canonical JSON is JSON")
    });
    (session_of(&plans), values.collect())
}

fn lines(values: &[Value]) -> Vec<Vec<u8>> {
    values
        .iter()
        .map(|value| workrail_model::canonical::value_to_canonical(value).expect("canonical"))
        .collect()
}

/// The session's health after replacing one field of one event.
fn replaced(event: usize, pointer: &str, value: Value) -> SessionHealth {
    let (session, mut values) = first_events();
    *values[event].pointer_mut(pointer).expect("the event has this field") = value;
    judge(&forged(session, &lines(&values)), session)
}

#[test]
fn an_untouched_forgery_is_healthy() {
    let (session, values) = first_events();
    assert_eq!(judge(&forged(session, &lines(&values)), session), SessionHealth::Healthy);
}

fn hostile_strings() -> [String; 7] {
    [
        "a\0b".to_owned(),
        "../../../etc/passwd".to_owned(),
        "a".repeat(1024 * 1024),
        "cafe\u{301}".to_owned(),
        "\u{202e}txt".to_owned(),
        String::new(),
        "SESS_0123456789ABCDEF".to_owned(),
    ]
}

#[test]
fn hostile_strings_in_name_fields_are_refused_by_field() {
    // The position of the event in the first plan, and the field.
    let fields = [
        (0, "eventId"),
        (0, "sessionId"),
        (0, "dedupeKey"),
        (0, "at"),
        (1, "scope.runId"),
        (1, "data.workflowId"),
        (1, "data.workflowHash"),
        (1, "data.workflowSourceKind"),
        (2, "scope.nodeId"),
        (2, "data.nodeKind"),
        (2, "data.snapshotRef"),
        (2, "data.parentNodeId"),
        (3, "data.changeId"),
    ];
    for (event, field) in fields {
        let pointer = format!("/{}", field.replace('.', "/"));
        for text in hostile_strings() {
            let shown: String = text.chars().take(20).collect();
            match replaced(event, &pointer, json!(text)) {
                SessionHealth::CorruptHead {
                    reason: CorruptionReason::Event { event_index, detail, segment },
                } => {
                    assert_eq!(event_index, event as u64, "{field} {shown:?}");
                    assert!(detail.contains(&format!("`{field}`")), "{field} {shown:?}: {detail}");
                    assert!(detail.len() <= 512, "{field} {shown:?}: {} bytes of detail", detail.len());
                    assert_eq!(segment, "events/00000000-00000005.jsonl");
                }
                other => panic!("{field} {shown:?}: {other:?}"),
            }
        }
    }
}

#[test]
fn an_unknown_kind_is_a_newer_version_and_is_clipped_in_the_message() {
    for text in hostile_strings() {
        match replaced(0, "/kind", json!(text)) {
            SessionHealth::UnknownVersion { record, version: 1 } => assert!(record.len() < 200, "{record}"),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn numbers_of_the_wrong_kind_are_refused_by_field() {
    for value in [json!(-1), json!(1.5), json!("0"), json!(null), json!([]), json!(33_554_432_u64)] {
        match replaced(0, "/eventIndex", value.clone()) {
            SessionHealth::CorruptHead { reason: CorruptionReason::Event { detail, .. } } => {
                let named = detail.contains("`eventIndex`") || detail.contains("does not continue");
                assert!(named, "{value}: {detail}");
            }
            other => panic!("{value}: {other:?}"),
        }
    }
}

/// JSON that no serialiser writes: the field's text is replaced in the line itself.
#[test]
fn lone_surrogates_duplicate_keys_and_raw_control_characters_are_no_json() {
    let (session, values) = first_events();
    let whole = lines(&values);
    let text = String::from_utf8(whole[1].clone()).expect("UTF-8");
    let id = values[1]["data"]["workflowId"].as_str().expect("an id");
    let lines_with = |replacement: &[u8]| {
        let (before, after) = text.split_once(&format!("\"{id}\"")).expect("the line contains the id");
        let mut lines = whole.clone();
        lines[1] = [before.as_bytes(), replacement, after.as_bytes()].concat();
        lines
    };
    let replacements: [&[u8]; 6] = [
        b"\"\\ud800\"",
        b"\"\\udc00x\"",
        b"\"a\x00b\"",
        b"\"\xff\"",
        b"1e400",
        b"\"a\",\"workflowId\":\"b\"",
    ];
    for replacement in replacements {
        match judge(&forged(session, &lines_with(replacement)), session) {
            SessionHealth::CorruptHead { reason: CorruptionReason::Event { event_index: 1, detail, .. } } => {
                assert!(detail.starts_with("not JSON: "), "{detail}")
            }
            other => panic!("{other:?}"),
        }
    }
}

/// Free text is kept verbatim, up to its budget.
#[test]
fn odd_text_in_notes_is_text_and_a_megabyte_is_over_budget() {
    let plans = plans();
    let session = session_of(&plans);
    let mut parts = plans[1].moved_to(EventIndex::ZERO);
    parts.events.truncate(1);
    let line = parts.events[0].to_canonical().expect("canonical");
    let with = |text: &str| {
        let mut value: Value = serde_json::from_slice(&line).expect("JSON");
        *value.pointer_mut("/data/payload/notesMarkdown").expect("notes") = json!(text);
        forged(session, &lines(&[value]))
    };
    for text in ["a\0b", "../../x", "cafe\u{301}", "\u{202e}txt", ""] {
        let fs = with(text);
        assert_eq!(judge(&fs, session), SessionHealth::Healthy, "{text:?}");
        let events = open(fs).read(session, None).expect("readable").events;
        let value: Value =
            serde_json::from_slice(&events[0].to_canonical().expect("canonical")).expect("JSON");
        assert_eq!(value.pointer("/data/payload/notesMarkdown"), Some(&json!(text)));
    }
    match judge(&with(&"a".repeat(1024 * 1024)), session) {
        SessionHealth::CorruptHead { reason: CorruptionReason::Event { detail, .. } } => {
            assert!(detail.contains("`data.payload") && detail.contains("at most 4096"), "{detail}");
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_event_or_manifest_record_of_a_newer_version_is_an_unknown_version() {
    for event in 0..5 {
        let record = format!("event {event}");
        assert_eq!(replaced(event, "/v", json!(2)), SessionHealth::UnknownVersion { record, version: 2 });
    }
    let (session, values) = first_events();
    let fs = forged(session, &lines(&values));
    let manifest = within(session, "manifest.jsonl");
    let text = String::from_utf8(fs.read_raw(&manifest).expect("forged")).expect("UTF-8");
    fs.write_raw(&manifest, text.replacen("\"v\":1}", "\"v\":2,\"when\":3}", 1).as_bytes());
    let record = "manifest record 0".to_owned();
    assert_eq!(judge(&fs, session), SessionHealth::UnknownVersion { record, version: 2 });
    // A record that says only what its segment implies is damaged, not newer.
    for damaged in [
        text.replacen("\"v\":1}", "\"v\":2}", 1),
        text.replacen("segment_closed", "segment_cloqed", 1),
        text.replacen("segment_closed", "segment_close", 1),
        text.replacen("segment_closed", "sgment_closed", 1).replacen("Index\":0", "Index\":4", 1),
    ] {
        fs.write_raw(&manifest, damaged.as_bytes());
        let health = judge(&fs, session);
        assert!(matches!(health, SessionHealth::CorruptHead { .. }), "{health:?}");
    }
    // A new kind, also one with a similar name or with other fields, is newer.
    for newer in [
        text.replacen("segment_closed", "segment_closed2", 1),
        text.replacen("segment_closed", "segments_close", 1).replacen("\"bytes\":", "\"bytes\":1", 1),
        text.replacen("segment_closed", "segment_close", 1).replacen("\"v\":1}", "\"v\":1,\"w\":1}", 1),
        text.replacen("segment_closed", "segment_close", 1).replacen("\"bytes\":", "\"bites\":", 1),
    ] {
        fs.write_raw(&manifest, newer.as_bytes());
        let health = judge(&fs, session);
        assert!(matches!(health, SessionHealth::UnknownVersion { version: 1, .. }), "{newer}: {health:?}");
    }
}

#[test]
fn a_manifest_cannot_name_a_segment_outside_its_folder() {
    let (session, values) = first_events();
    let fs = forged(session, &lines(&values));
    let manifest = within(session, "manifest.jsonl");
    let text = String::from_utf8(fs.read_raw(&manifest).expect("forged")).expect("UTF-8");
    let escapes =
        ["../../../etc/passwd", "/etc/passwd", "events/../../x", "events/00000000-00000005.jsonl\\u0000"];
    for escape in escapes {
        fs.write_raw(&manifest, text.replacen("events/00000000-00000005.jsonl", escape, 1).as_bytes());
        match judge(&fs, session) {
            SessionHealth::CorruptHead {
                reason: CorruptionReason::ManifestRecord { manifest_index: 0, .. },
            } => {}
            other => panic!("{escape}: {other:?}"),
        }
    }
}

#[test]
fn content_of_a_newer_version_is_reported_as_such() {
    let parts = &plans()[0];
    let fs = SimFs::new();
    let store = open(fs.clone());
    for attachment in &parts.attachments {
        let text = String::from_utf8(attachment.bytes().to_vec()).expect("UTF-8");
        let newer = text.replace("\"v\":1", "\"v\":2").replace("\"schemaVersion\":1", "\"schemaVersion\":2");
        assert_ne!(newer, text);
        let digest = Attachment::blob(newer.clone().into_bytes()).digest();
        for folder in ["snapshots", "workflows/pinned"] {
            fs.write_raw(&path(&format!("{folder}/{}.json", digest.hex())), newer.as_bytes());
        }
        if text.contains("schemaVersion") {
            let error = store.workflow(WorkflowHash::new(digest)).map(drop);
            let expected = CompiledError::UnknownVersion { version: 2 };
            assert!(matches!(error, Err(ContentError::Workflow { source, .. }) if source == expected));
        } else {
            let error = store.snapshot(SnapshotRef::new(digest)).map(drop);
            assert!(matches!(
                error,
                Err(ContentError::Snapshot { source: SnapshotError::UnknownVersion { version: 2, .. }, .. })
            ));
        }
    }
}

/// The error for a keyring file with these bytes; the file must be left unchanged.
fn keyring(bytes: &[u8]) -> KeyringError {
    let fs = SimFs::new();
    let store = open(fs.clone());
    store.load_or_create().expect("fresh keys");
    let file = path("keys/keyring.json");
    fs.write_raw(&file, bytes);
    let writes = fs.op_count();
    let error = store.load_or_create().expect_err("a bad keyring is refused");
    assert_eq!(store.rotate().expect_err("a bad keyring is not rotated away"), error);
    assert_eq!(fs.op_count(), writes, "something was written");
    assert_eq!(fs.read_raw(&file).as_deref(), Some(bytes));
    error
}

#[test]
fn an_invalid_keyring_is_reported_and_left_alone() {
    let key = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8";
    let bad = [
        "".to_owned(),
        "\0\0\0\0".to_owned(),
        "{".to_owned(),
        "[]".to_owned(),
        "{\"current\":\"\"}".to_owned(),
        "{\"v\":1}".to_owned(),
        "{\"v\":\"1\",\"current\":\"x\"}".to_owned(),
        "{\"v\":1,\"current\":\"AAEC\"}".to_owned(),
        format!("{{\"v\":1,\"current\":\"{key}A\"}}"),
        format!("{{\"v\":1,\"current\":\"{key}=\"}}"),
        format!("{{\"v\":1,\"current\":\"{}\"}}", key.replace('A', "+")),
        format!("{{\"v\":1,\"current\":\"{key}\",\"previous\":\"AAEC\"}}"),
        format!("{{\"v\":1,\"current\":\"{key}\",\"current\":\"{key}\"}}"),
        format!("{{\"v\":1,\"current\":\"{key}\",\"next\":\"{key}\"}}"),
        format!("{{\"v\":1,\"current\":\"{key}\"}} {{}}"),
        " ".repeat(5000),
    ];
    for text in bad {
        let error = keyring(text.as_bytes());
        let shown = error.to_string();
        assert!(matches!(error, KeyringError::Invalid { .. }), "{text:?}: {error:?}");
        assert!(!shown.contains(key), "the message repeats a key: {shown}");
    }
}

#[test]
fn a_keyring_of_a_newer_version_is_an_unknown_version() {
    let path = "keys/keyring.json".to_owned();
    assert_eq!(keyring(b"{\"v\":2,\"keys\":[]}"), KeyringError::UnknownVersion { path, version: 2 });
}

#[test]
fn a_keyring_that_others_may_read_is_exposed() {
    let fs = SimFs::new();
    let store = open(fs.clone());
    store.load_or_create().expect("fresh keys");
    let file = path("keys/keyring.json");
    fs.set_others_may_access(&file);
    let exposed = KeyringError::Exposed { path: file.to_string() };
    let writes = fs.op_count();
    assert_eq!(store.load_or_create(), Err(exposed.clone()));
    assert_eq!(store.rotate(), Err(exposed));
    assert_eq!(fs.op_count(), writes, "something was written");
}

#[test]
fn a_keyring_of_another_user_is_refused() {
    for foreign in ["keys/keyring.json", "keys"] {
        let fs = SimFs::new();
        let store = open(fs.clone());
        store.load_or_create().expect("fresh keys");
        fs.set_foreign(&path(foreign));
        let refused = KeyringError::ForeignOwner { path: foreign.to_owned() };
        assert_eq!(store.load_or_create(), Err(refused.clone()));
        assert_eq!(store.peek(), Err(refused.clone()));
        assert_eq!(store.rotate(), Err(refused));
    }
}

#[test]
fn replacing_moves_an_unusable_keyring_aside_and_refuses_a_usable_one() {
    let fs = SimFs::new();
    let store = open(fs.clone());
    let first = store.replace().expect("there is none yet");
    assert_eq!(first.moved_to, None);
    assert_eq!(store.peek(), Ok(Some(first.keyring.clone())));
    assert!(matches!(store.replace(), Err(KeyringError::Usable { .. })));
    let file = path("keys/keyring.json");
    for (number, bytes) in [(1, &b"{\"v\":7}"[..]), (2, b"")] {
        fs.write_raw(&file, bytes);
        let replaced = store.replace().expect("an unusable keyring is replaced");
        let aside = format!("keys/keyring.unusable-{number}");
        assert_eq!(replaced.moved_to.as_deref(), Some(aside.as_str()));
        assert_eq!(fs.read_raw(&path(&aside)).as_deref(), Some(bytes));
        assert_eq!(store.load_or_create(), Ok(replaced.keyring.clone()));
        assert_ne!(replaced.keyring, first.keyring);
    }
    // New keys cannot make a folder safe that other users control.
    fs.write_raw(&file, b"");
    fs.set_others_may_access(&path("keys"));
    assert!(matches!(store.replace(), Err(KeyringError::Exposed { .. })));
    assert_eq!(fs.read_raw(&file).as_deref(), Some(&b""[..]));
}

#[test]
fn the_http_secret_is_created_once_and_replaced_on_command() {
    let fs = SimFs::new();
    let store = open(fs.clone());
    assert_eq!(store.http_secret(), Ok(None));
    let made = store.http_secret_or_new().expect("made");
    assert_eq!(store.http_secret_or_new(), Ok(made.clone()));
    assert_eq!(open(fs.clone()).http_secret(), Ok(Some(made.clone())));
    let other = store.replace_http_secret().expect("replaced");
    assert_ne!(other, made);
    let file = path("keys/http-secret");
    for bad in [&b""[..], b"secret", b"\xff"] {
        fs.write_raw(&file, bad);
        assert!(matches!(store.http_secret(), Err(KeyringError::Invalid { .. })), "{bad:?}");
        assert!(matches!(store.http_secret_or_new(), Err(KeyringError::Invalid { .. })), "{bad:?}");
    }
    assert!(store.replace_http_secret().is_ok(), "the documented way out");
    fs.set_others_may_access(&file);
    assert!(matches!(store.http_secret(), Err(KeyringError::Exposed { .. })));
}
