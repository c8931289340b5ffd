//! What differs between two compiled workflows, step by step and in words.
//!
//! [`diff`] compares what runs, not how files are written: two files that differ only in layout, comments or spelling
//! are equal. Every field of a compiled workflow is compared; a new field does not compile until it is. The command
//! line, `--json` and the console show this one value.

mod flow;
mod step;
mod whole;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use workrail_model::compiled::CompiledWorkflow;
use workrail_model::digest::WorkflowHash;
use workrail_model::name::WorkflowId;

use crate::compare::DiffLine;

/// The version of the format; readers of `--json` check it first.
pub(crate) const VERSION: u32 = 1;

#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkflowDiff {
    pub version: u32,
    pub a: ComparedVersion,
    pub b: ComparedVersion,
    /// Whether the two run the same: they have the same hash.
    pub is_same: bool,
    /// What differs in the workflow as a whole.
    pub workflow: Vec<WorkflowChange>,
    /// Steps and loops that differ, in the order of B; a step that only A has is at its position in A.
    pub steps: Vec<StepDiff>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ComparedVersion {
    pub workflow_id: WorkflowId,
    pub name: String,
    /// As the file says it.
    pub version: String,
    pub hash: WorkflowHash,
    pub steps: usize,
}

#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StepDiff {
    pub id: String,
    pub title: String,
    pub kind: PartKind,
    pub presence: Presence,
    pub changes: Vec<WorkflowChange>,
    /// The prompt line by line; empty where it is the same.
    pub prompt: Vec<DiffLine>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PartKind {
    Step,
    Loop,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Presence {
    Both,
    /// Removed.
    OnlyA,
    /// New.
    OnlyB,
}

/// One difference.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkflowChange {
    /// The field of the compiled workflow that differs.
    pub field: &'static str,
    /// As a person reads it: a whole sentence without its full stop.
    pub words: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub a: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub b: Option<Value>,
}

/// Compares two workflows.
pub fn diff(a: (&CompiledWorkflow, WorkflowHash), b: (&CompiledWorkflow, WorkflowHash)) -> WorkflowDiff {
    WorkflowDiff {
        version: VERSION,
        a: version(a),
        b: version(b),
        is_same: a.1 == b.1,
        workflow: whole::changes(a.0, b.0),
        steps: flow::parts(a.0, b.0),
    }
}

fn version((workflow, hash): (&CompiledWorkflow, WorkflowHash)) -> ComparedVersion {
    ComparedVersion {
        workflow_id: workflow.workflow_id.clone(),
        name: workflow.name.clone(),
        version: workflow.version.clone(),
        hash,
        steps: workflow.steps.len(),
    }
}

/// Collects the differences of one thing.
struct Changes {
    found: Vec<WorkflowChange>,
}

impl Changes {
    fn new() -> Self {
        Self { found: Vec::new() }
    }

    /// Adds a sentence if the two differ.
    fn of<T: PartialEq + Serialize>(
        &mut self,
        field: &'static str,
        a: &T,
        b: &T,
        words: impl FnOnce() -> String,
    ) {
        if a != b {
            self.push(field, a, b, words());
        }
    }

    /// Like `of`, for a field whose change needs no further words.
    fn changed<T: PartialEq + Serialize>(&mut self, field: &'static str, (a, b): (&T, &T), what: &str) {
        self.of(field, a, b, || format!("{what} changed"));
    }

    fn push<T: Serialize>(&mut self, field: &'static str, a: &T, b: &T, words: String) {
        // An absent value is left out: `null` would look like a value.
        let value = |side: &T| serde_json::to_value(side).ok().filter(|value| !value.is_null());
        self.found.push(WorkflowChange { field, words, a: value(a), b: value(b) });
    }

    /// Adds a sentence for each item that only one side has, by name, and for each that differs.
    fn by_name<T: PartialEq + Serialize>(
        &mut self,
        field: &'static str,
        (a, b): (&[T], &[T]),
        name_of: impl Fn(&T) -> String,
        words: impl Fn(Presence, &str) -> String,
    ) {
        let find = |list: &[T], wanted: &str| list.iter().position(|item| name_of(item) == wanted);
        for item in a {
            let name = name_of(item);
            match find(b, &name).map(|index| &b[index]) {
                None => self.push(field, &Some(item), &None, words(Presence::OnlyA, &name)),
                Some(other) if item != other => {
                    self.push(field, &Some(item), &Some(other), words(Presence::Both, &name));
                }
                Some(_) => {}
            }
        }
        for item in b {
            let name = name_of(item);
            if find(a, &name).is_none() {
                self.push(field, &None, &Some(item), words(Presence::OnlyB, &name));
            }
        }
    }
}

/// A text in quotation marks, truncated to fit the line.
fn quoted(text: &str) -> String {
    const SHOWN_MAX: usize = 80;
    let line = crate::report::words::one_line(text);
    match line.char_indices().nth(SHOWN_MAX) {
        Some((end, _)) => format!("\"{}…\"", line[..end].trim_end()),
        None => format!("\"{line}\""),
    }
}
