//! `workrail explain`: what an error code means, and which codes there are.

use std::process::ExitCode;

use clap::Args;
use serde_json::{Value, json};
use workrail_model::error::ErrorCode;
use workrail_model::nearest::nearest;

use crate::outcome::{self, Failure, Format};
use crate::output;

#[derive(Debug, Args)]
pub(crate) struct ExplainArguments {
    /// The code, such as TOKEN_BAD_SIGNATURE.
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
    let wanted = code.trim().to_ascii_uppercase();
    let Some(known) = ErrorCode::ALL.iter().find(|known| known.as_str() == wanted) else {
        let near = nearest(&wanted, ErrorCode::ALL.iter().map(|known| known.as_str()));
        let near = near.map(|near| format!(" Did you mean {near}?")).unwrap_or_default();
        return Err(Failure::Call(format!(
            "Unknown error code `{wanted}`.{near} `workrail explain --list` shows them all."
        )));
    };
    match format {
        Format::Text => output::line(known.page().trim_end()),
        Format::Json => output::json(&described(*known)),
    }
    Ok(())
}

fn listed(format: Format) {
    match format {
        Format::Text => {
            let row = |code: &ErrorCode| vec![code.as_str().to_owned(), meaning(*code)];
            output::table(&["CODE", "MEANING"], ErrorCode::ALL.iter().map(row));
        }
        Format::Json => {
            let codes: Vec<Value> = ErrorCode::ALL.iter().map(|code| described(*code)).collect();
            output::json(&json!({ "codes": codes }));
        }
    }
}

fn described(code: ErrorCode) -> Value {
    json!({ "code": code.as_str(), "meaning": meaning(code), "page": code.page() })
}

/// The first sentence of the code's page, behind its heading.
fn meaning(code: ErrorCode) -> String {
    let lines = code.page().lines().map(str::trim);
    let mut text = lines.skip_while(|line| line.is_empty() || line.starts_with('#'));
    let paragraph: Vec<&str> = text.by_ref().take_while(|line| !line.is_empty()).collect();
    let paragraph = paragraph.join(" ");
    match paragraph.find(". ") {
        Some(end) => paragraph[..=end].to_owned(),
        None => paragraph,
    }
}
