//! `repair`, on a session with a damaged end.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde_json::json;

use crate::scene::{Scene, advance, session, start};

/// Every file of a folder, by its name relative to it.
fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(folder).unwrap() {
        let (path, name) = {
            let entry = entry.unwrap();
            (entry.path(), entry.file_name().into_string().unwrap())
        };
        if path.is_dir() {
            found.extend(files(&path).into_iter().map(|(inner, bytes)| (format!("{name}/{inner}"), bytes)));
        } else if name != ".lock" {
            found.insert(name, fs::read(&path).unwrap());
        }
    }
    found
}

#[test]
fn a_damaged_end_is_cut_after_a_backup_and_the_run_goes_on() {
    let scene = Scene::new();
    let run = {
        let mut client = scene.server();
        let first = start(&mut client);
        assert!(!advance(&mut client, &first).is_error);
        first
    };
    let id = session(&run);
    let healthy = scene.run(&["repair", &id, "--json"]);
    assert_eq!((healthy.code, &healthy.json()["outcome"]), (0, &json!("healthy")), "nothing to do");

    let folder = scene.session_dir(&run);
    let segments = files(&folder.join("events"));
    let (name, mut bytes) = segments.into_iter().next_back().unwrap();
    let kept: u64 = name[..8].parse().unwrap();
    let at = bytes.len() - 30;
    bytes[at] ^= 1;
    fs::write(folder.join("events").join(&name), bytes).unwrap();
    let damaged = files(&folder);

    let planned = scene.run(&["repair", &id, "--dry-run", "--json"]);
    assert_eq!(planned.code, 0, "{planned:?}");
    let plan = planned.json();
    assert_eq!((&plan["outcome"], &plan["eventsKept"]), (&json!("would_repair"), &json!(kept)));
    assert_eq!(plan["backup"], json!(format!("backups/{id}-1")));
    assert_eq!(plan["givesUp"]["segments"][0]["path"], json!(format!("events/{name}")));
    assert_eq!(plan["givesUp"]["segments"][0]["firstEvent"], json!(kept));
    assert_eq!(plan["givesUp"]["readableNotes"], json!(1));
    let unasked = scene.run(&["repair", &id]);
    assert_eq!(unasked.code, 2, "repair asks a person");
    assert!(unasked.out.contains("node_output_appended") && unasked.out.contains(&format!("backups/{id}-1")));
    assert_eq!(files(&folder), damaged, "nothing was changed");
    assert!(!scene.typed(&format!("repair {id}"), "yes"));

    let done = scene.run(&["repair", &id, "--yes", "--json"]);
    assert_eq!((done.code, &done.json()["outcome"]), (0, &json!("repaired")), "{done:?}");
    assert_eq!(files(&scene.data.path().join(format!("backups/{id}-1"))), damaged);
    assert_eq!(scene.run(&["verify"]).code, 0);
    assert_eq!(scene.run(&["gc"]).code, 0);
    let mut client = scene.server();
    let again = advance(&mut client, &run);
    assert!(!again.is_error, "the step that was lost is done again: {}", again.text);
}

#[test]
fn what_a_repair_cannot_mend_it_refuses() {
    let scene = Scene::new();
    let run = scene.unfinished();
    let manifest = scene.session_dir(&run).join("manifest.jsonl");
    let sound = fs::read_to_string(&manifest).unwrap();
    for (damaged, code) in [
        (sound.replacen("bytes", "bites", 1), "SESSION_CORRUPT"),
        (sound.replace("\"v\":1", "\"v\":7"), "SESSION_UNKNOWN_VERSION"),
        (sound.replacen("segment_closed", "segment_opened", 1), "SESSION_UNKNOWN_VERSION"),
    ] {
        fs::write(&manifest, &damaged).unwrap();
        let refused = scene.run(&["repair", &session(&run), "--yes", "--json"]);
        assert_eq!((refused.code, &refused.json()["error"]["code"]), (1, &json!(code)), "{refused:?}");
        assert_eq!(fs::read_to_string(&manifest).unwrap(), damaged);
        assert!(!scene.data.path().join("backups").exists());
    }
    assert_eq!(scene.run(&["repair", "sess_0000000000000000"]).code, 2);
}
