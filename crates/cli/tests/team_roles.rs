//! Every use case of the engine against every role, on a real store: the engine itself refuses, whichever edge a call
//! came through, and a refused call writes nothing (G113).
//!
//! The list of use cases is read from the engine's source, so that a new one fails here until it has a row.

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Cursor;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::json;
use workrail_engine::passkeys::{KeyToEnrol, NewKey};
use workrail_engine::request::{
    CheckpointWorkflow, ContinueWorkflow, InspectWorkflow, ListWorkflows, ReadRun, Request, ResumeSession,
    StartSession, StartWorkflow, act_of,
};
use workrail_engine::upkeep::{ApplyMode, CleanupPlan, VerifyScope};
use workrail_engine::{
    AttemptAwaitingUser, Engine, EngineEnvironment, ImportMode, SessionOrRun, UserReply, WaitingStep,
};
use workrail_host::sources::Sources;
use workrail_host::workspace::GitObserver;
use workrail_model::approval::{ApprovalChannel, ApprovalDecision, ApprovalOrigin, Descent, RequiredProof};
use workrail_model::bundle::Producer;
use workrail_model::digest::Sha256;
use workrail_model::error::{ErrorCode, ErrorEnvelope};
use workrail_model::event::{CloseChannel, Context};
use workrail_model::id::{AccessTokenId, RunId, SessionId};
use workrail_model::name::PrincipalName;
use workrail_model::passkey::{CredentialId, KeyName, PublicKey, SignedChallenge};
use workrail_model::preferences::{Mode, Preferences};
use workrail_model::retention::Ttl;
use workrail_model::submission::StepOutput;
use workrail_model::team::{Act, Caller, Principal, Role};
use workrail_model::token::TokenEncoding;
use workrail_model::tool::{ToolName, ToolSet};
use workrail_store_fs::LocalStore;
use workrail_store_fs::disk::Disk;
use workrail_testkit::fixed::{FixedClock, SeededEntropy};
use workrail_testkit::folder::{entries, recorded};
use workrail_testkit::home::Home;

type TestEngine = Engine<LocalStore<Disk>>;
type Refusal = Box<ErrorEnvelope>;
type Attempt = fn(&TestEngine, &Scene) -> Result<(), Refusal>;

/// Methods that record nothing: reading, caches, and what an engine is set up with. Every role may use them.
const READING: &str = "
    acting_as all_workflows append_counts attention authenticate caller challenge_for_new_key
    challenge_for_preferences challenge_for_run challenge_for_setting challenge_for_trust challenge_to_enrol
    challenge_to_remove change_stamp check_label_counts check_workflow checks_of_run claimants compare current_form
    draw_nonce drew_nonce end_checks export export_without file_of_workflow find find_named find_part find_run find_runs
    for_remote_agents has_lost_sessions has_unindexed health index_appended index_appended_unless_busy indexing_after_replies
    inspect_workflow is_kept kept_sessions keys keys_problem list_workflows log_in logged_in may new new_key
    overview own_repository passkeys pinned_by_hash pinned_run pinned_workflow preferences_of
    raised_by raising_needs_passkey raising_new_runs_needs_passkey read_run readiness report reporting_to repository_of
    resume_session search_notes servers calls session_log sessions show_point show_session status status_in step_text
    submitted_artifacts verify waiting waiting_for_user workflow_copy workflow_file workflow_files
    workflow_versions workflows_with_checks";

/// Methods for the machine of the agent; no server has them.
const LOCAL: &str = "hook";

/// Dispatches to the methods of the tools; `each_tool_serves_only_its_roles` is about it.
const TOOLS: &str = "answer";

/// What an allowed call leads to here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Then {
    Done,
    /// Refused for another reason than the role, such as a forged signature.
    RefusedLater,
}

struct Row {
    method: &'static str,
    /// Viewer, agent, approver, admin.
    allowed: [bool; 4],
    then: Then,
    attempt: Attempt,
}

const ALL: [bool; 4] = [true; 4];
const WORK: [bool; 4] = [false, true, false, true];
const DECIDE: [bool; 4] = [false, false, true, true];
const ADMINISTER: [bool; 4] = [false, false, false, true];

fn done(method: &'static str, allowed: [bool; 4], attempt: Attempt) -> Row {
    Row { method, allowed, then: Then::Done, attempt }
}

fn refused_later(method: &'static str, allowed: [bool; 4], attempt: Attempt) -> Row {
    Row { method, allowed, then: Then::RefusedLater, attempt }
}

fn rows() -> Vec<Row> {
    [working(), deciding(), deciding_with_passkeys(), administering()].into_iter().flatten().collect()
}

fn working() -> Vec<Row> {
    vec![
        done("start_workflow", WORK, |engine, _| engine.start_workflow(start("team.plain")).map(drop)),
        done("start_session", WORK, |engine, _| engine.start_session(StartSession::default()).map(drop)),
        done("continue_workflow", WORK, |engine, scene| {
            engine.continue_workflow(submission(&scene.plain.ack_token)).map(drop)
        }),
        // Without an ack it only shows the pending step.
        done("continue_workflow", ALL, |engine, scene| {
            let state_token = Some(scene.plain.state_token.clone());
            engine.continue_workflow(ContinueWorkflow { state_token, ..Default::default() }).map(drop)
        }),
        done("checkpoint_workflow", WORK, |engine, scene| {
            let checkpoint_token = Some(scene.plain.checkpoint_token.clone());
            let request = CheckpointWorkflow { checkpoint_token, output: notes(), ..Default::default() };
            engine.checkpoint_workflow(request).map(drop)
        }),
    ]
}

fn deciding() -> Vec<Row> {
    vec![
        done("approve", DECIDE, |engine, scene| {
            let seen = scene.gated.waiting(engine);
            engine.approve(&scene.gated.label, &seen, (ApprovalDecision::Approved, None), ORIGIN)
        }),
        done("record_from_chat", DECIDE, |engine, scene| {
            let asked = scene.gated.asked.as_ref().unwrap();
            engine.record_from_chat(asked, &scene.gated.waiting(engine), &UserReply::Approved)
        }),
        done("give_answer", DECIDE, |engine, scene| {
            engine.give_answer(&scene.asking.label, answers()).map(drop)
        }),
        done("answer_in_console", DECIDE, |engine, scene| {
            let seen = scene.asking.waiting(engine);
            engine.answer_in_console(scene.asking.run, &seen, answers(), None)
        }),
        done("close_run", DECIDE, |engine, Scene { plain, .. }| {
            engine.close_run(plain.session, plain.run, "nobody needs it", CloseChannel::Console).map(drop)
        }),
        done("set_preferences", DECIDE, |engine, scene| {
            engine.set_preferences(scene.plain.found(), &[]).map(drop)
        }),
        done("keep", DECIDE, |engine, scene| engine.keep(scene.plain.session)),
        done("unkeep", DECIDE, |engine, scene| engine.unkeep(scene.plain.session)),
    ]
}

fn deciding_with_passkeys() -> Vec<Row> {
    vec![
        done("enrol", DECIDE, |engine, _| engine.enrol(&new_key(), None)),
        refused_later("remove_passkey", DECIDE, |engine, _| {
            engine.remove_passkey(&new_key().key.credential, &forged())
        }),
        refused_later("approve_with_passkey", DECIDE, |engine, scene| {
            let (seen, decided) = (scene.gated.waiting(engine), (ApprovalDecision::Approved, None));
            engine.approve_with_passkey(scene.gated.run, &seen, decided, &forged(), Descent::Unknown)
        }),
        refused_later("answer_in_console", DECIDE, |engine, scene| {
            let seen = scene.asking.waiting(engine);
            engine.answer_in_console(scene.asking.run, &seen, answers(), Some(&forged()))
        }),
        refused_later("set_preferences_with_passkey", DECIDE, |engine, scene| {
            engine.set_preferences_with_passkey(scene.plain.session, &[], &forged())
        }),
        refused_later("agree_to_setting", DECIDE, |engine, _| {
            engine.agree_to_setting("preferences.autonomy", Some("full_auto"), &forged())
        }),
        refused_later("agree_to_trust", DECIDE, |engine, _| {
            engine.agree_to_trust(Sha256::of(b"checks"), &forged())
        }),
    ]
}

fn administering() -> Vec<Row> {
    vec![
        done("access_tokens", ADMINISTER, |engine, _| engine.access_tokens().map(drop)),
        done("make_access_token", ADMINISTER, |engine, _| {
            engine.make_access_token(name("eve"), Role::Admin, Ttl::of_days(1)).map(drop)
        }),
        done("revoke_access_token", ADMINISTER, |engine, scene| engine.revoke_access_token(scene.token)),
        done("rotate_keys", ADMINISTER, |engine, _| engine.rotate_keys().map(drop)),
        // The keys are usable, so nobody replaces them.
        refused_later("new_keys", ADMINISTER, |engine, _| engine.new_keys().map(drop)),
        refused_later("new_keys_for_encrypted", ADMINISTER, |engine, _| {
            engine.new_keys_for_encrypted().map(drop)
        }),
        done("reset_passkeys", ADMINISTER, |engine, _| engine.reset_passkeys()),
        done("import", ADMINISTER, |engine, scene| {
            engine.import(&mut Cursor::new(&scene.bundle), ImportMode::KeepIdIfFree).map(drop)
        }),
        done("overview_for_removal", ADMINISTER, |engine, scene| {
            engine.overview_for_removal(scene.plain.session).map(drop)
        }),
        done("delete", ADMINISTER, |engine, scene| {
            let seen = engine.overview(scene.plain.session).unwrap();
            engine.delete(&seen).map(drop)
        }),
        done("repair", ADMINISTER, |engine, scene| {
            engine.repair(scene.plain.session, ApplyMode::Real).map(drop)
        }),
        done("repair", ADMINISTER, |engine, scene| {
            engine.repair(scene.plain.session, ApplyMode::DryRun).map(drop)
        }),
        done("restore_content", ADMINISTER, |engine, _| {
            engine.restore_content(VerifyScope::All, None, ApplyMode::Real, &mut |_, _| {}).map(drop)
        }),
        done("clean_up", ADMINISTER, |engine, _| clean_up(engine, ApplyMode::Real).map(drop)),
        // A dry run shows what would be removed.
        done("clean_up", ALL, |engine, _| clean_up(engine, ApplyMode::DryRun).map(drop)),
        done("clean_up_as_planned", ADMINISTER, |engine, _| {
            let plan = clean_up(engine, ApplyMode::DryRun).unwrap();
            engine.clean_up_as_planned(Ttl::of_days(30), plan).map(drop)
        }),
    ]
}

const ORIGIN: ApprovalOrigin =
    ApprovalOrigin { channel: ApprovalChannel::Console, descends_from_server: Descent::Unknown };

fn clean_up(engine: &TestEngine, mode: ApplyMode) -> Result<CleanupPlan, Refusal> {
    engine.clean_up(Ttl::of_days(30), mode, &mut |_, _| {}).map(|report| report.plan())
}

fn name(text: &str) -> PrincipalName {
    PrincipalName::parse(text).unwrap()
}

fn notes() -> StepOutput {
    StepOutput { notes_markdown: Some("Did it.".to_owned()), artifacts: Vec::new() }
}

fn answers() -> Context {
    Context::new(json!({ "targetBranch": "main" }).as_object().unwrap().clone()).unwrap()
}

fn start(workflow: &str) -> StartWorkflow {
    StartWorkflow { workflow_id: workflow.to_owned(), mode: Some(Mode::Guided), ..StartWorkflow::default() }
}

fn submission(ack_token: &str) -> ContinueWorkflow {
    let ack_token = Some(ack_token.to_owned());
    ContinueWorkflow { ack_token, output: notes(), ..ContinueWorkflow::default() }
}

fn new_key() -> KeyToEnrol {
    let credential = CredentialId::new([1; 20]).unwrap();
    let key = NewKey { credential, public_key: PublicKey::new([4; 65]).unwrap(), counter: 0 };
    KeyToEnrol { name: KeyName::new("Laptop").unwrap(), key, replaces: None }
}

/// A signature that no key made.
fn forged() -> SignedChallenge {
    let assertion = json!({
        "credentialId": "AQ", "authenticatorData": "AQ", "clientDataJSON": "AQ", "signature": "AQ",
    });
    let whole = json!({ "assertion": assertion, "nonce": "AQ", "origin": "https://workrail.example.com" });
    serde_json::from_value(whole).unwrap()
}

/// A run of the scene, and the tokens of its first reply.
struct SceneRun {
    session: SessionId,
    run: RunId,
    label: String,
    ack_token: String,
    state_token: String,
    checkpoint_token: String,
    /// What it waits for, once something was submitted.
    asked: Option<AttemptAwaitingUser>,
}

impl SceneRun {
    fn start(engine: &TestEngine, workflow: &str) -> Self {
        let reply = engine.start_workflow(start(workflow)).unwrap().into_structured();
        let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
        Self {
            session: SessionId::parse(&text(&reply["run"]["sessionId"])).unwrap(),
            run: RunId::parse(&text(&reply["run"]["runId"])).unwrap(),
            label: text(&reply["run"]["label"]),
            ack_token: text(&reply["ackToken"]),
            state_token: text(&reply["stateToken"]),
            checkpoint_token: text(&reply["checkpointToken"]),
            asked: None,
        }
    }

    /// Submits its first step, which waits for a person.
    fn submitted(self, engine: &TestEngine) -> Self {
        let reply = engine.continue_workflow(submission(&self.ack_token)).unwrap();
        Self { asked: Some(*reply.asks_user().unwrap()), ..self }
    }

    fn waiting(&self, engine: &TestEngine) -> WaitingStep {
        engine.waiting(&self.label).unwrap()
    }

    fn found(&self) -> SessionOrRun {
        SessionOrRun { session: self.session, run: Some(self.run) }
    }
}

/// A store with a run that waits for an approval, one that waits for an answer, and one that waits for its agent.
struct Scene {
    home: Home,
    gated: SceneRun,
    asking: SceneRun,
    plain: SceneRun,
    token: AccessTokenId,
    bundle: Vec<u8>,
}

impl Scene {
    fn new() -> Self {
        let home = Home::new(env!("CARGO_BIN_EXE_workrail"));
        home.gated_workflow();
        home.asking_workflow();
        home.workflow(&json!({
            "id": "team.plain", "name": "Plain", "description": "Needs nobody.", "version": "1.0.0",
            "steps": [{ "id": "a", "title": "A", "prompt": "Do a." }, { "id": "b", "title": "B", "prompt": "Do b." }],
        }));
        let engine = open(&home, 1);
        let gated = SceneRun::start(&engine, "team.gated").submitted(&engine);
        let asking = SceneRun::start(&engine, "team.asking").submitted(&engine);
        let plain = SceneRun::start(&engine, "team.plain");
        let made = engine.make_access_token(name("ada"), Role::Agent, Ttl::of_days(1)).unwrap();
        let mut bundle = Vec::new();
        engine.export(plain.session, None, &mut bundle, &mut |_, _| {}).unwrap();
        drop(engine);
        Self { home, gated, asking, plain, token: made.token.id, bundle }
    }
}

/// An engine with its own randomness: ids of one scene must be free in it.
fn open(home: &Home, seed: u64) -> TestEngine {
    let utf8 = |path: &Path| camino::Utf8Path::from_path(path).unwrap().to_owned();
    let disk = Disk::open(&utf8(&home.data())).unwrap();
    let store = LocalStore::open(disk, Box::new(SeededEntropy::new(seed)), "boot".to_owned()).unwrap();
    let environment = EngineEnvironment {
        clock: Box::new(FixedClock::default()),
        entropy: Box::new(SeededEntropy::new(seed)),
        workflows: Arc::new(Sources::new(None, vec![utf8(&home.workflows())])),
        observer: Box::<GitObserver>::default(),
        checks: None,
        workspace: None,
        default_preferences: Arc::new(Preferences::default()),
        approvals: Arc::new(RequiredProof::Terminal),
        token_encoding: TokenEncoding::V2,
        tools: ToolSet::ALL,
        producer: Producer { app_version: "test".to_owned(), applied_config_hash: None },
    };
    Engine::new(Arc::new(store), environment)
}

fn member(role: Role) -> Caller {
    let token_id = AccessTokenId::from_bits([role as u8; 10]);
    Caller::Member { principal: Principal { name: name("ada"), role, token_id }, client: None }
}

fn is_denied(answer: &Result<(), Refusal>) -> bool {
    answer.as_ref().is_err_and(|refused| refused.code == ErrorCode::StoreAccessDenied)
}

/// The files that differ, except caches.
fn changed<'a>(
    before: &'a BTreeMap<PathBuf, Vec<u8>>,
    after: &'a BTreeMap<PathBuf, Vec<u8>>,
) -> Vec<&'a PathBuf> {
    let differ = |path: &&PathBuf| !path.starts_with("cache") && before.get(*path) != after.get(*path);
    let paths: BTreeSet<&PathBuf> = before.keys().chain(after.keys()).collect();
    paths.into_iter().filter(differ).collect()
}

/// Makes one call as a member, in a copy of the scene.
fn check(
    scene: &Scene,
    what: &str,
    role: Role,
    expected: Option<Then>,
    attempt: &dyn Fn(&TestEngine) -> Result<(), Refusal>,
) {
    let folder = tempfile::tempdir().unwrap();
    let home = scene.home.copy_to(&folder.path().join("root"));
    let engine = open(&home, 2).acting_as(member(role));
    let before = recorded(&home.data());
    let answer = attempt(&engine);
    match expected {
        None => {
            assert!(is_denied(&answer), "{what} as {role:?}: {answer:?}");
            assert_eq!(
                changed(&before, &recorded(&home.data())),
                <[&PathBuf; 0]>::default(),
                "{what} as {role:?}"
            );
        }
        Some(Then::Done) => assert!(answer.is_ok(), "{what} as {role:?}: {answer:?}"),
        Some(Then::RefusedLater) => {
            assert!(answer.is_err() && !is_denied(&answer), "{what} as {role:?}: {answer:?}");
        }
    }
}

#[test]
fn each_role_may_use_only_its_use_cases() {
    let scene = Scene::new();
    for Row { method, allowed, then, attempt } in rows() {
        for (role, is_allowed) in Role::ALL.into_iter().zip(allowed) {
            check(&scene, method, role, is_allowed.then_some(then), &|engine| attempt(engine, &scene));
        }
    }
}

/// A call of a tool that has everything it needs, and who may make it. A new tool does not compile without one.
fn tool_call(tool: ToolName, scene: &Scene) -> (Request, [bool; 4]) {
    match tool {
        ToolName::ListWorkflows => (Request::ListWorkflows(ListWorkflows::default()), ALL),
        ToolName::InspectWorkflow => {
            let workflow_id = "team.plain".to_owned();
            (Request::InspectWorkflow(InspectWorkflow { workflow_id, ..Default::default() }), ALL)
        }
        ToolName::ResumeSession => (Request::ResumeSession(ResumeSession::default()), ALL),
        ToolName::ReadRun => {
            let run = scene.plain.label.clone();
            (Request::ReadRun(ReadRun { run, ..Default::default() }), ALL)
        }
        ToolName::StartWorkflow => (Request::StartWorkflow(start("team.plain")), WORK),
        ToolName::ContinueWorkflow => (Request::ContinueWorkflow(submission(&scene.plain.ack_token)), WORK),
        ToolName::CheckpointWorkflow => {
            let checkpoint_token = Some(scene.plain.checkpoint_token.clone());
            let request = CheckpointWorkflow { checkpoint_token, output: notes(), ..Default::default() };
            (Request::CheckpointWorkflow(request), WORK)
        }
        ToolName::StartSession => (Request::StartSession(StartSession::default()), WORK),
    }
}

#[test]
fn each_tool_serves_only_its_roles() {
    let scene = Scene::new();
    for tool in ToolName::ALL {
        let (request, allowed) = tool_call(tool, &scene);
        let act = if allowed == ALL { Act::Read } else { Act::Work };
        assert_eq!(act_of(tool), act, "{tool} is offered to those who may use it");
        for (role, is_allowed) in Role::ALL.into_iter().zip(allowed) {
            check(&scene, tool.as_str(), role, is_allowed.then_some(Then::Done), &|engine| {
                engine.answer(request.clone()).map(drop)
            });
        }
    }
}

/// The public methods of the engine, as its source has them.
fn methods_of_the_engine() -> BTreeSet<String> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../engine/src");
    let mut found = BTreeSet::new();
    for file in entries(&source).into_iter().filter(|path| path.extension().is_some_and(|end| end == "rs")) {
        let mut is_engine = false;
        for line in fs::read_to_string(source.join(file)).unwrap().lines() {
            match line {
                "}" => is_engine = false,
                header if header.starts_with("impl") => {
                    is_engine = header.contains(" Engine<S>") && !header.contains(" for ");
                }
                _ => {}
            }
            if let Some(rest) = line.strip_prefix("    pub fn ").filter(|_| is_engine) {
                found.insert(rest.split(['(', '<']).next().unwrap().to_owned());
            }
        }
    }
    found
}

/// Whoever adds a use case decides here which roles may use it.
#[test]
fn every_use_case_has_a_row_or_records_nothing() {
    let listed = [READING, LOCAL, TOOLS].into_iter().flat_map(str::split_whitespace).map(str::to_owned);
    let listed: BTreeSet<String> = listed.collect();
    let tested: BTreeSet<String> = rows().iter().map(|row| row.method.to_owned()).collect();
    let both: Vec<&String> = listed.intersection(&tested).collect();
    assert_eq!(both, <[&String; 0]>::default(), "a method that has a row is listed as recording nothing");
    let known: BTreeSet<String> = listed.union(&tested).cloned().collect();
    assert_eq!(methods_of_the_engine(), known);
}
