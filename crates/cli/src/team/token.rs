//! `workrail team token`: creates, lists and revokes tokens; each is shown once (G113).

use std::process::ExitCode;

use clap::Args;
use clap::builder::PossibleValuesParser;
use serde_json::{Value, json};
use workrail_host::clock::SystemClock;
use workrail_host::local_time::local_to_the_second;
use workrail_model::id::AccessTokenId;
use workrail_model::name::PrincipalName;
use workrail_model::retention::{Ttl, TtlError};
use workrail_model::team::{AccessToken, Role};
use workrail_model::time::Timestamp;
use workrail_ports::environment::Clock as _;

use crate::outcome::{self, Failure, Format};
use crate::output::{self, Tone};
use crate::wiring;

#[derive(Debug, Args)]
pub(crate) struct CreateArguments {
    /// Who uses it: a person, a bot, a machine. Records and reports show this name.
    name: String,
    /// What its owner may do.
    #[arg(long, value_parser = PossibleValuesParser::new(Role::ALL.map(Role::as_str)))]
    role: String,
    /// How long it is valid: a number and d, h or m.
    #[arg(long, value_name = "90d", default_value = "90d", value_parser = lifetime)]
    expires: Ttl,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// The general text about a long duration gives advice about sessions.
fn lifetime(text: &str) -> Result<Ttl, String> {
    Ttl::parse(text).map_err(|error| match error {
        TtlError::TooLong { text } => {
            format!("`{text}` is longer than a thousand years; choose a shorter time, such as 90d")
        }
        TtlError::Unit { .. } | TtlError::Number { .. } => error.to_string(),
    })
}

#[derive(Debug, Args)]
pub(crate) struct RevokeArguments {
    /// The token's id, as `workrail team token list` shows it.
    id: String,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

pub(super) fn create(arguments: CreateArguments) -> ExitCode {
    outcome::run(arguments.json, |format| create_token(arguments, format))
}

fn create_token(arguments: CreateArguments, format: Format) -> Result<(), Failure> {
    let name = PrincipalName::parse(&arguments.name).map_err(|error| Failure::Usage(error.to_string()))?;
    // The parser accepts only roles.
    let role = Role::parse(&arguments.role).ok_or_else(|| Failure::Usage("Unknown role.".to_owned()))?;
    let made = wiring::open_default()?.make_access_token(name, role, arguments.expires)?;
    let (token, presented) = (&made.token, made.presented.reveal());
    match format {
        Format::Json => {
            let mut value = described(token, &SystemClock.now());
            value["token"] = json!(presented);
            output::json(&value);
        }
        Format::Text => {
            output::notice(&format!(
                "Created token {} for {} ({}), valid until {}. The token itself is shown only this once:",
                token.id,
                token.name,
                token.role.as_str(),
                local_to_the_second(&token.expires_at)
            ));
            output::line(&presented);
        }
    }
    Ok(())
}

pub(super) fn list(json: bool) -> ExitCode {
    outcome::run(json, list_tokens)
}

fn list_tokens(format: Format) -> Result<(), Failure> {
    let tokens = wiring::read_only_default()?.access_tokens()?;
    let now = SystemClock.now();
    if format == Format::Json {
        let tokens: Vec<Value> = tokens.iter().map(|token| described(token, &now)).collect();
        output::json(&json!({ "tokens": tokens }));
        return Ok(());
    }
    if tokens.is_empty() {
        output::line("No tokens yet. `workrail team token create NAME --role ROLE` makes one.");
        return Ok(());
    }
    let rows = tokens.iter().map(|token| {
        vec![
            token.id.to_string(),
            token.name.to_string(),
            token.role.as_str().to_owned(),
            state(token, &now).to_owned(),
            local_to_the_second(&token.expires_at),
        ]
    });
    output::table(&["token", "name", "role", "state", "valid until"], rows);
    Ok(())
}

pub(super) fn revoke(arguments: &RevokeArguments) -> ExitCode {
    outcome::run(arguments.json, |format| revoke_token(arguments, format))
}

fn revoke_token(arguments: &RevokeArguments, format: Format) -> Result<(), Failure> {
    let id = AccessTokenId::parse(arguments.id.trim()).map_err(|error| {
        Failure::Usage(format!(
            "`{}` is not the id of a token: it {error}. `workrail team token list` shows the ids.",
            arguments.id.chars().take(20).collect::<String>()
        ))
    })?;
    wiring::open_existing_default()?.revoke_access_token(id)?;
    match format {
        Format::Json => output::json(&json!({ "revoked": id })),
        Format::Text => output::toned(Tone::Good, &format!("Revoked {id}.")),
    }
    Ok(())
}

fn state(token: &AccessToken, now: &Timestamp) -> &'static str {
    match (&token.revoked_at, token.expires_at <= *now) {
        (Some(_), _) => "revoked",
        (None, true) => "expired",
        (None, false) => "valid",
    }
}

fn described(token: &AccessToken, now: &Timestamp) -> Value {
    json!({
        "id": token.id,
        "name": token.name,
        "role": token.role,
        "state": state(token, now),
        "createdAt": token.created_at,
        "expiresAt": token.expires_at,
        "revokedAt": token.revoked_at,
    })
}
