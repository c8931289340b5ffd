//! `workrail store keys`: signing keys by fingerprint, never the keys themselves, and the HTTP transport's secret.

use serde_json::{Value, json};
use workrail_engine::upkeep::Keys;
use workrail_model::keyring::HttpSecret;
use workrail_ports::keyring::KeyringError;

use crate::confirm::{self, UserConfirmation};
use crate::outcome::{Failure, Format};
use crate::output::{self, Tone};
use crate::store_kind::StoreKind;
use crate::{settings, wiring};

/// The keys' path inside the data directory.
const FILE: &str = "keys/keyring.json";
const HTTP_SECRET: &str = "keys/http-secret";

pub(super) fn show(format: Format) -> Result<(), Failure> {
    let keys = wiring::read_only_default()?.keys()?;
    match (format, keys) {
        (Format::Json, Some(keys)) => output::json(&described(&keys)?),
        (Format::Json, None) => output::json(&json!({ "file": file()?, "keys": null })),
        (Format::Text, Some(keys)) => print(&keys)?,
        (Format::Text, None) => output::line("No keys yet. The first run creates them."),
    }
    Ok(())
}

pub(super) fn new(confirmation: UserConfirmation, format: Format) -> Result<(), Failure> {
    let engine = wiring::open_existing_default()?;
    match engine.keys() {
        Ok(Some(_)) => {
            return Err(Failure::Call(
                "The keys are usable, so they are not replaced. To sign with a fresh key, run `workrail store keys \
                 rotate`."
                    .to_owned(),
            ));
        }
        Ok(None) => {
            return Err(Failure::Call(
                "There are no sessions yet, so there is nothing to replace. The first run creates the keys."
                    .to_owned(),
            ));
        }
        Err(problem) if format == Format::Text => output::toned(Tone::Warning, &problem.message),
        Err(_) => {}
    }
    confirm::typed(
        confirmation,
        "With new keys, tokens in open chats stop working; resume_session finds every run again.\nType new to make \
         them:",
        &["new".to_owned()],
    )?;
    let made = engine.new_keys()?;
    match format {
        Format::Json => {
            let mut value = described(&made.keys)?;
            value["movedTo"] = json!(made.moved_to);
            output::json(&value);
        }
        Format::Text => {
            output::toned(Tone::Good, "Created new keys.");
            if let Some(aside) = &made.moved_to {
                output::line(&match file()? {
                    Some(_) => format!("The file that could not be used: {aside} in the data directory."),
                    None => format!("The keys that could not be used: {aside}."),
                });
            }
            print(&made.keys)?;
            output::line("Tokens in open chats no longer work. Tell agents to call resume_session.");
        }
    }
    Ok(())
}

pub(super) fn http_secret(format: Format) -> Result<(), Failure> {
    let secret = wiring::read_only_directory(settings::current()?)?
        .http_secret()
        .map_err(|error| unusable_secret(&error))?;
    let secret = secret.ok_or_else(|| {
        Failure::Call("No HTTP secret yet. `workrail mcp --http` creates it when it first starts.".to_owned())
    })?;
    print_secret(&secret, format);
    Ok(())
}

pub(super) fn new_http_secret(confirmation: UserConfirmation, format: Format) -> Result<(), Failure> {
    let machine = wiring::open_directory(settings::current()?)?;
    confirm::typed(
        confirmation,
        "Clients that have the old secret are refused once their server is restarted.\nType new to replace it:",
        &["new".to_owned()],
    )?;
    let secret = machine.replace_http_secret().map_err(|error| {
        Failure::Environment(format!(
            "The HTTP secret cannot be replaced: {error}. {PRIVATE_KEYS}. If something else is in the place of the \
             folder, move it out of the data directory."
        ))
    })?;
    print_secret(&secret, format);
    Ok(())
}

const PRIVATE_KEYS: &str = "Make the folder `keys` and the files in it yours alone (modes 0700 and 0600)";

fn unusable_secret(error: &KeyringError) -> Failure {
    Failure::Environment(format!(
        "The HTTP secret cannot be used: {error}. {PRIVATE_KEYS}, or run `workrail store keys http-secret --new`."
    ))
}

fn print_secret(secret: &HttpSecret, format: Format) {
    match format {
        Format::Json => output::json(&json!({ "file": HTTP_SECRET, "secret": secret.reveal() })),
        Format::Text => output::line(secret.reveal()),
    }
}

pub(super) fn rotate(confirmation: UserConfirmation, format: Format) -> Result<(), Failure> {
    let engine = wiring::open_existing_default()?;
    let before = engine
        .keys()?
        .ok_or_else(|| Failure::Call("No keys to rotate yet. The first run creates them.".to_owned()))?;
    if format == Format::Text {
        print(&before)?;
        if before.previous.is_some() {
            output::toned(Tone::Warning, "Tokens of the previous key end with this rotation.");
        }
    }
    confirm::typed(confirmation, "Type rotate to sign new tokens with a fresh key:", &["rotate".to_owned()])?;
    let after = engine.rotate_keys()?;
    match format {
        Format::Json => {
            let mut value = described(&after)?;
            value["noLongerAccepted"] = json!(before.previous);
            output::json(&value);
        }
        Format::Text => {
            output::toned(Tone::Good, "Created a new signing key.");
            print(&after)?;
            output::line("Running servers pick up the new key by themselves.");
        }
    }
    Ok(())
}

/// Where the keys are; none if a database has them.
fn file() -> Result<Option<&'static str>, Failure> {
    Ok((wiring::store_kind()? == StoreKind::Directory).then_some(FILE))
}

fn described(keys: &Keys) -> Result<Value, Failure> {
    let file = file()?;
    // A file that other users may access is refused before this point; rows are open to the database's roles.
    Ok(json!({ "file": file, "onlyForYou": file.is_some(), "keys": keys }))
}

fn print(keys: &Keys) -> Result<(), Failure> {
    let row = |name: &str, fingerprint: &str, use_of_it: &str| {
        vec![name.to_owned(), fingerprint.to_owned(), use_of_it.to_owned()]
    };
    let current = row("current", &keys.current.fingerprint, "signs new tokens, accepted");
    let previous = keys.previous.as_ref().map(|key| row("previous", &key.fingerprint, "accepted"));
    output::table(&["key", "fingerprint", "use"], [Some(current), previous].into_iter().flatten());
    let location = match file()? {
        Some(file) => format!("{file}: readable only by you"),
        None => "Stored in the database. `workrail doctor` shows whether they are encrypted.".to_owned(),
    };
    output::toned(Tone::Quiet, &location);
    Ok(())
}
