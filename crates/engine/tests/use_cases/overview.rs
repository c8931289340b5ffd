//! Lists, logs, trees and searches over a store that contains some of everything.

use workrail_core::overview::{FoundIn, ListQuery, Stage};
use workrail_core::report::ContextValues;
use workrail_core::report::graph::{GraphDetail, Strokes, drawn, rows};
use workrail_model::error::ErrorCode;

use crate::rich::Rich;

fn drawing(rich: &Rich, strokes: Strokes) -> String {
    let report = rich.scene.engine.report(rich.session, ContextValues::NotShown).unwrap();
    let mut text = String::new();
    for run in &report.runs {
        for line in drawn(&rows(&run.nodes, GraphDetail::Condensed), &run.nodes, strokes) {
            text.push_str(&format!("{} {}\n", line.strokes, line.text));
        }
        text.push('\n');
    }
    text
}

#[test]
fn branches_and_checkpoints_are_drawn_next_to_the_current_path() {
    let rich = Rich::play("Plan.");
    insta::assert_snapshot!(drawing(&rich, Strokes::Unicode));
    insta::assert_snapshot!("ascii_drawing", drawing(&rich, Strokes::Ascii));
}

#[test]
fn the_list_has_a_row_for_every_run() {
    let rich = Rich::play("Plan.");
    let mut progress = Vec::new();
    let list = rich
        .scene
        .engine
        .sessions(&ListQuery::default(), &mut |done, total| progress.push((done, total)))
        .unwrap();
    assert_eq!((list.sessions, list.left_out, progress), (1, 0, vec![(0, 1)]));
    let shown: Vec<_> = list.runs.iter().map(|row| (row.label.clone().unwrap(), row.stage)).collect();
    let [outer, nested] = rich.labels.clone();
    assert_eq!(shown, [(outer, Stage::InProgress), (nested, Stage::CompleteWithGaps)]);
    let step = list.runs[0].step.as_ref().unwrap();
    assert_eq!((step.progress.to_string().as_str(), step.title.as_str()), ("5", "Close"));
    assert_eq!(list.runs[0].goal.as_deref(), Some("the June release"));
}

#[test]
fn what_is_shown_of_a_run_says_how_to_continue() {
    let rich = Rich::play("Plan.");
    let view = rich.scene.engine.show_session(rich.session).unwrap();
    let outer = &view.continuations[0];
    assert_eq!(outer.pending_preferences.unwrap().autonomy.as_str(), "full_auto_stop_on_user_deps");
    let recap = outer.recap.as_ref().unwrap();
    assert_eq!(recap.entries.last().unwrap().notes, "Agreed.");
    let call = outer.next_call.as_ref().unwrap();
    assert_eq!(call.tool.as_str(), "continue_workflow");
    let token = call.arguments["stateToken"].as_str().unwrap().to_owned();
    let request = workrail_engine::request::ContinueWorkflow {
        state_token: Some(token),
        ..workrail_engine::request::ContinueWorkflow::default()
    };
    let reply = rich.scene.engine.continue_workflow(request).unwrap().into_structured();
    assert_eq!(reply["run"]["stepId"], "done");
}

#[test]
fn the_log_is_every_event_in_order() {
    let rich = Rich::play("Plan.");
    let log = rich.scene.engine.session_log(rich.session, None).unwrap();
    assert!(log.lines.iter().zip(0..).all(|(line, index)| line.event_index == index));
    let text: Vec<String> = log
        .lines
        .iter()
        .map(|line| format!("{} {} {}", line.kind, line.step.as_deref().unwrap_or("-"), line.summary))
        .collect();
    insta::assert_snapshot!(text.join("\n"));
    let newest = rich.scene.engine.session_log(rich.session, Some(3)).unwrap();
    assert_eq!((newest.lines.len() as u64, newest.left_out), (3, log.lines.len() as u64 - 3));
    assert_eq!(newest.lines, log.lines[log.lines.len() - 3..]);
}

#[test]
fn notes_are_found_on_every_branch_and_in_checkpoints_whole() {
    let rich = Rich::play(&format!("{} haystackneedle", "word ".repeat(4_000)));
    let found = |words: &str| -> Vec<(Option<String>, String)> {
        let found = rich.scene.engine.search_notes(words, 50, &mut |_, _| {}).unwrap();
        found.hits.into_iter().map(|hit| (hit.step, hit.excerpt)).collect()
    };
    assert_eq!(
        found("half PLAN"),
        [(Some("plan".to_owned()), "Half of the plan.".to_owned())],
        "a checkpoint"
    );
    assert_eq!(found("nothing list").len(), 1, "an abandoned branch");
    assert_eq!(found("haystackneedle").len(), 1, "beyond what the event holds");
    assert_eq!(found("afternoon")[0].0, None, "notes of the session");
    assert_eq!(found("forgot artifact").len(), 1, "good notes of a refused attempt stay, once");
    assert!(found("needle").is_empty(), "words, not parts of words");
    let several = rich.scene.engine.search_notes("plan", 1, &mut |_, _| {}).unwrap();
    assert_eq!((several.hits.len(), several.left_out), (1, 1));
    assert_eq!(several.hits[0].excerpt, "Second plan: smaller steps.", "the newest first");
    let nothing = rich.scene.engine.search_notes("?!", 50, &mut |_, _| {}).unwrap_err();
    assert_eq!(nothing.code, ErrorCode::ValidationError);
}

/// Broke: a run without a goal was found in its goal, by words of its label and its workflow.
#[test]
fn a_run_is_found_in_what_has_all_the_words() {
    let rich = Rich::play("Plan.");
    let found = |words: &str| -> Vec<FoundIn> {
        let found = rich.scene.engine.search_notes(words, 50, &mut |_, _| {}).unwrap();
        found.hits.into_iter().map(|hit| hit.found_in).collect()
    };
    let [review, small] = &rich.labels;
    assert_eq!(found("june release"), [FoundIn::Goal]);
    assert_eq!(found(review), [FoundIn::Label]);
    assert_eq!(found("team small"), [FoundIn::Workflow]);
    assert_eq!(found(&format!("{small} team")), [FoundIn::Run]);
    assert_eq!(found("june review"), [FoundIn::Run]);
}
