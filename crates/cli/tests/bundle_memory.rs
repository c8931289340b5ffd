//! A bundle larger than the memory that importing it needs. A separate binary, because it measures its own process.

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use std::fs::File;
use std::io::BufWriter;
use std::path::Path;
use std::sync::Arc;

use workrail_engine::{Engine, EngineEnvironment, ImportMode};
use workrail_host::sources::Sources;
use workrail_host::workspace::GitObserver;
use workrail_model::bundle::Producer;
use workrail_model::preferences::Preferences;
use workrail_model::token::TokenEncoding;
use workrail_ports::session_store::{LockedSession, SessionStore};
use workrail_store_fs::LocalStore;
use workrail_store_fs::disk::Disk;
use workrail_testkit::fixed::{FixedClock, SeededEntropy};
use workrail_testkit::history::{AdvancePayload, History};
use workrail_testkit::proof;

fn open(root: &Path) -> (Arc<LocalStore<Disk>>, Engine<LocalStore<Disk>>) {
    let disk = Disk::open(camino::Utf8Path::from_path(root).unwrap()).unwrap();
    let store = LocalStore::open(disk, Box::new(SeededEntropy::new(1)), "boot".to_owned()).unwrap();
    let store = Arc::new(store);
    let environment = EngineEnvironment {
        clock: Box::new(FixedClock::default()),
        entropy: Box::new(SeededEntropy::new(1)),
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
    let engine = Engine::new(Arc::clone(&store), environment);
    (store, engine)
}

/// The peak memory of this process, in bytes.
fn peak_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1024
}

const MIB: u64 = 1024 * 1024;

#[test]
fn figure_memory_of_an_import() {
    let full = proof::is_full();
    // Large artifacts, and plans of hundreds of events between them.
    let (large, long) = if full { (68, 300) } else { (11, 40) };
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let file = from.path().join("bundle.json");
    let mut history = History::new(5);
    let session = history.session();
    {
        let (store, engine) = open(&from.path().join("data"));
        let mut locked = store.create(session).unwrap();
        locked.append(history.start().plan()).unwrap();
        let mut tip = history.root();
        for number in 0..large + long {
            let load = match number < large {
                true => AdvancePayload { artifacts: 1, artifact_bytes: 3 * MIB as usize, more_traces: 0 },
                false => AdvancePayload { artifacts: 0, artifact_bytes: 0, more_traces: 300 },
            };
            let (plan, child) = history.advance(tip, load);
            locked.append(plan.plan()).unwrap();
            tip = child;
        }
        drop(locked);
        let mut out = BufWriter::new(File::create(&file).unwrap());
        engine.export(session, None, &mut out, &mut |_, _| {}).unwrap();
    }
    let bytes = std::fs::metadata(&file).unwrap().len();
    let before = peak_bytes();
    let (_, engine) = open(&to.path().join("data"));
    let imported = engine.import(&mut File::open(&file).unwrap(), ImportMode::KeepIdIfFree).unwrap();
    assert_eq!(imported.session, session);
    let after = peak_bytes();
    println!(
        "figure: bundle of {} MB and {} events imported; most memory of the process {} MB (before the import {} MB)",
        bytes / MIB,
        imported.events,
        after / MIB,
        before / MIB
    );
    let (at_least, at_most) = if full { (200 * MIB, 200 * MIB) } else { (36 * MIB, 64 * MIB) };
    assert!(bytes >= at_least, "{bytes}");
    assert!(after < at_most, "{after}");
}
