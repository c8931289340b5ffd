//! The builtins as offered by an editor: what each is for, and the text that uses it.

use serde_json::{Value, json};

use super::{contracts, features, snippets, templates};

/// Something that can be inserted into a workflow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Insertion {
    pub kind: InsertionKind,
    pub id: &'static str,
    pub purpose: String,
    /// Where it belongs in a file.
    pub location: &'static str,
    /// More about it: settings, arguments, the schema's example or the whole text.
    pub detail: String,
    /// What is inserted.
    pub text: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InsertionKind {
    Contract,
    Feature,
    Template,
    Snippet,
}

impl InsertionKind {
    pub const ALL: [Self; 4] = [Self::Contract, Self::Feature, Self::Template, Self::Snippet];

    /// The title of a list of them.
    pub fn title(self) -> &'static str {
        match self {
            Self::Contract => "Contracts",
            Self::Feature => "Features",
            Self::Template => "Templates",
            Self::Snippet => "Snippets",
        }
    }
}

/// Everything in the registry that has a text to insert, by kind and id.
pub fn insertions() -> Vec<Insertion> {
    let contracts = contracts().iter().map(|contract| Insertion {
        kind: InsertionKind::Contract,
        id: contract.id,
        purpose: contract.purpose.to_owned(),
        location: "in a step",
        detail: format!("Example of the artifact:\n{:#}", contract.example),
        text: format!("\"outputContract\": {}", json!({ "contractRef": contract.id })),
    });
    let features = features().iter().map(|feature| {
        let settings = feature.settings.iter().map(|setting| {
            format!(
                "{} ({} to {}, default {}): {}",
                setting.name, setting.min, setting.max, setting.default, setting.purpose
            )
        });
        Insertion {
            kind: InsertionKind::Feature,
            id: feature.id,
            purpose: feature.purpose.to_owned(),
            location: "in the list `features`",
            detail: settings
                .chain(feature.constraints.iter().map(ToString::to_string))
                .collect::<Vec<_>>()
                .join("\n"),
            text: Value::from(feature.id).to_string(),
        }
    });
    let templates = templates().iter().map(|template| {
        let arguments = template.args.iter().map(|arg| {
            let need = if arg.default.is_none() { "required" } else { "optional" };
            format!("{} ({need}): {}", arg.name, arg.purpose)
        });
        let steps = template.steps.iter().map(|step| format!("adds the step {}: {}", step.id, step.title));
        Insertion {
            kind: InsertionKind::Template,
            id: template.id,
            purpose: template.purpose.to_owned(),
            location: "in a step, in place of its prompt",
            detail: arguments.chain(steps).collect::<Vec<_>>().join("\n"),
            text: format!("\"templateCall\": {}", template.sample_call()),
        }
    });
    let snippets = snippets().iter().map(|snippet| Insertion {
        kind: InsertionKind::Snippet,
        id: snippet.id,
        purpose: snippet.text.lines().next().unwrap_or_default().to_owned(),
        location: "in a list of `promptBlocks`",
        detail: snippet.text.to_owned(),
        text: json!({ "kind": "ref", "refId": snippet.id }).to_string(),
    });
    contracts.chain(features).chain(templates).chain(snippets).collect()
}
