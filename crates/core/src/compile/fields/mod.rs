//! The tables of the authored format: every field, its shape and what it is for.
//!
//! One table serves the shape check, its messages and the published JSON Schema, so that they cannot
//! drift apart. Both spellings of the format stand here side by side.

mod steps;

pub(super) use steps::{WORKFLOW, WORKFLOW_OBJECT};

use super::document::Node;
use super::shape::{Field, ObjectShape, Shape};

const fn required(name: &'static str, shape: &'static Shape, doc: &'static str) -> Field {
    Field { name, shape, required: true, doc }
}

const fn optional(name: &'static str, shape: &'static Shape, doc: &'static str) -> Field {
    Field { name, shape, required: false, doc }
}

const LIST_MAX: usize = 10_000;

static FLAG: Shape = Shape::Flag;
static ANY: Shape = Shape::Any;
static TEXT: Shape = Shape::Text { min: 0, max: 65_536 };
static TEXT_64: Shape = Shape::Text { min: 1, max: 64 };
static TEXT_128: Shape = Shape::Text { min: 1, max: 128 };
static TEXT_256: Shape = Shape::Text { min: 1, max: 256 };
static TEXT_512: Shape = Shape::Text { min: 1, max: 512 };
static TEXT_1024: Shape = Shape::Text { min: 1, max: 1024 };
static TEXT_4096: Shape = Shape::Text { min: 1, max: 4096 };
/// Longer prompts warn first; this is where reading one stops being possible.
static PROMPT: Shape = Shape::Text { min: 1, max: 65_536 };
static TEXTS: Shape = Shape::List { item: &TEXT_4096, min: 0, max: LIST_MAX, unique: false };
static SHORT_TEXTS: Shape = Shape::List { item: &TEXT_256, min: 0, max: LIST_MAX, unique: true };
static WORDS_128: Shape = Shape::List { item: &TEXT_128, min: 1, max: LIST_MAX, unique: true };

fn is_step_id(text: &str) -> bool {
    !text.is_empty()
        && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'-' | b'_'))
}

fn is_identifier(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

fn is_identifier_or_empty(text: &str) -> bool {
    text.is_empty() || is_identifier(text)
}

fn is_version(text: &str) -> bool {
    let core = text.split(['-', '+']).next().unwrap_or_default();
    let parts: Vec<&str> = core.split('.').collect();
    parts.len() == 3
        && parts.iter().all(|part| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit()))
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'+'))
}

fn is_assessment_name(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.'))
}

fn is_tool(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b':' | b'-'))
}

fn is_slot(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_lowercase())
        && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
}

static STEP_ID: Shape = Shape::Name {
    max: 64,
    allowed: is_step_id,
    pattern: "^[a-z0-9_-]+$",
    rule: "lowercase letters, digits, `-` and `_`",
};
static IDENTIFIER: Shape = Shape::Name {
    max: 128,
    allowed: is_identifier,
    pattern: "^[A-Za-z_][A-Za-z0-9_]*$",
    rule: "a letter or `_`, then letters, digits and `_`",
};
static LOOP_VARIABLE: Shape = Shape::Name {
    max: 128,
    allowed: is_identifier_or_empty,
    pattern: "^([A-Za-z_][A-Za-z0-9_]*)?$",
    rule: "a letter or `_`, then letters, digits and `_`",
};
static VERSION: Shape = Shape::Name {
    max: 128,
    allowed: is_version,
    pattern: "^[0-9]+\\.[0-9]+\\.[0-9]+([-+][0-9A-Za-z.+-]+)?$",
    rule: "three numbers, as in 1.0.0",
};
static ASSESSMENT_NAME: Shape = Shape::Name {
    max: 64,
    allowed: is_assessment_name,
    pattern: "^[A-Za-z0-9_.-]+$",
    rule: "letters, digits, `_`, `-` and `.`",
};
static TOOL: Shape = Shape::Name {
    max: 128,
    allowed: is_tool,
    pattern: "^[a-zA-Z][a-zA-Z0-9_:-]*$",
    rule: "a letter, then letters, digits, `_`, `:` and `-`",
};
static SLOT: Shape = Shape::Name {
    max: 64,
    allowed: is_slot,
    pattern: "^[a-z][a-z0-9_]*$",
    rule: "a lowercase letter, then lowercase letters, digits and `_`",
};

static MODEL_TIER: Shape = Shape::Word(&["lightweight", "mid", "heavy"]);
static METRICS: Shape = Shape::Word(&["coding", "review", "research", "design", "ticket", "none"]);

// Conditions

static NUMBER: Shape = Shape::Number;
static CONDITIONS: Shape = Shape::List { item: &CONDITION, min: 0, max: LIST_MAX, unique: false };
static VALUES: Shape = Shape::List { item: &ANY, min: 0, max: LIST_MAX, unique: false };
static CONDITION_REF_KIND: Shape = Shape::Word(&["condition_ref"]);

static CONDITION_OBJECT: ObjectShape = ObjectShape {
    what: "a condition",
    fields: &[
        optional("var", &TEXT_128, "The context key to look at; dots are part of the key."),
        optional("equals", &ANY, "True when the value is the same; text ignores case and outer spaces."),
        optional("not_equals", &ANY, "True when the value differs; a missing value differs from everything."),
        optional("gt", &NUMBER, "True when the value is a number above this one."),
        optional("gte", &NUMBER, "True when the value is a number not below this one."),
        optional("lt", &NUMBER, "True when the value is a number below this one."),
        optional("lte", &NUMBER, "True when the value is a number not above this one."),
        optional("contains", &ANY, "True when the value, as text, contains this text."),
        optional("in", &VALUES, "True when the value equals one of these."),
        optional("and", &CONDITIONS, "True when all hold."),
        optional("or", &CONDITIONS, "True when one holds."),
        optional("not", &CONDITION, "True when it does not hold."),
    ],
};
static CONDITION_REF: ObjectShape = ObjectShape {
    what: "a condition reference",
    fields: &[
        required("kind", &CONDITION_REF_KIND, "Says that a named condition is meant."),
        required("conditionId", &STEP_ID, "The id of an entry of the workflow's `conditions`."),
    ],
};

fn condition_shape(node: &Node) -> &'static ObjectShape {
    if node.get("kind").is_some() { &CONDITION_REF } else { &CONDITION_OBJECT }
}

static CONDITION: Shape = Shape::Chosen { by: condition_shape, all: &[&CONDITION_OBJECT, &CONDITION_REF] };

static GATE_KIND: Shape = Shape::Word(&["coordinator_eval", "human_approval"]);
static GATE: ObjectShape = ObjectShape {
    what: "a confirmation gate",
    fields: &[
        required("kind", &GATE_KIND, "Who decides: `human_approval` is real, `coordinator_eval` is advice."),
        optional("condition", &CONDITION, "The gate is there only when this holds."),
    ],
};

fn confirmation_shape(node: &Node) -> &'static ObjectShape {
    match node.get("kind").and_then(Node::text) {
        Some("condition_ref") => &CONDITION_REF,
        Some(_) => &GATE,
        None if node.get("kind").is_some() => &GATE,
        None => &CONDITION_OBJECT,
    }
}

static CONFIRMATION_OBJECT: Shape =
    Shape::Chosen { by: confirmation_shape, all: &[&GATE, &CONDITION_OBJECT, &CONDITION_REF] };
static CONFIRMATION: Shape = Shape::Either(&[&FLAG, &CONFIRMATION_OBJECT]);

// Prompts

static PART_KIND: Shape = Shape::Word(&["text", "ref"]);
static PART: ObjectShape = ObjectShape {
    what: "a prompt part",
    fields: &[
        required("kind", &PART_KIND, "Plain `text`, or a `ref` to a snippet of the registry."),
        optional("text", &TEXT, "The text of a text part."),
        optional("refId", &TEXT_128, "The snippet, as in `wr.refs.notes_first_durability`."),
    ],
};
static PART_SHAPE: Shape = Shape::Object(&PART);
static PARTS: Shape = Shape::List { item: &PART_SHAPE, min: 1, max: LIST_MAX, unique: false };
static PROMPT_VALUE: Shape = Shape::Either(&[&TEXT, &PARTS]);
static PROMPT_VALUES: Shape = Shape::List { item: &PROMPT_VALUE, min: 0, max: LIST_MAX, unique: false };
static TEXT_MAP: Shape = Shape::Map(&TEXT);
static PROMPT_BLOCKS: ObjectShape = ObjectShape {
    what: "promptBlocks",
    fields: &[
        optional("goal", &PROMPT_VALUE, "What this step is to achieve."),
        optional("constraints", &PROMPT_VALUES, "What must hold while working."),
        optional("procedure", &PROMPT_VALUES, "The steps to take, in order."),
        optional(
            "outputRequired",
            &TEXT_MAP,
            "What to deliver, by name; rendered in the order of the names.",
        ),
        optional("verify", &PROMPT_VALUES, "What to check before the step is done."),
    ],
};
static PROMPT_BLOCKS_SHAPE: Shape = Shape::Object(&PROMPT_BLOCKS);

static LITERALS: Shape = Shape::Map(&ANY);
static TEMPLATE_CALL: ObjectShape = ObjectShape {
    what: "a template call",
    fields: &[
        required("templateId", &TEXT_128, "The template, as in `wr.templates.routine.design-review`."),
        optional("args", &LITERALS, "Values for the template's `{names}`: text, numbers or booleans."),
    ],
};
static TEMPLATE_CALL_SHAPE: Shape = Shape::Object(&TEMPLATE_CALL);

static FRAGMENT: ObjectShape = ObjectShape {
    what: "a prompt fragment",
    fields: &[
        required("id", &TEXT_128, "Names the fragment."),
        optional("when", &CONDITION, "The fragment is shown only when this holds."),
        required("text", &PROMPT, "The text that is added."),
    ],
};
static FRAGMENT_SHAPE: Shape = Shape::Object(&FRAGMENT);
static FRAGMENTS: Shape = Shape::List { item: &FRAGMENT_SHAPE, min: 1, max: LIST_MAX, unique: false };

// Functions

static PARAMETER_TYPE: Shape = Shape::Word(&["string", "number", "boolean", "array", "object"]);
static PARAMETER: ObjectShape = ObjectShape {
    what: "a function parameter",
    fields: &[
        required("name", &IDENTIFIER, "Names the parameter."),
        required("type", &PARAMETER_TYPE, "What it takes."),
        optional("required", &FLAG, "Whether a call must give it."),
        optional("description", &TEXT_1024, "What it means."),
        optional("enum", &VALUES, "The allowed values."),
        optional("default", &ANY, "What it is when a call does not give it."),
    ],
};
static PARAMETER_SHAPE: Shape = Shape::Object(&PARAMETER);
static PARAMETERS: Shape = Shape::List { item: &PARAMETER_SHAPE, min: 0, max: LIST_MAX, unique: false };
static FUNCTION_SCOPE: Shape = Shape::Word(&["workflow", "loop", "step"]);
static FUNCTION: ObjectShape = ObjectShape {
    what: "a function definition",
    fields: &[
        required("name", &IDENTIFIER, "What prompts call it by, as `name()`."),
        required("definition", &PROMPT, "What the agent does when a prompt names the function."),
        optional("parameters", &PARAMETERS, "What it takes."),
        optional("scope", &FUNCTION_SCOPE, "Where it is visible."),
    ],
};
static FUNCTION_SHAPE: Shape = Shape::Object(&FUNCTION);
static FUNCTIONS: Shape = Shape::List { item: &FUNCTION_SHAPE, min: 0, max: LIST_MAX, unique: true };
static FUNCTION_CALL: ObjectShape = ObjectShape {
    what: "a function call",
    fields: &[
        required("name", &IDENTIFIER, "The function."),
        optional("args", &LITERALS, "Its arguments by name."),
    ],
};
static FUNCTION_CALL_SHAPE: Shape = Shape::Object(&FUNCTION_CALL);
static FUNCTION_CALLS: Shape =
    Shape::List { item: &FUNCTION_CALL_SHAPE, min: 0, max: LIST_MAX, unique: false };

// Output

static CONTRACT: ObjectShape = ObjectShape {
    what: "an output contract",
    fields: &[
        required("contractRef", &TEXT_128, "The contract pack, as in `wr.contracts.loop_control`."),
        optional("required", &FLAG, "Whether the step may end without it; it must not, unless false."),
    ],
};
static CONTRACT_SHAPE: Shape = Shape::Object(&CONTRACT);
static HINTS: Shape = Shape::Either(&[&TEXT_1024, &TEXTS]);
static OUTPUT: ObjectShape = ObjectShape {
    what: "an output",
    fields: &[
        optional("contractRef", &TEXT_128, "The contract pack, as in `wr.contracts.loop_control`."),
        optional("required", &FLAG, "Whether the step may end without it; it must not, unless false."),
        optional("hints", &HINTS, "Advice on the output that nothing enforces."),
    ],
};
static OUTPUT_SHAPE: Shape = Shape::Object(&OUTPUT);

static RULE_TYPE: Shape = Shape::Word(&["contains", "regex", "length", "schema"]);
static RULE_FLAGS: Shape = Shape::Text { min: 0, max: 8 };
static COUNT: Shape = Shape::Integer { min: 0, max: 1_000_000 };
static RULE: ObjectShape = ObjectShape {
    what: "a validation rule",
    fields: &[
        required("type", &RULE_TYPE, "How the notes are checked."),
        required("message", &TEXT_1024, "What the agent is told when the check fails."),
        optional("value", &ANY, "For `contains`: the text the notes must contain, in this spelling."),
        optional("pattern", &TEXT_4096, "For `regex`: the pattern, found anywhere in the notes."),
        optional("flags", &RULE_FLAGS, "For `regex`: i, m, s."),
        optional("min", &COUNT, "For `length`: the fewest characters."),
        optional("max", &COUNT, "For `length`: the most characters."),
        optional("schema", &ANY, "For `schema`: the JSON Schema that the notes, as JSON, must fit."),
        optional("condition", &CONDITION, "The rule counts only when this holds."),
    ],
};
static CRITERIA_LIST: Shape = Shape::List { item: &CRITERION, min: 0, max: LIST_MAX, unique: false };
static COMPOSITION: ObjectShape = ObjectShape {
    what: "a composition of rules",
    fields: &[
        optional("and", &CRITERIA_LIST, "All must pass."),
        optional("or", &CRITERIA_LIST, "One must pass."),
        optional("not", &CRITERION, "It must not pass."),
    ],
};

fn criterion_shape(node: &Node) -> &'static ObjectShape {
    let composed = ["and", "or", "not"].iter().any(|key| node.get(key).is_some());
    if composed { &COMPOSITION } else { &RULE }
}

static CRITERION: Shape = Shape::Chosen { by: criterion_shape, all: &[&RULE, &COMPOSITION] };
static CRITERIA: Shape = Shape::Either(&[&CRITERIA_LIST, &CRITERION]);

static CONSEQUENCE_WHEN: ObjectShape = ObjectShape {
    what: "a consequence's `when`",
    fields: &[
        required("anyEqualsLevel", &TEXT_64, "The level that brings the consequence about."),
        optional("forAssessment", &TEXT_64, "Look at this assessment only."),
    ],
};
static CONSEQUENCE_WHEN_SHAPE: Shape = Shape::Object(&CONSEQUENCE_WHEN);
static EFFECT_KIND: Shape = Shape::Word(&["require_followup"]);
static EFFECT: ObjectShape = ObjectShape {
    what: "an effect",
    fields: &[
        required("kind", &EFFECT_KIND, "What happens."),
        required("guidance", &TEXT_512, "What the agent is to do before it assesses again."),
    ],
};
static EFFECT_SHAPE: Shape = Shape::Object(&EFFECT);
static CONSEQUENCE: ObjectShape = ObjectShape {
    what: "an assessment consequence",
    fields: &[
        required("when", &CONSEQUENCE_WHEN_SHAPE, "Which level it is about."),
        required("effect", &EFFECT_SHAPE, "What the level brings about."),
    ],
};
static CONSEQUENCE_SHAPE: Shape = Shape::Object(&CONSEQUENCE);
static CONSEQUENCES: Shape = Shape::List { item: &CONSEQUENCE_SHAPE, min: 1, max: 10, unique: false };

static DEPENDENCY_REASON: Shape = Shape::Word(&[
    "needs_user_secret_or_token",
    "needs_user_account_access",
    "needs_user_artifact",
    "needs_user_choice",
    "needs_user_approval",
    "needs_user_environment_action",
]);
static CHOICE_KIND: Shape = Shape::Word(&[
    "preference_tradeoff",
    "scope_boundary",
    "irreversible_action",
    "external_side_effect",
    "policy_or_compliance",
]);
static USER_DEPENDENCY: ObjectShape = ObjectShape {
    what: "a user dependency",
    fields: &[
        required("reason", &DEPENDENCY_REASON, "Why only the user can give it."),
        optional("choiceKind", &CHOICE_KIND, "Why the choice may not be assumed."),
        required("description", &TEXT_512, "What is needed, in words for the user."),
        optional("contextKey", &TEXT_128, "The context key that holds the answer."),
    ],
};
static USER_DEPENDENCY_SHAPE: Shape = Shape::Object(&USER_DEPENDENCY);
static USER_DEPENDENCIES: Shape =
    Shape::List { item: &USER_DEPENDENCY_SHAPE, min: 0, max: 20, unique: false };

static AUDIT: ObjectShape = ObjectShape {
    what: "an audit",
    fields: &[
        optional("prompt", &TEXT_4096, "What to audit."),
        optional("rubric", &TEXTS, "What to judge by."),
    ],
};
static AUDIT_SHAPE: Shape = Shape::Object(&AUDIT);
static VERIFICATION: ObjectShape = ObjectShape {
    what: "a verification",
    fields: &[
        optional("command", &TEXT_1024, "The command to run."),
        optional("prompt", &TEXT_4096, "What to verify."),
    ],
};
static VERIFICATION_SHAPE: Shape = Shape::Object(&VERIFICATION);
