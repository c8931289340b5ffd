//! Checks artifacts against the contract embedded in the compiled workflow (G40).
//!
//! The compiled schema decides, never the registry's: an upgrade cannot change what a
//! running workflow accepts. Issues are worded so that an agent can act on them.

use jsonschema::error::ValidationErrorKind;
use serde_json::Value;
use workrail_model::compiled::CompiledContract;

/// How the submitted artifacts fit a contract.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ContractFit {
    Valid,
    /// None of the contract's kind; these kinds were submitted instead.
    Missing {
        submitted: Vec<String>,
    },
    Invalid {
        issues: Vec<String>,
    },
}

/// Checks the first artifact of the contract's kind.
pub(crate) fn check(contract: &CompiledContract, artifacts: &[Value]) -> ContractFit {
    let found = artifacts.iter().find(|artifact| artifact_kind(artifact) == contract.artifact_kind);
    let Some(artifact) = found else {
        let submitted = artifacts.iter().map(|artifact| artifact_kind(artifact).to_owned()).collect();
        return ContractFit::Missing { submitted };
    };
    let issues = issues(&contract.schema, artifact);
    if issues.is_empty() { ContractFit::Valid } else { ContractFit::Invalid { issues } }
}

pub(crate) fn artifact_kind(artifact: &Value) -> &str {
    artifact.get("kind").and_then(Value::as_str).unwrap_or("(no kind)")
}

/// More issues than this are not worth reading at once.
const ISSUES_MAX: usize = 8;

/// What is wrong with a value under a schema, in words; empty if nothing is.
pub fn issues(schema: &Value, value: &Value) -> Vec<String> {
    match jsonschema::options().should_validate_formats(true).build(schema) {
        Ok(validator) => validator
            .iter_errors(value)
            .take(ISSUES_MAX)
            .map(|error| violation_text(schema, &error))
            .collect(),
        Err(error) => vec![format!("the schema itself cannot be used: {error}")],
    }
}

fn violation_text(schema: &Value, error: &jsonschema::ValidationError<'_>) -> String {
    let path = error.instance_path().to_string();
    let prefix = if path.is_empty() { String::new() } else { format!("`{}`: ", dotted(&path)) };
    let kind = error.kind();
    let what = if let ValidationErrorKind::Required { property } = kind {
        format!("the field `{}` is missing", property.as_str().unwrap_or("?"))
    } else if let ValidationErrorKind::AdditionalProperties { unexpected } = kind {
        let names: Vec<String> = unexpected.iter().map(|name| format!("`{name}`")).collect();
        let unknown = format!("unknown field {}", names.join(", "));
        match sibling_fields(schema, error.schema_path().as_str()) {
            Some(known) => format!("{unknown}; the fields are {known}"),
            None => unknown,
        }
    } else if let ValidationErrorKind::Enum { options } = kind {
        let allowed: Vec<String> = options.as_array().into_iter().flatten().map(Value::to_string).collect();
        format!("must be one of {}, not {}", allowed.join(", "), short(error.instance()))
    } else if let ValidationErrorKind::Constant { expected_value } = kind {
        format!("must be {expected_value}, not {}", short(error.instance()))
    } else {
        // The instance may be a page long: only its beginning is repeated.
        error.masked_with(short(error.instance())).to_string()
    };
    format!("{prefix}{what}")
}

/// The fields of the object with the keyword at this path in a schema.
fn sibling_fields(schema: &Value, keyword: &str) -> Option<String> {
    let (object, _) = keyword.rsplit_once('/')?;
    let fields = schema.pointer(object)?.get("properties")?.as_object()?;
    let names: Vec<String> = fields.keys().map(|name| format!("`{name}`")).collect();
    (!names.is_empty()).then(|| names.join(", "))
}

/// `/findings/0/severity` as `findings[0].severity`.
fn dotted(pointer: &str) -> String {
    let mut out = String::new();
    for part in pointer.split('/').skip(1) {
        let part = part.replace("~1", "/").replace("~0", "~");
        if part.bytes().all(|byte| byte.is_ascii_digit()) && !part.is_empty() {
            out.push_str(&format!("[{part}]"));
        } else {
            let dot = if out.is_empty() { "" } else { "." };
            out.push_str(&format!("{dot}{part}"));
        }
    }
    out
}

fn short(value: &Value) -> String {
    let text = value.to_string();
    if text.len() <= 60 { text } else { format!("{}...", &text[..text.floor_char_boundary(57)]) }
}

/// Why a schema cannot be used; `None` if it can.
pub(crate) fn schema_problem(schema: &Value) -> Option<String> {
    jsonschema::validator_for(schema).err().map(|error| error.to_string())
}
