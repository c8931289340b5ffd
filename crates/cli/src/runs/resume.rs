//! `workrail resume`: from a few words to the text to paste into a new chat.

use serde_json::json;
use workrail_core::progress::rest_in_words;
use workrail_core::report::words::one_line;
use workrail_engine::Naming;
use workrail_engine::request::ResumeSession;
use workrail_host::clock::SystemClock;
use workrail_model::resume::{Candidate, MatchReason, ResumeBody};
use workrail_model::time::Timestamp;
use workrail_ports::environment::Clock as _;

use crate::outcome::{Failure, Format};
use crate::output::{self, Tone};
use crate::{times, wiring};

pub(super) fn run(words: &[String], format: Format) -> Result<(), Failure> {
    let engine = wiring::read_only_default()?;
    let text = words.join(" ");
    // One or two words may be a name; if they name nothing, they are searched for. Only text with a hyphen may be a
    // nearly right label.
    let naming = if text.contains('-') { Naming::Forgiving } else { Naming::Exact };
    let named = (words.len() <= 2).then(|| engine.find_named(&text, naming).ok()).flatten();
    let named = named.map(|named| named.found);
    let request = match named {
        Some(found) => ResumeSession {
            session_id: found.run.is_none().then(|| found.session.to_string()),
            run_id: found.run.map(|run| run.to_string()),
            ..ResumeSession::default()
        },
        None => ResumeSession { query: (!text.is_empty()).then_some(text), ..ResumeSession::default() },
    };
    let has_words = request.query.is_some();
    let mut found = engine.find_runs(request)?;
    if has_words {
        // A run that was merely used recently does not answer a search.
        found.candidates.retain(|candidate| candidate.why_matched != [MatchReason::RecencyFallback]);
    }
    if format == Format::Json {
        let mut document = super::value(&found)?;
        if let Some(problem) = engine.keys_problem() {
            document["keyring"] = json!({ "error": problem });
        }
        output::json(&document);
        return Ok(());
    }
    super::show::warn_if_keys_unusable(&engine);
    print(&found, words);
    Ok(())
}

fn print(found: &ResumeBody, words: &[String]) {
    match (found.candidates.is_empty(), words.is_empty()) {
        (true, false) => {
            output::line("No run matches these words. `workrail resume` alone shows the latest runs.")
        }
        (true, true) => output::line("No run can be resumed in this store."),
        (false, _) => {}
    }
    for (position, candidate) in found.candidates.iter().enumerate() {
        if position > 0 {
            output::line("");
        }
        print_candidate(position + 1, candidate);
    }
    if found.unhealthy_sessions > 0 {
        output::toned(
            Tone::Warning,
            &format!(
                "\n{} not offered; see `workrail session list`.",
                output::counted(
                    found.unhealthy_sessions,
                    "damaged or unreadable session is",
                    "damaged or unreadable sessions are"
                )
            ),
        );
    }
}

fn print_candidate(number: usize, candidate: &Candidate) {
    let name = match (&candidate.label, &candidate.workflow_id, candidate.status) {
        (Some(label), Some(workflow), Some(status)) => {
            format!("Run {label} · {workflow} · {}", status.in_words())
        }
        _ => format!("Session {} (notes only)", candidate.session_id),
    };
    output::toned(Tone::Heading, &format!("{number}. {name}"));
    let step = candidate.step_number.zip(candidate.step_title.as_ref()).map(|(number, title)| {
        format!("{title} ({number}{})", rest_in_words(candidate.about_left, &candidate.loops))
    });
    let at = candidate.last_worked_on.as_deref().and_then(|at| Timestamp::parse(at).ok());
    let last = at.map(|at| times::when(&at, &SystemClock.now()));
    let facts = [
        ("goal", &candidate.goal),
        ("step", &step),
        ("last used", &last),
        ("worked on by", &candidate.last_actor),
    ];
    for (what, text) in facts {
        if let Some(text) = text {
            output::line(&format!("   {what}: {}", one_line(text)));
        }
    }
    if let Some(problem) = &candidate.problem {
        output::toned(Tone::Warning, &format!("   cannot continue: {}", one_line(problem)));
    }
    output::toned(Tone::Quiet, &format!("   why: {}", one_line(&candidate.reason)));
    if let Some(call) = &candidate.next_call {
        output::line("   Paste into a new chat:");
        let arguments = call.arguments_text();
        output::line(&format!("     Continue my WorkRail run: call {} with {arguments}", call.tool));
    }
}
