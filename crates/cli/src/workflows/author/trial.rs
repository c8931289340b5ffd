//! `workrail workflow test`: runs a workflow with a scripted agent; reports differences and unreached steps.

use camino::Utf8Path;
use workrail_core::trial::{Script, TrialReport, try_workflow};

use super::{compile, files};
use crate::outcome::{Failure, Format};
use crate::output::{self, Tone};

pub(super) fn run(file: &Utf8Path, script: Option<&Utf8Path>, format: Format) -> Result<(), Failure> {
    let workflow = compile::compiled(file, format)?;
    let default_script = file.with_extension("test.toml");
    let path = script.unwrap_or(&default_script);
    let script = read_script(path)?;
    let report = try_workflow(&workflow, &script);
    match format {
        Format::Json => output::json(&serde_json::to_value(&report).unwrap_or_default()),
        Format::Text => show(&report),
    }
    if report.passed() { Ok(()) } else { Err(Failure::Problems) }
}

fn read_script(path: &Utf8Path) -> Result<Script, Failure> {
    if !path.exists() {
        return Err(Failure::Usage(format!(
            "No test script `{path}`. Write one, or name it with --script. A script starts like this:\n\n\
             [[run]]\nname = \"the ordinary way\"\n\n[[run.step]]\nexpect = \"id-of-the-first-step\""
        )));
    }
    let bytes = files::read(path)?;
    let text = String::from_utf8(bytes).map_err(|_| Failure::Usage(format!("`{path}` is not UTF-8")))?;
    toml::from_str(&text).map_err(|error| Failure::Usage(format!("`{path}`: {error}")))
}

fn show(report: &TrialReport) {
    for run in &report.runs {
        let passed = run.failures.is_empty();
        let (tone, word) = if passed { (Tone::Good, "passed") } else { (Tone::Warning, "FAILED") };
        output::toned(tone, &format!("{word}  {} ({} steps)", run.name, run.steps.len()));
        for failure in &run.failures {
            output::line(&format!("        {failure}"));
        }
    }
    let coverage = &report.coverage;
    let taken = |parts: &std::collections::BTreeMap<String, workrail_core::trial::Reached>| {
        format!("{} of {}", parts.values().filter(|reached| reached.taken).count(), parts.len())
    };
    output::line("");
    output::line(&format!("reached {} steps, {} loops", taken(&coverage.steps), taken(&coverage.loops)));
    for missing in coverage.missing() {
        output::toned(Tone::Quiet, &format!("  not tried: {missing}"));
    }
}
