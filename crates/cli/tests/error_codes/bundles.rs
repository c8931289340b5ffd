//! Codes about bundles.

use std::fs;

use serde_json::{Value, json};
use workrail_model::error::ErrorCode;
use workrail_testkit::home::Home;

use super::{PROGRAM, Scene, command_refused, forge, pretty};

/// The bundle of a session of one step.
fn bundle() -> Value {
    let mut scene = Scene::new();
    scene.advance();
    let session = scene.session().to_string();
    scene.home.done(&["session", "export", &session, "-o", "-"]).json()
}

/// Imports an edited bundle; it must be refused with the code and write nothing.
fn import_refused(bundle: &Value, code: ErrorCode, cause: &str) {
    let home = Home::new(PROGRAM);
    let file = home.project().join("bundle.json");
    // On its own line, a member has the same column in every run.
    home.write(&file, &pretty(bundle));
    let ran = home.run(&["session", "import", "bundle.json", "--json"]);
    assert_eq!(ran.code, 1, "{ran:?}");
    command_refused(&home, &ran, "error", code, cause);
    for folder in ["sessions", "snapshots", "blobs", "workflows/pinned"] {
        assert_eq!(fs::read_dir(home.data().join(folder)).unwrap().count(), 0, "{folder}");
    }
}

#[test]
fn bundle_invalid_format() {
    let mut bundle = bundle();
    bundle["session"]["events"] = json!({});
    import_refused(&bundle, ErrorCode::BundleInvalidFormat, "events are no list");
    import_refused(&json!({ "bundleSchemaVersion": 1 }), ErrorCode::BundleInvalidFormat, "almost empty");
}

#[test]
fn bundle_unsupported_version() {
    import_refused(
        &json!({ "session": [], "zVersion": {}, "bundleSchemaVersion": 2 }),
        ErrorCode::BundleUnsupportedVersion,
        "bundle version",
    );
    let mut bundle = bundle();
    bundle["session"]["events"][1]["v"] = json!(2);
    forge::reattest(&mut bundle);
    import_refused(&bundle, ErrorCode::BundleUnsupportedVersion, "event version");
}

#[test]
fn bundle_integrity_failed() {
    let mut changed = bundle();
    changed["session"]["events"][0]["at"] = json!("2026-01-01T00:00:00.000Z");
    import_refused(&changed, ErrorCode::BundleIntegrityFailed, "changed event");
    let mut without_blobs = bundle();
    without_blobs["session"]["blobs"] = json!({});
    forge::reattest(&mut without_blobs);
    import_refused(&without_blobs, ErrorCode::BundleIntegrityFailed, "missing blob");
}

#[test]
fn bundle_missing_snapshot() {
    let mut bundle = bundle();
    let key = bundle["session"]["snapshots"].as_object().unwrap().keys().next().unwrap().clone();
    bundle["session"]["snapshots"].as_object_mut().unwrap().remove(&key);
    import_refused(&bundle, ErrorCode::BundleMissingSnapshot, "removed");
    forge::reattest(&mut bundle);
    import_refused(&bundle, ErrorCode::BundleMissingSnapshot, "removed and attested");
}

#[test]
fn bundle_missing_pinned_workflow() {
    let mut bundle = bundle();
    bundle["session"]["pinnedWorkflows"] = json!({});
    import_refused(&bundle, ErrorCode::BundleMissingPinnedWorkflow, "removed");
    forge::reattest(&mut bundle);
    import_refused(&bundle, ErrorCode::BundleMissingPinnedWorkflow, "removed and attested");
}

#[test]
fn bundle_event_order_invalid() {
    let mut swapped = bundle();
    swapped["session"]["events"].as_array_mut().unwrap().swap(1, 2);
    forge::reattest(&mut swapped);
    import_refused(&swapped, ErrorCode::BundleEventOrderInvalid, "swapped");
    let mut forged = bundle();
    forged["session"]["events"][1]["dedupeKey"] = json!("run_started:forged");
    forge::recommit(&mut forged);
    forge::reattest(&mut forged);
    import_refused(&forged, ErrorCode::BundleEventOrderInvalid, "forged dedupe key");
}

#[test]
fn bundle_manifest_order_invalid() {
    let mut bundle = bundle();
    bundle["session"]["manifest"].as_array_mut().unwrap().swap(0, 1);
    forge::reattest(&mut bundle);
    import_refused(&bundle, ErrorCode::BundleManifestOrderInvalid, "swapped");
}
