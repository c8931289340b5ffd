//! What an author writes to test a workflow: runs, and for each step what is sent and expected.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};
use workrail_model::approval::ApprovalDecision;
use workrail_model::preferences::Mode;

#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Script {
    #[serde(rename = "run")]
    pub runs: Vec<RunScript>,
}

#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RunScript {
    pub name: String,
    #[serde(default = "guided")]
    pub mode: Mode,
    /// What `start_workflow` is given.
    #[serde(default)]
    pub context: Map<String, Value>,
    #[serde(default, rename = "step")]
    pub steps: Vec<StepScript>,
    #[serde(default)]
    pub ends: ExpectedEnd,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ExpectedEnd {
    /// After the last scripted step the workflow is complete.
    #[default]
    Complete,
    /// The script stops on the way.
    Open,
}

#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StepScript {
    /// The step that must be pending.
    pub expect: String,
    /// What was done; `""` sends no notes.
    #[serde(default = "some_notes")]
    pub notes: String,
    #[serde(default)]
    pub context: Map<String, Value>,
    #[serde(default)]
    pub artifacts: Vec<Value>,
    /// Sends the example of the step's contract as well.
    #[serde(default)]
    pub example: bool,
    /// A person's decision before the step is sent.
    #[serde(default)]
    pub approval: Option<ApprovalDecision>,
    /// The codes that must block; the same step is then pending again.
    #[serde(default)]
    pub blocked: Vec<String>,
    /// The details of the gaps that must be recorded.
    #[serde(default)]
    pub gaps: Vec<String>,
    /// The step that must follow.
    #[serde(default)]
    pub next: Option<String>,
}

fn guided() -> Mode {
    Mode::Guided
}

fn some_notes() -> String {
    "Done as the step asks.".to_owned()
}
