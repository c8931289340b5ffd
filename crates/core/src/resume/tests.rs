use proptest::prelude::*;
use test_case::test_case;
use workrail_model::digest::WorkflowHash;
use workrail_model::event::{Activity, EventIndex};
use workrail_model::id::{EventId, NodeId};
use workrail_model::name::WorkflowId;
use workrail_model::resume::MatchReason::{self, *};

use super::*;

fn card(n: u8, activity: u64) -> RunCard {
    RunCard {
        session: SessionId::from_bits([n; 10]),
        at: Some(RunPlace {
            run: RunId::from_bits([n; 10]),
            workflow_id: WorkflowId::parse("wr.any").unwrap(),
            workflow_hash: WorkflowHash::of(b"any"),
            tip: NodeId::from_bits([n; 10]),
            tip_event: EventIndex::ZERO,
            tip_created_by: EventId::from_bits([0; 10]),
        }),
        activity: Activity::new(activity),
        git_branch: None,
        git_head_sha: None,
        notes: Words::default(),
        goal: Words::default(),
        workflow: Words::default(),
    }
}

fn order(cards: &[RunCard], query: &Query) -> Vec<u8> {
    rank(cards.iter(), query, 5).iter().map(|ranked| ranked.card.session.bits()[0]).collect()
}

fn reasons(card: &RunCard, query: &Query) -> Vec<MatchReason> {
    rank([card].into_iter(), query, 5).remove(0).why
}

#[test]
fn every_tier_beats_all_below_it_however_old() {
    let sha = "4f3c2a1b0d9e8f7a6b5c4d3e2f1a0b9c8d7e6f5a";
    let id = card(1, 1);
    let head = RunCard { git_head_sha: Some(sha.into()), ..card(2, 2) };
    let branch = RunCard { git_branch: Some("feat/login".into()), ..card(3, 3) };
    let notes = RunCard { notes: Words::of(["We fixed the LOGIN form"]), ..card(4, 4) };
    let workflow = RunCard { workflow: Words::of(["login"]), ..card(5, 5) };
    let recent = card(6, 6);
    let mut query = Query::new("login");
    query.session = Some(id.session);
    query.git_head_sha = Some(sha.to_owned());
    query.git_branch = Some("feat".to_owned());
    let cards = [recent, workflow, notes, branch, head, id];
    assert_eq!(order(&cards, &query), [1, 2, 3, 4, 5]);
    assert_eq!(order(&cards, &Query::new("")), [6, 5, 4, 3, 2]);
}

#[test_case("login form", &[MatchedNotes]; "all words, any order, any case")]
#[test_case("login missing", &[RecencyFallback]; "one word too many")]
#[test_case("log", &[RecencyFallback]; "words, not beginnings of words")]
#[test_case("ＬＯＧＩＮ", &[MatchedNotes]; "compatibility forms")]
#[test_case("billing", &[MatchedGoal]; "the goal")]
#[test_case("billing login", &[MatchedNotes]; "words of both together")]
#[test_case("audit", &[MatchedWorkflowId]; "the workflow")]
fn words_are_matched_as_locked(query: &str, expected: &[MatchReason]) {
    let card = RunCard {
        notes: Words::of(["We fixed the LOGIN form"]),
        goal: Words::of(["billing page"]),
        workflow: Words::of(["wr.audit"]),
        ..card(1, 1)
    };
    assert_eq!(reasons(&card, &Query::new(query)), expected);
}

#[test]
fn a_pasted_id_or_label_is_exact() {
    let card = card(9, 1);
    let label = card.label().unwrap().to_string();
    for text in [card.session.to_string(), card.run().unwrap().to_string(), format!("go on with {label}")] {
        assert_eq!(reasons(&card, &Query::new(&text)), [MatchedId], "{text}");
    }
}

#[test_case("ma", false; "two letters are no prefix")]
#[test_case("mai", true; "a prefix")]
#[test_case("main", true; "the branch")]
#[test_case("maine", false; "longer than the branch")]
fn branches_match_by_beginning(wanted: &str, expected: bool) {
    let card = RunCard { git_branch: Some("main".into()), ..card(1, 1) };
    let query = Query { git_branch: Some(wanted.to_owned()), ..Query::default() };
    assert_eq!(reasons(&card, &query)[0] == MatchedBranch, expected);
}

proptest! {
    /// The order of the cards that come in never shows in what comes out.
    #[test]
    fn ranking_does_not_depend_on_the_order_of_reading(
        activities in proptest::collection::vec(0_u64..4, 1..12),
        seed in any::<u64>(),
    ) {
        let words = ["alpha", "beta", ""];
        let cards: Vec<RunCard> = activities
            .iter()
            .enumerate()
            .map(|(n, activity)| RunCard { notes: Words::of([words[n % 3]]), ..card(n as u8, *activity) })
            .collect();
        let mut shuffled = cards.clone();
        shuffled.sort_by_key(|card| seed.rotate_left(u32::from(card.session.bits()[0]) * 5) % 97);
        let query = Query::new("alpha");
        prop_assert_eq!(order(&cards, &query), order(&shuffled, &query));
    }
}
