//! Steps that a step adds after itself: verification, audit and synthesis.

use workrail_model::compiled::{CompiledStep, NotesRule, PlanItem, StepProvenance};

use super::super::diagnostic::Code;
use super::super::path::DocPath;
use super::super::report::DraftDiagnostic;
use super::super::source::{ParallelStep, StandardStep};
use super::Builder;
use super::step::blank;

impl Builder<'_> {
    /// Verification first, then the audit, right after their step and under its condition.
    pub(super) fn virtual_steps(&mut self, step: &StandardStep) -> Vec<PlanItem> {
        let mut plan = Vec::new();
        if let Some(request) = &step.verification {
            let prompt = match (&request.prompt, &request.command) {
                (Some(prompt), Some(command)) => format!("{prompt}\n\nRun: `{command}`"),
                (Some(prompt), None) => prompt.clone(),
                (None, Some(command)) => format!(
                    "Run `{command}` and report its outcome in the notes: the exit status, and the lines that \
                     matter. If it fails, fix the cause and run it again."
                ),
                (None, None) => self.empty_request(&step.at, "verification", "`command` or `prompt`"),
            };
            plan.extend(self.virtual_step(
                (&step.at, &step.id, &step.title),
                "verification",
                "Verify",
                &prompt,
                None,
            ));
        }
        if let Some(request) = &step.audit {
            let rubric: Vec<String> = request.rubric.iter().map(|line| format!("- {line}")).collect();
            let prompt = match (&request.prompt, rubric.is_empty()) {
                (Some(prompt), true) => prompt.clone(),
                (Some(prompt), false) => format!("{prompt}\n\nJudge by:\n{}", rubric.join("\n")),
                (None, false) => format!(
                    "Audit the result of the previous step. Judge each point with evidence, and fix what fails:\n{}",
                    rubric.join("\n")
                ),
                (None, true) => self.empty_request(&step.at, "audit", "`prompt` or `rubric`"),
            };
            plan.extend(self.virtual_step(
                (&step.at, &step.id, &step.title),
                "audit",
                "Audit",
                &prompt,
                None,
            ));
        }
        plan
    }

    pub(super) fn synthesis_step(&mut self, step: &ParallelStep) -> Option<PlanItem> {
        let request = step.synthesis.as_ref()?;
        if request.prompt.is_none() && request.output.is_none() {
            self.empty_request(&step.at, "synthesis", "`prompt` or `outputContract`");
        }
        let prompt = request.prompt.clone().unwrap_or_else(|| {
            "Bring the results of the delegated work together: what they agree on, where they contradict each \
             other and how you settled it, and what follows."
                .to_owned()
        });
        let output = self.output(
            request.output.as_ref(),
            &step.at.key("synthesis").key("outputContract").key("contractRef"),
        );
        self.virtual_step((&step.at, &step.id, &step.title), "synthesis", "Synthesis", &prompt, output)
    }

    fn empty_request(&mut self, at: &DocPath, what: &str, needed: &str) -> String {
        self.report.push(
            DraftDiagnostic::on(Code::MissingField, &at.key(what))
                .message(format!("`{what}` needs {needed}"))
                .why("the step it adds would have no prompt")
                .fix(format!("add {needed}, or remove `{what}`")),
        );
        String::new()
    }

    fn virtual_step(
        &mut self,
        (at, id, title): (&DocPath, &str, &str),
        suffix: &str,
        label: &str,
        prompt: &str,
        output: Option<workrail_model::compiled::OutputRequirement>,
    ) -> Option<PlanItem> {
        let step_id = self.claim(&format!("{}__{suffix}", id), at)?;
        let origin_id = id.to_owned();
        // The condition was linked by the step itself; the added steps use the same one.
        let run_condition = self.steps.iter().rev().find(|step| step.step_id.as_str() == id);
        let run_condition = run_condition.and_then(|step| step.run_condition.clone());
        let step = CompiledStep {
            title: format!("{label}: {}", title),
            prompt: self.bind(prompt, &at.key(suffix)),
            agent_role: self.role(None, at),
            run_condition,
            notes: NotesRule::Optional,
            output,
            ..blank(step_id.clone(), StepProvenance::Virtual { origin_id })
        };
        self.steps.push(step);
        Some(PlanItem::Step { step_id })
    }
}
