//! Templates: steps that a workflow injects by id. The texts of the routines are in the folder next to this file, one
//! per step; they use the same headings as rendered prompt blocks, so that injected steps read like others.

use std::sync::LazyLock;

use serde_json::{Map, Value, json};

#[derive(Clone, Copy, Debug)]
pub struct Template {
    pub id: &'static str,
    pub purpose: &'static str,
    pub args: &'static [TemplateArgument],
    /// The contract that the last step must fulfil even if the author does not say so.
    pub contract: Option<&'static str>,
    pub steps: &'static [TemplateStep],
}

/// A name that prompts use as `{name}`.
#[derive(Clone, Copy, Debug)]
pub struct TemplateArgument {
    pub name: &'static str,
    /// Absent if the caller must give it.
    pub default: Option<&'static str>,
    pub purpose: &'static str,
    pub example: &'static str,
}

impl Template {
    /// The smallest valid `templateCall`: an example of what must be given.
    pub fn sample_call(&self) -> Value {
        let needed = self.args.iter().filter(|arg| arg.default.is_none());
        let args: Map<String, Value> =
            needed.map(|arg| (arg.name.to_owned(), Value::from(arg.example))).collect();
        let mut call = json!({ "templateId": self.id });
        if !args.is_empty() {
            call["args"] = Value::Object(args);
        }
        call
    }
}

#[derive(Clone, Copy, Debug)]
pub struct TemplateStep {
    pub id: &'static str,
    pub title: &'static str,
    pub prompt: &'static str,
}

pub const PROBE_TEMPLATE: &str = "wr.templates.capability_probe";

/// Sorted by id.
pub fn templates() -> &'static [Template] {
    &ALL
}

pub(crate) fn template(id: &str) -> Option<&'static Template> {
    ALL.iter().find(|template| template.id == id)
}

/// A routine that can also be started as a workflow; the bundled files have these ids.
#[derive(Clone, Debug)]
pub struct Routine {
    pub workflow_id: String,
    pub template: &'static Template,
}

/// Every built-in routine, sorted by id.
pub(crate) fn routines() -> &'static [Routine] {
    static ROUTINES: LazyLock<Vec<Routine>> = LazyLock::new(|| {
        let named = ALL.iter().filter_map(|template| {
            let name = template.id.strip_prefix("wr.templates.routine.")?;
            Some(Routine { workflow_id: format!("wr.routine-{name}"), template })
        });
        named.collect()
    });
    &ROUTINES
}

/// The template of a routine, by the id of its workflow.
pub(crate) fn routine_template(workflow_id: &str) -> Option<&'static Template> {
    routines().iter().find(|routine| routine.workflow_id == workflow_id).map(|routine| routine.template)
}

const DELIVERABLE: TemplateArgument = TemplateArgument {
    name: "deliverableName",
    default: None,
    purpose: "The file the result is written to.",
    example: "design-review.md",
};
const OPTIONAL_DELIVERABLE: TemplateArgument = TemplateArgument {
    name: "deliverableName",
    default: Some("the notes of this step"),
    purpose: "The file the result is written to.",
    example: "design-review.md",
};

const fn step(id: &'static str, title: &'static str, prompt: &'static str) -> TemplateStep {
    TemplateStep { id, title, prompt }
}

/// The text of a routine's step, without the file's final line break.
macro_rules! text {
    ($name:literal) => {
        include_str!(concat!("templates/", $name, ".md")).trim_ascii_end()
    };
}

const fn routine(
    id: &'static str,
    purpose: &'static str,
    args: &'static [TemplateArgument],
    steps: &'static [TemplateStep],
) -> Template {
    Template { id, purpose, args, contract: None, steps }
}

static ALL: [Template; 15] = [
    Template {
        id: PROBE_TEMPLATE,
        purpose: "Finds out whether the agent has a capability, by trying it once.",
        args: &[TemplateArgument {
            name: "capability",
            default: None,
            purpose: "`delegation` or `web_browsing`.",
            example: "web_browsing",
        }],
        contract: Some("wr.contracts.capability_observation"),
        steps: &[step(
            "probe",
            "Probe: {capability}",
            "This workflow needs the capability `{capability}`. Try it once, as small as possible: for \
             `web_browsing` fetch any short page, for `delegation` hand a subagent a one-line task. Report what \
             happened as a `wr.capability_observation` artifact, and do nothing else in this step.",
        )],
    },
    routine(
        "wr.templates.routine.context-gathering",
        "Collects the facts that later steps need.",
        &[OPTIONAL_DELIVERABLE],
        &[
            step("map", "Map the affected parts", text!("context-gathering.map")),
            step("collect", "Collect the facts", text!("context-gathering.collect")),
        ],
    ),
    routine(
        "wr.templates.routine.design-review",
        "Reviews a design before it is built.",
        &[DELIVERABLE],
        &[
            step("understand", "Understand the design", text!("design-review.understand")),
            step("challenge", "Challenge the design", text!("design-review.challenge")),
            step("conclude", "Write the findings", text!("design-review.conclude")),
        ],
    ),
    routine(
        "wr.templates.routine.execution-simulation",
        "Walks through a plan before it is carried out.",
        &[OPTIONAL_DELIVERABLE],
        &[step("simulate", "Walk through the plan", text!("execution-simulation.simulate"))],
    ),
    routine(
        "wr.templates.routine.feature-implementation",
        "Builds one slice of a plan, with its tests.",
        &[],
        &[
            step("implement", "Implement the slice", text!("feature-implementation.implement")),
            step("prove", "Prove the slice", text!("feature-implementation.prove")),
        ],
    ),
    routine(
        "wr.templates.routine.feedback-resolution",
        "Works through review comments.",
        &[],
        &[step("resolve", "Resolve the feedback", text!("feedback-resolution.resolve"))],
    ),
    routine(
        "wr.templates.routine.final-verification",
        "Checks the finished work against what was asked.",
        &[OPTIONAL_DELIVERABLE],
        &[step("verify", "Verify the result", text!("final-verification.verify"))],
    ),
    routine(
        "wr.templates.routine.hypothesis-challenge",
        "Tries to refute the leading explanation.",
        &[OPTIONAL_DELIVERABLE],
        &[step("challenge", "Try to refute it", text!("hypothesis-challenge.challenge"))],
    ),
    routine(
        "wr.templates.routine.ideation",
        "Finds several different answers before one is chosen.",
        &[OPTIONAL_DELIVERABLE],
        &[step("ideate", "Find different answers", text!("ideation.ideate"))],
    ),
    routine(
        "wr.templates.routine.parallel-work-partitioning",
        "Splits work into parts that can be done in parallel.",
        &[],
        &[step("partition", "Partition the work", text!("parallel-work-partitioning.partition"))],
    ),
    routine(
        "wr.templates.routine.philosophy-alignment",
        "Compares a result with the project's own principles.",
        &[OPTIONAL_DELIVERABLE],
        &[step("align", "Compare with the principles", text!("philosophy-alignment.align"))],
    ),
    routine(
        "wr.templates.routine.plan-analysis",
        "Looks for gaps in a plan.",
        &[OPTIONAL_DELIVERABLE],
        &[step("analyse", "Analyse the plan", text!("plan-analysis.analyse"))],
    ),
    routine(
        "wr.templates.routine.plan-generation",
        "Makes a plan of slices that can each be verified.",
        &[OPTIONAL_DELIVERABLE],
        &[step("plan", "Make the plan", text!("plan-generation.plan"))],
    ),
    routine(
        "wr.templates.routine.reviewer-family",
        "Reviews a change from one point of view.",
        &[
            TemplateArgument {
                name: "familyName",
                default: Some("general"),
                purpose: "The point of view, as in `correctness_invariants`.",
                example: "correctness",
            },
            TemplateArgument {
                name: "familyMission",
                default: Some("whatever would hurt users or maintainers"),
                purpose: "What this point of view looks for.",
                example: "results that are wrong for some input",
            },
            OPTIONAL_DELIVERABLE,
        ],
        &[step("review", "Review: {familyName}", text!("reviewer-family.review"))],
    ),
    routine(
        "wr.templates.routine.tension-driven-design",
        "Finds a design for conflicting requirements.",
        &[OPTIONAL_DELIVERABLE],
        &[
            step("tensions", "Name the tensions", text!("tension-driven-design.tensions")),
            step("candidates", "Design candidates", text!("tension-driven-design.candidates")),
            step("choose", "Choose and say why", text!("tension-driven-design.choose")),
        ],
    ),
];
