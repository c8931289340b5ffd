//! `workrail report`: what was done, as Markdown, HTML, PDF or JSON.

use std::io::Write as _;
use std::process::ExitCode;

use camino::{Utf8Path, Utf8PathBuf};
use clap::{Args, ValueEnum};
use serde_json::json;
use workrail_core::report::{ContextValues, Report, markdown, words};
use workrail_engine::report::render_html;
use workrail_host::browser::Browser;

use crate::outcome::{self, EXIT_CODES, Failure, Format};
use crate::output::{self, Tone};
use crate::wiring;

const EXAMPLES: &str = "Examples:
  workrail report amber-falcon                          print one run as Markdown
  workrail report sess_3k9 --format html -o report.html write the whole session to one file
  workrail report amber-falcon --format pdf -o run.pdf  print it with your Chromium or Chrome
  workrail report amber-falcon --format json | jq .runs[0].gaps";

/// Write a report of a run or session: steps, notes, artifacts, branches, gaps and decisions.
#[derive(Debug, Args)]
#[command(after_help = format!("{EXAMPLES}\n\n{EXIT_CODES}"))]
pub(crate) struct ReportCommand {
    /// A session id, a run id, a prefix of one, or a run's two-word label.
    #[arg(value_name = "SESSION|RUN")]
    about: String,
    #[arg(long, value_enum, default_value_t = ReportFormat::Md)]
    format: ReportFormat,
    /// Write to this file instead of standard output. PDF needs it.
    #[arg(short, long, value_name = "FILE")]
    output: Option<Utf8PathBuf>,
    /// Overwrite an existing file.
    #[arg(long, requires = "output")]
    force: bool,
    /// Show short context values, not only keys. Values that look like secrets are never shown.
    #[arg(long)]
    context: bool,
    /// Print JSON: the report, or a summary when it is written to a file.
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ReportFormat {
    Md,
    Html,
    Pdf,
    Json,
}

impl ReportFormat {
    fn name(self) -> &'static str {
        match self {
            Self::Md => "md",
            Self::Html => "html",
            Self::Pdf => "pdf",
            Self::Json => "json",
        }
    }
}

pub(crate) fn run(command: &ReportCommand) -> ExitCode {
    outcome::finish(made(command), Format::json_if(command.json || command.format == ReportFormat::Json))
}

fn made(command: &ReportCommand) -> Result<(), Failure> {
    if command.format == ReportFormat::Pdf && command.output.is_none() {
        return Err(Failure::Call("A PDF needs a file: add `-o report.pdf`.".to_owned()));
    }
    if let Some(path) = command.output.as_deref().filter(|path| path.exists() && !command.force) {
        return Err(Failure::Call(format!(
            "`{path}` already exists. Choose another name, or pass --force to overwrite it."
        )));
    }
    let engine = wiring::look_default()?;
    let values = if command.context { ContextValues::Short } else { ContextValues::NotShown };
    let report = engine.report(engine.find(&command.about)?, values)?;
    let Some(path) = command.output.as_deref() else {
        if command.json || command.format == ReportFormat::Json {
            output::json(&value(&report)?);
        } else {
            output::line(text(&report, command.format)?.trim_end());
        }
        return Ok(());
    };
    let bytes = match command.format {
        ReportFormat::Pdf => {
            let unusable =
                |error: workrail_host::browser::BrowserError| Failure::Environment(format!("{error}."));
            Browser::find().map_err(unusable)?.print(&render_html(&report)).map_err(unusable)?
        }
        ReportFormat::Md | ReportFormat::Html | ReportFormat::Json => {
            text(&report, command.format)?.into_bytes()
        }
    };
    write(path, &bytes)?;
    let (format, count) = (command.format.name(), bytes.len());
    if command.json {
        output::json(&json!({ "written": path, "format": format, "bytes": count, "health": report.health }));
        return Ok(());
    }
    if let Some(damage) = words::damage(&report) {
        output::toned(Tone::Warning, &damage);
    }
    output::toned(Tone::Good, &format!("Written: {path} ({format}, {count} bytes)"));
    Ok(())
}

fn text(report: &Report, format: ReportFormat) -> Result<String, Failure> {
    Ok(match format {
        ReportFormat::Md => markdown::render(report),
        ReportFormat::Html | ReportFormat::Pdf => render_html(report),
        ReportFormat::Json => format!("{:#}\n", value(report)?),
    })
}

fn value(report: &Report) -> Result<serde_json::Value, Failure> {
    serde_json::to_value(report).map_err(|error| Failure::Environment(error.to_string()))
}

/// Beside the file first and then in its place, so that a full disk leaves no half report.
fn write(path: &Utf8Path, bytes: &[u8]) -> Result<(), Failure> {
    let failed =
        |error: &dyn std::fmt::Display| Failure::Environment(format!("`{path}` cannot be written: {error}"));
    let folder = path.parent().filter(|parent| !parent.as_str().is_empty()).unwrap_or(Utf8Path::new("."));
    let mut file = tempfile::NamedTempFile::new_in(folder).map_err(|error| failed(&error))?;
    file.write_all(bytes).map_err(|error| failed(&error))?;
    file.persist(path).map_err(|error| failed(&error.error))?;
    Ok(())
}
