//! Reference for authors and their editors: the schema of workflow files, the builtins, and their pages.

use std::fmt::Write as _;

use anyhow::{Context as _, Result};
use serde_json::Value;
use workrail_core::builtins;
use workrail_core::compile::{Code, EXAMPLE_FILES, format_reference, workflow_schema};
use workrail_core::explain::explanation_of;

use super::markdown::cell;
use crate::generated_file::{GeneratedFile, MARK};

pub(super) fn generated_files() -> Result<Vec<GeneratedFile>> {
    Ok(vec![
        json("schemas/workflow.schema.json", workflow_schema())?,
        json("schemas/builtins.json", builtins::registry())?,
        builtins_page(),
        format_page(),
        diagnostics_page(),
    ])
}

fn json(path: &str, mut value: Value) -> Result<GeneratedFile> {
    let members = value.as_object_mut().with_context(|| format!("{path} is an object"))?;
    members.insert("$comment".to_owned(), Value::from(MARK));
    GeneratedFile::of_json(path, &value)
}

/// Ids and purposes; schemas and texts are in `schemas/builtins.json`.
fn builtins_page() -> GeneratedFile {
    let mut page = format!(
        "<!-- {MARK} -->\n# Builtins\n\nWhat workflows may refer to. All of it is part of WorkRail; "
    );
    page.push_str(
        "a compiled workflow embeds what it uses. Schemas, examples and texts: `schemas/builtins.json`.\n",
    );
    let mut section = |heading: &str, column: &str, rows: Vec<(String, String)>| {
        // Writing to a String cannot fail.
        write!(page, "\n## {heading}\n\n| id | {column} |\n| --- | --- |\n").expect("string write");
        for (id, text) in rows {
            writeln!(page, "| `{id}` | {} |", cell(&text)).expect("string write");
        }
    };
    section(
        "Contracts",
        "purpose",
        builtins::contracts()
            .iter()
            .map(|contract| (contract.id.to_string(), contract_text(contract)))
            .collect(),
    );
    section(
        "Features",
        "purpose",
        builtins::features().iter().map(|feature| (feature.id.to_string(), feature_text(feature))).collect(),
    );
    section(
        "Snippets\n\nTexts that prompts can include with `{\"kind\": \"ref\", \"refId\": \"ID\"}`.",
        "size",
        builtins::snippets()
            .iter()
            .map(|snippet| (snippet.id.to_string(), format!("{} bytes", snippet.text.len())))
            .collect(),
    );
    section(
        "Templates",
        "purpose",
        builtins::templates()
            .iter()
            .map(|template| (template.id.to_string(), template_text(template)))
            .collect(),
    );
    section(
        "Conditions",
        "holds if",
        builtins::CONDITION_KINDS
            .iter()
            .map(|(id, purpose)| ((*id).to_owned(), (*purpose).to_owned()))
            .collect(),
    );
    GeneratedFile { path: "docs/reference/builtins.md".to_owned(), content: page }
}

/// What the contract is for, and the minimum content of its artifact.
fn contract_text(contract: &builtins::Contract) -> String {
    let required = contract.schema.get("required").and_then(Value::as_array).into_iter().flatten();
    let names = required.filter_map(Value::as_str).filter(|name| *name != "kind");
    let fields: Vec<String> = names.map(|name| format!("`{name}`")).collect();
    format!("{} Artifact `{}` with {}.", contract.purpose, contract.artifact_kind, fields.join(", "))
}

fn feature_text(feature: &builtins::Feature) -> String {
    let mut text = feature.purpose.to_owned();
    for setting in feature.settings {
        let (name, min, max, default) = (setting.name, setting.min, setting.max, setting.default);
        // Writing to a String cannot fail.
        write!(text, " Setting `{name}` ({min} to {max}, default {default}): {}", setting.purpose)
            .expect("string write");
    }
    text
}

fn template_text(template: &builtins::Template) -> String {
    let mut text = template.purpose.to_owned();
    for argument in template.args {
        let required = if argument.default.is_none() { " (required)" } else { "" };
        // Writing to a String cannot fail.
        write!(text, " Argument `{}`{required}: {}", argument.name, argument.purpose).expect("string write");
    }
    text
}

/// Every object and field of workflow files.
fn format_page() -> GeneratedFile {
    let mut page = format!(
        "<!-- {MARK} -->\n# Workflow format\n\nEvery object and field of a workflow file. [Writing \
         workflows](../authoring.md) explains how to use them. A field that is not listed here is an error.\n\n\
         Each example is part of one of these workflows, which the tests compile: {}.\n",
        example_links()
    );
    for object in format_reference() {
        // Writing to a String cannot fail.
        write!(page, "\n## {}\n\n{}\n\n", object.name, object.about).expect("string write");
        page.push_str(
            "| field | type | required | default | what it does | example |\n| --- | --- | --- | --- | --- | --- |\n",
        );
        for field in object.fields {
            let required = if field.is_required { "yes" } else { "" };
            let default = field.default.map(|value| format!("`{value}`")).unwrap_or_default();
            let (type_text, doc) = (cell(&field.type_text), cell(field.doc));
            let example = field.example.map(|text| format!("`{}`", cell(&text))).unwrap_or_default();
            writeln!(page, "| `{}` | {type_text} | {required} | {default} | {doc} | {example} |", field.name)
                .expect("string write");
        }
    }
    GeneratedFile { path: "docs/reference/workflow-format.md".to_owned(), content: page }
}

fn example_links() -> String {
    let links = EXAMPLE_FILES
        .iter()
        .map(|(name, _)| format!("[{name}](../../crates/core/src/compile/source/examples/{name})"));
    links.collect::<Vec<_>>().join(", ")
}

fn diagnostics_page() -> GeneratedFile {
    let mut page = format!(
        "<!-- {MARK} -->\n# Diagnostics\n\nWhat `workrail workflow validate` can say about a workflow file. Each comes with the \
         place, the reason and a fix. `workrail explain CODE` prints a row of this page.\n\n\
         | code | severity | what | why | what to do |\n| --- | --- | --- | --- | --- |\n"
    );
    for code in Code::ALL {
        let severity = format!("{:?}", code.severity()).to_lowercase();
        let own = explanation_of(*code);
        let (what, why, remedy) = (cell(own.what), cell(own.why), cell(own.remedy));
        writeln!(page, "| `{}` | {severity} | {what} | {why} | {remedy} |", code.as_str())
            .expect("string write");
    }
    GeneratedFile { path: "docs/reference/diagnostics.md".to_owned(), content: page }
}
