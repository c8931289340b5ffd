//! `repair`, on a session with a damaged end.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::json;
use workrail_testkit::folder;
use workrail_testkit::mcp_client::ToolReply;

use crate::scene::{advance, finished, home, session, session_dir, start, unfinished};
use crate::wording::assert_text;

/// Every file of a folder, by its name relative to it.
fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let named = |(path, bytes): (PathBuf, Vec<u8>)| (path.to_str().unwrap().to_owned(), bytes);
    folder::files(folder).into_iter().map(named).filter(|(name, _)| !name.ends_with(".lock")).collect()
}

#[test]
fn a_damaged_end_is_cut_after_a_backup_and_the_run_continues() {
    let home = home();
    let run = {
        let mut client = home.client();
        let first = start(&mut client);
        assert!(!advance(&mut client, &first).is_error);
        first
    };
    let id = session(&run);
    let healthy = home.run(&["store", "repair", &id, "--json"]);
    assert_eq!((healthy.code, &healthy.json()["outcome"]), (0, &json!("healthy")), "nothing to do");

    let folder = session_dir(&home, &run);
    let segments = files(&folder.join("events"));
    let (name, mut bytes) = segments.into_iter().next_back().unwrap();
    let kept: u64 = name[..8].parse().unwrap();
    let at = bytes.len() - 30;
    bytes[at] ^= 1;
    fs::write(folder.join("events").join(&name), bytes).unwrap();
    let damaged = files(&folder);

    let planned = home.run(&["store", "repair", &id, "--dry-run", "--json"]);
    assert_eq!(planned.code, 0, "{planned:?}");
    let plan = planned.json();
    assert_eq!((&plan["outcome"], &plan["eventsKept"]), (&json!("would_repair"), &json!(kept)));
    assert_eq!(plan["backup"], json!(format!("backups/{id}-1")));
    assert_eq!(plan["lost"]["segments"][0]["path"], json!(format!("events/{name}")));
    assert_eq!(plan["lost"]["segments"][0]["firstEvent"], json!(kept));
    assert_eq!(plan["lost"]["readableNotes"], json!(1));
    let unasked = home.run(&["store", "repair", &id]);
    assert_eq!(unasked.code, 2, "repair asks a person");
    assert_eq!(files(&folder), damaged, "nothing was changed");
    assert!(home.typed(&["store", "repair", &id], "yes").code != 0);

    let done = home.run(&["store", "repair", &id, "--yes", "--json"]);
    assert_eq!((done.code, &done.json()["outcome"]), (0, &json!("repaired")), "{done:?}");
    assert_eq!(files(&home.data().join(format!("backups/{id}-1"))), damaged);
    assert_eq!(home.run(&["store", "verify"]).code, 0);
    assert_eq!(home.run(&["store", "gc"]).code, 0);
    let mut client = home.client();
    let again = advance(&mut client, &run);
    assert!(!again.is_error, "the step that was lost is done again: {}", again.text);
}

/// Cutting one byte off a manifest made the last acknowledged step vanish, while `verify` reported no problems.
#[test]
fn a_step_whose_commit_was_cut_is_reported_and_recovered_by_the_same_ack() {
    let home = home();
    let (run, recorded) = {
        let mut client = home.client();
        let run = start(&mut client);
        let recorded = advance(&mut client, &run);
        (run, recorded)
    };
    let manifest = session_dir(&home, &run).join("manifest.jsonl");
    let whole = fs::read(&manifest).unwrap();
    fs::write(&manifest, &whole[..whole.len() - 1]).unwrap();

    let notes = || home.done(&["store", "verify", "--json"]).json()["notes"].clone();
    assert_eq!(notes().as_array().unwrap().len(), 1, "{}", notes());
    assert_text(&home, "note_of_a_write_that_is_not_committed", notes()[0]["note"].as_str().unwrap());
    let pending = || {
        let findings = home.run(&["doctor", "--json"]).json()["findings"].as_array().unwrap().clone();
        let about = findings.into_iter().filter(|found| found["what"].to_string().contains(&session(&run)));
        about.collect::<Vec<_>>()
    };
    let [found] = &pending()[..] else { panic!("{:?}", pending()) };
    let words = ["level", "area", "what", "fix"].map(|name| found[name].as_str().unwrap());
    assert_text(&home, "doctor_with_a_write_that_is_not_committed", &words.join("\n"));
    let planned = home.run(&["store", "repair", &session(&run), "--dry-run", "--json"]);
    assert_eq!(planned.json()["outcome"], json!("would_roll_forward"));
    assert_eq!(fs::read(&manifest).unwrap(), &whole[..whole.len() - 1], "looking changes nothing");

    let again = advance(&mut home.client(), &run);
    assert_eq!(again.text, recorded.text, "the ack gives the recorded answer");
    assert_eq!(fs::read(&manifest).unwrap(), whole);
    assert_eq!((notes(), pending()), (json!([]), Vec::new()));

    fs::write(&manifest, &whole[..whole.len() - 1]).unwrap();
    let repaired = home.run(&["store", "repair", &session(&run), "--json"]);
    assert_eq!((repaired.code, &repaired.json()["outcome"]), (0, &json!("rolled_forward")), "{repaired:?}");
    assert_eq!(fs::read(&manifest).unwrap(), whole);
}

/// Broke: both were refused, however often they were repeated, until an agent wrote to the session.
#[test]
fn a_session_with_a_write_that_is_not_committed_is_purged_and_deleted() {
    let home = home();
    let cut = |run: &ToolReply| {
        let manifest = session_dir(&home, run).join("manifest.jsonl");
        let whole = fs::read(&manifest).unwrap();
        fs::write(manifest, &whole[..whole.len() - 1]).unwrap();
    };
    let started = || {
        let mut client = home.client();
        let run = start(&mut client);
        advance(&mut client, &run);
        cut(&run);
        run
    };
    home.done(&["session", "delete", &session(&started()), "--yes"]);
    let run = started();
    let purged = home.run(&["session", "purge", &session(&run), "--text", "dusted", "--yes", "--json"]);
    assert_eq!(purged.code, 0, "{purged:?}");
    assert_eq!(home.run(&["store", "verify"]).code, 0);
}

/// Broke: a record that lost one byte of its kind was taken for one of a newer version, and its repair was refused.
#[test]
fn a_damaged_or_lost_manifest_is_rebuilt_and_loses_nothing() {
    let home = home();
    let run = finished(&home);
    let (id, manifest) = (session(&run), session_dir(&home, &run).join("manifest.jsonl"));
    let sound = fs::read_to_string(&manifest).unwrap();
    let damages = [
        Some(sound.replacen("bytes", "bites", 1)),
        Some(sound.replacen("segment_closed", "segment_cloqed", 1)),
        Some(sound.replacen("segment_closed", "segment_close", 1)),
        Some(sound.replacen("segment_closed", "egment_closed", 1).replacen(
            "\"manifestIndex\":0",
            "\"manifestIndex\":8",
            1,
        )),
        Some(sound.replacen("\"v\":1", "\"v\":3", 1)),
        Some(sound[..40].to_owned()),
        Some(String::new()),
        None,
    ];
    for damage in damages {
        fs::remove_file(&manifest).unwrap();
        if let Some(text) = &damage {
            fs::write(&manifest, text).unwrap();
        }
        assert_eq!(home.run(&["store", "verify"]).code, 1, "{damage:?}");
        let planned = home.done(&["store", "repair", &id, "--dry-run", "--json"]).json();
        assert_eq!(planned["lost"]["segments"], json!([]), "{damage:?}: {planned}");
        let done = home.run(&["store", "repair", &id, "--yes", "--json"]);
        assert_eq!((done.code, &done.json()["outcome"]), (0, &json!("repaired")), "{damage:?}: {done:?}");
        assert_eq!(fs::read_to_string(&manifest).unwrap(), sound, "{damage:?}");
        assert_eq!(home.run(&["store", "verify"]).code, 0, "{damage:?}");
    }
}

#[test]
fn an_obstacle_to_the_activity_counter_is_reported_and_stops_nothing() {
    let home = home();
    let run = unfinished(&home);
    for name in ["activity", "activity.lock"] {
        fs::remove_file(home.data().join(name)).unwrap();
        fs::create_dir(home.data().join(name)).unwrap();
    }
    fs::write(session_dir(&home, &run).join("events/notes.txt"), "of the user").unwrap();
    let advanced = advance(&mut home.client(), &run);
    assert!(!advanced.is_error, "{}", advanced.text);
    let again = advance(&mut home.client(), &run);
    assert_eq!(again.text, advanced.text);
    assert!(session_dir(&home, &run).join("events/notes.txt").exists(), "a foreign file stays");
    let notes = home.done(&["store", "verify", "--json"]).json()["notes"].clone();
    let noted = |end: &str| {
        let mut paths = notes.as_array().unwrap().iter().map(|note| note["path"].as_str().unwrap());
        paths.any(|path| path.ends_with(end))
    };
    assert!(noted("activity") && noted("notes.txt"), "{notes}");
}

#[test]
fn an_impossible_repair_is_refused() {
    let home = home();
    let run = unfinished(&home);
    let folder = session_dir(&home, &run);
    let (manifest, events) = (folder.join("manifest.jsonl"), folder.join("events"));
    let segment = fs::read_dir(&events).unwrap().next().unwrap().unwrap().path();
    let (sound, first) = (fs::read_to_string(&manifest).unwrap(), fs::read_to_string(&segment).unwrap());
    let broken = first.replacen("eventIndex", "eventindex", 1);
    for (manifest_text, segment_text, code) in [
        (sound.clone(), broken, "SESSION_CORRUPT"),
        (sound.replacen("\"v\":1}", "\"v\":7,\"when\":1}", 1), first.clone(), "SESSION_UNKNOWN_VERSION"),
        (sound.replacen("segment_closed", "segment_sealed_now", 1), first, "SESSION_UNKNOWN_VERSION"),
    ] {
        fs::write(&manifest, &manifest_text).unwrap();
        fs::write(&segment, &segment_text).unwrap();
        let refused = home.run(&["store", "repair", &session(&run), "--yes", "--json"]);
        assert_eq!((refused.code, &refused.json()["error"]["code"]), (1, &json!(code)), "{refused:?}");
        assert_eq!(fs::read_to_string(&manifest).unwrap(), manifest_text);
        assert!(!home.data().join("backups").exists());
    }
    assert_eq!(home.run(&["store", "repair", "sess_0000000000000000"]).code, 2);
}
