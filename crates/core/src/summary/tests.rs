use proptest::option::of;
use proptest::prelude::*;
use workrail_model::digest::{Sha256, WorkflowHash};
use workrail_model::event::{Activity, EventIndex};
use workrail_model::id::{EventId, NodeId, RunId, SessionId};
use workrail_model::name::{StepId, WorkflowId};
use workrail_model::reply::LoopPosition;
use workrail_model::time::Timestamp;

use super::*;
use crate::label::RunLabel;
use crate::overview::{Stage, StepAt};
use crate::progress::Progress;
use crate::resume::{CardPosition, Words};

fn session() -> SessionId {
    SessionId::from_bits([7; 10])
}

fn workflow_id() -> impl Strategy<Value = WorkflowId> {
    "[a-z]{1,8}\\.[a-z]{1,8}".prop_map(|text| WorkflowId::parse(&text).unwrap())
}

fn activity() -> impl Strategy<Value = Option<Activity>> {
    of((0_u64..1 << 50).prop_map(|number| Activity::new(number).unwrap()))
}

fn position() -> impl Strategy<Value = CardPosition> {
    (any::<[[u8; 10]; 3]>(), workflow_id(), 0_u64..1 << 24).prop_map(|(ids, workflow_id, event)| {
        CardPosition {
            run: RunId::from_bits(ids[0]),
            workflow_hash: WorkflowHash::of(workflow_id.as_str().as_bytes()),
            workflow_id,
            tip: NodeId::from_bits(ids[1]),
            tip_event: EventIndex::new(event).unwrap(),
            tip_created_by: EventId::from_bits(ids[2]),
        }
    })
}

fn card() -> impl Strategy<Value = RunCard> {
    (
        of(position()),
        (activity(), of(any::<u64>())),
        of(".{0,20}"),
        of("[0-9a-f]{40}"),
        stage(),
        any::<[String; 4]>(),
    )
        .prop_map(
            |(at, (activity, start_key), branch, sha, stage, [notes, artifacts, goal, workflow])| RunCard {
                session: session(),
                at,
                activity,
                start_key,
                branch: Words::of(branch.as_deref()),
                git_branch: branch.map(String::into),
                git_head_sha: sha.map(String::into),
                stage,
                artifacts: Words::of([artifacts.as_str()]),
                notes: Words::of([notes.as_str()]),
                goal: Words::of([goal.as_str()]),
                workflow: Words::of([workflow.as_str()]),
            },
        )
}

fn step() -> impl Strategy<Value = StepAt> {
    let positions = prop::collection::vec((any::<String>(), any::<u64>(), of(any::<u64>())), 0..3);
    ("[a-z]{1,9}", any::<String>(), any::<u64>(), any::<u64>(), positions).prop_map(
        |(id, title, number, about_left, positions)| {
            let positions =
                positions.into_iter().map(|(name, iteration, of)| LoopPosition { name, iteration, of });
            StepAt {
                step_id: StepId::parse(&id).unwrap(),
                title,
                progress: Progress { number, about_left, loops: positions.collect() },
            }
        },
    )
}

fn stage() -> impl Strategy<Value = Stage> {
    prop::sample::select(vec![
        Stage::WaitsForPerson,
        Stage::Blocked,
        Stage::InProgress,
        Stage::Unreadable,
        Stage::NotesOnly,
        Stage::CompleteWithGaps,
        Stage::Complete,
        Stage::Closed,
    ])
}

fn row() -> impl Strategy<Value = RunRow> {
    let at = Timestamp::parse("2026-01-31T23:59:59.999Z").unwrap();
    let ids = (of(any::<[u8; 10]>()), of(workflow_id()), of(any::<String>()));
    let about = (of(any::<String>()), of(any::<[u8; 10]>()), of(any::<[u8; 32]>()));
    let last = (of(Just(at)), of(any::<String>()));
    (ids, stage(), about, of(step()), last, activity()).prop_map(
        |(
            (run, workflow_id, goal),
            stage,
            (closed, parent, repository),
            step,
            (last_at, last_actor),
            activity,
        )| {
            let run_id = run.map(RunId::from_bits);
            RunRow {
                session_id: session(),
                run_id,
                label: run_id.map(|run| RunLabel::of(run).to_string()),
                workflow_id,
                goal,
                stage,
                closed,
                parent: parent.map(RunId::from_bits),
                repository: repository.map(Sha256::from_bytes),
                step,
                last_at,
                last_actor,
                activity,
            }
        },
    )
}

fn summary() -> impl Strategy<Value = SessionSummary> {
    let (cards, rows) = (prop::collection::vec(card(), 0..4), prop::collection::vec(row(), 0..4));
    (cards, rows).prop_map(|(cards, rows)| SessionSummary { cards, rows })
}

proptest! {
    #[test]
    fn a_summary_round_trips(summary in summary()) {
        let bytes = summary.to_bytes();
        prop_assert_eq!(SessionSummary::from_bytes(session(), &bytes), Some(summary));
    }

    #[test]
    fn truncated_or_extended_bytes_are_refused(summary in summary(), cut in any::<prop::sample::Index>()) {
        let mut bytes = summary.to_bytes();
        let shorter = &bytes[..cut.index(bytes.len())];
        prop_assert_eq!(SessionSummary::from_bytes(session(), shorter), None);
        bytes.push(0);
        prop_assert_eq!(SessionSummary::from_bytes(session(), &bytes), None);
    }

    /// Counts and lengths in hostile bytes must not be trusted: neither a panic nor a huge allocation.
    #[test]
    fn any_bytes_are_refused_or_decoded_without_harm(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = SessionSummary::from_bytes(session(), &bytes);
    }
}
