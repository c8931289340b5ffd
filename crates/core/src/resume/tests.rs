use proptest::prelude::*;
use test_case::test_case;
use workrail_model::digest::{BlobRef, Sha256, WorkflowHash};
use workrail_model::event::{Activity, EventIndex, KeyedStart};
use workrail_model::id::{EventId, NodeId, RunId, SessionId};
use workrail_model::name::WorkflowId;
use workrail_model::resume::MatchReason::{self, *};

use super::*;
use crate::overview::Stage;

fn card(n: u8, activity: u64) -> RunCard {
    RunCard {
        session: SessionId::from_bits([n; 10]),
        at: Some(CardPosition {
            run: RunId::from_bits([n; 10]),
            workflow_id: WorkflowId::parse("wr.any").unwrap(),
            workflow_hash: WorkflowHash::of(b"any"),
            tip: NodeId::from_bits([n; 10]),
            tip_event: EventIndex::ZERO,
            tip_created_by: EventId::from_bits([0; 10]),
        }),
        activity: Activity::new(activity),
        start_key: None,
        git_branch: None,
        git_head_sha: None,
        stage: Stage::InProgress,
        notes: Words::default(),
        artifacts: Words::default(),
        goal: Words::default(),
        workflow: Words::default(),
        branch: Words::default(),
    }
}

fn order(cards: &[RunCard], query: &ResumeQuery) -> Vec<u8> {
    rank(cards.iter(), query, 5).iter().map(|ranked| ranked.card.session.bits()[0]).collect()
}

fn reasons(card: &RunCard, query: &ResumeQuery) -> Vec<MatchReason> {
    rank([card].into_iter(), query, 5).remove(0).why
}

#[test]
fn every_tier_beats_all_below_it_however_old() {
    let sha = "4f3c2a1b0d9e8f7a6b5c4d3e2f1a0b9c8d7e6f5a";
    let head = RunCard { git_head_sha: Some(sha.into()), ..card(2, 2) };
    let branch = RunCard { git_branch: Some("feat/login".into()), ..card(3, 3) };
    let notes = RunCard { notes: Words::of(["We fixed the LOGIN form"]), ..card(4, 4) };
    let workflow =
        RunCard { workflow: Words::of(["login"]), artifacts: Words::of(["{\"form\": 1}"]), ..card(5, 5) };
    let some = RunCard { goal: Words::of(["forms"]), ..card(6, 6) };
    let recent = card(7, 7);
    let mut query = ResumeQuery::new("login form");
    query.git_head_sha = Some(sha.to_owned());
    query.git_branch = Some("feat".to_owned());
    let cards = [recent, some, workflow, notes, branch, head];
    assert_eq!(order(&cards, &query), [2, 3, 4, 5, 6]);
    assert_eq!(order(&cards, &ResumeQuery::new("")), [7, 6, 5, 4, 3]);
}

#[test_case("login form", &[MatchedNotes], "all words (\"login\", \"form\") in the notes"; "all words in any case")]
#[test_case("form login", &[MatchedNotes], "all words (\"form\", \"login\") in the notes"; "any order")]
#[test_case("login missing", &[MatchedSomeWords], "1 of 2 words (\"login\") in the notes"; "one word too many")]
#[test_case("log", &[RecencyFallback], "recent; the words did not match"; "words, not beginnings of words")]
#[test_case("ＬＯＧＩＮ", &[MatchedNotes], "\"login\" in the notes"; "compatibility forms")]
#[test_case("logins", &[MatchedNotes], "\"logins\" in the notes"; "another form of the word")]
#[test_case("billing", &[MatchedGoal], "\"billing\" in the goal"; "the goal")]
#[test_case(
    "billing login", &[MatchedNotes, MatchedGoal],
    "all words (\"billing\", \"login\") in the notes and the goal"; "words of both together"
)]
#[test_case("please, the login thing", &[MatchedNotes], "\"login\" in the notes"; "small words do not count")]
#[test_case("timeout", &[MatchedArtifacts], "\"timeout\" in the artifacts"; "artifacts")]
#[test_case("audit", &[MatchedWorkflowId], "\"audit\" in the workflow's name"; "the workflow")]
#[test_case(
    "audit login", &[MatchedNotes, MatchedWorkflowId],
    "all words (\"audit\", \"login\") in the notes and the workflow's name"; "the work and its workflow"
)]
#[test_case("the spring release", &[MatchedBranch], "all words (\"spring\", \"release\") in the git branch's name"; "the branch's name")]
#[test_case("", &[RecencyFallback], "recent"; "nothing asked")]
fn words_are_found_wherever_they_are(query: &str, expected: &[MatchReason], in_words: &str) {
    let card = RunCard {
        notes: Words::of(["We fixed the LOGIN form"]),
        artifacts: Words::of(["{\"timeout\":30}"]),
        goal: Words::of(["billing page"]),
        workflow: Words::of(["wr.audit"]),
        branch: Words::of(["feat/spring-release"]),
        ..card(1, 1)
    };
    let found = rank([&card].into_iter(), &ResumeQuery::new(query), 5).remove(0);
    assert_eq!((found.why.as_slice(), found.reason.as_str()), (expected, in_words));
}

fn goal(n: u8, activity: u64, goal: &str, stage: Stage) -> RunCard {
    RunCard { goal: Words::of([goal]), stage, ..card(n, activity) }
}

#[test]
fn more_words_come_before_fewer_and_unfinished_before_finished() {
    let cards = [
        goal(1, 1, "median bug", Stage::Complete),
        goal(2, 2, "a bug of the median", Stage::InProgress),
        goal(3, 3, "another bug", Stage::InProgress),
        goal(4, 4, "the median", Stage::CompleteWithGaps),
        goal(5, 5, "something else", Stage::InProgress),
    ];
    assert_eq!(order(&cards, &ResumeQuery::new("median bug")), [2, 1, 3, 4], "nothing that does not match");
    assert_eq!(
        order(&cards, &ResumeQuery::new("nothing like it")),
        [5, 3, 2, 4, 1],
        "unless all is like that"
    );
}

#[test]
fn a_rare_word_counts_more_than_a_common_one() {
    let mut cards: Vec<RunCard> =
        (2..9).map(|n| goal(n, u64::from(n), "fix a leak", Stage::InProgress)).collect();
    cards.push(goal(1, 1, "timeout of the client", Stage::InProgress));
    assert_eq!(order(&cards, &ResumeQuery::new("fix timeouts"))[0], 1);
}

/// Runs in one repository mention each other's subjects: the run with it as its goal comes first, however old.
#[test]
fn a_word_in_the_goal_counts_more_than_one_in_the_notes() {
    let mut cards: Vec<RunCard> =
        (2..6).map(|n| RunCard { notes: Words::of(["read_rows takes a delimiter"]), ..card(n, 9) }).collect();
    cards.push(goal(1, 1, "use the delimiter argument", Stage::InProgress));
    let query = ResumeQuery::new("go on with the delimiter thing");
    let found = rank(cards.iter(), &query, 5);
    assert_eq!(found[0].card.session.bits()[0], 1);
    assert_ne!(found[0].fit, found[1].fit, "it is clear which one is meant");
    let finished = goal(7, 9, "use the delimiter argument", Stage::Complete);
    assert_eq!(order(&[finished, cards[0].clone()], &query), [2, 7], "unfinished work still comes first");
}

/// No particular run was asked for: finished work at the same commit must not hide what is left to do.
#[test]
fn without_a_query_unfinished_work_comes_first() {
    let finished = RunCard { git_branch: Some("main".into()), stage: Stage::Complete, ..card(1, 9) };
    let open = RunCard { git_branch: Some("main".into()), ..card(2, 1) };
    let elsewhere = card(3, 5);
    let mut query = ResumeQuery::default();
    query.git_branch = Some("main".to_owned());
    query.recent = RecentRuns::Always;
    assert_eq!(order(&[finished, open, elsewhere], &query), [2, 3, 1]);
}

#[test]
fn a_pasted_id_or_label_is_exact_and_offered_alone() {
    let wanted = card(9, 1);
    let others = [card(1, 5), goal(2, 6, "go on", Stage::InProgress), wanted.clone()];
    let label = wanted.label().unwrap().to_string();
    let spaced = label.replace('-', " ");
    for text in [
        wanted.session.to_string(),
        wanted.run().unwrap().to_string(),
        label.clone(),
        label.to_uppercase(),
        spaced.clone(),
        format!("go on with {label}"),
        format!("the {spaced} run"),
    ] {
        let found = rank(others.iter(), &ResumeQuery::new(&text), 5);
        assert_eq!(found.len(), 1, "{text}");
        assert_eq!((found[0].card.session, found[0].why[0]), (wanted.session, MatchedId), "{text}");
        assert!(found[0].reason.starts_with("you named it"), "{}", found[0].reason);
    }
}

#[test_case("ma", false; "two letters are no prefix")]
#[test_case("mai", true; "a prefix")]
#[test_case("main", true; "the branch")]
#[test_case("maine", false; "longer than the branch")]
fn branches_match_by_prefix(wanted: &str, expected: bool) {
    let card = RunCard { git_branch: Some("main".into()), ..card(1, 1) };
    let mut query = ResumeQuery::default();
    query.git_branch = Some(wanted.to_owned());
    assert_eq!(reasons(&card, &query)[0] == MatchedBranch, expected);
}

proptest! {
    /// The order of the input cards never affects the result.
    #[test]
    fn ranking_does_not_depend_on_the_order_of_reading(
        activities in proptest::collection::vec(0_u64..4, 1..12),
        seed in any::<u64>(),
    ) {
        let words = ["alpha", "beta", ""];
        let cards: Vec<RunCard> = activities
            .iter()
            .enumerate()
            .map(|(n, activity)| {
                let stage = if n % 2 == 0 { Stage::InProgress } else { Stage::Complete };
                RunCard { notes: Words::of([words[n % 3]]), stage, ..card(n as u8, *activity) }
            })
            .collect();
        let mut shuffled = cards.clone();
        shuffled.sort_by_key(|card| seed.rotate_left(u32::from(card.session.bits()[0]) * 5) % 97);
        let query = ResumeQuery::new("alpha beta");
        prop_assert_eq!(order(&cards, &query), order(&shuffled, &query));
    }
}

/// Runs whose key is unknown are indexed too: they may have been started with any key (G30).
#[test]
fn a_keyed_start_has_a_term_with_and_without_its_key() {
    let digest = Sha256::of(b"key");
    let keyed =
        |key_digest| KeyedStart { request_digest: None, key_digest, reply_ref: BlobRef::of(b"reply") };
    assert_eq!(terms::of_keyed_start(&keyed(Some(digest))), terms::of_start_key(digest));
    assert_eq!(terms::of_keyed_start(&keyed(None)), terms::of_unknown_start_key());
    let card = RunCard { start_key: Some(terms::of_start_key(digest)), ..card(1, 1) };
    assert!(card.terms().any(|term| term == terms::of_start_key(digest)));
}
