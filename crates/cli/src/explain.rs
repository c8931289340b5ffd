//! `workrail explain`: what a code means, and which codes there are.

use std::process::ExitCode;

use clap::Args;
use serde_json::{Value, json};
use workrail_core::explain::{self, Topic, TopicKind};

use crate::outcome::{self, Failure, Format};
use crate::output;

#[derive(Debug, Args)]
pub(crate) struct ExplainArguments {
    /// The code of an error, a diagnostic, a blocker, a gap or a warning, such as TOKEN_BAD_SIGNATURE or unknown-field.
    #[arg(required_unless_present = "list")]
    code: Option<String>,
    /// List all codes, each with what it means.
    #[arg(long, conflicts_with = "code")]
    list: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: &ExplainArguments) -> ExitCode {
    let format = Format::json_if(arguments.json);
    let done = match &arguments.code {
        Some(code) => explained(code, format),
        None => {
            listed(format);
            Ok(())
        }
    };
    outcome::finish(done, format)
}

fn explained(code: &str, format: Format) -> Result<(), Failure> {
    let topic = explain::find(code).map_err(|unknown| {
        let near = unknown.nearest.map(|near| format!(" Did you mean {near}?")).unwrap_or_default();
        Failure::Usage(format!("Unknown code `{code}`.{near} `workrail explain --list` shows them all."))
    })?;
    match format {
        Format::Text => output::line(topic.page.trim_end()),
        Format::Json => output::json(&described(&topic)),
    }
    Ok(())
}

fn listed(format: Format) {
    let topics = explain::topics();
    match format {
        Format::Text => {
            let row =
                |topic: &Topic| vec![topic.code.clone(), kinds(topic).join(", "), topic.meaning.clone()];
            output::table(&["CODE", "KIND", "MEANING"], topics.iter().map(row));
        }
        Format::Json => {
            let codes: Vec<Value> = topics.iter().map(described).collect();
            output::json(&json!({ "codes": codes }));
        }
    }
}

fn kinds(topic: &Topic) -> Vec<&'static str> {
    topic.kinds.iter().map(|kind: &TopicKind| kind.as_str()).collect()
}

fn described(topic: &Topic) -> Value {
    json!({ "code": topic.code, "kinds": kinds(topic), "meaning": topic.meaning, "page": topic.page })
}
