//! The state of each workflow source: the list, and its health with what to do.

use serde_json::{Value as Json, json};
use workrail_core::report::ago;
use workrail_engine::catalog::{Catalog, SourceCount};
use workrail_host::clock::SystemClock;
use workrail_host::sources::{SourceReport, Sources};
use workrail_host::workspace::default_workspace;
use workrail_model::time::Timestamp;
use workrail_ports::environment::Clock as _;

use crate::outcome::{Failure, Format};
use crate::output::{self, Tone};
use crate::settings;

/// Every source, with the number of its usable files.
fn source_reports() -> Result<Vec<(SourceReport, SourceCount)>, Failure> {
    settings::sources().map(source_reports_of)
}

pub(crate) fn source_reports_of(sources: Sources) -> Vec<(SourceReport, SourceCount)> {
    let workspace = default_workspace();
    let reports = sources.reports(workspace.as_ref());
    let counts = Catalog::new(std::sync::Arc::new(sources)).by_source(workspace.as_ref());
    let counted = reports.into_iter().map(|report| {
        let count = counts.get(&(report.precedence, report.folder_position)).copied().unwrap_or_default();
        (report, count)
    });
    counted.collect()
}

fn shown((report, count): &(SourceReport, SourceCount)) -> Json {
    let problems: Vec<Json> = report
        .problems
        .iter()
        .map(|problem| json!({ "reference": problem.reference, "problem": problem.problem, "fix": problem.fix }))
        .collect();
    json!({
        "kind": report.precedence, "sourceKind": report.precedence, "name": report.name,
        "location": report.location, "state": report.state, "files": report.files, "usable": count.usable,
        "shadowed": count.shadowed,
        "git": report.git, "problems": problems,
    })
}

/// The note about usable files whose id another source has, if any.
fn shadowed(count: &SourceCount) -> String {
    if count.shadowed == 0 { String::new() } else { format!(", {} shadowed", count.shadowed) }
}

fn row((report, count): &(SourceReport, SourceCount)) -> Vec<String> {
    let location = match &report.git {
        Some(git) => {
            let short = |commit: &str| format!(" at {}", commit.get(..8).unwrap_or(commit));
            let commit = git.commit.as_deref().map_or_else(String::new, short);
            format!("{} {}{commit}", report.location, git.r#ref)
        }
        None => report.location.clone(),
    };
    let name = if report.git.is_some() { report.name.clone() } else { String::new() };
    let usable = format!("{} of {}{}", count.usable, report.files, shadowed(count));
    vec![report.precedence.word().to_owned(), name, location, report.state.as_str().to_owned(), usable]
}

const HEADING: [&str; 5] = ["source", "name", "where", "state", "usable"];

pub(super) fn list(format: Format) -> Result<(), Failure> {
    let sources = source_reports()?;
    match format {
        Format::Json => {
            let sources: Vec<Json> = sources.iter().map(shown).collect();
            output::json(&json!({ "sources": sources }));
        }
        Format::Text => {
            output::table(&HEADING, sources.iter().map(row));
            let unwell = sources.iter().filter(|(report, _)| !report.state.is_well()).count();
            if unwell > 0 {
                output::toned(
                    Tone::Warning,
                    &format!("{unwell} need attention: workrail workflow sources health"),
                );
            }
        }
    }
    Ok(())
}

pub(super) fn health(format: Format) -> Result<(), Failure> {
    let sources = source_reports()?;
    let is_well =
        |(report, _): &(SourceReport, SourceCount)| report.state.is_well() && report.problems.is_empty();
    let well = sources.iter().all(is_well);
    if format == Format::Json {
        let sources: Vec<Json> = sources.iter().map(shown).collect();
        output::json(&json!({ "healthy": well, "sources": sources }));
    } else {
        for source in &sources {
            let (report, count) = source;
            let tone = if is_well(source) { Tone::Good } else { Tone::Bad };
            let name = if report.git.is_some() { format!("{} ", report.name) } else { String::new() };
            let files = format!("{} of {} files usable{}", count.usable, report.files, shadowed(count));
            let state = report.state.as_str();
            output::toned(
                tone,
                &format!("{state:<14} {} {name}{} ({files})", report.precedence.word(), report.location),
            );
            if let Some(git) = &report.git {
                let when = git.fetched_at_ms.map_or("never".to_owned(), |at| fetched(at, &SystemClock.now()));
                let commit = git.commit.as_deref().unwrap_or("no commit");
                output::line(&format!("               {} {commit}, last fetched {when}", git.r#ref));
            }
            for problem in &report.problems {
                output::line(&format!("               {}: {}", problem.reference, problem.problem));
                output::line(&format!("               fix: {}", problem.fix));
            }
        }
    }
    if well { Ok(()) } else { Err(Failure::Problems) }
}

/// When a source was fetched: `3 min ago`.
fn fetched(at_ms: u64, now: &Timestamp) -> String {
    // After now if the clock went backwards.
    Timestamp::of_epoch_ms(at_ms).and_then(|at| ago(&at, now)).unwrap_or_else(|| "just now".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Broke: this was a rule of its own, which said `1 minutes ago`.
    #[test]
    fn the_time_of_a_fetch_is_written_as_everywhere() {
        let now = Timestamp::parse("2026-03-01T12:00:00.000Z").unwrap();
        let now_ms = u64::try_from(now.epoch_ms().unwrap()).unwrap();
        const MINUTE: u64 = 60_000;
        assert_eq!(fetched(now_ms - MINUTE, &now), "1 min ago");
        assert_eq!(fetched(now_ms - 60 * MINUTE, &now), "1 h ago");
        assert_eq!(fetched(now_ms - 36 * 60 * MINUTE, &now), "1 d ago");
        assert_eq!(fetched(now_ms, &now), "just now");
        assert_eq!(fetched(now_ms + MINUTE, &now), "just now");
    }
}
