//! Delegation across files: a cycle of workflows that hand work to each other would never end.

use std::collections::{BTreeMap, BTreeSet};

use workrail_model::compiled::{CompiledWorkflow, StepKind};

/// A cycle of delegations among the workflows, as the ids along it; `None` when there is none.
pub fn delegation_cycle(workflows: &[&CompiledWorkflow]) -> Option<Vec<String>> {
    let graph: BTreeMap<&str, BTreeSet<&str>> =
        workflows.iter().map(|own| (own.workflow_id.as_str(), targets(own))).collect();
    let mut done = BTreeSet::new();
    for start in graph.keys() {
        let mut path: Vec<(&str, Vec<&str>)> = vec![(start, children(&graph, start))];
        while let Some((id, open)) = path.last_mut() {
            let id = *id;
            let Some(next) = open.pop() else {
                done.insert(id);
                path.pop();
                continue;
            };
            if let Some(from) = path.iter().position(|(on_path, _)| *on_path == next) {
                let cycle = path[from..].iter().map(|(on_path, _)| (*on_path).to_owned());
                return Some(cycle.chain([next.to_owned()]).collect());
            }
            if !done.contains(next) {
                path.push((next, children(&graph, next)));
            }
        }
    }
    None
}

fn children<'g>(graph: &BTreeMap<&str, BTreeSet<&'g str>>, id: &str) -> Vec<&'g str> {
    graph.get(id).map(|targets| targets.iter().copied().collect()).unwrap_or_default()
}

fn targets(workflow: &CompiledWorkflow) -> BTreeSet<&str> {
    let kinds = workflow.steps.iter().map(|step| &step.kind);
    kinds
        .flat_map(|kind| match kind {
            StepKind::Parallel { delegations } => delegations.as_slice(),
            StepKind::Standard | StepKind::CapabilityProbe { .. } => &[],
        })
        .map(|delegation| delegation.workflow_id.as_str())
        .collect()
}
