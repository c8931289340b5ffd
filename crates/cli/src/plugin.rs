//! `workrail plugin render`: a plugin for a host, from the same texts as `install` (G112).

use std::process::ExitCode;

use camino::{Utf8Path, Utf8PathBuf};
use clap::Subcommand;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use serde_json::json;
use workrail_host::clients::plugin::{self, PluginFormat};

use crate::outcome::{self, EXIT_CODES, Failure, Format};
use crate::output;

#[derive(Debug, Subcommand)]
pub(crate) enum PluginCommand {
    /// Write a plugin for a host into a new folder
    #[command(after_help = format!(
        "Formats: claude-code, agent-plugin (Agent Plugins 1.0, for Codex, Cursor and VS Code), codex, gemini (an extension), cursor, \
         mcpb (a bundle with this program in it). Apart from mcpb, plugins start `workrail` by name.\n\n{EXIT_CODES}\n\n\
         Examples:\n  workrail plugin render claude-code ./workrail-plugin\n  workrail plugin render mcpb ./workrail-bundle"
    ))]
    Render {
        /// The format.
        #[arg(value_name = "FORMAT", value_parser = plugin_format())]
        plugin_format: PluginFormat,
        /// A folder that does not exist yet, or is empty.
        #[arg(value_name = "DIR")]
        folder: Utf8PathBuf,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
}

fn plugin_format() -> impl TypedValueParser<Value = PluginFormat> {
    let names = PluginFormat::ALL.iter().map(|format| format.as_str());
    PossibleValuesParser::new(names).try_map(|name| {
        PluginFormat::ALL.iter().copied().find(|format| format.as_str() == name).ok_or("unknown format")
    })
}

pub(crate) fn run(command: &PluginCommand) -> ExitCode {
    let PluginCommand::Render { plugin_format, folder, json } = command;
    let format = Format::json_if(*json);
    outcome::finish(render(*plugin_format, folder, format), format)
}

fn render(plugin_format: PluginFormat, folder: &Utf8Path, format: Format) -> Result<(), Failure> {
    let unwritable =
        |error: std::io::Error| Failure::Environment(format!("`{folder}` cannot be written: {error}"));
    let is_taken = folder.read_dir_utf8().is_ok_and(|mut entries| entries.next().is_some());
    if is_taken || folder.is_file() {
        return Err(Failure::Usage(format!("`{folder}` is not an empty folder. Nothing was written.")));
    }
    let files = plugin::files(plugin_format, env!("CARGO_PKG_VERSION")).map_err(Failure::Environment)?;
    for file in &files {
        let path = folder.join(&file.path);
        let above = path.parent().unwrap_or(folder);
        std::fs::create_dir_all(above)
            .and_then(|()| std::fs::write(&path, &file.text))
            .map_err(unwritable)?;
    }
    let mut paths: Vec<Utf8PathBuf> = files.into_iter().map(|file| file.path).collect();
    if plugin_format == PluginFormat::Mcpb {
        paths.push(bundle_program(folder).map_err(unwritable)?);
    }
    match format {
        Format::Json => {
            output::json(&json!({ "format": plugin_format.as_str(), "folder": folder, "files": paths }))
        }
        Format::Text => {
            for path in &paths {
                output::line(folder.join(path).as_str());
            }
        }
    }
    Ok(())
}

/// Copies this program into the bundle.
fn bundle_program(folder: &Utf8Path) -> std::io::Result<Utf8PathBuf> {
    let path = Utf8PathBuf::from(plugin::BUNDLED_PROGRAM);
    let target = folder.join(&path);
    if let Some(above) = target.parent() {
        std::fs::create_dir_all(above)?;
    }
    std::fs::copy(std::env::current_exe()?, &target)?;
    Ok(path)
}
