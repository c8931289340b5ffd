//! Disks that fail an operation: the answer is complete or an error about the disk, never an internal one (G70).

use std::io;
use std::sync::Arc;

use serde_json::{Value, json};
use workrail_engine::request::{ContinueWorkflow, StartWorkflow};
use workrail_engine::upkeep::ApplyMode;
use workrail_engine::{Engine, ExportFailure};
use workrail_model::discovery::Precedence;
use workrail_model::error::{ErrorCode, ErrorEnvelope};
use workrail_model::id::SessionId;
use workrail_model::submission::StepOutput;
use workrail_ports::file_system::{FsErrorKind, RelPath};
use workrail_store_fs::LocalStore;
use workrail_store_fs::sim::{Fault, FaultKind, FaultMode, SimFs};
use workrail_testkit::fixed::SeededEntropy;

use crate::scene::{Shelf, authored, environment};

type SimEngine = Engine<LocalStore<SimFs>>;

const KINDS: [FsErrorKind; 3] =
    [FsErrorKind::PermissionDenied, FsErrorKind::Io, FsErrorKind::TooManyOpenFiles];

fn engine(fs: &SimFs) -> SimEngine {
    let shelf = Arc::new(Shelf::default());
    let steps: Vec<Value> = (0..4)
        .map(|step| json!({ "id": format!("step-{step}"), "title": "Step", "prompt": "Do it." }))
        .collect();
    shelf.put(Precedence::Project, "run.json", &authored("team.run", &json!({ "steps": steps })));
    let store = LocalStore::open(fs.clone(), Box::new(SeededEntropy::new(1)), "boot".to_owned()).unwrap();
    Engine::new(Arc::new(store), environment(1, &shelf))
}

/// A session with a few segments.
fn session(fs: &SimFs) -> SessionId {
    let engine = engine(fs);
    let request = StartWorkflow { workflow_id: "team.run".to_owned(), ..StartWorkflow::default() };
    let mut reply = engine.start_workflow(request).unwrap().into_structured();
    let session = SessionId::parse(reply["run"]["sessionId"].as_str().unwrap()).unwrap();
    for _ in 0..2 {
        let output = StepOutput { notes_markdown: Some("Done.".to_owned()), artifacts: Vec::new() };
        let ack_token = reply["ackToken"].as_str().map(str::to_owned);
        let request = ContinueWorkflow { ack_token, output, ..ContinueWorkflow::default() };
        reply = engine.continue_workflow(request).unwrap().into_structured();
    }
    session
}

/// Calls `work` once for each operation it needs, failing that one or all from it on. An answer despite one failure
/// must equal the answer without.
fn refuse_each_operation(fs: &SimFs, work: &dyn Fn(&SimEngine) -> Result<Value, Box<ErrorEnvelope>>) {
    let expected = work(&engine(&fs.fork())).unwrap();
    for (kind, mode) in
        KINDS.iter().flat_map(|kind| [FaultMode::Once, FaultMode::Forever].map(|mode| (*kind, mode)))
    {
        for operation in 0.. {
            let disk = fs.fork();
            let engine = engine(&disk);
            let at_op = disk.all_op_count() + operation;
            disk.set_fault(Fault { at_op, kind: FaultKind::Error(kind), mode });
            let answer = work(&engine);
            let what = format!("{kind:?} {mode:?} at operation {operation}");
            match answer {
                Ok(answer) => assert!(mode == FaultMode::Forever || answer == expected, "{what}: {answer}"),
                Err(error) => {
                    assert_ne!(error.code, ErrorCode::InternalInvariant, "{what}: {error:?}");
                    assert!(
                        error.message.contains("sessions") || error.message.contains('`'),
                        "{what}: {error:?}"
                    );
                }
            }
            if disk.fault_hits() == 0 {
                assert!(operation > 0, "the work needs the disk");
                break;
            }
        }
    }
}

/// Regression: a log that could not be read for a moment was exported in part and called complete, or the export ended
/// with an internal error, "the log changed while it was exported".
#[test]
fn an_export_is_complete_or_names_what_could_not_be_read() {
    let fs = SimFs::new();
    let session = session(&fs);
    refuse_each_operation(
        &fs,
        &|engine| match engine.export(session, None, &mut io::sink(), &mut |_, _| {}) {
            Ok(done) => Ok(json!([done.events, done.contents, done.salvage.is_some()])),
            Err(ExportFailure::Refused(error)) => Err(error),
            Err(ExportFailure::Output(error)) => panic!("a sink takes everything: {error}"),
        },
    );
}

/// Regression: a segment that could not be read for a moment was damaged at the first read and intact at the second,
/// and the repair ended with an internal error, "has no damage that a repair could cut away".
#[test]
fn a_repair_finds_the_same_or_names_what_could_not_be_read() {
    let sound = SimFs::new();
    let session = session(&sound);
    let damaged = sound.fork();
    let last = damaged.all_files().into_iter().rfind(|file| file.as_str().contains("/events/"));
    let last: RelPath = last.unwrap();
    let bytes = damaged.read_raw(&last).unwrap();
    damaged.write_raw(&last, &bytes[..bytes.len() / 2]);
    for (fs, outcomes) in [(sound, ["healthy", "healthy"]), (damaged, ["would_repair", "repaired"])] {
        for (mode, outcome) in [ApplyMode::DryRun, ApplyMode::Real].into_iter().zip(outcomes) {
            refuse_each_operation(&fs, &|engine| {
                let done = serde_json::to_value(engine.repair(session, mode)?).unwrap();
                assert_eq!(done["outcome"], outcome, "{done}");
                Ok(done)
            });
        }
    }
}
