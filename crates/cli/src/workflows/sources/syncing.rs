//! Fetches git sources now.

use serde_json::{Value as Json, json};
use workrail_host::sources::{Mirror, Sources, SyncError, Synced};

use crate::outcome::{Failure, Format};
use crate::output::{self, ProgressDisplay, Tone};
use crate::settings;

pub(super) fn sync(names: &[String], format: Format) -> Result<(), Failure> {
    let sources = settings::sources()?;
    let mirrors = wanted(&sources, names)?;
    let progress = ProgressDisplay::new("fetching", mirrors.len() as u64);
    let mut results = Vec::new();
    for (position, mirror) in mirrors.iter().enumerate() {
        progress.at(position as u64);
        results.push((*mirror, mirror.sync()));
    }
    drop(progress);
    match format {
        Format::Json => {
            let sources: Vec<Json> = results.iter().map(|(mirror, done)| as_json(mirror, done)).collect();
            output::json(&json!({ "sources": sources }));
        }
        Format::Text => {
            for (mirror, done) in &results {
                print(mirror, done);
            }
            if results.is_empty() {
                output::line(
                    "No git source is registered. Add one: workrail workflow sources add git NAME URL",
                );
            }
        }
    }
    if results.iter().all(|(_, done)| done.is_ok()) { Ok(()) } else { Err(Failure::Problems) }
}

fn wanted<'s>(sources: &'s Sources, names: &[String]) -> Result<Vec<&'s Mirror>, Failure> {
    let mirrors = sources.mirrors();
    for name in names {
        if !mirrors.iter().any(|mirror| mirror.name == *name) {
            let known: Vec<&str> = mirrors.iter().map(|mirror| mirror.name.as_str()).collect();
            let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
            let path = settings::config_path().map(|config| config.path.into_string());
            let path = path.unwrap_or_else(|_| "the settings file".to_owned());
            return Err(Failure::Usage(format!(
                "Unknown git source `{name}`. Git sources in {path}: {known}. `workrail workflow sources add git \
                 NAME URL` adds one."
            )));
        }
    }
    Ok(mirrors.iter().filter(|mirror| names.is_empty() || names.contains(&mirror.name)).collect())
}

fn as_json(mirror: &Mirror, done: &Result<Synced, SyncError>) -> Json {
    let (outcome, commit, files, problem) = match done {
        Ok(Synced::Unchanged { commit, files }) => ("unchanged", Some(commit), Some(files), None),
        Ok(Synced::Updated { commit, files }) => ("updated", Some(commit), Some(files), None),
        Err(SyncError::Refused(refused)) => {
            ("refused", None, None, Some(format!("{refused}; {}", refused.fix())))
        }
        Err(error @ SyncError::Busy) => ("busy", None, None, Some(error.to_string())),
        Err(error @ SyncError::Failed(_)) => ("failed", None, None, Some(error.to_string())),
    };
    let fix = match done {
        Err(SyncError::Failed(failure)) => Some(mirror.fix(failure)),
        Err(SyncError::Refused(_) | SyncError::Busy) | Ok(_) => None,
    };
    json!({
        "name": mirror.name, "outcome": outcome, "commit": commit, "files": files, "problem": problem, "fix": fix,
    })
}

fn print(mirror: &Mirror, done: &Result<Synced, SyncError>) {
    let name = &mirror.name;
    match done {
        Ok(Synced::Unchanged { commit, files }) => {
            output::toned(Tone::Good, &format!("{name}: already at {commit}, {files} workflow files"));
        }
        Ok(Synced::Updated { commit, files }) => {
            output::toned(Tone::Good, &format!("{name}: now at {commit}, {files} workflow files"));
        }
        Err(SyncError::Refused(refused)) => {
            output::toned(Tone::Bad, &format!("{name}: {refused}"));
            output::line(&format!("  fix: {}", refused.fix()));
        }
        Err(error @ (SyncError::Busy | SyncError::Failed(_))) => {
            output::toned(Tone::Bad, &format!("{name}: {error}"));
            if let SyncError::Failed(failure) = error {
                output::line(&format!("  fix: {}", mirror.fix(failure)));
            }
            if let Some(commit) = mirror.state().commit {
                output::line(&format!("  {commit} stays in use"));
            }
        }
    }
}
