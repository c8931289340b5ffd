//! Which parts of a workflow the runs of a script have reached.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::Serialize;
use workrail_model::compiled::{CompiledLoop, CompiledWorkflow, LoopControl};
use workrail_model::step_key::StepInstanceKey;

use crate::interpret::may_not_run;

/// How far one step or loop was tried.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Reached {
    /// Some run went through it.
    pub taken: bool,
    /// It can be skipped, so both ways count.
    pub conditional: bool,
    /// Some complete run skipped it.
    pub skipped: bool,
    /// For loops: some run went round more than once.
    pub repeated: bool,
}

impl Reached {
    pub(crate) fn is_full(&self) -> bool {
        self.taken && (self.skipped || !self.conditional)
    }
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Coverage {
    pub steps: BTreeMap<String, Reached>,
    pub loops: BTreeMap<String, Reached>,
    /// What the current run has seen.
    #[serde(skip)]
    seen: BTreeSet<String>,
    #[serde(skip)]
    seen_loops: BTreeSet<String>,
}

/// Whether some case must skip the loop. What ends a loop is usually set by its own body, so no case could skip it.
fn is_skipped_by_case(workflow: &CompiledWorkflow, owner: &CompiledLoop) -> bool {
    match owner.control {
        LoopControl::While { .. } | LoopControl::Until { .. } => owner.run_condition.is_some(),
        LoopControl::For { .. } | LoopControl::ForEach { .. } => may_not_run(workflow, owner),
    }
}

impl Coverage {
    pub(super) fn of(workflow: &CompiledWorkflow) -> Self {
        let reached = |conditional| Reached { conditional, ..Reached::default() };
        let steps = workflow.steps.iter();
        let loops = workflow.loops.iter();
        Self {
            steps: steps
                .map(|step| (step.step_id.to_string(), reached(step.run_condition.is_some())))
                .collect(),
            loops: loops
                .map(|owner| (owner.loop_id.to_string(), reached(is_skipped_by_case(workflow, owner))))
                .collect(),
            seen: BTreeSet::new(),
            seen_loops: BTreeSet::new(),
        }
    }

    pub(super) fn visit(&mut self, key: &StepInstanceKey) {
        let step = key.step_id.to_string();
        if let Some(reached) = self.steps.get_mut(&step) {
            reached.taken = true;
        }
        self.seen.insert(step);
        for frame in &key.loop_path {
            let name = frame.loop_id.to_string();
            if let Some(reached) = self.loops.get_mut(&name) {
                reached.taken = true;
                reached.repeated |= frame.iteration > 0;
            }
            self.seen_loops.insert(name);
        }
    }

    pub(super) fn end_run(&mut self, complete: bool) {
        let seen = std::mem::take(&mut self.seen);
        let seen_loops = std::mem::take(&mut self.seen_loops);
        if !complete {
            return;
        }
        for (name, reached) in &mut self.steps {
            reached.skipped |= !seen.contains(name);
        }
        for (name, reached) in &mut self.loops {
            reached.skipped |= !seen_loops.contains(name);
        }
    }

    /// Everything that a run should still cover, in words.
    pub fn missing(&self) -> Vec<String> {
        let mut missing = Vec::new();
        for (kind, parts) in [("step", &self.steps), ("loop", &self.loops)] {
            for (name, reached) in parts {
                if !reached.taken {
                    missing.push(format!("{kind} `{name}` is never reached"));
                } else if !reached.is_full() {
                    missing.push(format!("{kind} `{name}` is never skipped"));
                }
            }
        }
        missing
    }
}
