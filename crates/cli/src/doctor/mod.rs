//! `workrail doctor`: checks everything around a session, and says how to fix each problem.

mod data;
mod environment;
mod hooks;

use std::process::ExitCode;

use clap::Args;
use serde::Serialize;
use serde_json::json;

use crate::outcome::{self, EXIT_CODES, Failure, Format};
use crate::output::{self, Tone};

#[derive(Debug, Args)]
#[command(after_help = format!(
    "Warnings do not affect the exit code.\n\n{EXIT_CODES}\n\n\
     Example: workrail doctor"
))]
pub(crate) struct DoctorArguments {
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// The severity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Level {
    #[serde(rename = "ok")]
    Good,
    Warning,
    Problem,
}

/// The result of one check.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct DoctorFinding {
    pub(crate) area: &'static str,
    pub(crate) level: Level,
    pub(crate) what: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) fix: Option<String>,
}

/// Collects the results of the checks.
#[derive(Debug, Default)]
struct DoctorFindings(Vec<DoctorFinding>);

impl DoctorFindings {
    fn good(&mut self, area: &'static str, what: impl Into<String>) {
        self.add(DoctorFinding { area, level: Level::Good, what: what.into(), fix: None });
    }

    fn warning(&mut self, area: &'static str, what: impl Into<String>, fix: impl Into<String>) {
        self.add(DoctorFinding { area, level: Level::Warning, what: what.into(), fix: Some(fix.into()) });
    }

    fn problem(&mut self, area: &'static str, what: impl Into<String>, fix: impl Into<String>) {
        self.add(DoctorFinding { area, level: Level::Problem, what: what.into(), fix: Some(fix.into()) });
    }

    /// Each problem is reported once, however many checks find it.
    fn add(&mut self, finding: DoctorFinding) {
        if !self.0.iter().any(|known| known.what == finding.what) {
            self.0.push(finding);
        }
    }

    fn count(&self, level: Level) -> usize {
        self.0.iter().filter(|finding| finding.level == level).count()
    }
}

/// The results of all checks.
pub(crate) fn findings() -> Vec<DoctorFinding> {
    let mut findings = DoctorFindings::default();
    environment::check(&mut findings);
    hooks::check(&mut findings);
    data::check(&mut findings);
    findings.0
}

pub(crate) fn run(arguments: &DoctorArguments) -> ExitCode {
    let findings = DoctorFindings(findings());
    let format = Format::json_if(arguments.json);
    show(&findings, format);
    let problems = findings.count(Level::Problem);
    outcome::finish(if problems > 0 { Err(Failure::Problems) } else { Ok(()) }, format)
}

fn show(findings: &DoctorFindings, format: Format) {
    let (problems, warnings) = (findings.count(Level::Problem), findings.count(Level::Warning));
    if format == Format::Json {
        output::json(&json!({ "problems": problems, "warnings": warnings, "findings": findings.0 }));
        return;
    }
    let mut area = "";
    for finding in &findings.0 {
        if finding.area != area {
            area = finding.area;
            output::toned(Tone::Heading, area);
        }
        match finding.level {
            Level::Good => output::toned(Tone::Good, &format!("  ok       {}", finding.what)),
            Level::Warning => output::toned(Tone::Warning, &format!("  warning  {}", finding.what)),
            Level::Problem => output::toned(Tone::Bad, &format!("  problem  {}", finding.what)),
        }
        if let Some(fix) = &finding.fix {
            output::line(&format!("           fix: {fix}"));
        }
    }
    let tone = match (problems, warnings) {
        (0, 0) => Tone::Good,
        (0, _) => Tone::Warning,
        (_, _) => Tone::Bad,
    };
    output::toned(
        tone,
        &format!(
            "{}, {}",
            output::counted(problems as u64, "problem", "problems"),
            output::counted(warnings as u64, "warning", "warnings")
        ),
    );
}
