//! A store of two thousand sessions that share their snapshots, cleaned and checked by the real binary.
//!
//! It is written through the engine on a disk that does not sync: this proves what is removed and what is kept, not
//! what survives a power cut.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use workrail_engine::request::{ContinueWorkflow, StartWorkflow};
use workrail_engine::{Engine, EngineEnvironment};
use workrail_host::clock::SystemClock;
use workrail_host::workspace::GitObserver;
use workrail_model::bundle::Producer;
use workrail_model::compiled::ReferenceDeclaration;
use workrail_model::discovery::Precedence;
use workrail_model::preferences::Preferences;
use workrail_model::time::Timestamp;
use workrail_model::token::TokenEncoding;
use workrail_ports::environment::Clock;
use workrail_ports::file_system::{
    Created, DirEntry, FileStat, FileSystem, FsError, LockMode, RelPath, WritableFile,
};
use workrail_ports::workflow_source::{
    BindingsFile, CandidateFile, Located, SourceError, SourceFile, SourceListing, WorkflowSource,
};
use workrail_ports::workspace::WorkspacePath;
use workrail_store_fs::LocalStore;
use workrail_store_fs::disk::{Disk, DiskFile, DiskLock};
use workrail_testkit::fixed::{FixedClock, SeededEntropy};

use crate::scene::{content, one_step, run};

/// A disk that skips syncs.
#[derive(Clone)]
struct Unsynced(Disk);

struct UnsyncedFile(DiskFile);

impl WritableFile for UnsyncedFile {
    fn append(&mut self, bytes: &[u8]) -> Result<(), FsError> {
        self.0.append(bytes)
    }

    fn set_len(&mut self, len: u64) -> Result<(), FsError> {
        self.0.set_len(len)
    }

    fn sync(&mut self) -> Result<(), FsError> {
        Ok(())
    }
}

impl FileSystem for Unsynced {
    type File = UnsyncedFile;
    type Lock = DiskLock;

    fn create_dir(&self, path: &RelPath) -> Result<Created, FsError> {
        self.0.create_dir(path)
    }

    fn create_file(&self, path: &RelPath) -> Result<UnsyncedFile, FsError> {
        self.0.create_file(path).map(UnsyncedFile)
    }

    fn open_append(&self, path: &RelPath) -> Result<UnsyncedFile, FsError> {
        self.0.open_append(path).map(UnsyncedFile)
    }

    fn rename(&self, from: &RelPath, to: &RelPath) -> Result<(), FsError> {
        self.0.rename(from, to)
    }

    fn remove_file(&self, path: &RelPath) -> Result<(), FsError> {
        self.0.remove_file(path)
    }

    fn sync_dir(&self, _: &RelPath) -> Result<(), FsError> {
        Ok(())
    }

    fn read(&self, path: &RelPath, offset: u64, max: u64) -> Result<Vec<u8>, FsError> {
        self.0.read(path, offset, max)
    }

    fn read_part(&self, path: &RelPath, offset: u64, max: usize) -> Result<Vec<u8>, FsError> {
        self.0.read_part(path, offset, max)
    }

    fn list(&self, path: &RelPath) -> Result<Vec<DirEntry>, FsError> {
        self.0.list(path)
    }

    fn stat(&self, path: &RelPath) -> Result<FileStat, FsError> {
        self.0.stat(path)
    }

    fn lock(&self, path: &RelPath, mode: LockMode, wait: Duration) -> Result<Option<DiskLock>, FsError> {
        self.0.lock(path, mode, wait)
    }

    fn remove_dir(&self, path: &RelPath) -> Result<(), FsError> {
        self.0.remove_dir(path)
    }
}

/// A source with a single workflow.
struct SingleWorkflowSource;

impl WorkflowSource for SingleWorkflowSource {
    fn list(&self, _: Option<&WorkspacePath>) -> SourceListing {
        let file = CandidateFile {
            precedence: Precedence::Custom,
            folder_position: 0,
            reference: "one.json".to_owned(),
            location: "one".to_owned(),
            package: None,
            stamp: Some(workrail_ports::workflow_source::WorkflowFileStamp([1, 0, 0, 0])),
        };
        SourceListing { files: vec![file], ..SourceListing::default() }
    }

    fn read(&self, _: &CandidateFile) -> Result<Vec<u8>, SourceError> {
        Ok(one_step().to_string().into_bytes())
    }

    fn bindings(&self, _: Option<&WorkspacePath>) -> Result<Option<BindingsFile>, SourceError> {
        Ok(None)
    }

    fn locate(&self, _: &ReferenceDeclaration, _: &SourceFile, _: Option<&WorkspacePath>) -> Located {
        Located::Missing
    }
}

fn engine(data: &Path, clock: Box<dyn Clock>, seed: u64) -> Engine<LocalStore<Unsynced>> {
    let disk = Unsynced(Disk::open(camino::Utf8Path::from_path(data).unwrap()).unwrap());
    let store = LocalStore::open(disk, Box::new(SeededEntropy::new(seed)), "boot".to_owned()).unwrap();
    let environment = EngineEnvironment {
        clock,
        entropy: Box::new(SeededEntropy::new(seed + 1)),
        workflows: Arc::new(SingleWorkflowSource),
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

enum End {
    Finished,
    Open,
}

fn session(engine: &Engine<LocalStore<Unsynced>>, end: End) -> String {
    let request = StartWorkflow {
        workflow_id: "team.one".to_owned(),
        goal: Some("one of many".to_owned()),
        ..StartWorkflow::default()
    };
    let first = engine.start_workflow(request).unwrap().into_structured();
    let ack = first["ackToken"].as_str().unwrap().to_owned();
    let id = first["run"]["sessionId"].as_str().unwrap().to_owned();
    if matches!(end, End::Finished) {
        let mut request = ContinueWorkflow { ack_token: Some(ack), ..ContinueWorkflow::default() };
        request.output.notes_markdown = Some("Did the work.".to_owned());
        engine.continue_workflow(request).unwrap();
    }
    id
}

/// Every digest in any file of the sessions: what they may need.
fn named_in_sessions(data: &Path) -> BTreeSet<String> {
    let mut digests = BTreeSet::new();
    let mut folders = vec![data.join("sessions")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let text = String::from_utf8(std::fs::read(&path).unwrap()).unwrap();
            let found = text.match_indices("sha256:").filter_map(|(at, _)| text.get(at + 7..at + 71));
            digests.extend(found.map(str::to_owned));
        }
    }
    digests
}

fn digest(name: &str) -> &str {
    name.rsplit('/').next().unwrap().trim_end_matches(".json")
}

#[test]
fn figure_cleaning_two_thousand_sessions() {
    const EXPIRED: usize = 1_200;
    const YOUNG: usize = 400;
    const OPEN: usize = 300;
    const KEPT: usize = 100;
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path();
    let long_ago = Timestamp::parse("2020-02-02T00:00:00.000Z").unwrap();
    let old = engine(data, Box::new(FixedClock::new(long_ago)), 1);
    for _ in 0..EXPIRED {
        session(&old, End::Finished);
    }
    for _ in 0..OPEN {
        session(&old, End::Open);
    }
    for _ in 0..KEPT {
        let id = session(&old, End::Finished);
        std::fs::write(data.join("sessions").join(id).join("keep"), "").unwrap();
    }
    let young = engine(data, Box::new(SystemClock), 1_000_000);
    for _ in 0..YOUNG {
        session(&young, End::Finished);
    }
    let all = EXPIRED + YOUNG + OPEN + KEPT;
    let verified = run(data, &["store", "verify", "--all", "--json"]).json();
    assert_eq!((&verified["counts"]["sessions"], &verified["counts"]["problems"]), (&json!(all), &json!(0)));
    assert_eq!(verified["counts"]["snapshots"], json!(2), "all of them share two snapshots");

    let before = content(data);
    let cleaned = run(data, &["store", "gc", "--json"]);
    assert_eq!(cleaned.code, 0, "{}", cleaned.err);
    let report = cleaned.json();
    assert_eq!(report["removed"].as_array().map(Vec::len), Some(EXPIRED));
    assert_eq!(
        report["retained"],
        json!({ "kept": KEPT, "unfinished": OPEN, "recent": YOUNG, "withoutTimestamp": 0, "clockBehind": 0, "inUse": 0 })
    );
    let (needed, after) = (named_in_sessions(data), content(data));
    let wrongly_removed =
        before.iter().filter(|name| needed.contains(digest(name)) && !after.contains(*name));
    let unreachable = before.iter().filter(|name| !needed.contains(digest(name))).count();
    let left = after.iter().filter(|name| !needed.contains(digest(name))).count();
    let wrongly_removed = wrongly_removed.count();
    let verified = run(data, &["store", "verify", "--all", "--json"]);
    let problems = verified.json()["counts"]["problems"].clone();
    println!(
        "figure: gc of {all} sessions sharing snapshots: {wrongly_removed} reachable files removed, {} of \
         {unreachable} unreachable removed, verify --all: {problems} problems",
        unreachable - left
    );
    assert_eq!((wrongly_removed, left, problems), (0, 0, Value::from(0)));
    assert!(unreachable >= EXPIRED, "each expired session had a reply of its own");
    assert_eq!(report["freed"]["blobs"]["files"].as_u64().unwrap() as usize, unreachable);
    let again = run(data, &["store", "gc", "--json"]).json();
    assert_eq!(again["freed"]["blobs"]["files"], json!(0), "nothing is left to do");
}
