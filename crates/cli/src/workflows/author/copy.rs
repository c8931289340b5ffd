//! `workrail workflow copy`: copies a workflow's file under one of the user's own ids, to be changed.

use camino::Utf8Path;
use serde_json::json;
use workrail_model::name::WorkflowId;

use super::new::{checked, write_new};
use crate::outcome::{Failure, Format};
use crate::output::{self, Tone};
use crate::wiring;

pub(super) fn run(source: &str, id: &str, dir: &Utf8Path, format: Format) -> Result<(), Failure> {
    let source = WorkflowId::parse(source).map_err(|error| {
        Failure::Usage(format!("{error}. `workrail workflow list` shows what can be copied."))
    })?;
    let id = checked(id)?;
    let engine = wiring::read_only_default()?;
    let bytes = engine.workflow_copy(&source, &id)?;
    // With two files of the same id, neither could be relied on.
    if let Some(owner) = engine.claimants(&id, None)?.first() {
        return Err(Failure::Usage(format!(
            "`{id}` is already the id of `{}`. Nothing was written. Choose another id.",
            owner.reference
        )));
    }
    let file = dir.join(format!("{id}.json"));
    std::fs::create_dir_all(dir)
        .map_err(|error| Failure::Environment(format!("`{dir}` cannot be made: {error}")))?;
    write_new(&file, &bytes)?;
    if format == Format::Json {
        output::json(&json!({ "workflowId": id, "copiedFrom": source, "written": [file] }));
        return Ok(());
    }
    output::toned(Tone::Good, &format!("wrote {file}"));
    output::line("");
    output::line("Next: change it, then");
    output::line(&format!("  workrail workflow validate {file}"));
    output::line(&format!("  workrail workflow preview {file}"));
    Ok(())
}
