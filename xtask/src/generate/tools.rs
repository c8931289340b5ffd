//! The MCP tools as clients see them: one schema file per tool and the reference page.

use std::fmt::Write as _;

use anyhow::Result;
use serde_json::{Value, json};
use workrail_mcp::StructuredContent;
use workrail_model::discovery::{WorkflowInspection, WorkflowList};
use workrail_model::read_run::ReadRunBody;
use workrail_model::reply::ReplyBody;
use workrail_model::resume::ResumeBody;
use workrail_model::session::SessionBody;

use super::schemas;
use crate::generated_file::{GeneratedFile, MARK};

pub(super) fn generated_files() -> Result<Vec<GeneratedFile>> {
    let mut files = Vec::new();
    let mut page = format!(
        "<!-- {MARK} -->\n# MCP tools\n\nServed by `workrail mcp`. A reply's data is in its `_meta[\"workrail/reply\"]`; \
         the schema is `schemas/mcp/reply.json`.\n"
    );
    for tool in workrail_mcp::catalogue::tools(|_| true, StructuredContent::Omitted) {
        let name = tool.name.to_string();
        let description = tool.description.as_deref().unwrap_or_default();
        // Writing to a String cannot fail.
        write!(page, "\n## `{name}`\n\n{description}\n\n").expect("string write");
        page.push_str("| argument | required | what |\n| --- | --- | --- |\n");
        let schema = Value::Object((*tool.input_schema).clone());
        let required = schema["required"].as_array().cloned().unwrap_or_default();
        for (argument, member) in schema["properties"].as_object().into_iter().flatten() {
            let needed = if required.iter().any(|other| other == argument) { "yes" } else { "" };
            let what = member["description"].as_str().unwrap_or_default();
            writeln!(page, "| `{argument}` | {needed} | {what} |").expect("string write");
        }
        let value = json!({
            "$comment": MARK, "name": name, "title": tool.title, "description": description,
            "inputSchema": *tool.input_schema,
        });
        files.push(GeneratedFile::of_json(&format!("schemas/mcp/{name}.json"), &value)?);
    }
    let reply = "The data of a reply of start_workflow, continue_workflow and checkpoint_workflow.";
    files.push(GeneratedFile::of_json("schemas/mcp/reply.json", &schemas::of::<ReplyBody>(reply)?)?);
    let list = "The data of an answer of list_workflows.";
    files.push(GeneratedFile::of_json("schemas/mcp/workflows.json", &schemas::of::<WorkflowList>(list)?)?);
    let inspection = "The data of an answer of inspect_workflow.";
    files.push(GeneratedFile::of_json(
        "schemas/mcp/inspection.json",
        &schemas::of::<WorkflowInspection>(inspection)?,
    )?);
    let resume = "The data of an answer of resume_session.";
    files.push(GeneratedFile::of_json("schemas/mcp/resume.json", &schemas::of::<ResumeBody>(resume)?)?);
    let run = "The data of an answer of read_run.";
    files.push(GeneratedFile::of_json("schemas/mcp/run.json", &schemas::of::<ReadRunBody>(run)?)?);
    let session = "The data of answers about a session without a run.";
    files.push(GeneratedFile::of_json("schemas/mcp/session.json", &schemas::of::<SessionBody>(session)?)?);
    files.push(GeneratedFile { path: "docs/reference/tools.md".to_owned(), content: page });
    Ok(files)
}
