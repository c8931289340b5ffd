//! `workrail tree`: the branches of each run, drawn in the terminal.

use serde_json::json;
use workrail_core::report::ContextValues;
use workrail_core::report::graph::{GraphDetail, Point, Strokes, drawn, rows};
use workrail_core::report::words;

use crate::outcome::{Failure, Format};
use crate::output::{self, Tone};
use crate::{name, times, wiring};

pub(super) fn run(about: &str, ascii: bool, all: bool, format: Format) -> Result<(), Failure> {
    let engine = wiring::read_only_default()?;
    let report = engine.report(name::session_or_run(&engine, about)?, ContextValues::NotShown)?;
    let detail = if all { GraphDetail::Everything } else { GraphDetail::Condensed };
    if format == Format::Json {
        let runs: Vec<_> = report
            .runs
            .iter()
            .map(|run| {
                let nodes: Vec<_> = run
                    .nodes
                    .iter()
                    .map(|node| {
                        json!({
                            "point": node.point, "stepNumber": node.step_number, "nodeId": node.node_id, "parent": node.parent, "kind": node.kind,
                            "branch": node.branch, "step": node.step, "branchPosition": node.branch_position, "link": node.link,
                        })
                    })
                    .collect();
                json!({
                    "runId": run.run_id, "label": run.label, "status": run.status, "closed": run.closed,
                    "tip": run.tip, "nodes": nodes,
                })
            })
            .collect();
        output::json(&json!({ "sessionId": report.session_id, "health": report.health, "runs": runs }));
        return Ok(());
    }
    super::warn_of_damage(&report.health);
    let strokes = if ascii { Strokes::Ascii } else { Strokes::Unicode };
    for (index, run) in report.runs.iter().enumerate() {
        if index > 0 {
            output::line("");
        }
        let goal =
            run.goal.as_deref().map(|goal| format!(" · {}", words::one_line(goal))).unwrap_or_default();
        output::toned(
            Tone::Heading,
            &format!("{} · {} · {}{goal}", run.label, run.workflow.workflow_id, words::status(run)),
        );
        if let Some(closed) = words::closed(run, times::LOCAL) {
            output::toned(Tone::Quiet, &format!("closed: {}", words::one_line(&closed)));
        }
        for line in drawn(&rows(&run.nodes, detail), &run.nodes, strokes) {
            let text = if ascii { line.text.replace('·', "-") } else { line.text };
            match line.point {
                Point::Node(at) => {
                    output::line(&format!("{} {text}  [{}]", line.strokes, run.nodes[at].node_id));
                }
                Point::LeftOut(_) => output::toned(Tone::Quiet, &format!("{} {text}", line.strokes)),
            }
        }
    }
    if report.runs.is_empty() {
        output::line("The session holds notes and no run.");
    }
    Ok(())
}
