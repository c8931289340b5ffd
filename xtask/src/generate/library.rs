//! The library that ships with WorkRail: a page for users, and hashes that must be renewed when it changes.
//!
//! A changed hash means that runs started from now on read another text. Hashes are committed, so that review shows a
//! changed builtin as a change of every workflow that uses it (G45).

use std::fmt::Write as _;

use anyhow::{Context as _, Result, bail};
use serde_json::{Map, Value, json};
use workrail_core::builtins::{self, Template};
use workrail_core::compile::{CompileInput, FileOrigin, check};
use workrail_core::discover::older_names;
use workrail_host::sources::bundled;
use workrail_model::compiled::CompiledWorkflow;

use super::markdown::cell;
use crate::generated_file::{GeneratedFile, MARK};

pub(super) fn generated_files() -> Result<Vec<GeneratedFile>> {
    let workflows: Vec<CompiledWorkflow> =
        bundled().map(|(file, text)| compiled(file, text)).collect::<Result<_>>()?;
    Ok(vec![hashes(&workflows)?, page(&workflows)])
}

fn compiled(file: &str, text: &str) -> Result<CompiledWorkflow> {
    let input = CompileInput { origin: FileOrigin::Bundled, ..CompileInput::new(text.as_bytes(), file) };
    let checked = check(input);
    match checked.workflow {
        Some(workflow) => Ok(workflow),
        None => bail!("{}", checked.diagnostics),
    }
}

/// Every template that a workflow may inject by name; the probe is injected by WorkRail itself.
fn routines() -> impl Iterator<Item = &'static Template> {
    builtins::templates().iter().filter(|template| template.id != builtins::PROBE_TEMPLATE)
}

fn hashes(workflows: &[CompiledWorkflow]) -> Result<GeneratedFile> {
    let mut own = Map::new();
    for workflow in workflows {
        own.insert(workflow.workflow_id.to_string(), Value::from(hash(workflow)?));
    }
    let mut injected = Map::new();
    for template in routines() {
        let sample = json!({
            "id": "wr.sample", "name": "Sample", "description": "Injects one routine.", "version": "1.0.0",
            "steps": [{ "id": "call", "title": "Call", "templateCall": template.sample_call() }],
        });
        injected
            .insert(template.id.to_owned(), Value::from(hash(&compiled(template.id, &sample.to_string())?)?));
    }
    let value = json!({ "$comment": MARK, "routines": injected, "workflows": own });
    GeneratedFile::of_json("fixtures/bundled-hashes.json", &value)
}

fn hash(workflow: &CompiledWorkflow) -> Result<String> {
    Ok(workflow.hash().with_context(|| format!("hashing {}", workflow.workflow_id))?.to_string())
}

fn page(workflows: &[CompiledWorkflow]) -> GeneratedFile {
    let mut page = format!(
        "<!-- {MARK} -->\n# The library\n\nWhat ships with WorkRail. `workrail workflow preview ID` shows a plan, `workrail workflow test \
         FILE` runs the test script next to a file in `workflows`.\n\n## Workflows\n\nIds that start with `wr.routine-` are \
         routines: short workflows that a step can delegate to a subagent.\n\n| id | steps | for |\n| --- | --- | --- |\n"
    );
    for workflow in workflows {
        let steps = workflow.steps.len();
        // Writing to a String cannot fail.
        writeln!(page, "| `{}` | {steps} | {} |", workflow.workflow_id, cell(&workflow.description))
            .expect("string write");
    }
    page.push_str(
        "\n## Routine templates\n\nThe same routines as steps: a step with `\"templateCall\": {\"templateId\": \"ID\"}` is \
         replaced by the steps of the template.\n\n| id | steps | arguments | for |\n| --- | --- | --- | --- |\n",
    );
    for template in routines() {
        let steps: Vec<String> = template.steps.iter().map(|step| format!("`{}`", step.id)).collect();
        let named = template.args.iter().map(|arg| match arg.default {
            None => format!("`{}`", arg.name),
            Some(_) => format!("`{}` (optional)", arg.name),
        });
        let args = named.collect::<Vec<_>>().join(", ");
        let (steps, purpose) = (steps.join(", "), cell(template.purpose));
        writeln!(page, "| `{}` | {steps} | {args} | {purpose} |", template.id).expect("string write");
    }
    page.push_str(
        "\n## Older names\n\nThese still start the workflow named next to them, with a warning, unless a file of yours has \
         the name. So do names that differ only in `-` for `_` or lack the `wr.`.\n\n| older name | use |\n\
         | --- | --- |\n",
    );
    for (old, new) in older_names() {
        writeln!(page, "| `{old}` | `{new}` |").expect("string write");
    }
    GeneratedFile { path: "docs/reference/library.md".to_owned(), content: page }
}
