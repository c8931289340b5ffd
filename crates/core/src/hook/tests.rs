//! When turns are held, and which token of a reply counts; the hosts' JSON is in `tests/hooks.rs`.

use workrail_model::chat::HeldTurn;
use workrail_model::event::EventIndex;
use workrail_model::id::NodeId;
use workrail_model::tool::ToolName;

use super::{PendingFor, RunPosition, TurnDecision, TurnEnd, hold, tokens_in};

fn node(last: char) -> NodeId {
    NodeId::parse(&format!("node_000000000000000{last}")).expect("a node id")
}

fn at(last: char, log_length: u64, pending: PendingFor) -> RunPosition {
    RunPosition { node: node(last), log_length: EventIndex::new(log_length).expect("an index"), pending }
}

fn held(position: RunPosition, times: u32) -> HeldTurn {
    HeldTurn { node_id: position.node, log_length: position.log_length, times }
}

#[test]
fn a_pending_step_holds_the_turn_once_while_nothing_moves() {
    let here = at('1', 10, PendingFor::Agent);
    let first = TurnDecision::Hold(held(here, 1));
    assert_eq!(hold(TurnEnd::Free, None, here), first);
    for end in [TurnEnd::AfterHold, TurnEnd::Free] {
        assert_eq!(hold(end, Some(held(here, 1)), here), TurnDecision::Release, "{end:?}");
    }
}

#[test]
fn a_run_that_moved_is_held_again_at_most_twice_per_step() {
    let here = at('1', 10, PendingFor::Agent);
    let refused = at('1', 12, PendingFor::Agent);
    assert_eq!(hold(TurnEnd::AfterHold, Some(held(here, 1)), refused), TurnDecision::Hold(held(refused, 2)));
    let again = at('1', 14, PendingFor::Agent);
    assert_eq!(hold(TurnEnd::AfterHold, Some(held(refused, 2)), again), TurnDecision::Release);
    let next = at('2', 16, PendingFor::Agent);
    assert_eq!(hold(TurnEnd::AfterHold, Some(held(again, 2)), next), TurnDecision::Hold(held(next, 1)));
}

#[test]
fn nothing_is_held_for_a_person_a_complete_run_or_an_unrecorded_hold() {
    for pending in [PendingFor::Person, PendingFor::Nobody] {
        assert_eq!(hold(TurnEnd::Free, None, at('1', 10, pending)), TurnDecision::Release, "{pending:?}");
    }
    assert_eq!(hold(TurnEnd::AfterHold, None, at('1', 10, PendingFor::Agent)), TurnDecision::Release);
}

#[test]
fn the_last_right_to_complete_a_step_names_the_run() {
    let text = "Bookmark: stateToken st.v2.a-b.1\n{\"ackToken\":\"ack.v2.a-b.2\"}\\nrun {\\\"ackToken\\\":\\\"ack.v2.c-d.3\\\"}.";
    assert_eq!(tokens_in(ToolName::ContinueWorkflow, text), ["ack.v2.c-d.3", "ack.v2.a-b.2", "st.v2.a-b.1"]);
    assert_eq!(tokens_in(ToolName::ResumeSession, "- a-b. {\"stateToken\":\"st.v2.a-b.1\"}"), [""; 0]);
}
