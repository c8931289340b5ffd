//! What a call submits for a step: the same types from the tool's arguments to the decision on them.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::canonical::{CanonicalError, canonical_digest};
use crate::digest::Sha256;
use crate::event::Context;
use crate::placeholder::are_placeholder_notes;

/// Notes and artifacts. Comments on fields are served to agents.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct StepOutput {
    /// What you did in this step only, for a human reader.
    #[serde(default)]
    #[schemars(with = "String")]
    pub notes_markdown: Option<String>,
    /// Structured results, each an object with a `kind`.
    #[serde(default)]
    #[schemars(with = "Vec<Map<String, Value>>")]
    pub artifacts: Vec<Value>,
}

impl StepOutput {
    /// Notes alone.
    pub fn notes(text: impl Into<String>) -> Self {
        Self { notes_markdown: Some(text.into()), artifacts: Vec::new() }
    }

    pub fn is_empty(&self) -> bool {
        self.notes_markdown.is_none() && self.artifacts.is_empty()
    }

    /// The notes, unless they have no content: blank ones, and our own placeholders sent back.
    pub fn own_notes(&self) -> Option<&str> {
        self.notes_markdown
            .as_deref()
            .filter(|notes| !notes.trim().is_empty() && !are_placeholder_notes(notes))
    }

    /// Identifies the output together with its context.
    pub fn digest_with(&self, context: &Context) -> Result<Sha256, CanonicalError> {
        canonical_digest(&serde_json::json!({
            "notes": self.notes_markdown, "artifacts": self.artifacts, "context": context,
        }))
    }
}

/// Everything that a call submits: output and, with an ack, context.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Submission {
    pub output: StepOutput,
    pub context: Context,
}

impl Submission {
    /// Identifies the payload, so that a replay with a different one is noticed (G31).
    pub fn digest(&self) -> Result<Sha256, CanonicalError> {
        self.output.digest_with(&self.context)
    }
}
