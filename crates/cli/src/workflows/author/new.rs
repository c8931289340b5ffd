//! `workrail workflow new`: creates a starting file that validates, previews and passes its own test.

use std::fs::File;
use std::io::{self, ErrorKind, Write as _};

use camino::Utf8Path;
use serde_json::json;
use workrail_model::name::WorkflowId;

use super::schema;
use crate::outcome::{Failure, Format};
use crate::output::{self, Tone};

const WORKFLOW: &str = include_str!("template.json");
const SCRIPT: &str = include_str!("template.test.toml");

pub(super) fn run(id: &str, dir: &Utf8Path, format: Format) -> Result<(), Failure> {
    let id = checked(id)?;
    let file = dir.join(format!("{id}.json"));
    let script = dir.join(format!("{id}.test.toml"));
    std::fs::create_dir_all(dir)
        .map_err(|error| Failure::Environment(format!("`{dir}` cannot be made: {error}")))?;
    let schema_file = Utf8Path::new(schema::FILE);
    let reference = schema::reference_from(dir, schema_file);
    // The path comes last, because a folder may have one of these names.
    let text = WORKFLOW.replace("ID", id.as_str()).replace("NAME", &title(&id)).replace("SCHEMA", &reference);
    write_new(&file, text.as_bytes())?;
    write_new(&script, SCRIPT.as_bytes())?;
    // An existing file may be from another version; `schema --write` updates it.
    let is_new = !schema_file.exists();
    if is_new {
        schema::put(schema_file)?;
    }
    if format == Format::Json {
        let mut written = vec![file.as_path(), script.as_path()];
        written.extend(is_new.then_some(schema_file));
        output::json(&json!({ "workflowId": id, "written": written }));
        return Ok(());
    }
    output::toned(Tone::Good, &format!("wrote {file}"));
    output::toned(Tone::Good, &format!("wrote {script}"));
    if is_new {
        output::toned(Tone::Good, &format!("wrote {schema_file} (completion in editors)"));
    }
    output::line("");
    output::line("Next:");
    output::line(&format!("  workrail workflow validate {file}"));
    output::line(&format!("  workrail workflow preview {file}"));
    output::line(&format!("  workrail workflow test {file}"));
    Ok(())
}

/// An id in one of the user's own namespaces.
pub(super) fn checked(text: &str) -> Result<WorkflowId, Failure> {
    let id = WorkflowId::parse(text)
        .map_err(|error| Failure::Usage(format!("{error}. Example: team.release_notes")))?;
    match id.namespace() {
        None => Err(Failure::Usage(format!(
            "`{id}` has no namespace, and new workflows need one. Use `project.{}`.",
            id.as_str().replace('-', "_")
        ))),
        Some(_) if id.is_reserved() => Err(Failure::Usage(format!(
            "`{id}` is in the namespace `wr`, which is reserved for bundled workflows. Use `project.{}`.",
            id.as_str().trim_start_matches("wr.")
        ))),
        Some(_) => Ok(id),
    }
}

/// `team.release_notes` becomes `Release notes`.
fn title(id: &WorkflowId) -> String {
    let name = id.as_str().split('.').next_back().unwrap_or_default().replace(['_', '-'], " ");
    let mut letters = name.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

/// Never overwrites an author's file.
pub(super) fn write_new(path: &Utf8Path, bytes: &[u8]) -> Result<(), Failure> {
    let failed = |error: io::Error| Failure::Environment(format!("`{path}` is not written: {error}"));
    let mut file = File::create_new(path).map_err(|error| match error.kind() == ErrorKind::AlreadyExists {
        true => Failure::Usage(format!(
            "`{path}` already exists and is not overwritten. Choose another id, or another folder with --dir."
        )),
        false => failed(error),
    })?;
    file.write_all(bytes).map_err(failed)
}
