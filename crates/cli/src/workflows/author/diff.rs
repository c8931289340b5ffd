//! `workrail workflow diff`: compares two versions of a workflow, step by step.

use std::sync::Arc;

use camino::Utf8Path;
use serde_json::{Value, json};
use workrail_core::author::diff::{Presence, StepDiff, WorkflowChange, WorkflowDiff, diff};
use workrail_model::compiled::CompiledWorkflow;
use workrail_model::digest::WorkflowHash;
use workrail_model::name::WorkflowId;

use super::{compile, rewrite};
use crate::outcome::{Failure, Format};
use crate::output::{self, Tone};
use crate::wiring;
use crate::workflows::unusable_form;

/// A workflow named on the command line: a file, a hash, an id or a run.
pub(super) struct NamedWorkflow {
    pub(super) workflow: Arc<CompiledWorkflow>,
    pub(super) hash: WorkflowHash,
    /// Where it was found.
    pub(super) from: String,
}

pub(super) fn run(a: &str, b: &str, prompts: bool, format: Format) -> Result<(), Failure> {
    let (a, b) = (named(a, format)?, named(b, format)?);
    let found = diff((&a.workflow, a.hash), (&b.workflow, b.hash));
    if format == Format::Json {
        let mut value =
            serde_json::to_value(&found).map_err(|error| Failure::Environment(error.to_string()))?;
        value["a"]["from"] = Value::from(a.from);
        value["b"]["from"] = Value::from(b.from);
        output::json(&value);
        return Ok(());
    }
    show(&found, (&a.from, &b.from), prompts);
    Ok(())
}

/// Finds what a text names. A file takes precedence over everything else.
pub(super) fn named(text: &str, format: Format) -> Result<NamedWorkflow, Failure> {
    let path = Utf8Path::new(text);
    if path.is_file() {
        let workflow = compile::compiled(path, format)?;
        let hash = workflow.hash().map_err(unusable_form)?;
        return Ok(NamedWorkflow { workflow: Arc::new(workflow), hash, from: format!("the file {path}") });
    }
    let engine = wiring::read_only_default()?;
    if text.starts_with("sha256:") {
        let (hash, workflow) = engine.pinned_by_hash(text)?;
        return Ok(NamedWorkflow { workflow, hash, from: "a pinned workflow".to_owned() });
    }
    if let Ok(id) = WorkflowId::parse(text)
        && let Ok(now) = engine.current_form(&id)
    {
        let from = format!("the file {}", now.reference);
        return Ok(NamedWorkflow { workflow: now.compiled, hash: now.hash, from });
    }
    match engine.pinned_run(text) {
        Ok(pinned) => {
            let from = format!("run {}", pinned.label);
            Ok(NamedWorkflow { workflow: pinned.compiled, hash: pinned.hash, from })
        }
        Err(_) => Err(Failure::Usage(format!(
            "`{text}` is not a file, a workflow id, a hash (sha256:...) or a run. `workrail workflow list` and \
             `workrail session list` list them."
        ))),
    }
}

fn show(found: &WorkflowDiff, from: (&str, &str), prompts: bool) {
    for (name, side, from) in [("A", &found.a, from.0), ("B", &found.b, from.1)] {
        let short = &side.hash.digest().hex()[..12];
        output::line(&format!("{name}  {} {} ({short}), {from}", side.workflow_id, side.version));
    }
    output::line("");
    if found.is_same {
        output::toned(Tone::Good, "They behave the same.");
        return;
    }
    sentences(None, &found.workflow);
    for step in &found.steps {
        let tone = match step.presence {
            Presence::Both => None,
            Presence::OnlyA => Some(Tone::Bad),
            Presence::OnlyB => Some(Tone::Good),
        };
        sentences(tone, &step.changes);
        if prompts {
            prompt(step);
        }
    }
    if !prompts && found.steps.iter().any(|step| !step.prompt.is_empty()) {
        output::line("");
        output::toned(Tone::Quiet, "Add --prompts to see the changed lines of prompts.");
    }
}

fn sentences(tone: Option<Tone>, changes: &[WorkflowChange]) {
    for change in changes {
        match tone {
            None => output::line(&format!("- {}", change.words)),
            Some(tone) => output::toned(tone, &format!("- {}", change.words)),
        }
    }
}

fn prompt(step: &StepDiff) {
    step.prompt.iter().for_each(rewrite::diff_line);
}

/// The inputs of a hash, for users.
pub(super) fn inputs(named: &NamedWorkflow, format: Format) -> Result<(), Failure> {
    let inputs = workrail_core::author::hash_inputs(&named.workflow).map_err(unusable_form)?;
    if format == Format::Json {
        output::json(&json!(inputs));
        return Ok(());
    }
    output::line(&inputs.hash.to_string());
    output::line("");
    output::line(&format!(
        "The hash is the SHA-256 of the compiled form in canonical JSON ({} bytes): the author's text with everything \
         below embedded. Layout, comments, `$schema` and the file's name are not part of it.",
        inputs.canonical_bytes
    ));
    output::line("");
    let row = |name: &str, what: String, digest: String| vec![name.to_owned(), what, digest];
    let mut rows = vec![
        row("format", format!("version {}", inputs.schema_version), String::new()),
        row("text layout", format!("version {}", inputs.render_version), String::new()),
        row("steps", inputs.steps.to_string(), String::new()),
    ];
    rows.extend(
        inputs
            .embedded
            .iter()
            .map(|part| row(part.kind, part.id.clone(), part.digest.hex()[..12].to_owned())),
    );
    rows.extend(
        inputs
            .bindings
            .iter()
            .map(|binding| row("binding", format!("{} = {}", binding.slot_id, binding.value), String::new())),
    );
    output::table(&["INPUT", "VALUE", "DIGEST"], rows);
    Ok(())
}
