//! What a step requires, as templates to fill in: the fields and choices are real, the answers are placeholders (G47).
//!
//! An example with real values would be the easy answer. A placeholder that is sent back is refused (G55), so
//! nothing here is accepted unchanged.

use serde_json::{Map, Value, json};
use workrail_model::compiled::{
    AcceptedValues, AssessmentDefinition, CompiledContract, CompiledStep, CompiledWorkflow, Requiredness,
    StepKind,
};
use workrail_model::placeholder::{self, A_NUMBER, AN_ITEM, TRUE_OR_FALSE, YOUR_TEXT};

use crate::builtins::ASSESSMENT_KIND;
use crate::interpret::definitions;
use crate::routing::{ReadKind, Reads};

/// Schemas nest; beyond this depth a field is a text to fill in.
const DEPTH_MAX: usize = 6;

/// The artifacts that a step requires, in the order in which they are checked.
pub(crate) fn artifacts(workflow: &CompiledWorkflow, step: &CompiledStep) -> Vec<Value> {
    let contract = step.output.as_ref().filter(|output| output.presence == Requiredness::Required);
    let contract = contract.and_then(|output| workflow.contract(&output.contract_ref));
    let owed = contract.map(|contract| artifact(step, contract));
    owed.into_iter().chain(assessments(workflow, step)).collect()
}

/// One artifact for each assessment of the step.
pub(crate) fn assessments(workflow: &CompiledWorkflow, step: &CompiledStep) -> Vec<Value> {
    let several = step.assessment_refs.len() > 1;
    definitions(workflow, step).map(|definition| assessment(definition, several)).collect()
}

/// The artifact of a contract. A probe names the capability that it probes.
pub(crate) fn artifact(step: &CompiledStep, contract: &CompiledContract) -> Value {
    let mut value = of_schema(&contract.schema);
    if let Some(members) = value.as_object_mut() {
        members.extend(named_fields(step, &contract.schema));
    }
    if let StepKind::CapabilityProbe { capability, .. } = &step.kind
        && let Some(members) = value.as_object_mut()
    {
        members.insert("capability".to_owned(), Value::from(capability.as_str()));
    }
    value
}

/// The same with the optional fields that were sent, so that a correction shows their shapes, too.
pub(crate) fn artifact_like(step: &CompiledStep, contract: &CompiledContract, sent: Option<&Value>) -> Value {
    let mut value = artifact(step, contract);
    add_sent(&mut value, &contract.schema, &sent.into_iter().collect::<Vec<_>>(), DEPTH_MAX);
    value
}

/// Adds to a template the fields that any of these values has, including those in its lists and objects.
fn add_sent(shape: &mut Value, schema: &Value, sent: &[&Value], depth: usize) {
    let Some(inner) = depth.checked_sub(1) else { return };
    match shape {
        Value::Object(members) => {
            for (name, field) in schema["properties"].as_object().into_iter().flatten() {
                let of_field: Vec<&Value> = sent.iter().filter_map(|value| value.get(name)).collect();
                if !of_field.is_empty() {
                    let member = members.entry(name.clone()).or_insert_with(|| at_depth(field, inner));
                    add_sent(member, field, &of_field, inner);
                }
            }
        }
        Value::Array(items) => {
            let sent: Vec<&Value> = sent.iter().filter_map(|value| value.as_array()).flatten().collect();
            items.iter_mut().for_each(|item| add_sent(item, &schema["items"], &sent, inner));
        }
        Value::String(_) | Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Optional texts that the step's own words ask for.
fn named_fields<'a>(
    step: &CompiledStep,
    schema: &'a Value,
) -> impl Iterator<Item = (String, Value)> + use<'a> {
    let required = schema["required"].as_array();
    let is_required = |name: &str| required.is_some_and(|names| names.iter().any(|other| other == name));
    let fields = schema["properties"].as_object().into_iter().flatten();
    let named: Vec<(&String, &Value)> = fields
        .filter(|(name, field)| field["type"] == "string" && !is_required(name) && mentions(step, name))
        .collect();
    named.into_iter().map(|(name, field)| (name.clone(), at_depth(field, 1)))
}

/// Whether the step's own words name a key or a field.
pub(crate) fn mentions(step: &CompiledStep, name: &str) -> bool {
    let in_text = |text: &str| {
        text.split(|c: char| !(c.is_alphanumeric() || matches!(c, '_' | '-' | '.'))).any(|word| {
            let word = word.trim_end_matches('.');
            word == name || word.strip_prefix("context.") == Some(name)
        })
    };
    in_text(&step.prompt) || step.guidance.iter().any(|line| in_text(line))
}

pub(crate) fn assessment(definition: &AssessmentDefinition, with_id: bool) -> Value {
    let dimensions: Map<String, Value> = definition
        .dimensions
        .iter()
        .filter(|dimension| dimension.required)
        .map(|dimension| (dimension.id.to_string(), Value::from(placeholder::one_of(&dimension.levels))))
        .collect();
    let mut artifact = json!({ "kind": ASSESSMENT_KIND, "dimensions": dimensions });
    if with_id && let Some(members) = artifact.as_object_mut() {
        members.insert("assessmentId".to_owned(), json!(definition.id.as_str()));
    }
    artifact
}

/// A value for a context key that a step declares.
pub(crate) fn context_value(accepts: &AcceptedValues) -> Value {
    match accepts {
        AcceptedValues::OneOf { values } => Value::from(placeholder::one_of(values)),
        AcceptedValues::Boolean => Value::from(TRUE_OR_FALSE),
        AcceptedValues::Number => Value::from(A_NUMBER),
        AcceptedValues::Text => Value::from(YOUR_TEXT),
        AcceptedValues::List { members } => list_of(members),
    }
}

/// A list with one item, as an example of all.
fn list_of(members: &[String]) -> Value {
    match members {
        [] => json!([AN_ITEM]),
        members => {
            let item = members.iter().map(|name| (name.clone(), Value::from(YOUR_TEXT)));
            json!([item.collect::<Map<String, Value>>()])
        }
    }
}

/// A value for a context key that conditions read.
pub(crate) fn read_value(reads: &Reads) -> Value {
    let texts: Vec<&str> = reads.values.iter().filter_map(Value::as_str).collect();
    match reads.kind {
        ReadKind::List => list_of(&reads.members),
        ReadKind::Number => Value::from(A_NUMBER),
        // A condition compares with some values; others are allowed and mean "none of these".
        ReadKind::Flag | ReadKind::Compared if !texts.is_empty() => Value::from(YOUR_TEXT),
        ReadKind::Flag | ReadKind::Compared if reads.values.iter().any(Value::is_number) => {
            Value::from(A_NUMBER)
        }
        ReadKind::Flag | ReadKind::Compared => Value::from(TRUE_OR_FALSE),
    }
}

/// The required fields of a schema, each with what goes there.
pub(crate) fn of_schema(schema: &Value) -> Value {
    at_depth(schema, DEPTH_MAX)
}

/// The same in fewer bytes: the call shows the limits.
pub(crate) fn without_limits(shape: &Value) -> Value {
    match shape {
        Value::String(text) => Value::from(placeholder::without_limits(text)),
        Value::Array(items) => items.iter().map(without_limits).collect(),
        Value::Object(members) => {
            members.iter().map(|(name, member)| (name.clone(), without_limits(member))).collect()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => shape.clone(),
    }
}

fn at_depth(schema: &Value, depth: usize) -> Value {
    if let Some(constant) = schema.get("const") {
        return constant.clone();
    }
    let options = schema.get("enum").and_then(Value::as_array).into_iter().flatten();
    let words: Vec<&str> = options.filter_map(Value::as_str).collect();
    if !words.is_empty() {
        return Value::from(placeholder::one_of(&words));
    }
    if let Some(first) = schema.get("anyOf").and_then(Value::as_array).and_then(|options| options.first()) {
        return at_depth(first, depth);
    }
    match schema.get("type").and_then(Value::as_str) {
        Some("object") if depth > 0 => object(schema, depth),
        Some("array") if depth > 0 => {
            json!([schema
                .get("items")
                .map_or_else(|| Value::from(AN_ITEM), |item| at_depth(item, depth - 1))])
        }
        Some("integer") => {
            let limit = |name: &str| schema.get(name).and_then(Value::as_i64);
            Value::from(placeholder::whole_number(limit("minimum"), limit("maximum")))
        }
        Some("number") => Value::from(A_NUMBER),
        Some("boolean") => Value::from(TRUE_OR_FALSE),
        Some("string") if schema.get("pattern").is_some_and(Value::is_string) => {
            Value::from(placeholder::text_like(schema["pattern"].as_str().unwrap_or_default()))
        }
        Some(_) | None => {
            let limit = |name: &str| schema.get(name).and_then(Value::as_u64);
            Value::from(placeholder::text_of(limit("minLength"), limit("maxLength")))
        }
    }
}

fn object(schema: &Value, depth: usize) -> Value {
    let required = schema.get("required").and_then(Value::as_array).into_iter().flatten();
    let mut names: Vec<&str> = required.filter_map(Value::as_str).collect();
    if names.is_empty() {
        // Nothing is required: all optional fields are shown, since `{}` would suggest that anything is accepted.
        names.extend(schema["properties"].as_object().into_iter().flatten().map(|(name, _)| name.as_str()));
    }
    // `kind` identifies the artifact, so it comes first if the order is kept.
    let members = names.into_iter().filter_map(|name| {
        let field = schema.get("properties")?.get(name)?;
        Some((name.to_owned(), at_depth(field, depth - 1)))
    });
    let members: Map<String, Value> = members.collect();
    match schema.get("additionalProperties").filter(|extra| members.is_empty() && extra.is_object()) {
        // Any keys with one kind of value, as for the dimensions of an assessment.
        Some(extra) => json!({ "<name>": at_depth(extra, depth - 1) }),
        None => Value::Object(members),
    }
}
