//! `workrail search`: finds records that contain all the words.

use serde_json::json;
use workrail_engine::sessions::FoundIn;
use workrail_host::local_time::local;

use crate::layout::wrapped;
use crate::outcome::{Failure, Format};
use crate::output::{self, ProgressDisplay, Tone};
use crate::wiring;

pub(super) fn run(words: &[String], limit: usize, format: Format) -> Result<(), Failure> {
    let engine = wiring::read_only_default()?;
    let mut progress: Option<ProgressDisplay> = None;
    let found = engine.search_notes(&words.join(" "), limit, &mut |done, total| {
        progress.get_or_insert_with(|| ProgressDisplay::new("searching", total)).at(done);
    })?;
    drop(progress);
    if format == Format::Json {
        output::json(&json!({
            "hits": super::value(&found.hits)?, "leftOut": found.left_out, "sessions": found.sessions,
            "unreadable": found.unreadable,
        }));
        return Ok(());
    }
    if found.hits.is_empty() {
        output::line(&format!(
            "Nothing matches (searched {}).",
            output::counted(found.sessions, "session", "sessions")
        ));
    }
    for hit in &found.hits {
        let location = match (&hit.label, &hit.step) {
            (Some(label), Some(step)) => format!("{label} · {step}"),
            (Some(label), None) => label.clone(),
            (None, _) => format!("{} (session notes)", hit.session_id),
        };
        let at = hit.at.as_ref().map(|at| format!(" · {}", local(at))).unwrap_or_default();
        let damaged = if hit.damaged { " · damaged session" } else { "" };
        let found_in = match hit.found_in {
            FoundIn::Label => "label",
            FoundIn::Goal => "goal",
            FoundIn::Workflow => "workflow",
            FoundIn::Run => "run",
            FoundIn::Notes => "notes",
            FoundIn::Artifact => "artifact",
        };
        output::toned(Tone::Heading, &format!("{location} · {found_in}{at}{damaged}"));
        let room = output::columns().map(|columns| columns.saturating_sub(2));
        wrapped(&hit.excerpt, room).iter().for_each(|line| output::line(&format!("  {line}")));
        match (&hit.link, &hit.label) {
            (Some(link), _) => output::toned(Tone::Quiet, &format!("  {link}")),
            (None, Some(label)) => output::toned(Tone::Quiet, &format!("  workrail show {label}")),
            (None, None) => {}
        }
    }
    if found.left_out > 0 {
        output::toned(
            Tone::Quiet,
            &format!(
                "\n{} not shown; raise --limit to see more.",
                output::counted(found.left_out, "older match is", "older matches are")
            ),
        );
    }
    if !found.unreadable.is_empty() {
        let count = output::counted(
            found.unreadable.len() as u64,
            "session cannot be read and was",
            "sessions cannot be read and were",
        );
        output::toned(Tone::Warning, &format!("\n{count} not searched; `workrail store verify` says why:"));
        found.unreadable.iter().for_each(|session| output::line(&format!("  {session}")));
    }
    Ok(())
}
