//! Compiles a step that delegates to other agents: what each one runs, and whether that exists.

use workrail_model::compiled::{CompiledStep, Delegation, PlanItem, StepKind, StepProvenance};

use super::super::diagnostic::Code;
use super::super::nearest::suggestion;
use super::super::path::DocPath;
use super::super::report::{DraftDiagnostic, shown};
use super::super::source::ParallelStep;
use super::Builder;
use super::step::{blank, notes_rule};

impl<'a> Builder<'a> {
    pub(super) fn parallel(&mut self, step: &'a ParallelStep) -> Vec<PlanItem> {
        let at = &step.at;
        let id = step.id.as_str();
        let Some(step_id) = self.claim(id, at) else { return Vec::new() };
        let run_condition =
            self.link(step.run_condition.as_ref(), &format!("{id}.run"), &at.key("runCondition"));
        self.lint_run(run_condition.as_ref(), id, at);
        let confirmation = self.confirmation(step.confirmation.as_ref(), id, at);
        let compiled = CompiledStep {
            title: self.bind(&step.title, &at.key("title")),
            prompt: String::new(),
            kind: StepKind::Parallel { delegations: self.delegations(step) },
            agent_role: self.role(None, at),
            run_condition,
            confirmation,
            notes: notes_rule(step.notes_optional, false),
            ..blank(step_id.clone(), StepProvenance::Authored)
        };
        self.steps.push(compiled);
        let mut plan = vec![PlanItem::Step { step_id }];
        plan.extend(self.synthesis_step(step));
        plan
    }

    fn delegations(&mut self, step: &ParallelStep) -> Vec<Delegation> {
        let at = step.at.key("parallelDelegations");
        let mut delegations = Vec::new();
        for (index, source) in step.delegations.iter().enumerate() {
            let path = at.index(index);
            if source.workflow_id == self.source.id {
                self.report.push(
                    DraftDiagnostic::on(Code::Delegation, &path.key("workflowId"))
                        .message("the workflow delegates to itself")
                        .why("each child would start further children without end")
                        .fix("delegate to another workflow"),
                );
            }
            self.delegation_target(&source.workflow_id, &path.key("workflowId"));
            let name = format!("{}.delegation-{index}", step.id);
            let run_condition = self.link(source.run_condition.as_ref(), &name, &path.key("runCondition"));
            delegations.push(Delegation {
                workflow_id: source.workflow_id.clone(),
                goal: source.goal.clone(),
                run_condition,
                context_mapping: source.context_mapping.clone(),
                args: source.args.clone(),
                model_tier: source.model_tier,
                allowed_tools: source.allowed_tools.clone(),
            });
        }
        delegations
    }

    /// Routines are a closed set; other workflows are checked if the caller lists them.
    fn delegation_target(&mut self, id: &str, at: &DocPath) {
        let routines: Vec<&str> =
            crate::builtins::routines().iter().map(|routine| routine.workflow_id.as_str()).collect();
        let known: Vec<&str> = match self.library.workflow_ids() {
            Some(ids) => ids.iter().map(String::as_str).chain(routines).collect(),
            None if id.starts_with("wr.routine") => routines,
            None => return,
        };
        if !known.contains(&id) && id != self.source.id {
            self.report.push(
                DraftDiagnostic::on(Code::DelegationTarget, at)
                    .message(format!("there is no workflow `{}` to delegate to", shown(id)))
                    .why("the other agent could not start it, and the work would not be done")
                    .fix(suggestion(id, &known)),
            );
        }
    }
}
