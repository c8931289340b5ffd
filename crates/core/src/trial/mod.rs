//! Tests a workflow with a scripted agent, in memory, by the same decisions that a server makes (G45).
//!
//! Authors write what they send at each step and what they expect; the report lists what differed and
//! which steps, branches and loops no run has reached.

mod coverage;
mod script;
mod session;

pub use coverage::{Coverage, Reached};
pub use script::{ExpectedEnd, RunScript, Script, StepScript};

use schemars::JsonSchema;
use serde::Serialize;
use workrail_model::compiled::CompiledWorkflow;

use session::{StepResult, TrialSession};

/// What a script showed.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TrialReport {
    pub runs: Vec<TrialRun>,
    pub coverage: Coverage,
}

#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "RunReport")]
pub struct TrialRun {
    pub name: String,
    /// The steps in the order they were pending.
    pub steps: Vec<String>,
    /// What was not as the script says; empty when the run passed.
    pub failures: Vec<String>,
}

impl TrialReport {
    pub fn passed(&self) -> bool {
        self.runs.iter().all(|run| run.failures.is_empty())
    }
}

/// Plays every run of the script from the start.
pub fn try_workflow(workflow: &CompiledWorkflow, script: &Script) -> TrialReport {
    let mut coverage = Coverage::of(workflow);
    let runs = script.runs.iter().map(|run| try_run(workflow, run, &mut coverage)).collect();
    TrialReport { runs, coverage }
}

fn try_run(workflow: &CompiledWorkflow, script: &RunScript, coverage: &mut Coverage) -> TrialRun {
    let mut report = TrialRun { name: script.name.clone(), steps: Vec::new(), failures: Vec::new() };
    let mut session = match TrialSession::start(workflow, script) {
        Ok(session) => session,
        Err(problem) => {
            report.failures.push(format!("the run does not start: {problem}"));
            return report;
        }
    };
    for (position, step) in script.steps.iter().enumerate() {
        let at = format!("step {} (`{}`)", position + 1, step.expect);
        let Some(pending) = session.pending() else {
            report.failures.push(format!("{at}: the run is complete already"));
            break;
        };
        report.steps.push(pending.to_string());
        coverage.visit(&pending);
        if pending.step_id.as_str() != step.expect {
            report.failures.push(format!("{at}: `{}` is pending instead", pending.step_id));
            break;
        }
        match session.send(step) {
            Ok(answer) => compare(&at, step, &answer, &mut report.failures),
            Err(problem) => {
                report.failures.push(format!("{at}: {problem}"));
                break;
            }
        }
    }
    let ended = session.pending();
    if report.failures.is_empty() {
        match (script.ends, &ended) {
            (ExpectedEnd::Complete, Some(pending)) => report.failures.push(format!(
                "the script ends while `{}` is pending; add steps, or say ends = \"open\"",
                pending.step_id
            )),
            (ExpectedEnd::Open, None) => {
                report.failures.push("the run is complete, the script says open".to_owned())
            }
            (ExpectedEnd::Complete, None) | (ExpectedEnd::Open, Some(_)) => {}
        }
    }
    coverage.end_run(ended.is_none());
    report
}

fn compare(at: &str, step: &StepScript, answer: &StepResult, failures: &mut Vec<String>) {
    let mut differs = |what: &str, wanted: &[String], found: &[String]| {
        let (mut wanted, mut found) = (wanted.to_vec(), found.to_vec());
        wanted.sort();
        found.sort();
        if wanted != found {
            failures.push(format!("{at}: {what} {}, expected {}", listed(&found), listed(&wanted)));
        }
    };
    differs("blocked by", &step.blocked, &answer.blocked);
    differs("recorded the gaps", &step.gaps, &answer.gaps);
    if let Some(next) = &step.next
        && answer.next.as_deref() != Some(next)
    {
        let found = answer.next.as_deref().unwrap_or("the end");
        failures.push(format!("{at}: leads to `{found}`, expected `{next}`"));
    }
}

fn listed(names: &[String]) -> String {
    if names.is_empty() { "nothing".to_owned() } else { names.join(", ") }
}
