//! `workrail keys`: fingerprints, never keys.

use serde_json::{Value, json};
use workrail_engine::upkeep::Keys;

use crate::confirm::{self, Asked};
use crate::outcome::{Failure, Format};
use crate::output::{self, Tone};
use crate::wiring;

/// Where the keys lie, beneath the data directory.
const FILE: &str = "keys/keyring.json";

pub(super) fn show(format: Format) -> Result<(), Failure> {
    let keys = wiring::open_default()?.keys()?;
    match format {
        Format::Json => output::json(&described(&keys)),
        Format::Text => print(&keys),
    }
    Ok(())
}

pub(super) fn rotate(asked: Asked, format: Format) -> Result<(), Failure> {
    let engine = wiring::open_default()?;
    let before = engine.keys()?;
    if format == Format::Text {
        print(&before);
        if before.previous.is_some() {
            output::toned(Tone::Warning, "Tokens of the previous key end with this rotation.");
        }
    }
    confirm::typed(asked, "Type rotate to sign new tokens with a fresh key:", &["rotate".to_owned()])?;
    let after = engine.rotate_keys()?;
    match format {
        Format::Json => {
            let mut value = described(&after);
            value["noLongerAccepted"] = json!(before.previous);
            output::json(&value);
        }
        Format::Text => {
            output::toned(Tone::Good, "Rotated.");
            print(&after);
            output::line(
                "Servers that are running go on, and take the new key over with the first token of it that they meet.",
            );
        }
    }
    Ok(())
}

fn described(keys: &Keys) -> Value {
    // Keys that anybody else may use are refused before they are shown.
    json!({ "file": FILE, "onlyForYou": true, "keys": keys })
}

fn print(keys: &Keys) {
    let row = |name: &str, fingerprint: &str, use_of_it: &str| {
        vec![name.to_owned(), fingerprint.to_owned(), use_of_it.to_owned()]
    };
    let current = row("current", &keys.current.fingerprint, "signs new tokens, accepted");
    let previous = keys.previous.as_ref().map(|key| row("previous", &key.fingerprint, "accepted"));
    output::table(&["key", "fingerprint", "use"], [Some(current), previous].into_iter().flatten());
    output::toned(Tone::Quiet, &format!("{FILE}: for you alone (0600 in 0700), checked"));
}
