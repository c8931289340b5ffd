//! `workrail store passkeys`: which keys prove decisions, and how to recover when all are lost (G98).

use serde_json::{Value, json};
use workrail_engine::passkeys::{Enrolment, KeyEnd, LogDamage, Passkeys, Trust, fingerprint};
use workrail_engine::report::shown_time;

use crate::outcome::{Failure, Format};
use crate::output::{self, Tone};
use crate::presence::{self, OriginRecord};
use crate::wiring;

/// What the user types to end all passkeys.
const TYPED: &str = "reset passkeys";

pub(super) fn show(format: Format) -> Result<(), Failure> {
    let keys = wiring::read_only_default()?.passkeys()?.map_err(|damage| damaged(&damage))?;
    match format {
        Format::Json => output::json(&json!({
            "passkeys": keys.all().iter().map(described).collect::<Vec<_>>(),
            "resets": keys.resets(),
        })),
        Format::Text => print(&keys),
    }
    Ok(())
}

fn damaged(damage: &LogDamage) -> Failure {
    Failure::Environment(format!(
        "The passkey log is damaged: {damage}. No passkey is accepted. To restore it from a backup, move the damaged file \
         (keys/passkeys.jsonl or keys/passkeys.head) out of the data directory, then run `workrail store restore BACKUP`; \
         restore a database with `pg_restore`. Without a backup, run `workrail store passkeys reset`: it revokes all \
         passkeys and sets the damaged log aside."
    ))
}

fn described(enrolment: &Enrolment) -> Value {
    json!({
        "name": enrolment.name, "fingerprint": fingerprint(&enrolment.public_key), "credentialId": enrolment.credential, "publicKey": enrolment.public_key, "entry": enrolment.entry,
        "enrolledAt": enrolment.at, "trust": trust(enrolment.trust), "state": state(enrolment.ended),
    })
}

fn print(keys: &Passkeys) {
    if keys.all().is_empty() {
        output::line(
            "No passkey is enrolled. Enrol one in the console: `workrail console`, Settings, Passkeys.",
        );
    } else {
        output::table(
            &["name", "enrolled", "trusted", "state", "fingerprint"],
            keys.all().iter().map(|enrolment| {
                let (trust, state) = (trust(enrolment.trust).to_owned(), state(enrolment.ended).to_owned());
                vec![
                    enrolment.name.to_string(),
                    shown_time(&enrolment.at),
                    trust,
                    state,
                    fingerprint(&enrolment.public_key),
                ]
            }),
        );
    }
    for at in keys.resets() {
        output::toned(
            Tone::Warning,
            &format!("All passkeys were reset at a terminal on {}.", shown_time(at)),
        );
    }
}

fn trust(trust: Trust) -> &'static str {
    match trust {
        Trust::FirstUse => "as the first one",
        Trust::AfterRemoval => "as the first one after the last was removed",
        Trust::AfterReset => "as the first one after a reset",
        Trust::Agreed => "by an enrolled passkey",
    }
}

fn state(ended: Option<KeyEnd>) -> &'static str {
    match ended {
        None => "enrolled",
        Some(KeyEnd::Removed) => "removed",
        Some(KeyEnd::Replaced) => "replaced",
        Some(KeyEnd::Reset) => "reset",
    }
}

pub(super) fn reset(format: Format) -> Result<(), Failure> {
    let engine = wiring::open_existing_default()?;
    let ended = match engine.passkeys()? {
        Ok(keys) if !keys.has_any() => {
            return Err(Failure::Usage(
                "No passkey is enrolled, so there is nothing to reset. Passkeys are added in the console, under \
                 Settings, Passkeys; `workrail store passkeys show` lists them."
                    .to_owned(),
            ));
        }
        Ok(keys) => Some(keys.enrolled().count()),
        Err(damage) => {
            output::notice(&format!(
                "The passkey log is damaged: {damage}. It is moved aside; its intact part is kept."
            ));
            None
        }
    };
    presence::requester(&engine, "Resetting passkeys", OriginRecord::Nothing)?;
    output::notice(
        "This revokes all passkeys without using any of them. The reset stays visible forever: in `workrail \
         doctor`, in `workrail store verify`, in the settings and in every later decision. If you still have one of \
         them, remove the others in the console instead.",
    );
    presence::require_typed(&format!("Type `{TYPED}` to revoke them:"), TYPED)?;
    engine.reset_passkeys()?;
    match format {
        Format::Json => output::json(&json!({ "reset": true, "ended": ended })),
        Format::Text => {
            output::toned(
                Tone::Good,
                "Reset. Enrol a new passkey in the console: `workrail console`, Settings, Passkeys.",
            );
        }
    }
    Ok(())
}
