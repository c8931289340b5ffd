//! What agents send, parsed strictly and answered with what to change (G70).

use schemars::JsonSchema;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use workrail_model::error::{ErrorCode, ErrorEnvelope, Retry};

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct StartArguments {
    /// The workflow to run, such as `wr.small_change`.
    pub workflow_id: String,
    /// What the work is about, in a few words; kept as context `goal`.
    #[serde(default)]
    #[schemars(with = "String")]
    pub goal: Option<String>,
    /// External inputs as a JSON object: ticket ids, paths, parameters.
    #[serde(default)]
    #[schemars(with = "Map<String, Value>")]
    pub context: Option<Map<String, Value>>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct ContinueArguments {
    /// The bookmark; alone it returns the pending step again.
    #[serde(default)]
    #[schemars(with = "String")]
    pub state_token: Option<String>,
    /// The right to complete the pending step once.
    #[serde(default)]
    #[schemars(with = "String")]
    pub ack_token: Option<String>,
    /// Context keys to set; `null` removes a key.
    #[serde(default)]
    #[schemars(with = "Map<String, Value>")]
    pub context: Option<Map<String, Value>>,
    /// The result of this step.
    #[serde(default)]
    #[schemars(with = "OutputArguments")]
    pub output: Option<OutputArguments>,
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct OutputArguments {
    /// What you did in this step, for a human reader.
    #[serde(default)]
    #[schemars(with = "String")]
    pub notes_markdown: Option<String>,
    /// Structured results, each an object with a `kind`.
    #[serde(default)]
    #[schemars(with = "Vec<Map<String, Value>>")]
    pub artifacts: Vec<Value>,
}

/// Reads the arguments of a call; the error names the argument.
pub(crate) fn parse<T: DeserializeOwned>(
    arguments: Option<Map<String, Value>>,
) -> Result<T, Box<ErrorEnvelope>> {
    serde_path_to_error::deserialize(Value::Object(arguments.unwrap_or_default())).map_err(|error| {
        let path = error.path().to_string();
        let place = if path == "." { "the arguments".to_owned() } else { format!("`{path}`") };
        Box::new(ErrorEnvelope {
            code: ErrorCode::ValidationError,
            message: format!("In {place}: {}. Nothing was recorded.", error.into_inner()),
            retry: Retry::RetryableImmediate,
            suggestion: format!("Correct {place} as the tool's input schema says and call again."),
            details: None,
        })
    })
}
