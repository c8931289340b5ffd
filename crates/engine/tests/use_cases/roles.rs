//! Each role against each use case that changes something: the engine itself refuses, whichever edge a call came
//! through (G113), and records name their actor (G114).

use std::io::Cursor;

use serde_json::json;
use workrail_engine::request::{
    CheckpointWorkflow, ContinueWorkflow, InspectWorkflow, ListWorkflows, ReadRun, Request, ResumeSession,
    StartSession, StartWorkflow,
};
use workrail_engine::{Engine, ImportMode};
use workrail_model::approval::ApprovalDecision;
use workrail_model::error::{ErrorCode, ErrorEnvelope};
use workrail_model::event::{CloseChannel, Context};
use workrail_model::id::AccessTokenId;
use workrail_model::name::PrincipalName;
use workrail_model::preferences::Mode;
use workrail_model::retention::Ttl;
use workrail_model::team::{Caller, Principal, Role};
use workrail_ports::session_store::SessionReader;
use workrail_testkit::memory::MemoryStore;

use crate::gates::gated;
use crate::played::{ORIGIN, Played};

fn member(role: Role) -> Caller {
    let principal = Principal {
        name: PrincipalName::parse("ada").unwrap(),
        role,
        token_id: AccessTokenId::from_bits([role as u8; 10]),
    };
    Caller::Member { principal, client: None }
}

type Attempt = Box<dyn Fn(&Engine<MemoryStore>, &Played) -> Option<Box<ErrorEnvelope>>>;

fn tool(request: impl Fn() -> Request + 'static) -> Attempt {
    Box::new(move |engine, _| engine.answer(request()).err())
}

fn attempts() -> Vec<(&'static str, [bool; 4], Attempt)> {
    const ALL: [bool; 4] = [true; 4];
    const WORK: [bool; 4] = [false, true, false, true];
    const DECIDE: [bool; 4] = [false, false, true, true];
    const ADMINISTER: [bool; 4] = [false, false, false, true];
    vec![
        ("list_workflows", ALL, tool(|| Request::ListWorkflows(ListWorkflows::default()))),
        ("inspect_workflow", ALL, tool(|| Request::InspectWorkflow(InspectWorkflow::default()))),
        ("resume_session", ALL, tool(|| Request::ResumeSession(ResumeSession::default()))),
        ("read_run", ALL, tool(|| Request::ReadRun(ReadRun::default()))),
        ("start_workflow", WORK, tool(|| Request::StartWorkflow(StartWorkflow::default()))),
        ("start_session", WORK, tool(|| Request::StartSession(StartSession::default()))),
        ("checkpoint_workflow", WORK, tool(|| Request::CheckpointWorkflow(CheckpointWorkflow::default()))),
        (
            "continue_workflow",
            WORK,
            tool(|| {
                let ack_token = Some("ack.v2.x".to_owned());
                Request::ContinueWorkflow(ContinueWorkflow { ack_token, ..ContinueWorkflow::default() })
            }),
        ),
        (
            "approve",
            DECIDE,
            Box::new(|engine, run| {
                let seen = engine.waiting(&run.label()).unwrap();
                engine.approve(&run.label(), &seen, (ApprovalDecision::Approved, None), ORIGIN).err()
            }),
        ),
        (
            "answer",
            DECIDE,
            Box::new(|engine, run| {
                engine.give_answer(&run.label(), Context::new(Default::default()).unwrap()).err()
            }),
        ),
        (
            "close",
            DECIDE,
            Box::new(|engine, run| {
                let (session, run, _) = engine.find_run(&run.label()).unwrap();
                engine.close_run(session, run, "nobody needs it", CloseChannel::Console).err()
            }),
        ),
        (
            "prefer",
            DECIDE,
            Box::new(|engine, run| {
                let about = engine.find(&run.label()).unwrap();
                engine.set_preferences(about, &[]).err()
            }),
        ),
        ("rotate keys", ADMINISTER, Box::new(|engine, _| engine.rotate_keys().err())),
        ("new keys", ADMINISTER, Box::new(|engine, _| engine.new_keys().err())),
        ("reset passkeys", ADMINISTER, Box::new(|engine, _| engine.reset_passkeys().err())),
        (
            "import",
            ADMINISTER,
            Box::new(|engine, _| engine.import(&mut Cursor::new(b"{}"), ImportMode::KeepIdIfFree).err()),
        ),
        ("list tokens", ADMINISTER, Box::new(|engine, _| engine.access_tokens().err())),
        (
            "make a token",
            ADMINISTER,
            Box::new(|engine, _| {
                let name = PrincipalName::parse("eve").unwrap();
                engine.make_access_token(name, Role::Admin, Ttl::of_days(1)).err()
            }),
        ),
        (
            "revoke a token",
            ADMINISTER,
            Box::new(|engine, _| engine.revoke_access_token(AccessTokenId::from_bits([9; 10])).err()),
        ),
    ]
}

/// G113
#[test]
fn each_role_may_use_only_its_use_cases() {
    for (name, allowed, attempt) in attempts() {
        for (role, is_allowed) in Role::ALL.into_iter().zip(allowed) {
            let mut run = Played::start(gated(), Mode::Guided);
            run.send(json!({ "notes": "Will tag 1.2.0." }));
            let before = run.scene.store.change_stamp();
            let engine = run.scene.engine.acting_as(member(role));
            let refused = attempt(&engine, &run).filter(|error| error.code == ErrorCode::StoreAccessDenied);
            assert_eq!(refused.is_none(), is_allowed, "{name} as {role:?}");
            if refused.is_some() {
                assert_eq!(run.scene.store.change_stamp(), before, "{name} as {role:?} wrote");
            }
        }
    }
}

/// G114
#[test]
fn a_record_names_its_actor_and_no_other() {
    let mut run = Played::start(gated(), Mode::Guided);
    run.send(json!({ "notes": "Will tag 1.2.0." }));
    let engine = run.scene.engine.acting_as(member(Role::Approver));
    let seen = engine.waiting(&run.label()).unwrap();
    engine.approve(&run.label(), &seen, (ApprovalDecision::Approved, None), ORIGIN).unwrap();
    let events = run.scene.store.read(seen.session, None).unwrap().events;
    let (last, earlier) = events.split_last().unwrap();
    assert_eq!(last.actor, member(Role::Approver).actor());
    assert!(earlier.iter().all(|event| event.actor.is_none()), "a directory has one user");
    let found = engine.find(&run.label()).unwrap();
    let line = engine.session_log(found, None).unwrap().lines.pop().unwrap();
    assert_eq!(line.actor.as_deref(), Some("ada (approver)"));
}
