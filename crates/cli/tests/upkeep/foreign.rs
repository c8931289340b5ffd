//! Files and folders of other people's names in the data directory are seen, reported and never worked around (G22, G25).

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use serde_json::Value;
use workrail_testkit::home::Home;

use crate::reading::Copied;
use crate::scene::{content, finished, home, session, session_dir, unfinished};
use crate::wording::assert_text;

/// Names as people, editors and file managers give them; the last one is not UTF-8.
const NAMES: [&[u8]; 7] =
    [b"my notes.txt", b"Kopie (2).jsonl", b"a@b", b"x~", "\u{fc}ml".as_bytes(), b"\x1b[31mred", b"caf\xe9"];

fn notes(home: &Home) -> Vec<String> {
    let verified = home.run(&["store", "verify", "--json"]);
    assert_eq!(verified.code, 0, "{verified:?}");
    let notes = verified.json()["notes"].as_array().unwrap().clone();
    notes.iter().map(|note| note["path"].as_str().unwrap().to_owned()).collect()
}

/// Broke: `gc` did not see the copy, and deleted the content that it needs.
#[test]
fn a_folder_of_any_name_among_the_sessions_stops_the_sweep() {
    for suffix in [b"-copy".as_slice(), b" copy", b" (2)", b"~", b"\xe9"] {
        let home = home();
        let run = finished(&home);
        let folder = session_dir(&home, &run);
        let mut name = folder.file_name().unwrap().as_bytes().to_vec();
        name.extend_from_slice(suffix);
        let shown = format!("sessions/{}", String::from_utf8_lossy(&name));
        fs::rename(&folder, folder.with_file_name(OsStr::from_bytes(&name))).unwrap();
        let before = content(&home.data());

        let verified = home.run(&["store", "verify", "--json"]);
        assert_eq!(verified.code, 1, "{verified:?}");
        assert!(verified.json()["problems"][0]["subject"] == *shown, "{verified:?}");
        let swept = home.run(&["store", "gc", "--json"]);
        assert!(swept.out.contains("STORE_SAFE_MODE"), "{swept:?}");
        assert!(swept.json()["safeMode"].to_string().contains(&shown), "{swept:?}");
        assert_eq!(content(&home.data()), before, "{shown}");
    }
}

/// Broke: a renamed backup of a repair did not protect the content that it needs.
#[test]
fn a_renamed_backup_of_a_repair_protects_its_content() {
    for name in [b"kept by hand".as_slice(), b"kept-\xe9"] {
        let home = home();
        let run = finished(&home);
        fs::create_dir(home.data().join("backups")).unwrap();
        let kept = home.data().join("backups").join(OsStr::from_bytes(name));
        fs::rename(session_dir(&home, &run), kept).unwrap();
        let before = content(&home.data());
        let swept = home.run(&["store", "gc", "--json"]);
        assert_eq!(content(&home.data()), before, "{swept:?}");
    }
}

/// Broke: `verify` named only 3 of 18 such files.
#[test]
fn a_file_of_any_name_is_reported() {
    let home = home();
    let run = unfinished(&home);
    let folder = session_dir(&home, &run);
    let places = [home.data(), home.data().join("blobs"), folder.clone(), folder.join("events")];
    for place in &places {
        for name in NAMES {
            fs::write(place.join(OsStr::from_bytes(name)), b"a note").unwrap();
        }
    }
    let notes = notes(&home);
    for place in places {
        for name in NAMES {
            let path = place.strip_prefix(home.data()).unwrap().join(&*String::from_utf8_lossy(name));
            let path = path.to_str().unwrap().replace('\u{1b}', "\\u{1b}");
            assert!(notes.contains(&path), "{path}: {notes:?}");
        }
    }
    assert_eq!(home.run(&["show", &session(&run)]).code, 0);
    assert_eq!(home.run(&["store", "gc"]).code, 0, "they are in no way of a sweep");
}

/// Broke: the session's folder remained under a temporary name, and no sweep ever removed it.
#[test]
fn a_session_is_deleted_with_everything_in_its_folder() {
    let home = home();
    let run = finished(&home);
    let events = session_dir(&home, &run).join("events");
    fs::write(events.join("my notes.txt"), b"a note").unwrap();
    fs::create_dir_all(events.join("a b/c/d/e/f/g")).unwrap();
    fs::write(events.join("a b/c/d/e/f/g/h"), b"a note").unwrap();
    let deleted = home.run(&["session", "delete", &session(&run), "--yes"]);
    assert_eq!(deleted.code, 0, "{deleted:?}");
    assert_eq!(fs::read_dir(home.data().join("sessions")).unwrap().count(), 0);
    assert!(notes(&home).is_empty());
}

/// Broke: `gc` said nothing about a folder that it could not remove.
#[test]
fn gc_says_why_a_leftover_remains() {
    let home = home();
    let run = finished(&home);
    let leftover = home.data().join("sessions/.tmp-import");
    fs::create_dir(&leftover).unwrap();
    fs::write(leftover.join("plain"), b"").unwrap();
    fs::write(leftover.join(OsStr::from_bytes(b"caf\xe9")), b"").unwrap();
    for (shown, arguments) in [
        ("leftover_that_gc_cannot_read", ["store", "gc", "--json", "--dry-run"].as_slice()),
        ("leftover_that_gc_cannot_remove", &["store", "gc", "--json"]),
    ] {
        let swept = home.run(arguments);
        let stopped = serde_json::to_string_pretty(&swept.json()["stopped"]).unwrap();
        assert_text(&home, shown, &stopped);
    }
    assert!(!leftover.join("plain").exists(), "the rest of it is removed");
    fs::remove_dir_all(&leftover).unwrap();
    let swept = home.run(&["store", "gc", "--json"]);
    assert_eq!((swept.code, &swept.json()["stopped"]), (0, &Value::Null), "{swept:?}");
    assert!(Path::new(&session_dir(&home, &run)).exists());
}

/// Broke: the advice was to give up the session and restore it, although the link led to intact segments.
#[test]
fn a_link_in_the_place_of_our_data_leads_to_what_it_points_to() {
    let home = home();
    let run = finished(&home);
    let workflow = fs::read_dir(home.data().join("workflows/pinned")).unwrap().next().unwrap().unwrap();
    let workflow = format!("workflows/pinned/{}", workflow.file_name().to_str().unwrap());
    let elsewhere = tempfile::tempdir().unwrap();
    let moved = elsewhere.path().join("moved");
    let id = session(&run);
    let mut fixes = Vec::new();
    for path in [format!("sessions/{id}/events"), workflow, "sessions".to_owned()] {
        let place = home.data().join(&path);
        fs::rename(&place, &moved).unwrap();
        std::os::unix::fs::symlink(&moved, &place).unwrap();
        let verified = home.run(&["store", "verify", "--json"]);
        let report = verified.json();
        let problems = report["problems"].as_array().unwrap();
        assert_eq!(problems.len(), 1, "{path}: {verified:?}");
        assert_eq!(problems[0]["subject"], *path, "{verified:?}");
        fixes.push(problems[0]["fix"].as_str().unwrap().to_owned());
        assert_eq!(report["notes"].as_array().map(Vec::len), Some(0), "{path}: {verified:?}");
        if path.ends_with("events") {
            let refused = home.run(&["store", "repair", &id, "--dry-run"]);
            let said = format!("{}{}", refused.out, refused.err);
            assert_ne!(refused.code, 0, "{refused:?}");
            assert_text(&home, "repair_with_a_link_in_the_place_of_events", &said);
        }
        fs::remove_file(&place).unwrap();
        fs::rename(&moved, &place).unwrap();
        assert_eq!(home.run(&["store", "verify"]).code, 0, "{path}");
    }
    assert_text(&home, "fixes_of_links_in_the_place_of_our_data", &fixes.join("\n"));
}

/// Broke: `verify` called every session damaged, whatever it needs.
#[test]
fn an_obstacle_concerns_only_the_sessions_that_need_what_it_hides() {
    let home = home();
    let first = session(&finished(&home));
    let of_first = content(&home.data());
    let second = session(&finished(&home));
    let elsewhere = tempfile::tempdir().unwrap();
    let moved = elsewhere.path().join("moved");
    let new: Vec<_> = content(&home.data()).into_iter().filter(|path| !of_first.contains(path)).collect();
    assert!(!new.is_empty());
    for path in new {
        let place = home.data().join(&path);
        fs::rename(&place, &moved).unwrap();
        std::os::unix::fs::symlink(&moved, &place).unwrap();
        assert_eq!(home.run(&["store", "verify", &first]).code, 0, "{path}");
        let verified = home.run(&["store", "verify", &second, "--json"]);
        let report = verified.json();
        let subjects: Vec<&Value> =
            report["problems"].as_array().unwrap().iter().map(|problem| &problem["subject"]).collect();
        assert_eq!(subjects, [&path], "{verified:?}");
        fs::remove_file(&place).unwrap();
        fs::rename(&moved, &place).unwrap();
    }
    let copy = Copied::of(&home);
    fs::set_permissions(copy.data().join("activity"), fs::Permissions::from_mode(0o000)).unwrap();
    assert_eq!(copy.run(&["store", "verify", &first]).code, 0);
}

/// Broke: neither `verify` nor `doctor` said it.
#[test]
fn an_unreadable_activity_counter_is_reported() {
    let home = home();
    finished(&home);
    for name in ["activity", "activity.reserved"] {
        let copy = Copied::of(&home);
        let file = copy.data().join(name);
        fs::set_permissions(&file, fs::Permissions::from_mode(0o000)).unwrap();
        let verified = copy.run(&["store", "verify", "--json"]);
        assert_eq!(verified.code, 1, "{verified:?}");
        assert_eq!(verified.json()["problems"][0]["subject"], name, "{verified:?}");
        let doctor = copy.run(&["doctor", "--json"]).json();
        let findings = doctor["findings"].as_array().unwrap().iter();
        let problems: Vec<&Value> = findings.filter(|found| found["level"] == "problem").collect();
        let [problem] = problems[..] else { panic!("{problems:?}") };
        let words = ["what", "fix"].map(|part| problem[part].as_str().unwrap());
        let data = copy.data().to_string_lossy().into_owned();
        assert_text(
            &home,
            &format!("doctor_with_unreadable_{name}"),
            &words.join("\n").replace(&data, "DATA"),
        );
    }
}
