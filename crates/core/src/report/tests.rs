//! Layout and tables on made-up reports; the engine's tests cover whole histories.

use serde_json::{Value, json};
use workrail_model::compiled::{CompiledContract, CompiledWorkflow};
use workrail_model::event::NodeKind;
use workrail_model::id::NodeId;
use workrail_model::name::{ContractRef, LoopId};

use super::graph::{GraphDetail, Point, Strokes, drawn, rows};
use super::path::{OpenParts, PathItem, lines};
use super::{
    ArtifactView, BranchPosition, NodeReport, PointName, Round, SkippedStep, StepReport, Table, table,
};
use crate::builtins::contract;
use crate::compile::{CompileInput, compile};

fn node(number: u64, parent: Option<u64>, branch: u64) -> NodeReport {
    let id = |n: u64| {
        NodeId::from_bits([
            0,
            0,
            n.to_be_bytes()[4],
            n.to_be_bytes()[5],
            n.to_be_bytes()[6],
            n.to_be_bytes()[7],
            0,
            0,
            0,
            0,
        ])
    };
    NodeReport {
        point: PointName::step(number, 0),
        step_number: number,
        node_id: id(number),
        link: String::new(),
        kind: NodeKind::Step,
        parent: parent.map(id),
        branch,
        reached_by: None,
        at: None,
        step: StepReport::Complete,
        branch_position: BranchPosition::Passed,
        attempts: Vec::new(),
        saved: Vec::new(),
        decisions: Vec::new(),
        approvals: Vec::new(),
        context_keys: Vec::new(),
        rounds: Vec::new(),
        skipped: Vec::new(),
    }
}

fn text(nodes: &[NodeReport], detail: GraphDetail) -> Vec<String> {
    let rows = rows(nodes, detail);
    drawn(&rows, nodes, Strokes::Unicode)
        .iter()
        .map(|line| {
            let number = match line.point {
                Point::Node(place) => nodes[place].point.to_string(),
                Point::LeftOut(count) => format!("+{count}"),
            };
            format!("{} {number}", line.strokes)
        })
        .collect()
}

#[test]
fn nested_forks_take_one_lane_each_and_free_it_again() {
    let nodes = [
        node(1, None, 0),
        node(2, Some(1), 1),
        node(3, Some(2), 1),
        node(4, Some(2), 2),
        node(5, Some(1), 3),
        node(6, Some(1), 0),
        node(7, Some(6), 0),
    ];
    assert_eq!(
        text(&nodes, GraphDetail::Condensed),
        ["● 1", "├─● 2", "│ ├─● 4", "│ ● 3", "├─● 5", "● 6", "● 7"]
    );
}

#[test]
fn a_long_stretch_is_drawn_by_its_ends_and_in_full_on_request() {
    let mut nodes: Vec<NodeReport> = (1..=1_000).map(|n| node(n, (n > 1).then_some(n - 1), 0)).collect();
    nodes[999].branch_position = BranchPosition::Tip;
    assert_eq!(
        text(&nodes, GraphDetail::Condensed),
        ["● 1", "● 2", "● 3", "⋮ +993", "● 997", "● 998", "● 999", "◉ 1000"]
    );
    assert_eq!(text(&nodes, GraphDetail::Everything).len(), 1_000);
}

#[test]
fn a_wide_fork_and_a_deep_nest_are_bounded() {
    let wide: Vec<NodeReport> =
        (1..=500).map(|n| node(n, (n > 1).then_some(1), if n <= 2 { 0 } else { n })).collect();
    let lines = text(&wide, GraphDetail::Condensed);
    assert_eq!((lines.len(), lines[25].as_str(), lines[26].as_str()), (27, "├─⋮ +474", "● 2"));
    // Every point forks from the one before: neither the stack nor the width is exhausted.
    let deep: Vec<NodeReport> = (1..=5_000).map(|n| node(n, (n > 1).then_some(n - 1), n - 1)).collect();
    assert_eq!(text(&deep, GraphDetail::Condensed).last().unwrap().trim_start(), "╰─⋮ +4984");
    assert_eq!(text(&deep, GraphDetail::Everything).len(), 5_000);
}

/// The lines of a path, each as its lane and what it shows.
fn path(nodes: &[NodeReport], opened: &OpenParts) -> Vec<String> {
    let shown = |item: &PathItem| match item {
        PathItem::Point(place) => nodes[*place].point.to_string(),
        PathItem::Skipped { before, at } => format!("skipped {}", nodes[*before].skipped[*at].title),
        PathItem::Rounds { title, from, to, points, .. } => {
            format!("{title} {from} to {to}, {points} points")
        }
        PathItem::Branch { first, points } => format!("branch from {}, {points} points", nodes[*first].point),
        PathItem::More(count) => format!("{count} more"),
    };
    lines(nodes, opened)
        .iter()
        .map(|line| {
            let folds = if line.folds.is_some() { " (folds)" } else { "" };
            format!("{}{}{folds}", "  ".repeat(line.lane), shown(&line.item))
        })
        .collect()
}

#[test]
fn branches_off_the_path_are_one_line_until_they_are_opened() {
    let mut nodes = vec![
        node(1, None, 0),
        node(2, Some(1), 1),
        node(3, Some(2), 1),
        node(4, Some(1), 2),
        node(5, Some(1), 0),
        node(6, Some(5), 0),
    ];
    nodes[5].branch_position = BranchPosition::Tip;
    let closed = ["1", "  branch from 2, 2 points", "  4", "5", "6"];
    assert_eq!(path(&nodes, &OpenParts::default()), closed, "a branch of one point is that point");
    let open = ["1", "  2 (folds)", "  3", "  4", "5", "6"];
    let parts = [nodes[1].node_id].into();
    assert_eq!(path(&nodes, &OpenParts { parts, ..OpenParts::default() }), open);
    assert_eq!(path(&nodes, &OpenParts { all: true, ..OpenParts::default() }), open);
    let shown = Some(nodes[2].node_id);
    assert_eq!(
        path(&nodes, &OpenParts { shown, ..OpenParts::default() }),
        ["1", "  2", "  3", "  4", "5", "6"]
    );
}

#[test]
fn finished_rounds_of_a_long_loop_are_one_line_and_the_current_round_is_shown() {
    let round = |n: u64| Round {
        loop_id: LoopId::parse("slices").unwrap(),
        title: "Slices".to_owned(),
        iteration: u32::try_from(n / 2).unwrap(),
    };
    let mut nodes: Vec<NodeReport> = (1..=12).map(|n| node(n, (n > 1).then_some(n - 1), 0)).collect();
    for n in 0..10 {
        nodes[usize::try_from(n).unwrap() + 1].rounds = vec![round(n)];
    }
    nodes[10].branch_position = BranchPosition::Tip;
    let closed = ["1", "Slices 1 to 4, 8 points", "10", "11", "12"];
    assert_eq!(path(&nodes, &OpenParts::default()), closed);
    let parts = [nodes[1].node_id].into();
    let open = path(&nodes, &OpenParts { parts, ..OpenParts::default() });
    assert_eq!((open.len(), open[1].as_str()), (12, "2 (folds)"));
    let shown = Some(nodes[4].node_id);
    let around = ["1", "Slices 1 to 1, 2 points", "4", "5", "Slices 3 to 4, 4 points", "10", "11", "12"];
    assert_eq!(path(&nodes, &OpenParts { shown, ..OpenParts::default() }), around);
}

#[test]
fn a_skipped_step_is_drawn_where_it_would_have_been() {
    let mut nodes = vec![node(1, None, 0), node(2, Some(1), 1), node(3, Some(1), 0)];
    let skipped =
        |title: &str| SkippedStep { title: title.to_owned(), condition: "size is large".to_owned() };
    nodes[1].skipped = vec![skipped("Design")];
    nodes[2].skipped = vec![skipped("Design"), skipped("Review the design")];
    let expected = ["1", "  skipped Design", "  2", "skipped Design", "skipped Review the design", "3"];
    assert_eq!(path(&nodes, &OpenParts::default()), expected);
    let starts: Vec<bool> = lines(&nodes, &OpenParts::default()).iter().map(|line| line.starts).collect();
    assert_eq!(starts, [false, true, false, false, false, false]);
}

#[test]
fn a_path_of_any_size_and_shape_is_drawn_within_bounds() {
    let long: Vec<NodeReport> = (1..=10_000).map(|n| node(n, (n > 1).then_some(n - 1), 0)).collect();
    assert_eq!(path(&long, &OpenParts::default()).len(), 3_001);
    let deep: Vec<NodeReport> = (1..=5_000).map(|n| node(n, (n > 1).then_some(n - 1), n - 1)).collect();
    assert_eq!(path(&deep, &OpenParts::default()), ["1", "  branch from 2, 4999 points"]);
    assert!(path(&deep, &OpenParts { all: true, ..OpenParts::default() }).len() < 50);
}

fn workflow() -> CompiledWorkflow {
    let source = json!({
        "id": "team.any", "name": "Any", "description": "Any.", "version": "1.0.0",
        "steps": [{ "id": "a", "title": "A", "prompt": "Do a." }],
    });
    let mut workflow = compile(CompileInput::new(source.to_string().as_bytes(), "test.json")).unwrap();
    for id in ["wr.contracts.changed_files", "wr.contracts.review_findings", "wr.contracts.gate_verdict"] {
        let own = contract(id).unwrap();
        workflow.contracts.push(CompiledContract {
            contract_ref: ContractRef::parse(id).unwrap(),
            artifact_kind: own.artifact_kind.to_owned(),
            purpose: own.purpose.to_owned(),
            schema: own.schema.clone(),
            example: own.example.clone(),
        });
    }
    workflow
}

fn tables(value: Value) -> Vec<Table> {
    let kind = value["kind"].as_str().unwrap().to_owned();
    match table::shown(Some(&workflow()), &kind, value) {
        ArtifactView::Tables { tables, .. } => tables,
        other @ (ArtifactView::Json { .. } | ArtifactView::Text { .. } | ArtifactView::Unreadable) => {
            panic!("{other:?}")
        }
    }
}

#[test]
fn changed_files_are_keyed_by_path_and_the_last_row_counts() {
    let row = |path: &str, summary: &str| json!({ "path": path, "summary": summary, "risk": "L" });
    let found = tables(
        json!({ "kind": "wr.changed_files", "changedFiles": [row("b", "1"), row("a", "2"), row("b", "3")] }),
    );
    assert_eq!(found[0].title, "Changed files");
    assert_eq!(found[0].columns, ["Risk", "Path", "Summary"]);
    assert_eq!(found[0].rows, [["L", "a", "2"], ["L", "b", "3"]]);
    let mut merged = found.clone();
    let later = tables(json!({ "kind": "wr.changed_files", "changedFiles": [row("a", "4"), row("c", "5")] }));
    table::merged(&mut merged, &later[0]);
    assert_eq!(merged[0].rows, [["L", "a", "4"], ["L", "b", "3"], ["L", "c", "5"]]);
}

#[test]
fn findings_are_ordered_by_severity() {
    let row = |severity: &str, title: &str| json!({ "severity": severity, "location": { "file": "f", "line": 3 }, "title": title, "rationale": "r" });
    let found = tables(json!({
        "kind": "wr.review_findings", "findings": [row("nit", "1"), row("critical", "2"), row("nit", "0")],
    }));
    assert_eq!(found[0].columns, ["Severity", "Location", "Title", "Rationale"]);
    assert_eq!(
        found[0].rows,
        [["critical", "f:3", "2", "r"], ["nit", "f:3", "1", "r"], ["nit", "f:3", "0", "r"]]
    );
}

#[test]
fn nothing_is_guessed_without_a_contract_or_valid_rows() {
    let rows = json!({ "kind": "wr.changed_files", "changedFiles": [{ "path": "a" }] });
    assert_eq!(table::shown(None, "wr.changed_files", rows.clone()), ArtifactView::Json { value: rows });
    for odd in [
        json!({ "kind": "wr.changed_files", "changedFiles": ["a"] }),
        json!({ "kind": "wr.changed_files", "changedFiles": 3 }),
        json!({ "kind": "wr.gate_verdict", "verdict": "approved" }),
    ] {
        let kind = odd["kind"].as_str().unwrap().to_owned();
        assert_eq!(table::shown(Some(&workflow()), &kind, odd.clone()), ArtifactView::Json { value: odd });
    }
}
