//! `sessions search`: notes that hold all the words.

use serde_json::json;

use crate::outcome::Failure;
use crate::output::{self, Progress, Tone};
use crate::wiring;

pub(super) fn run(words: &[String], limit: usize, json: bool) -> Result<(), Failure> {
    let engine = wiring::look_default()?;
    let mut progress: Option<Progress> = None;
    let found = engine.search_notes(&words.join(" "), limit, &mut |done, total| {
        progress.get_or_insert_with(|| Progress::new("searching", total)).at(done);
    })?;
    drop(progress);
    if json {
        output::json(&json!({
            "hits": super::value(&found.hits)?, "leftOut": found.left_out, "sessions": found.sessions,
            "unreadable": found.unreadable,
        }));
        return Ok(());
    }
    if found.hits.is_empty() {
        output::line(&format!("No notes match (searched {} sessions).", found.sessions));
    }
    for hit in &found.hits {
        let place = match (&hit.label, &hit.step) {
            (Some(label), Some(step)) => format!("{label} · {step}"),
            (Some(label), None) => label.clone(),
            (None, _) => format!("{} (session notes)", hit.session_id),
        };
        let at =
            hit.at.as_ref().map(|at| format!(" · {}", workrail_core::report::shown(at))).unwrap_or_default();
        let damaged = if hit.damaged { " · damaged session" } else { "" };
        output::toned(Tone::Heading, &format!("{place}{at}{damaged}"));
        output::line(&format!("  {}", hit.excerpt));
        if let Some(link) = &hit.link {
            output::toned(Tone::Quiet, &format!("  {link}"));
        }
    }
    if found.left_out > 0 {
        output::toned(
            Tone::Quiet,
            &format!("\n{} older matches are not shown; raise --limit to see them.", found.left_out),
        );
    }
    if found.unreadable > 0 {
        let text = format!(
            "\n{} damaged sessions could not be searched; `workrail session list` names them.",
            found.unreadable
        );
        output::toned(Tone::Warning, &text);
    }
    Ok(())
}
