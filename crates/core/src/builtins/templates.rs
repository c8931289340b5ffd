//! Templates: steps that a workflow injects by id. Short and honest; a library may bring richer ones.

#[derive(Clone, Copy, Debug)]
pub struct Template {
    pub id: &'static str,
    pub purpose: &'static str,
    pub args: &'static [TemplateArgument],
    /// The contract that the last step owes, without the author saying so.
    pub contract: Option<&'static str>,
    pub steps: &'static [TemplateStep],
}

/// A name that prompts use as `{name}`.
#[derive(Clone, Copy, Debug)]
pub struct TemplateArgument {
    pub name: &'static str,
    /// Absent where the caller must give it.
    pub default: Option<&'static str>,
    pub purpose: &'static str,
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

pub fn template(id: &str) -> Option<&'static Template> {
    ALL.iter().find(|template| template.id == id)
}

const DELIVERABLE: TemplateArgument = TemplateArgument {
    name: "deliverableName",
    default: None,
    purpose: "The file the result is written to.",
};
const OPTIONAL_DELIVERABLE: TemplateArgument = TemplateArgument {
    name: "deliverableName",
    default: Some("the notes of this step"),
    purpose: "The file the result is written to.",
};

const fn step(id: &'static str, title: &'static str, prompt: &'static str) -> TemplateStep {
    TemplateStep { id, title, prompt }
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
        }],
        contract: Some("wr.contracts.capability_observation"),
        steps: &[step(
            "probe",
            "Probe: {capability}",
            "This workflow needs the capability `{capability}`. Try it once, as small as possible: for \
             `web_browsing` fetch any short page, for `delegation` hand a sub-agent a one-line task. Report what \
             happened as a `wr.capability_observation` artifact, and do nothing else in this step.",
        )],
    },
    routine(
        "wr.templates.routine.context-gathering",
        "Collects the facts that later steps rest on.",
        &[OPTIONAL_DELIVERABLE],
        &[
            step(
                "map",
                "Map the ground",
                "List the files, components and documents that the task touches. For each, say in one line why it \
                 matters. Open what you list; do not guess from names.",
            ),
            step(
                "collect",
                "Collect the facts",
                "Read what you listed and write down the facts that constrain the work: behaviour, interfaces, \
                 invariants, tests, open questions. Name the place of each fact. Write the result to \
                 {deliverableName}.",
            ),
        ],
    ),
    routine(
        "wr.templates.routine.design-review",
        "Reviews a design before it is built.",
        &[DELIVERABLE],
        &[
            step(
                "understand",
                "Understand the design",
                "State the design in your own words: the problem, the chosen shape, what it refuses to do. Name \
                 what is unclear.",
            ),
            step(
                "challenge",
                "Challenge the design",
                "Look for what breaks it: wrong assumptions, missing cases, failure and recovery, cost, what it \
                 makes harder later. For each finding give the evidence and how serious it is.",
            ),
            step(
                "conclude",
                "Write the findings",
                "Write the findings to {deliverableName}, most serious first, each with what you would change. Say \
                 what you checked and found sound.",
            ),
        ],
    ),
    routine(
        "wr.templates.routine.execution-simulation",
        "Plays a plan through in the head before it is carried out.",
        &[OPTIONAL_DELIVERABLE],
        &[step(
            "simulate",
            "Play it through",
            "Walk through the plan step by step with one ordinary and one difficult input. At each step say what \
             the state is, what could go wrong and how it would be noticed. Write the gaps you find to \
             {deliverableName}.",
        )],
    ),
    routine(
        "wr.templates.routine.feature-implementation",
        "Builds one slice of a plan, with its tests.",
        &[],
        &[
            step(
                "implement",
                "Implement the slice",
                "Implement the next slice of the plan and nothing beyond it. Write or change tests together with \
                 the code. Keep the build green.",
            ),
            step(
                "prove",
                "Prove the slice",
                "Run the build, the tests and the linters. Paste the commands and their results into the notes. Fix \
                 what fails before you go on.",
            ),
        ],
    ),
    routine(
        "wr.templates.routine.feedback-resolution",
        "Works through review comments.",
        &[],
        &[step(
            "resolve",
            "Resolve the feedback",
            "Take the comments one by one. For each: agree and change, or disagree with the reason. No comment is \
             left without an answer. List comment, answer and change in the notes.",
        )],
    ),
    routine(
        "wr.templates.routine.final-verification",
        "Checks the finished work against what was asked.",
        &[OPTIONAL_DELIVERABLE],
        &[step(
            "verify",
            "Verify the result",
            "Go back to the goal and its acceptance criteria. For each criterion name the evidence that it is met, \
             by running something where you can. Say plainly what is not met. Write the result to \
             {deliverableName}.",
        )],
    ),
    routine(
        "wr.templates.routine.hypothesis-challenge",
        "Tries to refute the leading explanation.",
        &[OPTIONAL_DELIVERABLE],
        &[step(
            "challenge",
            "Try to refute it",
            "State the hypothesis so that it could be wrong. Name two observations that would refute it and make \
             them. Name one other explanation that fits the same facts, and what tells them apart. Write the \
             outcome to {deliverableName}.",
        )],
    ),
    routine(
        "wr.templates.routine.ideation",
        "Finds several different answers before one is chosen.",
        &[OPTIONAL_DELIVERABLE],
        &[step(
            "ideate",
            "Find different answers",
            "Write down at least three answers that differ in kind, not in detail, one of them the simplest that \
             could work. For each: how it works, what it costs, where it fails. Do not choose yet. Write them to \
             {deliverableName}.",
        )],
    ),
    routine(
        "wr.templates.routine.parallel-work-partitioning",
        "Cuts work into parts that can be done side by side.",
        &[],
        &[step(
            "partition",
            "Partition the work",
            "Cut the work into parts that share no file and no decision. For each part: its goal, what it may \
             touch, what it needs first, how one knows that it is done. Name what must stay sequential.",
        )],
    ),
    routine(
        "wr.templates.routine.philosophy-alignment",
        "Compares a result with the project's own principles.",
        &[OPTIONAL_DELIVERABLE],
        &[step(
            "align",
            "Compare with the principles",
            "Find the project's stated principles (contribution guide, style, decisions). Go through them one by \
             one and say where the work keeps, bends or breaks each. Write breaks with a remedy to \
             {deliverableName}.",
        )],
    ),
    routine(
        "wr.templates.routine.plan-analysis",
        "Looks for holes in a plan.",
        &[OPTIONAL_DELIVERABLE],
        &[step(
            "analyse",
            "Analyse the plan",
            "Check the plan for missing steps, wrong order, hidden dependencies, work that cannot be verified and \
             parts larger than a day. Say what is fine, what must change, and how. Write it to {deliverableName}.",
        )],
    ),
    routine(
        "wr.templates.routine.plan-generation",
        "Makes a plan of slices that can each be verified.",
        &[OPTIONAL_DELIVERABLE],
        &[step(
            "plan",
            "Make the plan",
            "Cut the work into slices that each leave the project working. For each slice: what changes, how it is \
             verified, what could go wrong. Put the riskiest first. Write the plan to {deliverableName}.",
        )],
    ),
    routine(
        "wr.templates.routine.reviewer-family",
        "Reviews a change from one point of view.",
        &[
            TemplateArgument {
                name: "familyName",
                default: Some("general"),
                purpose: "The point of view, as in `correctness_invariants`.",
            },
            TemplateArgument {
                name: "familyMission",
                default: Some("whatever would hurt users or maintainers"),
                purpose: "What this point of view looks for.",
            },
            OPTIONAL_DELIVERABLE,
        ],
        &[step(
            "review",
            "Review: {familyName}",
            "Review the change from one point of view only: {familyMission}. Read the changed code and its callers. \
             For each finding give the place, the consequence and the evidence. Finding nothing is a result: say \
             what you checked. Write it to {deliverableName}.",
        )],
    ),
    routine(
        "wr.templates.routine.tension-driven-design",
        "Designs from the tensions between what is wanted.",
        &[OPTIONAL_DELIVERABLE],
        &[
            step(
                "tensions",
                "Name the tensions",
                "Write down what is wanted of the design, and where two wishes pull against each other. Rank the \
                 tensions by how much they shape the result.",
            ),
            step(
                "candidates",
                "Design candidates",
                "For the strongest tensions design two or three candidates that settle them differently. For each: \
                 what it gives up, who pays for it, and when it would be the wrong choice.",
            ),
            step(
                "choose",
                "Choose and say why",
                "Choose one candidate, or a blend, by the ranked tensions. Write the choice, the rejected candidates \
                 and the reasons to {deliverableName}.",
            ),
        ],
    ),
];
