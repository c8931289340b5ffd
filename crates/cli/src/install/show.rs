//! The output of `install` and `uninstall`.

use camino::Utf8PathBuf;
use serde_json::{Value, json};
use similar::{ChangeTag, TextDiff};
use workrail_host::clients::{Client, FileChange, SetupPart, SetupScope, SetupTarget};
use workrail_model::keyring::HttpSecret;

use super::{InstallOutcome, part_names, tone_of};
use crate::output::{self, Tone};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SetupAction {
    Install,
    Uninstall,
}

fn names(change: &FileChange) -> String {
    change.clients.iter().map(|client| client.as_str()).collect::<Vec<_>>().join(", ")
}

/// The changes line by line; secrets are not shown.
fn diff(change: &FileChange) -> Vec<String> {
    let (before, after) =
        (change.before.as_deref().unwrap_or_default(), change.after.as_deref().unwrap_or_default());
    let diff = TextDiff::from_lines(before, after);
    let groups = diff.grouped_ops(2);
    let changes = groups.iter().flatten().flat_map(|op| diff.iter_changes(op));
    changes
        .map(|line| {
            let sign = match line.tag() {
                ChangeTag::Delete => '-',
                ChangeTag::Insert => '+',
                ChangeTag::Equal => ' ',
            };
            format!("{sign} {}", without_secrets(line.value().trim_end_matches('\n')))
        })
        .collect()
}

/// The line with a placeholder for every HTTP secret: also for one that is removed or replaced, because a running
/// server may still accept it.
fn without_secrets(line: &str) -> String {
    const SCHEME: &str = "Bearer ";
    let is_of_secret = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    let mut shown = String::with_capacity(line.len());
    let mut rest = line;
    while let Some((before, credential)) = rest.split_once(SCHEME) {
        let (sent, after) =
            credential.split_at(credential.find(|c| !is_of_secret(c)).unwrap_or(credential.len()));
        shown.extend([before, SCHEME]);
        shown.push_str(if HttpSecret::parse(sent).is_some() { "(the HTTP secret)" } else { sent });
        rest = after;
    }
    shown + rest
}

pub(super) fn changes(changes: &[FileChange], action: SetupAction) {
    for change in changes {
        let (clients, path, parts) = (names(change), &change.path, part_names(&change.parts));
        if !change.is_needed() {
            // Files in which a bare `uninstall` found nothing are not listed.
            if action == SetupAction::Install {
                output::toned(Tone::Good, &format!("{clients}: {path} is up to date ({parts})."));
            }
            continue;
        }
        let removed = if change.after.is_none() { ", removed" } else { "" };
        output::toned(Tone::Heading, &format!("{clients}: {path} ({parts}{removed})"));
        for line in diff(change) {
            output::toned(tone_of(&line), &format!("  {line}"));
        }
    }
    if action == SetupAction::Uninstall && !changes.iter().any(FileChange::is_needed) {
        output::toned(Tone::Good, "Nothing to remove: the files contain nothing from WorkRail.");
    }
}

pub(super) fn written(done: InstallOutcome, needed: &[&FileChange], backups: &[Option<Utf8PathBuf>]) {
    match done {
        InstallOutcome::Nothing => {}
        InstallOutcome::DryRun => output::line("Nothing was written."),
        InstallOutcome::Written => {
            for backup in backups.iter().flatten() {
                output::line(&format!("Previous file saved as {backup}"));
            }
            let removed = needed.iter().filter(|change| change.after.is_none()).count();
            for (files, verb) in [(needed.len() - removed, "written"), (removed, "removed")] {
                match files {
                    0 => {}
                    1 => output::line(&format!("1 file {verb}.")),
                    _ => output::line(&format!("{files} files {verb}.")),
                }
            }
        }
    }
}

/// What the user still has to do.
pub(super) fn advice(targets: &[SetupTarget], parts: &[SetupPart], is_http: bool, done: InstallOutcome) {
    for SetupTarget { client, scope } in targets {
        let missing: Vec<SetupPart> =
            parts.iter().copied().filter(|part| !client.parts(*scope).any(|other| other == *part)).collect();
        if !missing.is_empty() {
            let (client, scope) = (client.title(), scope.as_str());
            output::toned(
                Tone::Quiet,
                &format!("{client} has no file at {scope} scope for: {}.", part_names(&missing)),
            );
        }
        if let Some(note) = client.hooks_note()
            && parts.contains(&SetupPart::Hooks)
        {
            output::line(note);
        }
    }
    if done == InstallOutcome::Written {
        output::line("Restart the client; it loads tools only at startup. Then ask it to list workflows.");
    }
    if is_http && targets.iter().any(|target| target.scope == SetupScope::Project) {
        output::line(
            "Set the variable for the client: export WORKRAIL_HTTP_TOKEN=\"$(workrail store keys http-secret)\"",
        );
    }
}

/// Where to put the token, which is in none of the files.
pub(super) fn token_advice() {
    output::line(
        "Set WORKRAIL_TOKEN to your token where the client is started, in a file that only you can read. An \
         administrator makes tokens: workrail team token create NAME --role agent",
    );
}

pub(super) fn as_json(change: &FileChange, backup: Option<&Utf8PathBuf>, is_written: bool) -> Value {
    let names: Vec<&str> = change.clients.iter().map(|client| client.as_str()).collect();
    let parts: Vec<&str> = change.parts.iter().map(|part| part.as_str()).collect();
    json!({
        "clients": names, "scope": change.scope.as_str(), "path": change.path, "parts": parts,
        "changed": change.is_needed() && is_written, "removed": change.before.is_some() && change.after.is_none(),
        "backup": backup, "diff": diff(change),
    })
}

pub(super) fn printed(client: Client, files: &[(Utf8PathBuf, String)], by_hand: Option<&str>) {
    output::toned(Tone::Heading, &format!("{} ({})", client.title(), client.documentation()));
    for (path, text) in files {
        output::toned(Tone::Heading, path.as_str());
        output::line(text);
    }
    if let Some(text) = by_hand {
        output::line(text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_not_shown_whether_it_is_added_kept_or_removed() {
        for secret in [[0; 32], [7; 32], [255; 32]].map(HttpSecret::new) {
            let line = format!("\"Authorization\": \"Bearer {}\",", secret.reveal());
            assert_eq!(without_secrets(&line), "\"Authorization\": \"Bearer (the HTTP secret)\",");
        }
    }

    #[test]
    fn other_lines_are_shown_as_they_are() {
        for line in [
            "",
            "Bearer ",
            "\"Authorization\": \"Bearer ${WORKRAIL_HTTP_TOKEN}\"",
            "\"command\": \"workrail\"",
        ] {
            assert_eq!(without_secrets(line), line);
        }
        // A project's file may hold one line of many megabytes.
        let long = "Bearer ".repeat(500_000);
        assert_eq!(without_secrets(&long), long);
    }
}
