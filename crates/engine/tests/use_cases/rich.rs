//! A history with some of everything: forks, checkpoints, refusals, gaps, a loop, a nested run, notes.

use serde_json::{Value, json};
use workrail_engine::SessionOrRun;
use workrail_engine::request::{CheckpointWorkflow, ContinueWorkflow, StartSession, StartWorkflow};
use workrail_model::approval::{ApprovalChannel, ApprovalDecision, ApprovalOrigin, Descent};
use workrail_model::discovery::Precedence;
use workrail_model::id::SessionId;
use workrail_model::preferences::{Mode, PreferenceChange, Preferences};
use workrail_model::submission::StepOutput;

use crate::scene::{Scene, authored};

const ORIGIN: ApprovalOrigin =
    ApprovalOrigin { channel: ApprovalChannel::Terminal, descends_from_server: Descent::Unknown };

pub(crate) struct Rich {
    pub(crate) scene: Scene,
    pub(crate) session: SessionOrRun,
    /// The labels of the outer and of the nested run.
    pub(crate) labels: [String; 2],
}

fn token(reply: &Value, member: &str) -> Option<String> {
    reply[member].as_str().map(str::to_owned)
}

impl Rich {
    pub(crate) fn advance(&self, reply: &Value, notes: &str, artifacts: Vec<Value>) -> Value {
        let request = ContinueWorkflow {
            ack_token: token(reply, "ackToken"),
            output: StepOutput { notes_markdown: (!notes.is_empty()).then(|| notes.to_owned()), artifacts },
            context: json!({ "round": 1, "api_token": "s3cr3t-value" }).as_object().unwrap().clone(),
            ..ContinueWorkflow::default()
        };
        self.scene.engine.continue_workflow(request).unwrap().into_structured()
    }

    pub(crate) fn look(&self, reply: &Value) -> Value {
        let request =
            ContinueWorkflow { state_token: token(reply, "stateToken"), ..ContinueWorkflow::default() };
        self.scene.engine.continue_workflow(request).unwrap().into_structured()
    }

    fn checkpoint(&self, reply: &Value, notes: &str) {
        let request = CheckpointWorkflow {
            checkpoint_token: token(reply, "checkpointToken"),
            output: StepOutput { notes_markdown: Some(notes.to_owned()), artifacts: Vec::new() },
            ..CheckpointWorkflow::default()
        };
        self.scene.engine.checkpoint_workflow(request).unwrap();
    }

    /// Plays the whole history with these notes at its first step.
    pub(crate) fn play(first_notes: &str) -> Self {
        let scene = Scene::new();
        let review = authored(
            "team.review",
            &json!({
                "name": "Review a change",
                "steps": [
                    { "id": "plan", "title": "Plan for {{goal}}", "prompt": "Plan." },
                    { "id": "files", "title": "List the files", "prompt": "List.",
                      "output": { "contractRef": "wr.contracts.changed_files" } },
                    { "id": "findings", "title": "Write findings", "prompt": "Find.",
                      "output": { "contractRef": "wr.contracts.review_findings" } },
                    { "id": "agree", "title": "Agree with the user", "prompt": "Agree.",
                      "requireConfirmation": { "kind": "human_approval" } },
                    { "id": "done", "title": "Close", "prompt": "Close." },
                ],
            }),
        );
        scene.shelf.put(Precedence::Project, "review.json", &review);
        let gated = json!({ "steps": [
            { "id": "ask", "title": "Ask", "prompt": "Ask.", "requireConfirmation": { "kind": "human_approval" } },
        ] });
        scene.shelf.put(Precedence::Project, "small.json", &authored("team.small", &gated));
        let opened = scene.engine.start_session(StartSession { goal: Some("One afternoon".to_owned()) });
        let opened = opened.unwrap().into_structured();
        let request = StartWorkflow {
            workflow_id: "team.review".to_owned(),
            goal: Some("the June release".to_owned()),
            session_token: token(&opened, "sessionToken"),
            ..StartWorkflow::default()
        };
        let first = scene.engine.start_workflow(request).unwrap().into_structured();
        let session = SessionId::parse(opened["sessionId"].as_str().unwrap()).unwrap();
        let label = first["run"]["label"].as_str().unwrap().to_owned();
        let mut rich =
            Self { scene, session: SessionOrRun { session, run: None }, labels: [label, String::new()] };
        rich.tell(&first, first_notes);
        rich
    }

    fn tell(&mut self, first: &Value, first_notes: &str) {
        self.checkpoint(first, "Half of the plan.");
        let abandoned = self.advance(first, first_notes, Vec::new());
        self.advance(&abandoned, "Nothing to list.", vec![files(&[("z.rs", "Never merged", "L")])]);
        // The chat was rewound: another plan, another branch.
        let again = self.look(first);
        let second = self.advance(&again, "Second plan: smaller steps.", Vec::new());
        let refused = self.advance(&second, "Forgot the artifact.", Vec::new());
        assert_eq!(refused["kind"], "blocked");
        let listed = [
            ("src/b.rs", "Renames a field", "M"),
            ("src/a.rs", "Adds a check", "L"),
            ("src/b.rs", "Renames a field, twice", "H"),
        ];
        let third = self.advance(&refused, "Listed.", vec![files(&listed)]);
        self.nested(&third);
        let fourth = self.advance(
            &third,
            "Two findings.",
            vec![findings(), json!({ "kind": "own.note", "deep": { "x": [1, 2] } })],
        );
        let label = self.labels[0].clone();
        let diverged = json!({
            "kind": "wr.workflow_divergence", "reason": "efficiency_skip", "summary": "Skipped the second look.",
        });
        let waits = self.advance(&fourth, "Agreed.", vec![diverged]);
        assert_eq!(waits["kind"], "blocked");
        let waiting = self.scene.engine.waiting(&label).unwrap();
        let engine = &self.scene.engine;
        engine.approve(&label, &waiting, (ApprovalDecision::Approved, None), ORIGIN).unwrap();
        self.advance(&waits, "Agreed.", Vec::new());
        let Preferences { autonomy, risk_policy } = Mode::FullAutoStopOnUserDeps.preferences();
        let changes = [PreferenceChange::Autonomy(autonomy), PreferenceChange::RiskPolicy(risk_policy)];
        engine.set_preferences(engine.find(&label).unwrap(), &changes).unwrap();
    }

    /// A nested run that never stops, and leaves a gap.
    fn nested(&mut self, parent: &Value) {
        let request = StartWorkflow {
            workflow_id: "team.small".to_owned(),
            mode: Some(Mode::FullAutoNeverStop),
            parent: token(parent, "ackToken"),
            ..StartWorkflow::default()
        };
        let child = self.scene.engine.start_workflow(request).unwrap().into_structured();
        self.labels[1] = child["run"]["label"].as_str().unwrap().to_owned();
        self.advance(&child, "Went on without asking.", Vec::new());
    }
}

fn files(rows: &[(&str, &str, &str)]) -> Value {
    let rows: Vec<Value> = rows
        .iter()
        .map(|(path, summary, risk)| json!({ "path": path, "summary": summary, "risk": risk }))
        .collect();
    json!({ "kind": "wr.changed_files", "changedFiles": rows })
}

fn findings() -> Value {
    json!({
        "kind": "wr.review_findings",
        "findings": [
            { "severity": "nit", "location": { "file": "src/a.rs" }, "title": "A name", "rationale": "It | misleads." },
            { "severity": "major", "location": { "file": "src/b.rs", "line": 79 }, "title": "No sync <b>",
              "rationale": "A crash loses it.", "suggestion": "Sync." },
        ],
        "mrComments": [{ "location": { "file": "src/b.rs", "line": 79 }, "title": "Sync", "body": "Please sync.\nTwice." }],
    })
}
