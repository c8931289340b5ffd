//! Where each line of a compiled prompt comes from: the author, a feature, a template, a snippet.

use workrail_model::compiled::{BlockItem, CompiledStep, CompiledWorkflow, StepProvenance};

/// A line of a prompt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PromptLine {
    pub text: String,
    pub origin: LineOrigin,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LineOrigin {
    /// Of the workflow's own file.
    Author,
    Feature(String),
    Template(String),
    Snippet(String),
    /// A step added by another one.
    Step(String),
}

impl LineOrigin {
    /// In words; `None` for the author's own lines.
    pub fn description(&self) -> Option<String> {
        match self {
            Self::Author => None,
            Self::Feature(id) => Some(format!("feature {id}")),
            Self::Template(id) => Some(format!("template {id}")),
            Self::Snippet(id) => Some(format!("snippet {id}")),
            Self::Step(id) => Some(format!("declared by step {id}")),
        }
    }
}

/// The lines of a step's prompt. A line that the compiler itself adds counts as the step's.
pub fn prompt_lines(workflow: &CompiledWorkflow, step: &CompiledStep) -> Vec<PromptLine> {
    let own = match &step.provenance {
        StepProvenance::Authored => LineOrigin::Author,
        StepProvenance::TemplateInjected { origin_id } => LineOrigin::Template(origin_id.clone()),
        StepProvenance::FeatureInjected { origin_id } => LineOrigin::Feature(origin_id.clone()),
        StepProvenance::Virtual { origin_id } => LineOrigin::Step(origin_id.clone()),
    };
    let blocks = step.prompt_blocks.iter();
    let items: Vec<&BlockItem> = blocks
        .flat_map(|blocks| blocks.constraints.iter().chain(&blocks.procedure).chain(&blocks.verify))
        .filter(|item| item.feature_id.is_some())
        .collect();
    let used = |id: &str| step.refs.iter().any(|snippet| snippet.ref_id == id);
    let snippets: Vec<_> = workflow.refs.iter().filter(|snippet| used(&snippet.ref_id)).collect();
    let origin = |line: &str| {
        let line = line.trim();
        let from_feature = items.iter().find(|item| {
            let mut lines = item.text.lines().map(str::trim);
            !line.is_empty() && lines.any(|other| !other.is_empty() && line.ends_with(other))
        });
        if let Some(id) = from_feature.and_then(|item| item.feature_id.clone()) {
            return LineOrigin::Feature(id);
        }
        let from_snippet = snippets
            .iter()
            .find(|snippet| !line.is_empty() && snippet.text.lines().any(|text| text.trim() == line));
        from_snippet.map_or_else(|| own.clone(), |found| LineOrigin::Snippet(found.ref_id.clone()))
    };
    step.prompt.lines().map(|line| PromptLine { text: line.to_owned(), origin: origin(line) }).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::compile::{CompileInput, compile};

    #[test]
    fn a_feature_line_is_distinguished_from_the_authors() {
        let source = json!({
            "id": "team.any", "name": "Any", "description": "Any.", "version": "1.0.0",
            "features": ["wr.features.memory_context"],
            "steps": [{
                "id": "a", "title": "A",
                "promptBlocks": { "goal": "Find the cause.", "constraints": ["Change nothing."] },
            }],
        });
        let workflow = compile(CompileInput::new(source.to_string().as_bytes(), "test.json")).unwrap();
        let lines = prompt_lines(&workflow, &workflow.steps[0]);
        let origin =
            |text: &str| lines.iter().find(|line| line.text.contains(text)).map(|line| line.origin.clone());
        assert_eq!(origin("Change nothing."), Some(LineOrigin::Author));
        let added = lines.iter().filter_map(|line| line.origin.description()).collect::<Vec<_>>();
        assert!(added.iter().all(|line| line == "feature wr.features.memory_context"), "{added:?}");
        assert!(!added.is_empty(), "{lines:?}");
    }
}
