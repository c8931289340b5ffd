//! The tables of steps, loops and the workflow itself; the smaller parts are in the parent module.

use super::super::document::Node;
use super::super::shape::{ObjectShape, Shape};
use super::{
    ANY, ASSESSMENT_NAME, AUDIT_SHAPE, CONDITION, CONFIRMATION, CONSEQUENCES, CONTRACT_SHAPE, CRITERIA, FLAG,
    FRAGMENTS, FUNCTION_CALLS, FUNCTIONS, LIST_MAX, LITERALS, LOOP_VARIABLE, METRICS, MODEL_TIER,
    OUTPUT_SHAPE, PROMPT, PROMPT_BLOCKS_SHAPE, SHORT_TEXTS, SLOT, STEP_ID, TEMPLATE_CALL_SHAPE, TEXT,
    TEXT_64, TEXT_128, TEXT_256, TEXT_512, TEXT_1024, TEXT_4096, TEXTS, TOOL, USER_DEPENDENCIES,
    VERIFICATION_SHAPE, VERSION, WORDS_128, optional, required,
};

static STEP_TYPE: Shape = Shape::Word(&["standard", "loop", "parallel", "template_call"]);

static STANDARD_STEP: ObjectShape = ObjectShape {
    what: "a step",
    fields: &[
        required("id", &STEP_ID, "Names the step; unique in the workflow."),
        optional("type", &STEP_TYPE, "Absent for a plain step."),
        required("title", &TEXT_128, "What people and agents see first; `{{vars}}` are filled in."),
        optional("prompt", &PROMPT, "What the agent is to do; `{{vars}}` are filled in from the context."),
        optional("promptBlocks", &PROMPT_BLOCKS_SHAPE, "The prompt in sections."),
        optional("templateCall", &TEMPLATE_CALL_SHAPE, "Replaces this step by the template's steps."),
        optional("template_call", &TEMPLATE_CALL_SHAPE, "The same as `templateCall`."),
        optional("templateId", &TEXT_128, "With type `template_call`: the template."),
        optional("args", &LITERALS, "With type `template_call`: values for the template's names."),
        optional("promptFragments", &FRAGMENTS, "Texts that are added where their condition holds."),
        optional("agentRole", &TEXT_1024, "The stance the agent takes in this step."),
        optional("modelTier", &MODEL_TIER, "How strong a model the step needs."),
        optional("guidance", &TEXTS, "Further advice."),
        optional("askForFiles", &FLAG, "Accepted and without effect."),
        optional("hasValidation", &FLAG, "Accepted and without effect."),
        optional("requireConfirmation", &CONFIRMATION, "Whether a person is asked before the run goes on."),
        optional("runCondition", &CONDITION, "The step is skipped unless this holds."),
        optional("validationCriteria", &CRITERIA, "Checks on the notes."),
        optional("outputContract", &CONTRACT_SHAPE, "The artifact this step must deliver."),
        optional("output", &OUTPUT_SHAPE, "The artifact this step must deliver, and hints."),
        optional("assessmentRefs", &ASSESSMENT_REFS, "The assessments this step must give."),
        optional("assessmentConsequences", &CONSEQUENCES, "What a level brings about."),
        optional("userDependencies", &USER_DEPENDENCIES, "What only the user can give."),
        optional("notesOptional", &FLAG, "Whether the step may end without notes."),
        optional("functionDefinitions", &FUNCTIONS, "Functions of this step."),
        optional("functionCalls", &FUNCTION_CALLS, "Calls that are checked against the definitions."),
        optional("functionReferences", &TEXTS, "Functions the prompt names, as `name()`."),
        optional("audit", &AUDIT_SHAPE, "Adds a step after this one that audits it."),
        optional("verification", &VERIFICATION_SHAPE, "Adds a step after this one that verifies it."),
    ],
};
static ASSESSMENT_REFS: Shape = Shape::List { item: &ASSESSMENT_NAME, min: 1, max: LIST_MAX, unique: true };

static LOOP_TYPE: Shape = Shape::Word(&["while", "until", "for", "forEach"]);
static ITERATIONS: Shape = Shape::Integer { min: 1, max: 1000 };
static FOR_COUNT: Shape = Shape::Either(&[&ITERATIONS, &TEXT_128]);
static ON_LIMIT: Shape = Shape::Word(&["advance", "block"]);
static SOURCE_KIND: Shape = Shape::Word(&["artifact_contract", "context_variable"]);
static CONDITION_SOURCE: ObjectShape = ObjectShape {
    what: "a condition source",
    fields: &[
        required("kind", &SOURCE_KIND, "A decision artifact, or a condition on the context."),
        optional("contractRef", &TEXT_128, "The contract of the decision artifact."),
        optional("loopId", &TEXT_64, "Another name that the artifact may call the loop by."),
        optional("condition", &CONDITION, "The condition on the context."),
    ],
};
static CONDITION_SOURCE_SHAPE: Shape = Shape::Object(&CONDITION_SOURCE);
static LOOP: ObjectShape = ObjectShape {
    what: "a loop",
    fields: &[
        required("type", &LOOP_TYPE, "How the loop repeats."),
        required("maxIterations", &ITERATIONS, "The most passes; a loop without a bound may never end."),
        optional("onLimit", &ON_LIMIT, "At the limit: go on and disclose it, or block until told to stop."),
        optional("condition", &CONDITION, "For while and until: tested before every pass."),
        optional("conditionSource", &CONDITION_SOURCE_SHAPE, "For while and until: what decides."),
        optional("count", &FOR_COUNT, "For `for`: the number of passes, or the context key that holds it."),
        optional("items", &TEXT_128, "For `forEach`: the context key that holds the list."),
        optional("iterationVar", &LOOP_VARIABLE, "The name of the pass, counted from 1."),
        optional("itemVar", &LOOP_VARIABLE, "For `forEach`: the name of the item."),
        optional("indexVar", &LOOP_VARIABLE, "For `forEach`: the name of the position, counted from 0."),
    ],
};
static LOOP_SHAPE: Shape = Shape::Object(&LOOP);
static BODY_STEPS: Shape = Shape::List { item: &STEP, min: 1, max: LIST_MAX, unique: false };
static BODY: Shape = Shape::Either(&[&STEP_ID, &BODY_STEPS]);
static LOOP_STEP: ObjectShape = ObjectShape {
    what: "a loop step",
    fields: &[
        optional("id", &STEP_ID, "Names the loop; unique in the workflow."),
        optional("loopId", &STEP_ID, "The same as `id`."),
        required("type", &STEP_TYPE, "`loop`."),
        optional("title", &TEXT_128, "What people see."),
        optional("loop", &LOOP_SHAPE, "How the loop repeats."),
        optional("while", &CONDITION, "Repeats while this holds; the short form of `loop`."),
        optional("until", &CONDITION, "Repeats until this holds; the short form of `loop`."),
        optional("maxIterations", &ITERATIONS, "The most passes; with `while` or `until`."),
        optional("onLimit", &ON_LIMIT, "At the limit: go on and disclose it, or block until told to stop."),
        optional("iterationVar", &LOOP_VARIABLE, "The name of the pass, counted from 1."),
        required("body", &BODY, "The steps that repeat, or the id of a step beside the loop."),
        optional("functionDefinitions", &FUNCTIONS, "Functions of the loop."),
        optional("requireConfirmation", &CONFIRMATION, "Without effect: loops are never pending."),
        optional("runCondition", &CONDITION, "The loop is skipped unless this holds."),
        optional("notesOptional", &FLAG, "Without effect: loops are never pending."),
    ],
};

static STRING_MAP: Shape = Shape::Map(&TEXT);
static TOOLS: Shape = Shape::List { item: &TOOL, min: 1, max: LIST_MAX, unique: false };
static DELEGATION: ObjectShape = ObjectShape {
    what: "a delegation",
    fields: &[
        required("workflowId", &TEXT_128, "The workflow another agent is to run."),
        optional("goal", &TEXT_1024, "What it is to achieve."),
        optional("runCondition", &CONDITION, "Left out unless this holds."),
        optional("contextMapping", &STRING_MAP, "Which context keys it gets, and under which names."),
        optional("args", &STRING_MAP, "Further values it gets."),
        optional("modelTier", &MODEL_TIER, "How strong a model it needs."),
        optional("allowedTools", &TOOLS, "The tools it should keep to."),
    ],
};
static DELEGATION_SHAPE: Shape = Shape::Object(&DELEGATION);
static DELEGATIONS: Shape = Shape::List { item: &DELEGATION_SHAPE, min: 1, max: 100, unique: true };
static SYNTHESIS: ObjectShape = ObjectShape {
    what: "a synthesis",
    fields: &[
        optional("prompt", &TEXT_4096, "How to bring the results together."),
        optional("outputContract", &CONTRACT_SHAPE, "The artifact the synthesis must deliver."),
    ],
};
static SYNTHESIS_SHAPE: Shape = Shape::Object(&SYNTHESIS);
static PARALLEL_STEP: ObjectShape = ObjectShape {
    what: "a parallel step",
    fields: &[
        required("id", &STEP_ID, "Names the step; unique in the workflow."),
        required("type", &STEP_TYPE, "`parallel`."),
        required("title", &TEXT_128, "What people and agents see first."),
        required("parallelDelegations", &DELEGATIONS, "The work for other agents."),
        optional("requireConfirmation", &CONFIRMATION, "Whether a person is asked before the run goes on."),
        optional("runCondition", &CONDITION, "The step is skipped unless this holds."),
        optional("notesOptional", &FLAG, "Whether the step may end without notes."),
        optional("synthesis", &SYNTHESIS_SHAPE, "Adds a step that brings the results together."),
    ],
};

fn step_shape(node: &Node) -> &'static ObjectShape {
    match node.get("type").and_then(Node::text) {
        Some("loop") => &LOOP_STEP,
        Some("parallel") => &PARALLEL_STEP,
        Some(_) | None => &STANDARD_STEP,
    }
}

static STEP: Shape = Shape::Chosen { by: step_shape, all: &[&STANDARD_STEP, &LOOP_STEP, &PARALLEL_STEP] };
static STEPS: Shape = Shape::List { item: &STEP, min: 1, max: LIST_MAX, unique: false };

// The workflow

static LEVELS: Shape = Shape::List { item: &TEXT_64, min: 2, max: 64, unique: true };
static DIMENSION: ObjectShape = ObjectShape {
    what: "a dimension",
    fields: &[
        required("id", &ASSESSMENT_NAME, "Names the dimension."),
        required("purpose", &TEXT_256, "What it judges."),
        required("levels", &LEVELS, "What it may be, from worst to best."),
        optional("required", &FLAG, "Whether an assessment must give it; it must, unless false."),
    ],
};
static DIMENSION_SHAPE: Shape = Shape::Object(&DIMENSION);
static DIMENSIONS: Shape = Shape::List { item: &DIMENSION_SHAPE, min: 1, max: 64, unique: false };
static ASSESSMENT: ObjectShape = ObjectShape {
    what: "an assessment",
    fields: &[
        required("id", &ASSESSMENT_NAME, "Names the assessment."),
        required("purpose", &TEXT_256, "What is judged."),
        required("dimensions", &DIMENSIONS, "What it is judged by."),
    ],
};
static ASSESSMENT_SHAPE: Shape = Shape::Object(&ASSESSMENT);
static ASSESSMENTS: Shape = Shape::List { item: &ASSESSMENT_SHAPE, min: 0, max: LIST_MAX, unique: true };

static SLOT_KIND: Shape = Shape::Word(&["routine", "workflow"]);
static SLOT_KINDS: Shape = Shape::List { item: &SLOT_KIND, min: 0, max: 2, unique: true };
static EXTENSION_POINT: ObjectShape = ObjectShape {
    what: "an extension point",
    fields: &[
        required("slotId", &SLOT, "Names the slot, as in `{{wr.bindings.slot}}`."),
        required("purpose", &TEXT_256, "What the project may choose."),
        required("default", &TEXT_128, "What it is when the project chooses nothing."),
        optional("acceptedKinds", &SLOT_KINDS, "For information."),
    ],
};
static EXTENSION_POINT_SHAPE: Shape = Shape::Object(&EXTENSION_POINT);
static EXTENSION_POINTS: Shape =
    Shape::List { item: &EXTENSION_POINT_SHAPE, min: 0, max: LIST_MAX, unique: true };

static RESOLVE_FROM: Shape = Shape::Word(&["workspace", "package"]);
static REFERENCE: ObjectShape = ObjectShape {
    what: "a reference",
    fields: &[
        required("id", &STEP_ID, "Names the reference."),
        required("title", &TEXT_128, "What it is called."),
        required("source", &TEXT_512, "The file, relative to the workspace or the package."),
        required("purpose", &TEXT_512, "What the agent finds in it."),
        required("authoritative", &FLAG, "Whether it decides where texts differ."),
        optional("resolveFrom", &RESOLVE_FROM, "Where the file is looked for."),
    ],
};
static REFERENCE_SHAPE: Shape = Shape::Object(&REFERENCE);
static REFERENCES: Shape = Shape::List { item: &REFERENCE_SHAPE, min: 0, max: LIST_MAX, unique: true };

static FEATURE: ObjectShape = ObjectShape {
    what: "a feature",
    fields: &[
        required("id", &TEXT_128, "The feature, as in `wr.features.capabilities`."),
        optional("config", &LITERALS, "Its settings."),
    ],
};
static FEATURE_OBJECT: Shape = Shape::Object(&FEATURE);
static FEATURE_SHAPE: Shape = Shape::Either(&[&TEXT_128, &FEATURE_OBJECT]);
static FEATURES: Shape = Shape::List { item: &FEATURE_SHAPE, min: 0, max: LIST_MAX, unique: true };

static CAPABILITIES: ObjectShape = ObjectShape {
    what: "capabilities",
    fields: &[
        optional("required", &WORDS_128, "Without these the workflow makes no sense; they are probed first."),
        optional("preferred", &WORDS_128, "Used where they are there."),
        optional("disabled", &WORDS_128, "Not to be used."),
        optional("delegation", &NEED, "Whether the workflow needs sub-agents."),
        optional("web_browsing", &NEED, "Whether the workflow needs the web."),
    ],
};
static NEED: Shape = Shape::Word(&["required", "preferred", "disabled"]);
static CAPABILITIES_SHAPE: Shape = Shape::Object(&CAPABILITIES);

static AUTONOMY: Shape = Shape::Word(&["guided", "full_auto_stop_on_user_deps", "full_auto_never_stop"]);
static RISK: Shape = Shape::Word(&["conservative", "balanced", "aggressive"]);
static RECOMMENDED: ObjectShape = ObjectShape {
    what: "recommended preferences",
    fields: &[
        optional("recommendedAutonomy", &AUTONOMY, "The most autonomy that is sensible."),
        optional("recommendedRiskPolicy", &RISK, "The boldest policy that is sensible."),
    ],
};
static RECOMMENDED_SHAPE: Shape = Shape::Object(&RECOMMENDED);

static NAMED_KIND: Shape = Shape::Word(&["loop_control", "context"]);
static NAMED_CONDITION: ObjectShape = ObjectShape {
    what: "a named condition",
    fields: &[
        optional("id", &STEP_ID, "What loops and steps call it by."),
        optional("conditionId", &STEP_ID, "The same as `id`."),
        required("kind", &NAMED_KIND, "A loop's decision artifact, or a test on the context."),
        optional("contractRef", &TEXT_128, "For `loop_control`: the contract of the artifact."),
        optional("loopId", &TEXT_64, "For `loop_control`: another name the artifact may call the loop by."),
        optional("condition", &CONDITION, "For `context`: the test."),
    ],
};
static NAMED_CONDITION_SHAPE: Shape = Shape::Object(&NAMED_CONDITION);
static NAMED_CONDITIONS: Shape =
    Shape::List { item: &NAMED_CONDITION_SHAPE, min: 0, max: LIST_MAX, unique: true };

static EXAMPLE: Shape = Shape::Text { min: 1, max: 120 };
static EXAMPLES: Shape = Shape::List { item: &EXAMPLE, min: 0, max: 6, unique: true };
static SPEC_VERSION: Shape = Shape::Integer { min: 1, max: 1_000_000 };
static WORKFLOW_ID: Shape = Shape::Text { min: 1, max: 128 };

pub(in super::super) static WORKFLOW_OBJECT: ObjectShape = ObjectShape {
    what: "the workflow",
    fields: &[
        optional("$schema", &ANY, "Where editors find the schema; without effect."),
        required("id", &WORKFLOW_ID, "`namespace.name`; runs and tools call the workflow by it."),
        required("name", &TEXT_128, "What people see."),
        required("description", &TEXT_512, "What the workflow is for; agents choose by it."),
        required("version", &VERSION, "A version, as in 1.0.0."),
        optional("about", &TEXT_4096, "A longer description in Markdown."),
        optional("examples", &EXAMPLES, "Goals that this workflow is good for."),
        optional("preconditions", &SHORT_TEXTS, "What must be there before a start."),
        optional("clarificationPrompts", &SHORT_TEXTS, "What to ask the user first."),
        optional("agentRole", &TEXT_1024, "The stance of the agent in every step that has none of its own."),
        optional("metaGuidance", &SHORT_TEXTS, "Advice for the whole run; shown at start and on resume."),
        optional("modelTier", &MODEL_TIER, "How strong a model the workflow needs."),
        optional("metricsProfile", &METRICS, "Which outcome facts are collected."),
        optional("validatedAgainstSpecVersion", &SPEC_VERSION, "The authoring rules it was checked by."),
        optional("recommendedPreferences", &RECOMMENDED_SHAPE, "How far a run should go on its own."),
        optional("capabilities", &CAPABILITIES_SHAPE, "Optional abilities of the agent."),
        optional("features", &FEATURES, "Texts that are added to every step with promptBlocks."),
        optional("assessments", &ASSESSMENTS, "Judgements that steps ask for."),
        optional("extensionPoints", &EXTENSION_POINTS, "What a project may choose."),
        optional("references", &REFERENCES, "Documents the agent should know of."),
        optional("functionDefinitions", &FUNCTIONS, "Instructions that prompts call by name."),
        optional("conditions", &NAMED_CONDITIONS, "Conditions with names."),
        required("steps", &STEPS, "What is done, in order."),
    ],
};
pub(in super::super) static WORKFLOW: Shape = Shape::Object(&WORKFLOW_OBJECT);
