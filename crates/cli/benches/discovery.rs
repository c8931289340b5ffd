//! What discovery costs a server that has already looked once: with many files and with few (G93).
//!
//! Prints medians and fails above the target: warm discovery over 2,000 files, that is listing them and finding one
//! workflow to start, costs at most 3 times what it costs over 50.
#![expect(clippy::print_stdout, reason = "a benchmark reports")]

use std::hint::black_box;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use camino::Utf8Path;
use serde_json::json;
use workrail_core::agent_site::RunRights;
use workrail_engine::catalog::{Catalog, Filter};
use workrail_host::sources::Sources;
use workrail_model::name::WorkflowId;
use workrail_model::tool::ToolSet;

const FEW: usize = 50;
const MANY: usize = 2_000;
const REPETITIONS: usize = 101;
const RATIO_MAX: f64 = 3.0;

fn main() -> ExitCode {
    let (few, many) = (Scene::new(FEW), Scene::new(MANY));
    // Alternated, so that a change in the machine's load affects both.
    let (mut few_times, mut many_times) = (Vec::new(), Vec::new());
    for _ in 0..REPETITIONS {
        few_times.push(few.discover());
        many_times.push(many.discover());
    }
    let (few_warm, many_warm) = (middle(few_times), middle(many_times));
    let ratio = many_warm.as_secs_f64() / few_warm.as_secs_f64();
    println!("first discovery over {FEW} files: {:?}, over {MANY}: {:?}", few.first, many.first);
    println!("walking on every call, {MANY} files: {:?}", many.unwatched());
    println!("warm discovery over {FEW} files: {few_warm:?}, over {MANY}: {many_warm:?}");
    println!("warm discovery 2,000/50 ratio: {ratio:.3} (at most {RATIO_MAX})");
    if ratio <= RATIO_MAX { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

struct Scene {
    folder: tempfile::TempDir,
    catalog: Catalog,
    wanted: WorkflowId,
    first: Duration,
}

impl Scene {
    fn new(files: usize) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        for number in 0..files {
            let text = json!({
                "id": format!("bench.flow_{number}"), "name": format!("Flow {number}"), "version": "1.0.0",
                "description": "One of many workflows in a large library.",
                "steps": [{ "id": "only", "title": "Do it", "prompt": "Do what the title says." }],
            });
            // Like a real library: some folders with some files each.
            let place = folder.path().join(format!("group-{:02}", number % 40));
            std::fs::create_dir_all(&place).expect("a folder");
            std::fs::write(place.join(format!("{number}.json")), text.to_string()).expect("a file");
        }
        let catalog = Catalog::new(Arc::new(sources(&folder).watched()));
        let wanted = WorkflowId::parse(&format!("bench.flow_{}", files / 2)).expect("an id");
        let mut scene = Self { folder, catalog, wanted, first: Duration::ZERO };
        scene.first = scene.discover();
        scene
    }

    fn discover(&self) -> Duration {
        discover(&self.catalog, &self.wanted)
    }

    /// What it would cost without watching.
    fn unwatched(&self) -> Duration {
        let catalog = Catalog::new(Arc::new(sources(&self.folder)));
        discover(&catalog, &self.wanted);
        middle((0..5).map(|_| discover(&catalog, &self.wanted)).collect())
    }
}

fn sources(folder: &tempfile::TempDir) -> Sources {
    let path = Utf8Path::from_path(folder.path()).expect("a UTF-8 path");
    Sources::new(None, vec![path.to_owned()])
}

fn discover(catalog: &Catalog, wanted: &WorkflowId) -> Duration {
    let start = Instant::now();
    let listed =
        catalog.list(None, &Filter::default(), (ToolSet::ALL, RunRights::Work)).expect("they are listed");
    assert!(listed.total > FEW, "everything is found");
    black_box(listed);
    black_box(catalog.compiled(wanted, None).expect("it can be started"));
    start.elapsed()
}

fn middle(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}
