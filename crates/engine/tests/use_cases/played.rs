//! A run that a test plays step by step, and the steps it is made of.

use serde_json::{Map, Value, json};
use workrail_core::report::{ContextValues, GapReportState};
use workrail_engine::request::{ContinueWorkflow, StartWorkflow};
use workrail_model::approval::{ApprovalChannel, ApprovalDecision, ApprovalOrigin, Descent};
use workrail_model::discovery::Precedence;
use workrail_model::error::ErrorEnvelope;
use workrail_model::preferences::Mode;
use workrail_model::submission::StepOutput;

use crate::scene::{Scene, authored};

pub(crate) const ORIGIN: ApprovalOrigin =
    ApprovalOrigin { channel: ApprovalChannel::Terminal, descends_from_server: Descent::Unknown };

/// A run of one workflow. The tests say what its agent sends.
pub(crate) struct Played {
    pub(crate) scene: Scene,
    pub(crate) at: Value,
}

pub(crate) fn object(value: Value) -> Map<String, Value> {
    let Value::Object(map) = value else { panic!("an object") };
    map
}

impl Played {
    pub(crate) fn start(steps: Value, mode: Mode) -> Self {
        let scene = Scene::new();
        scene.shelf.put(Precedence::Project, "run.json", &authored("team.run", &json!({ "steps": steps })));
        let request = StartWorkflow {
            workflow_id: "team.run".to_owned(),
            mode: Some(mode),
            ..StartWorkflow::default()
        };
        let at = scene.engine.start_workflow(request).unwrap().into_structured();
        Self { scene, at }
    }

    pub(crate) fn try_send(&self, from: &Value, sent: Value) -> Result<Value, Box<ErrorEnvelope>> {
        let mut sent = object(sent);
        let artifacts = sent.remove("artifacts").map(|list| list.as_array().unwrap().clone());
        let notes = sent.remove("notes").map(|notes| notes.as_str().unwrap().to_owned());
        let request = ContinueWorkflow {
            ack_token: from["ackToken"].as_str().map(str::to_owned),
            output: StepOutput { notes_markdown: notes, artifacts: artifacts.unwrap_or_default() },
            context: sent,
            ..ContinueWorkflow::default()
        };
        self.scene.engine.continue_workflow(request).map(|reply| reply.into_structured())
    }

    /// Sends; what is neither `notes` nor `artifacts` is context.
    pub(crate) fn send(&mut self, sent: Value) -> Value {
        self.at = self.try_send(&self.at, sent).unwrap();
        self.at.clone()
    }

    pub(crate) fn look(&mut self) -> Value {
        let state_token = self.at["stateToken"].as_str().map(str::to_owned);
        let request = ContinueWorkflow { state_token, ..ContinueWorkflow::default() };
        self.at = self.scene.engine.continue_workflow(request).unwrap().into_structured();
        self.at.clone()
    }

    pub(crate) fn label(&self) -> String {
        self.at["run"]["label"].as_str().unwrap().to_owned()
    }

    pub(crate) fn text(&self) -> &str {
        self.at["text"].as_str().unwrap()
    }

    pub(crate) fn decide(&self, decision: ApprovalDecision, reason: Option<&str>) {
        let waiting = self.scene.engine.waiting(&self.label()).unwrap();
        self.scene.engine.approve(&self.label(), &waiting, (decision, reason), ORIGIN).unwrap();
    }

    pub(crate) fn stage(&self) -> String {
        let found = self.scene.engine.find(&self.label()).unwrap();
        let report = self.scene.engine.report(found, ContextValues::NotShown).unwrap();
        workrail_core::report::words::status(&report.runs[0])
    }

    /// The open gaps of the run, as `reason detail`.
    pub(crate) fn gaps(&self) -> Vec<String> {
        let found = self.scene.engine.find(&self.label()).unwrap();
        let report = self.scene.engine.report(found, ContextValues::NotShown).unwrap();
        let open = report.runs[0].gaps.iter().filter(|gap| gap.state == GapReportState::Open);
        open.map(|gap| serde_json::to_value(gap.reason).unwrap()["detail"].as_str().unwrap().to_owned())
            .collect()
    }
}

pub(crate) fn step(id: &str, more: Value) -> Value {
    let mut step = object(json!({ "id": id, "title": format!("Step {id}"), "prompt": format!("Do {id}.") }));
    step.extend(object(more));
    Value::Object(step)
}

pub(crate) fn delivering() -> Value {
    step(
        "list",
        json!({
            "output": { "contractRef": "wr.contracts.changed_files" },
            "validationCriteria": [{ "type": "contains", "value": "Files", "message": "Name the files." }],
            "sets": { "size": { "values": ["small", "large"] } },
        }),
    )
}

pub(crate) fn files(risk: &str) -> Value {
    json!({ "kind": "wr.changed_files", "changedFiles": [{ "path": "a.rs", "summary": "Adds a check", "risk": risk }] })
}
