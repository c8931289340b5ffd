//! `workrail workflow schema`: lets editors complete and check workflow files, offline.

use camino::{Utf8Path, Utf8PathBuf};
use serde_json::json;
use workrail_core::compile::workflow_schema;

use crate::outcome::{Failure, Format};
use crate::output::{self, Tone};

/// Next to the project's bindings, where no source looks for workflows.
pub(super) const FILE: &str = ".workrail/workflow.schema.json";

pub(super) fn run(write: bool, format: Format) -> Result<(), Failure> {
    if !write {
        output::json(&workflow_schema());
        return Ok(());
    }
    let file = Utf8Path::new(FILE);
    put(file)?;
    let reference = reference_from(Utf8Path::new("workflows"), file);
    match format {
        Format::Json => output::json(&json!({ "written": [file], "schema": reference })),
        Format::Text => {
            output::toned(Tone::Good, &format!("wrote {file}"));
            output::line("");
            output::line(
                "Editors use it for every file that starts like this (here for files in `workflows`):",
            );
            output::line(&format!("  {{ \"$schema\": \"{reference}\", ..."));
        }
    }
    Ok(())
}

/// Writes the schema of this version. The file is generated, so an older one is replaced.
pub(super) fn put(file: &Utf8Path) -> Result<(), Failure> {
    let failed = |error: std::io::Error| Failure::Environment(format!("`{file}` is not written: {error}"));
    if let Some(folder) = file.parent() {
        std::fs::create_dir_all(folder).map_err(failed)?;
    }
    std::fs::write(file, format!("{:#}\n", workflow_schema())).map_err(failed)
}

/// The path from a folder to the schema, for `$schema`.
pub(super) fn reference_from(folder: &Utf8Path, file: &Utf8Path) -> String {
    let whole = |path: &Utf8Path| {
        let full = std::path::absolute(path).ok().and_then(|full| Utf8PathBuf::from_path_buf(full).ok());
        full.unwrap_or_else(|| path.to_owned())
    };
    let (folder, file) = (whole(folder), whole(file));
    let (from, to): (Vec<_>, Vec<_>) = (folder.components().collect(), file.components().collect());
    let shared = from.iter().zip(&to).take_while(|(a, b)| a == b).count();
    let up = std::iter::repeat_n("..", from.len() - shared);
    let down = to[shared..].iter().map(|part| part.as_str());
    let path = up.chain(down).collect::<Vec<_>>().join("/");
    if path.starts_with("..") { path } else { format!("./{path}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_schema_path_is_relative_to_the_file() {
        let file = Utf8Path::new(FILE);
        assert_eq!(reference_from(Utf8Path::new("workflows"), file), "../.workrail/workflow.schema.json");
        assert_eq!(reference_from(Utf8Path::new("a/b"), file), "../../.workrail/workflow.schema.json");
        assert_eq!(reference_from(Utf8Path::new(".workrail/workflows"), file), "../workflow.schema.json");
        assert_eq!(reference_from(Utf8Path::new("."), file), "./.workrail/workflow.schema.json");
    }
}
