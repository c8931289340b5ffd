//! `verify` and `gc` on small stores.

use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::json;

use crate::scene::{advance, content, finished, home, session, session_dir, start, unfinished};
use crate::wording::assert_text;

#[test]
fn a_healthy_store_is_verified_with_counts() {
    let home = home();
    finished(&home);
    let waiting = unfinished(&home);
    let verified = home.run(&["store", "verify", "--json"]);
    assert_eq!(verified.code, 0, "{verified:?}");
    let report = verified.json();
    let counts = &report["counts"];
    assert_eq!((&counts["sessions"], &counts["segments"]), (&json!(2), &json!(3)), "{counts}");
    assert_eq!((&counts["workflows"], &counts["snapshots"]), (&json!(1), &json!(2)), "{counts}");
    assert_eq!((&counts["storedReplies"], &counts["problems"]), (&json!(1), &json!(0)), "{counts}");
    assert_eq!(report["problems"], json!([]));
    assert_eq!(report["notes"], json!([]), "no leftover files");
    assert_eq!(home.run(&["store", "verify", "--all", "--json"]).json(), report);

    let one = home.run(&["store", "verify", &session(&waiting), "--json"]);
    assert_eq!(one.json()["counts"]["sessions"], json!(1));
    assert_eq!(home.run(&["store", "verify"]).code, 0);
    assert_eq!(home.run(&["store", "verify", "sess_0000000000000000"]).code, 2);
    assert_eq!(home.run(&["store", "verify", "--all", &session(&waiting)]).code, 2);
}

/// Broke: `verify` did not mention a session whose whole log was removed, and `gc` then deleted the rest.
#[test]
fn a_session_whose_whole_log_was_removed_is_mentioned() {
    let home = home();
    let run = finished(&home);
    let folder = session_dir(&home, &run);
    std::fs::remove_file(folder.join("manifest.jsonl")).unwrap();
    for segment in std::fs::read_dir(folder.join("events")).unwrap() {
        std::fs::remove_file(segment.unwrap().path()).unwrap();
    }
    let verified = home.run(&["store", "verify", "--json"]);
    assert_eq!(verified.code, 0, "an interrupted start looks the same: {verified:?}");
    let note = &verified.json()["notes"][0];
    assert_eq!(note["path"], format!("sessions/{}", session(&run)));
    assert_text(&home, "note_of_a_session_without_events", note["note"].as_str().unwrap());
}

#[test]
fn every_kind_of_damage_is_named_with_its_fix() {
    let home = home();
    let first = finished(&home);
    let data = home.data();
    let mut told = Vec::new();
    for (folder, is_lost) in [("snapshots", false), ("blobs", true), ("workflows/pinned", true)] {
        let path = std::fs::read_dir(data.join(folder)).unwrap().next().unwrap().unwrap().path();
        let sound = std::fs::read(&path).unwrap();
        match is_lost {
            true => std::fs::remove_file(&path).unwrap(),
            false => std::fs::write(&path, "{}").unwrap(),
        }
        let said = home.run(&["store", "verify", "--json"]);
        assert_eq!(said.code, 1, "{folder}: {said:?}");
        let problems = said.json()["problems"].clone();
        assert_eq!(problems.as_array().map(Vec::len), Some(1), "{folder}: {problems}");
        let words = ["subject", "problem", "fix"].map(|name| problems[0][name].as_str().unwrap());
        assert!(words[0].starts_with(folder), "{folder}: {problems}");
        told.push(words.join("\n"));
        std::fs::write(&path, sound).unwrap();
    }
    assert_text(&home, "verify_of_damaged_content", &told.join("\n\n"));
    let second = unfinished(&home);
    std::fs::write(data.join("blobs/.tmp-left-0"), "x").unwrap();
    let noted = home.run(&["store", "verify", "--json"]);
    assert_eq!(noted.code, 0, "a leftover is no problem");
    assert_eq!(noted.json()["notes"][0]["path"], "blobs/.tmp-left-0");

    let manifest = session_dir(&home, &second).join("manifest.jsonl");
    let mut bytes = std::fs::read(&manifest).unwrap();
    bytes[5] ^= 1;
    std::fs::write(&manifest, bytes).unwrap();
    let said = home.run(&["store", "verify", "--json"]);
    let problem = &said.json()["problems"][0];
    assert_eq!((said.code, &problem["subject"]), (1, &json!(session(&second))), "{said:?}");
    assert_eq!(home.run(&["store", "verify", &session(&first)]).code, 0, "the other one is sound");
}

#[test]
fn gc_removes_old_finished_sessions_and_says_why_the_rest_is_kept() {
    let home = home();
    let (old, kept, open) = (finished(&home), finished(&home), unfinished(&home));
    assert_eq!(home.run(&["session", "keep", &session(&kept)]).code, 0);
    let young = home.run(&["store", "gc", "--json"]);
    assert_eq!(young.code, 0, "{young:?}");
    let report = young.json();
    assert_eq!(report["removed"], json!([]));
    assert_eq!(
        report["retained"],
        json!({ "kept": 1, "unfinished": 1, "recent": 1, "withoutTimestamp": 0, "clockBehind": 0, "inUse": 0 })
    );

    let before = content(&home.data());
    let planned = home.run(&["store", "gc", "--ttl", "0d", "--dry-run", "--json"]).json();
    assert_eq!((&planned["dryRun"], &planned["ttl"]), (&json!(true), &json!("0d")));
    assert!(
        session_dir(&home, &old).exists() && content(&home.data()) == before,
        "a dry run changes nothing"
    );
    let done = home.run(&["store", "gc", "--ttl", "0d", "--json"]);
    assert_eq!(done.code, 0);
    let done = done.json();
    assert_eq!(done["removed"][0]["sessionId"], json!(session(&old)));
    assert_eq!((&done["removed"], &done["freed"]), (&planned["removed"], &planned["freed"]));
    assert_eq!(done["freed"]["blobs"]["files"], json!(1), "its stored reply");
    assert_eq!(done["freed"]["snapshots"]["files"], json!(0), "the others need them");
    assert!(!session_dir(&home, &old).exists());
    assert!(session_dir(&home, &kept).exists() && session_dir(&home, &open).exists());
    assert_eq!(home.run(&["store", "verify"]).code, 0);

    assert_eq!(home.run(&["session", "unkeep", &session(&kept)]).code, 0);
    let last = home.run(&["store", "gc", "--ttl", "0d", "--json"]).json();
    assert_eq!(last["removed"][0]["sessionId"], json!(session(&kept)), "{last}");
    assert_eq!(last["retained"]["unfinished"], json!(1), "{last}");
    assert!(session_dir(&home, &open).exists(), "an unfinished run never goes by age");
    for wrong in ["90", "a lot", "-1d"] {
        let said = home.run(&["store", "gc", &format!("--ttl={wrong}")]);
        assert_eq!(said.code, 2, "{wrong}");
    }
}

/// Broke: `verify` read a session, then `gc` removed it and its content, and `verify` called that content lost.
#[test]
fn verify_reports_no_loss_while_gc_removes_sessions() {
    const ROUNDS: usize = 12;
    let home = home();
    // Shares its workflow and snapshots with those that come and go.
    unfinished(&home);
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let cleaner = scope.spawn(|| {
            for _ in 0..ROUNDS {
                let mut client = home.client();
                for _ in 0..4 {
                    let first = start(&mut client);
                    advance(&mut client, &first);
                }
                client.close();
                let cleaned = home.run(&["store", "gc", "--ttl", "0d", "--json"]);
                assert_eq!(cleaned.code, 0, "{cleaned:?}");
            }
            is_done.store(true, Ordering::Relaxed);
        });
        let mut verified = 0;
        while !is_done.load(Ordering::Relaxed) && !cleaner.is_finished() {
            let report = home.run(&["store", "verify", "--json"]);
            assert_eq!((report.code, &report.json()["problems"]), (0, &json!([])), "{report:?}");
            verified += 1;
        }
        assert!(verified > 1, "nothing was verified meanwhile");
    });
}

#[test]
fn gc_removes_nothing_by_age_while_the_clock_is_behind() {
    use workrail_model::event::Event;
    use workrail_model::manifest::{ManifestIndex, commit_group, group_bytes, segment_bytes};
    use workrail_model::time::Timestamp;
    let home = home();
    let (old, ahead) = (finished(&home), unfinished(&home));
    // One session from a day that this machine's clock has not reached.
    let folder = session_dir(&home, &ahead);
    let segment = std::fs::read_dir(folder.join("events")).unwrap().next().unwrap().unwrap().path();
    let lines = std::fs::read(&segment).unwrap();
    let lines = lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    let mut events: Vec<Event> = lines.map(|line| Event::parse(line).unwrap()).collect();
    events[0].at = Some(Timestamp::parse("9998-01-01T00:00:00.000Z").unwrap());
    let bytes = segment_bytes(&events).unwrap();
    std::fs::write(&segment, &bytes).unwrap();
    let group = group_bytes(&commit_group(ManifestIndex::ZERO, &events, &bytes)).unwrap();
    std::fs::write(folder.join("manifest.jsonl"), group).unwrap();
    let said = home.run(&["store", "gc", "--ttl", "0d", "--json"]).json();
    assert_eq!(said["removed"], json!([]));
    assert_eq!((&said["retained"]["clockBehind"], &said["retained"]["unfinished"]), (&json!(1), &json!(1)));
    assert!(session_dir(&home, &old).exists());
    let ahead = session(&ahead);
    assert_eq!(said["aheadOfClock"], json!({ "sessionId": ahead, "at": "9998-01-01T00:00:00.000Z" }));
}

#[test]
fn gc_removes_nothing_when_it_could_not_sweep() {
    let home = home();
    let old = finished(&home);
    let lock = std::fs::File::open(home.data().join("store.lock")).unwrap();
    lock.try_lock_shared().unwrap();
    let said = home.run(&["store", "gc", "--ttl", "0d", "--json"]);
    assert_eq!((said.code, &said.json()["error"]["code"]), (3, &json!("STORE_BUSY")), "{said:?}");
    assert!(session_dir(&home, &old).exists(), "busy is said before anything goes");
}

#[test]
fn what_gc_removed_is_reported_even_if_it_fails_later() {
    for as_json in [true, false] {
        let home = home();
        let old = session(&finished(&home));
        // Whether a process is using this leftover cannot be determined: its lock is a folder.
        let leftover = home.data().join("sessions/.tmp-import-1/.lock");
        std::fs::create_dir_all(&leftover).unwrap();
        let mut call = vec!["store", "gc", "--ttl", "0d"];
        call.extend(as_json.then_some("--json"));
        let said = home.run(&call);
        assert_eq!(said.code, 1, "{said:?}");
        assert!(!home.data().join("sessions").join(&old).exists());
        assert!(said.out.contains(&old), "{said:?}");
        if as_json {
            let report = said.json();
            assert_eq!(report["removed"][0]["sessionId"], json!(old));
            assert_eq!(report["stopped"]["code"], json!("STORE_IO"));
        }
    }
}

#[test]
fn a_foreign_folder_among_the_sessions_is_a_problem_with_a_fix() {
    let home = home();
    let old = finished(&home);
    let foreign = home.data().join("sessions/copy-of-yesterday");
    std::fs::create_dir(&foreign).unwrap();
    let verified = home.run(&["store", "verify", "--json"]);
    assert_eq!(verified.code, 1, "{verified:?}");
    let problem = &verified.json()["problems"][0];
    assert_eq!(problem["subject"], "sessions/copy-of-yesterday");
    assert!(problem["fix"].is_string(), "{problem}");
    let before = content(&home.data());
    let said = home.run(&["store", "gc", "--ttl", "0d", "--json"]);
    assert_eq!(said.code, 1);
    let warning = said.json()["safeMode"].clone();
    assert_eq!(warning["details"][0]["subject"], "sessions/copy-of-yesterday", "{warning}");
    assert!(!session_dir(&home, &old).exists(), "an old session goes all the same");
    assert_eq!(content(&home.data()), before, "content stays while the folder is there");
    std::fs::remove_dir(&foreign).unwrap();
    assert_eq!(home.run(&["store", "gc", "--ttl", "0d"]).code, 0);
    assert!(content(&home.data()).is_empty());
}

#[test]
fn gc_deletes_no_content_while_the_sessions_folder_is_missing() {
    let home = home();
    finished(&home);
    let outside = tempfile::tempdir().unwrap();
    let (sessions, elsewhere) = (home.data().join("sessions"), outside.path().join("moved"));
    std::fs::rename(&sessions, &elsewhere).unwrap();
    let before = content(&home.data());
    for arguments in [&["store", "gc", "--dry-run", "--json"][..], &["store", "gc", "--json"]] {
        let said = home.run(arguments);
        assert_eq!((said.code, &said.json()["safeMode"]["code"]), (1, &json!("STORE_SAFE_MODE")), "{said:?}");
        assert!(!sessions.exists(), "an empty folder would hide the loss");
    }
    assert_eq!(content(&home.data()), before);
    let verified = home.run(&["store", "verify", "--json"]);
    assert_eq!((verified.code, &verified.json()["problems"][0]["subject"]), (1, &json!("sessions")));
    let backup = outside.path().join("backup");
    let copied = home.run(&["store", "backup", backup.to_str().unwrap(), "--json"]);
    assert_eq!((copied.code, &copied.json()["result"]["problems"][0]["subject"]), (1, &json!("sessions")));
    std::fs::rename(&elsewhere, &sessions).unwrap();
    assert_eq!(home.run(&["store", "verify"]).code, 0);
    assert_eq!(home.run(&["store", "gc"]).code, 0);
}

#[test]
fn a_dry_run_of_gc_creates_no_folder() {
    let home = home();
    unfinished(&home);
    let pinned = home.data().join("workflows/pinned");
    std::fs::remove_dir_all(&pinned).unwrap();
    home.run(&["store", "gc", "--dry-run"]);
    assert!(!pinned.exists());
}
