//! `workrail report`: what was done, as Markdown, HTML, PDF or JSON.

use std::io::Write as _;
use std::process::ExitCode;

use camino::{Utf8Path, Utf8PathBuf};
use clap::{Args, ValueEnum};
use serde_json::json;
use workrail_core::report::{ContextValues, Report, Times, markdown, words};
use workrail_engine::report::render_html;
use workrail_host::browser::{self, Browser, BrowserError};

use crate::outcome::{self, EXIT_CODES, Failure, Format};
use crate::output::{self, Tone};
use crate::{name, times, wiring};

const EXAMPLES: &str = "Examples:
  workrail report amber-falcon                          print one run as Markdown
  workrail report sess_3k9 --format html -o report.html write the whole session to one file
  workrail report amber-falcon --open                   show it in your browser
  workrail report amber-falcon --format pdf -o run.pdf  print it with your Chromium or Chrome
  workrail report amber-falcon --format json | jq '.runs[0].gaps'";

/// Write a report of a run or session: steps, notes, artifacts, branches, gaps and decisions.
#[derive(Debug, Args)]
#[command(after_help = format!("{EXAMPLES}\n\n{EXIT_CODES}"))]
pub(crate) struct ReportCommand {
    /// A session id, a run id, a prefix of one, or a run's two-word label.
    #[arg(value_name = "SESSION|RUN")]
    about: String,
    /// The format of the report.
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
    /// Open the report in your browser, as HTML. Without -o it is written to a temporary file.
    #[arg(long, conflicts_with = "format")]
    open: bool,
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
    let prints_report = command.format == ReportFormat::Json && command.output.is_none() && !command.open;
    outcome::run(command.json || prints_report, |format| write_report(command, format))
}

/// `format` is how the result is printed: the report itself, or a summary if it is written to a file.
fn write_report(command: &ReportCommand, format: Format) -> Result<(), Failure> {
    if command.open {
        return open_in_browser(command, format);
    }
    if command.format == ReportFormat::Pdf && command.output.is_none() {
        return Err(Failure::Usage("A PDF needs a file: add `-o report.pdf`.".to_owned()));
    }
    if let Some(path) = command.output.as_deref().filter(|path| path.exists() && !command.force) {
        return Err(exists(path));
    }
    let engine = wiring::read_only_default()?;
    let values = if command.context { ContextValues::Short } else { ContextValues::NotShown };
    let report = engine.report(name::session_or_run(&engine, &command.about)?, values)?;
    let Some(path) = command.output.as_deref() else {
        if format == Format::Json {
            output::json(&super::value(&report)?);
        } else {
            output::line(text(&report, command.format, times::of_standard_output())?.trim_end());
        }
        return Ok(());
    };
    let bytes = match command.format {
        ReportFormat::Pdf => {
            let unusable = |error: BrowserError| Failure::Environment(format!("{error}."));
            Browser::find().map_err(unusable)?.print(&render_html(&report)).map_err(unusable)?
        }
        ReportFormat::Md | ReportFormat::Html | ReportFormat::Json => {
            text(&report, command.format, Times::UTC)?.into_bytes()
        }
    };
    write(path, &bytes)?;
    let (name, count) = (command.format.name(), bytes.len());
    if format == Format::Json {
        output::json(&json!({ "written": path, "format": name, "bytes": count, "health": report.health }));
        return Ok(());
    }
    if let Some(damage) = words::damage(&report) {
        output::toned(Tone::Warning, &damage);
    }
    output::file(Tone::Good, "Written: ", path, &format!(" ({name}, {count} bytes)"));
    Ok(())
}

/// Writes the report as HTML and opens it in the browser.
fn open_in_browser(command: &ReportCommand, format: Format) -> Result<(), Failure> {
    let engine = wiring::read_only_default()?;
    let values = if command.context { ContextValues::Short } else { ContextValues::NotShown };
    let report = engine.report(name::session_or_run(&engine, &command.about)?, values)?;
    let html = render_html(&report);
    let path = match &command.output {
        Some(path) if path.exists() && !command.force => return Err(exists(path)),
        Some(path) => {
            write(path, html.as_bytes())?;
            path.clone()
        }
        None => temporary_file(&html)?,
    };
    if browser::open(path.as_std_path()).is_err() {
        return Err(Failure::Environment(format!(
            "No browser could be started. The report is in `{path}`; open it yourself."
        )));
    }
    match format {
        Format::Json => {
            output::json(&json!({ "written": path, "format": "html", "bytes": html.len(), "opened": true }))
        }
        Format::Text => output::file(Tone::Good, "Opened ", &path, ""),
    }
    Ok(())
}

fn exists(path: &Utf8Path) -> Failure {
    Failure::Usage(format!("`{path}` already exists. Choose another name, or pass --force to overwrite it."))
}

/// A temporary file that only this user can read, kept for the browser.
fn temporary_file(html: &str) -> Result<Utf8PathBuf, Failure> {
    let failed = |error: &dyn std::fmt::Display| {
        Failure::Environment(format!("the report cannot be written: {error}"))
    };
    let mut file = tempfile::Builder::new()
        .prefix("workrail-report-")
        .suffix(".html")
        .tempfile()
        .map_err(|error| failed(&error))?;
    file.write_all(html.as_bytes()).map_err(|error| failed(&error))?;
    let (_, path) = file.keep().map_err(|error| failed(&error))?;
    Utf8PathBuf::from_path_buf(path).map_err(|path| failed(&path.display()))
}

fn text(report: &Report, format: ReportFormat, times: Times) -> Result<String, Failure> {
    Ok(match format {
        ReportFormat::Md => markdown::render(report, times),
        ReportFormat::Html | ReportFormat::Pdf => render_html(report),
        ReportFormat::Json => format!("{:#}\n", super::value(report)?),
    })
}

/// Written next to the file first and then renamed, so that a full disk leaves no partial report.
fn write(path: &Utf8Path, bytes: &[u8]) -> Result<(), Failure> {
    let failed =
        |error: &dyn std::fmt::Display| Failure::Environment(format!("`{path}` cannot be written: {error}"));
    let folder = path.parent().filter(|parent| !parent.as_str().is_empty()).unwrap_or(Utf8Path::new("."));
    let mut file = tempfile::NamedTempFile::new_in(folder).map_err(|error| failed(&error))?;
    file.write_all(bytes).map_err(|error| failed(&error))?;
    file.persist(path).map_err(|error| failed(&error.error))?;
    Ok(())
}
