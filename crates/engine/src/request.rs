//! What agents send: one struct per tool, the single source of parsing, the served schema and the engine's request.
//!
//! Only shapes are parsed here; the use case checks what they mean. Comments on fields are served to agents.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};
use workrail_model::discovery::InspectMode;
use workrail_model::preferences::Mode;
use workrail_model::submission::StepOutput;
use workrail_model::team::Act;
use workrail_model::tool::ToolName;

#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ListWorkflows {
    /// Only workflows with all of these tags.
    #[serde(default)]
    pub tags: Vec<String>,
    /// Words that the id, name or description must contain.
    #[serde(default)]
    #[schemars(with = "String")]
    pub query: Option<String>,
    /// Absolute path of the folder you work in.
    #[serde(default)]
    #[schemars(with = "String")]
    pub workspace_path: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct InspectWorkflow {
    pub workflow_id: String,
    /// `preview` adds the whole plan.
    #[serde(default)]
    pub mode: InspectMode,
    #[serde(default)]
    #[schemars(with = "String")]
    pub workspace_path: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct StartWorkflow {
    /// As `list_workflows` shows it, such as `wr.small_change`.
    pub workflow_id: String,
    /// The request in a few words; a new chat finds the run by it.
    #[serde(default)]
    #[schemars(with = "String")]
    pub goal: Option<String>,
    /// External inputs: ticket ids, paths, parameters.
    #[serde(default)]
    pub context: Map<String, Value>,
    /// Default: the parent run's, else the user's setting. Choose one only when the user asked for it.
    #[serde(default)]
    #[schemars(with = "Mode")]
    pub mode: Option<Mode>,
    /// stateToken or ackToken of the run that starts this one in its current step.
    #[serde(default)]
    #[schemars(with = "String")]
    pub parent: Option<String>,
    /// A session to start in, by its token or the label of one of its runs.
    #[serde(default)]
    #[schemars(with = "String")]
    pub session_token: Option<String>,
    /// Absolute path of the folder you work in.
    #[serde(default)]
    #[schemars(with = "String")]
    pub workspace_path: Option<String>,
    /// Any text unique to this start: repeating the call with it starts nothing twice.
    #[serde(default)]
    #[schemars(with = "String")]
    pub idempotency_key: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ContinueWorkflow {
    /// The right to complete the pending step once.
    #[serde(default)]
    #[schemars(with = "String")]
    pub ack_token: Option<String>,
    /// Sent alone, it returns the pending step again.
    #[serde(default)]
    #[schemars(with = "String")]
    pub state_token: Option<String>,
    /// Accepted in place of `ackToken` or `stateToken`.
    #[serde(default)]
    #[schemars(with = "String")]
    pub continue_token: Option<String>,
    /// The run's label, copied from the last reply.
    #[serde(default)]
    #[schemars(with = "String")]
    pub run: Option<String>,
    /// The step, copied from the last reply.
    #[serde(default)]
    #[schemars(with = "String")]
    pub step_id: Option<String>,
    /// Context keys to set; `null` removes a key.
    #[serde(default)]
    pub context: Map<String, Value>,
    /// The result of this step.
    #[serde(default)]
    pub output: StepOutput,
    #[serde(default)]
    #[schemars(with = "String")]
    pub workspace_path: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CheckpointWorkflow {
    /// From the run's last reply; valid for one checkpoint.
    #[serde(default)]
    #[schemars(with = "String")]
    pub checkpoint_token: Option<String>,
    /// Optional; checked against the checkpointToken.
    #[serde(default)]
    #[schemars(with = "String")]
    pub state_token: Option<String>,
    /// Instead of a checkpointToken: notes without a run.
    #[serde(default)]
    #[schemars(with = "String")]
    pub session_token: Option<String>,
    #[serde(default)]
    #[schemars(with = "String")]
    pub run: Option<String>,
    #[serde(default)]
    #[schemars(with = "String")]
    pub step_id: Option<String>,
    /// What is done so far, what is next.
    #[serde(default)]
    pub output: StepOutput,
}

#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ResumeSession {
    /// A few words of the goal or the notes, or an id or label.
    #[serde(default)]
    #[schemars(with = "String")]
    pub query: Option<String>,
    /// The run's two-word label.
    #[serde(default)]
    #[schemars(with = "String")]
    pub run: Option<String>,
    #[serde(default)]
    #[schemars(with = "String")]
    pub run_id: Option<String>,
    #[serde(default)]
    #[schemars(with = "String")]
    pub session_id: Option<String>,
    #[serde(default)]
    #[schemars(with = "String")]
    pub git_branch: Option<String>,
    #[serde(default)]
    #[schemars(with = "String")]
    pub git_head_sha: Option<String>,
    #[serde(default)]
    #[schemars(with = "String")]
    pub workspace_path: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct StartSession {
    /// The work in a few words.
    #[serde(default)]
    #[schemars(with = "String")]
    pub goal: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ReadRun {
    /// The run's label, id or any of its tokens; or a session's id.
    pub run: String,
    /// A step's number or id, or `all`: its notes and artifacts in full.
    #[serde(default)]
    #[schemars(with = "String")]
    pub step: Option<String>,
    /// Words to look for in the run.
    #[serde(default)]
    #[schemars(with = "String")]
    pub query: Option<String>,
    /// Show the whole context.
    #[serde(default)]
    pub context: bool,
    /// Page number of a long answer, starting at 1.
    #[serde(default)]
    #[schemars(with = "u64")]
    pub page: Option<u64>,
}

/// One call of a tool.
#[derive(Clone, Debug)]
pub enum Request {
    ListWorkflows(ListWorkflows),
    InspectWorkflow(InspectWorkflow),
    StartWorkflow(StartWorkflow),
    ContinueWorkflow(ContinueWorkflow),
    CheckpointWorkflow(CheckpointWorkflow),
    ResumeSession(ResumeSession),
    ReadRun(ReadRun),
    StartSession(StartSession),
}

/// The act that calling a tool amounts to, for roles. Looking at a step again is reading; a tool is offered to
/// callers who can use all of it.
pub fn act_of(tool: ToolName) -> Act {
    match tool {
        ToolName::ListWorkflows | ToolName::InspectWorkflow | ToolName::ResumeSession | ToolName::ReadRun => {
            Act::Read
        }
        ToolName::StartWorkflow
        | ToolName::ContinueWorkflow
        | ToolName::CheckpointWorkflow
        | ToolName::StartSession => Act::Work,
    }
}

impl Request {
    /// What the caller must be allowed to do.
    pub(crate) fn act(&self) -> Act {
        match self {
            // Without an ack it shows the pending step; completing one is checked again.
            Self::ContinueWorkflow(_) => Act::Read,
            Self::ListWorkflows(_)
            | Self::InspectWorkflow(_)
            | Self::StartWorkflow(_)
            | Self::CheckpointWorkflow(_)
            | Self::ResumeSession(_)
            | Self::ReadRun(_)
            | Self::StartSession(_) => act_of(self.tool()),
        }
    }

    /// Drops the folder, which means nothing if the caller is on another machine.
    pub fn forget_folder(&mut self) {
        match self {
            Self::ListWorkflows(own) => own.workspace_path = None,
            Self::InspectWorkflow(own) => own.workspace_path = None,
            Self::StartWorkflow(own) => own.workspace_path = None,
            Self::ContinueWorkflow(own) => own.workspace_path = None,
            Self::ResumeSession(own) => own.workspace_path = None,
            Self::CheckpointWorkflow(_) | Self::ReadRun(_) | Self::StartSession(_) => {}
        }
    }

    /// Whether it asks for a new session, rather than for a run in one that exists.
    pub fn wants_new_session(&self) -> bool {
        match self {
            Self::StartWorkflow(own) => own.parent.is_none() && own.session_token.is_none(),
            Self::StartSession(_) => true,
            Self::ListWorkflows(_)
            | Self::InspectWorkflow(_)
            | Self::ContinueWorkflow(_)
            | Self::CheckpointWorkflow(_)
            | Self::ResumeSession(_)
            | Self::ReadRun(_) => false,
        }
    }

    pub fn tool(&self) -> ToolName {
        match self {
            Self::ListWorkflows(_) => ToolName::ListWorkflows,
            Self::InspectWorkflow(_) => ToolName::InspectWorkflow,
            Self::StartWorkflow(_) => ToolName::StartWorkflow,
            Self::ContinueWorkflow(_) => ToolName::ContinueWorkflow,
            Self::CheckpointWorkflow(_) => ToolName::CheckpointWorkflow,
            Self::ResumeSession(_) => ToolName::ResumeSession,
            Self::ReadRun(_) => ToolName::ReadRun,
            Self::StartSession(_) => ToolName::StartSession,
        }
    }
}

/// What a call says about its run and step besides the token that is followed; checked against that token (G35).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Echo<'a> {
    pub(crate) run: Option<&'a str>,
    pub(crate) step_id: Option<&'a str>,
    /// All tokens of the call; their readable parts show which run was meant if nothing else does.
    pub(crate) tokens: [Option<&'a str>; 3],
}

impl ContinueWorkflow {
    pub(crate) fn echo(&self) -> Echo<'_> {
        let tokens = [&self.ack_token, &self.state_token, &self.continue_token].map(Option::as_deref);
        Echo { run: self.run.as_deref(), step_id: self.step_id.as_deref(), tokens }
    }
}

impl CheckpointWorkflow {
    pub(crate) fn echo(&self) -> Echo<'_> {
        let tokens = [&self.checkpoint_token, &self.state_token, &None].map(Option::as_deref);
        Echo { run: self.run.as_deref(), step_id: self.step_id.as_deref(), tokens }
    }
}
