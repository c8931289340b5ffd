//! An engine over memory, with sources that the test writes and that count the reads.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use workrail_engine::request::{InspectWorkflow, ListWorkflows, StartWorkflow};
use workrail_engine::{Engine, EngineEnvironment};
use workrail_model::bundle::Producer;
use workrail_model::compiled::ReferenceDeclaration;
use workrail_model::discovery::{InspectMode, Precedence, WorkflowInspection, WorkflowList};
use workrail_model::error::ErrorEnvelope;
use workrail_model::event::{EventData, RunStarted};
use workrail_model::id::SessionId;
use workrail_model::token::TokenEncoding;
use workrail_ports::session_store::SessionReader;
use workrail_ports::workflow_source::{
    BindingsFile, CandidateFile, Located, ProblemScope, SourceError, SourceFile, SourceListing,
    SourceProblem, WorkflowFileStamp, WorkflowSource,
};
use workrail_ports::workspace::{WorkspaceFacts, WorkspaceObserver, WorkspacePath};
use workrail_testkit::fixed::{FixedClock, SeededEntropy};
use workrail_testkit::memory::MemoryStore;

/// A file as the test wrote it; `None` makes it unreadable.
type Content = (Option<Vec<u8>>, u64);

#[derive(Debug, Default)]
pub(crate) struct Shelf {
    files: Mutex<BTreeMap<(Precedence, usize, String), Content>>,
    bindings: Mutex<Option<String>>,
    problems: Mutex<Vec<SourceProblem>>,
    interrupted: Mutex<Option<String>>,
    writes: AtomicU64,
    pub(crate) reads: AtomicUsize,
}

impl Shelf {
    pub(crate) fn put(&self, precedence: Precedence, reference: &str, text: &str) {
        self.put_in(precedence, 0, reference, Some(text.as_bytes().to_vec()));
    }

    pub(crate) fn put_in(
        &self,
        precedence: Precedence,
        position: usize,
        reference: &str,
        bytes: Option<Vec<u8>>,
    ) {
        let stamp = self.writes.fetch_add(1, Ordering::Relaxed);
        self.files.lock().unwrap().insert((precedence, position, reference.to_owned()), (bytes, stamp));
    }

    pub(crate) fn bind(&self, text: &str) {
        *self.bindings.lock().unwrap() = Some(text.to_owned());
    }

    pub(crate) fn problem(&self, reference: &str, problem: &str, fix: &str) {
        self.problems.lock().unwrap().push(SourceProblem {
            precedence: Precedence::Custom,
            reference: reference.to_owned(),
            problem: problem.to_owned(),
            fix: fix.to_owned(),
            scope: ProblemScope::Named,
        });
    }
}

impl Shelf {
    pub(crate) fn interrupt(&self, detail: Option<&str>) {
        *self.interrupted.lock().unwrap() = detail.map(str::to_owned);
    }
}

fn location(precedence: Precedence, position: usize, reference: &str) -> String {
    format!("{precedence:?}/{position}/{reference}")
}

impl WorkflowSource for Shelf {
    fn list(&self, _: Option<&WorkspacePath>) -> SourceListing {
        let files = self.files.lock().unwrap();
        let files = files.iter().map(|((precedence, position, reference), (_, stamp))| CandidateFile {
            precedence: *precedence,
            folder_position: *position,
            reference: reference.clone(),
            location: location(*precedence, *position, reference),
            package: None,
            stamp: Some(WorkflowFileStamp([*stamp, 0, 0, 0])),
        });
        SourceListing {
            files: files.collect(),
            problems: self.problems.lock().unwrap().clone(),
            interrupted: self.interrupted.lock().unwrap().clone(),
            id: None,
        }
    }

    fn read(&self, file: &CandidateFile) -> Result<Vec<u8>, SourceError> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        let files = self.files.lock().unwrap();
        let found = files.get(&(file.precedence, file.folder_position, file.reference.clone()));
        found.and_then(|(bytes, _)| bytes.clone()).ok_or_else(|| SourceError::Unreadable {
            reference: file.reference.clone(),
            detail: "permission denied".to_owned(),
        })
    }

    fn bindings(&self, _: Option<&WorkspacePath>) -> Result<Option<BindingsFile>, SourceError> {
        Ok(self.bindings.lock().unwrap().as_ref().map(|text| BindingsFile {
            reference: ".workrail/bindings.json".to_owned(),
            bytes: text.as_bytes().to_vec(),
        }))
    }

    /// Everything whose name starts with `docs/` exists.
    fn locate(
        &self,
        declaration: &ReferenceDeclaration,
        _: &SourceFile,
        _: Option<&WorkspacePath>,
    ) -> Located {
        if declaration.source.starts_with("docs/") {
            let (relative, absolute) =
                (declaration.source.clone(), format!("/package/{}", declaration.source));
            Located::Found { relative, absolute }
        } else {
            Located::Missing
        }
    }
}

/// An observer that sees nothing.
struct Blind;

impl WorkspaceObserver for Blind {
    fn is_folder(&self, workspace: &WorkspacePath) -> bool {
        !workspace.as_str().starts_with("/nowhere")
    }

    fn observe(&self, _: &WorkspacePath) -> WorkspaceFacts {
        WorkspaceFacts::default()
    }
}

pub(crate) struct Scene {
    pub(crate) shelf: Arc<Shelf>,
    pub(crate) store: MemoryStore,
    pub(crate) engine: Engine<MemoryStore>,
}

impl Scene {
    pub(crate) fn new() -> Self {
        Self::seeded(1, Arc::new(Shelf::default()))
    }

    /// Another machine, with its own keys and randomness.
    pub(crate) fn seeded(seed: u64, shelf: Arc<Shelf>) -> Self {
        let store = MemoryStore::new(seed - 1);
        let engine = Engine::new(Arc::new(store.clone()), environment(seed, &shelf));
        Self { shelf, store, engine }
    }

    /// Another process on the same store.
    pub(crate) fn reopened(&self) -> Engine<MemoryStore> {
        Engine::new(Arc::new(self.store.clone()), environment(1, &self.shelf))
    }

    pub(crate) fn list(&self) -> WorkflowList {
        self.engine.list_workflows(ListWorkflows::default()).unwrap()
    }

    pub(crate) fn search(&self, tags: &[&str], query: &str) -> WorkflowList {
        let tags = tags.iter().map(|tag| (*tag).to_owned()).collect();
        let query = Some(query.to_owned());
        self.engine.list_workflows(ListWorkflows { tags, query, ..ListWorkflows::default() }).unwrap()
    }

    pub(crate) fn inspect(
        &self,
        id: &str,
        mode: InspectMode,
    ) -> Result<WorkflowInspection, Box<ErrorEnvelope>> {
        let workflow_id = id.to_owned();
        self.engine.inspect_workflow(InspectWorkflow { workflow_id, mode, ..InspectWorkflow::default() })
    }

    /// Starts a run and returns the event that records what it is pinned to.
    pub(crate) fn start(&self, id: &str) -> Result<RunStarted, Box<ErrorEnvelope>> {
        let request = StartWorkflow { workflow_id: id.to_owned(), ..StartWorkflow::default() };
        let reply = self.engine.start_workflow(request)?.into_structured();
        let session = SessionId::parse(reply["run"]["sessionId"].as_str().unwrap()).unwrap();
        let events = self.store.read(session, None).unwrap().events;
        let started = events.into_iter().find_map(|event| {
            if let EventData::RunStarted(started) = event.data { Some(started) } else { None }
        });
        Ok(started.unwrap())
    }
}

pub(crate) fn environment(seed: u64, shelf: &Arc<Shelf>) -> EngineEnvironment {
    EngineEnvironment {
        clock: Box::new(FixedClock::default()),
        entropy: Box::new(SeededEntropy::new(seed)),
        workflows: Arc::<Shelf>::clone(shelf),
        observer: Box::new(Blind),
        checks: None,
        workspace: Some(WorkspacePath::parse("/work").unwrap()),
        default_preferences: Arc::new(workrail_model::preferences::Preferences::default()),
        approvals: Arc::new(workrail_model::approval::RequiredProof::Terminal),
        token_encoding: TokenEncoding::V2,
        tools: workrail_model::tool::ToolSet::ALL,
        producer: Producer { app_version: "0.0.0-test".to_owned(), applied_config_hash: None },
    }
}

/// A valid file with this id.
pub(crate) fn workflow(id: &str) -> String {
    authored(id, &json!({}))
}

/// A valid file with this id and these further members.
pub(crate) fn authored(id: &str, members: &Value) -> String {
    let mut file = json!({
        "id": id, "name": format!("Name of {id}"), "description": format!("What {id} is for."),
        "version": "1.0.0",
        "steps": [{ "id": "only", "title": "Only step", "prompt": "Do it." }],
    });
    for (key, value) in members.as_object().unwrap() {
        file[key] = value.clone();
    }
    serde_json::to_string_pretty(&file).unwrap()
}
