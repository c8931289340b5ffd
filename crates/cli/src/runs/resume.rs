//! `sessions resume`: from a few words to what is pasted into a new chat.

use serde_json::{Value, json};
use workrail_core::report::words::one_line;
use workrail_engine::request::ResumeSession;

use crate::outcome::Failure;
use crate::output::{self, Tone};
use crate::wiring;

pub(super) fn run(words: &[String], json: bool) -> Result<(), Failure> {
    let engine = wiring::look_default()?;
    let text = words.join(" ");
    // One word may be a name; whatever names nothing is a word.
    let named = (words.len() == 1).then(|| engine.find(&text).ok()).flatten();
    let request = match named {
        Some(found) => ResumeSession {
            session_id: found.run.is_none().then(|| found.session.to_string()),
            run_id: found.run.map(|run| run.to_string()),
            ..ResumeSession::default()
        },
        None => ResumeSession { query: (!text.is_empty()).then_some(text), ..ResumeSession::default() },
    };
    let exact = named.is_some();
    let mut answer = engine.find_runs(request)?.into_structured();
    if exact {
        // What was named is offered alone; the ranking goes on with others behind it.
        if let Some(Value::Array(candidates)) = answer.get_mut("candidates") {
            candidates.retain(|candidate| {
                candidate["whyMatched"].as_array().is_some_and(|why| why.contains(&Value::from("matched_id")))
            });
        }
    }
    if json {
        if let (Some(problem), Some(members)) = (engine.keys_problem(), answer.as_object_mut()) {
            members.insert("keyring".to_owned(), json!({ "error": problem }));
        }
        output::json(&answer);
        return Ok(());
    }
    super::show::without_keys(&engine);
    print(&answer);
    Ok(())
}

fn print(answer: &Value) {
    let candidates = answer["candidates"].as_array().map(Vec::as_slice).unwrap_or_default();
    if candidates.is_empty() {
        output::line("No run can be resumed in this data directory.");
    }
    for (place, candidate) in candidates.iter().enumerate() {
        if place > 0 {
            output::line("");
        }
        let said = |member: &str| candidate[member].as_str().unwrap_or_default().to_owned();
        let name = match candidate["label"].as_str() {
            Some(label) => {
                format!("Run {label} · {} · {}", said("workflowId"), said("status").replace('_', " "))
            }
            None => format!("Session {} (notes only)", said("sessionId")),
        };
        output::toned(Tone::Heading, &format!("{}. {name}", place + 1));
        for (what, text) in
            [("goal", said("goal")), ("at", said("stepTitle")), ("last", said("lastWorkedOn"))]
        {
            if !text.is_empty() {
                output::line(&format!("   {what}: {}", one_line(&text)));
            }
        }
        if let Some(problem) = candidate["problem"].as_str() {
            output::toned(Tone::Warning, &format!("   cannot continue: {}", one_line(problem)));
        }
        let why = candidate["whyMatched"].as_array().into_iter().flatten().filter_map(Value::as_str);
        output::toned(
            Tone::Quiet,
            &format!("   why: {}", why.collect::<Vec<_>>().join(", ").replace('_', " ")),
        );
        let Some(call) = candidate.get("nextCall") else { continue };
        output::line("   Paste into a new chat:");
        output::line(&format!(
            "     Continue my WorkRail run: call {} with {}",
            call["tool"].as_str().unwrap_or_default(),
            call["arguments"]
        ));
    }
    if let Some(damaged) = answer["unhealthySessions"].as_u64().filter(|count| *count > 0) {
        output::toned(
            Tone::Warning,
            &format!(
                "\n{damaged} damaged or unreadable sessions are not offered; `sessions list` names them."
            ),
        );
    }
}
