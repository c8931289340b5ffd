//! `workrail store keys`: signing keys by fingerprint, never the keys themselves, and the HTTP transport's secret.

use serde_json::{Value, json};
use workrail_engine::upkeep::Keys;
use workrail_host::store_password::store_key;
use workrail_model::keyring::HttpSecret;
use workrail_ports::file_system::FsErrorKind;
use workrail_ports::keyring::{KeyringError, KeyringStore};

use crate::confirm::{self, UserConfirmation};
use crate::outcome::{Failure, Format};
use crate::output::{self, Tone};
use crate::store::AnyStore;
use crate::store_kind::StoreKind;
use crate::wiring::EngineWithStore;
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

/// What `keys new` does with keys in a database that this machine cannot decrypt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum UndecryptedKeys {
    Stay,
    AreReplaced,
}

impl UndecryptedKeys {
    pub(super) fn replaced_if(given: bool) -> Self {
        if given { Self::AreReplaced } else { Self::Stay }
    }

    fn warning(self) -> &'static str {
        match self {
            Self::Stay => {
                "With new keys, tokens in open chats stop working; resume_session finds every run again."
            }
            Self::AreReplaced => {
                "All servers and open chats of this store lose the present keys, also those that can decrypt them. Tokens in \
                 open chats stop working; resume_session finds every run again."
            }
        }
    }
}

pub(super) fn new(
    undecrypted: UndecryptedKeys,
    confirmation: UserConfirmation,
    format: Format,
) -> Result<(), Failure> {
    let EngineWithStore { engine, store, .. } = wiring::open_existing()?;
    if let Err(KeyringError::UnknownVersion { path, version }) = store.peek() {
        return Err(Failure::Usage(format!(
            "A newer version of WorkRail wrote `{path}` (version {version}), so it is not replaced.\nUpdate WorkRail."
        )));
    }
    match engine.keys() {
        Ok(Some(_)) => {
            return Err(Failure::Usage(
                "The keys are usable, so they are not replaced. To sign with a fresh key, run `workrail store keys \
                 rotate`."
                    .to_owned(),
            ));
        }
        Ok(None) => {
            return Err(Failure::Usage(
                "There are no sessions yet, so there is nothing to replace. The first run creates the keys."
                    .to_owned(),
            ));
        }
        // Refused before anything is confirmed.
        Err(problem) if undecrypted == UndecryptedKeys::Stay && are_encrypted(&*store) => {
            return Err(Failure::Refused(problem));
        }
        Err(problem) if format == Format::Text => output::toned(Tone::Warning, &problem.message),
        Err(_) => {}
    }
    confirm::confirm_by_typing(
        confirmation,
        &format!("{}\nType new to make them:", undecrypted.warning()),
        &["new".to_owned()],
    )?;
    let made = match undecrypted {
        UndecryptedKeys::Stay => engine.new_keys()?,
        UndecryptedKeys::AreReplaced => engine.new_keys_for_encrypted()?,
    };
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

/// Whether the keys exist but this machine cannot decrypt them.
fn are_encrypted(store: &impl KeyringStore) -> bool {
    matches!(store.peek(), Err(KeyringError::KeyNotGiven | KeyringError::OtherKey))
}

pub(super) fn http_secret(format: Format) -> Result<(), Failure> {
    let secret = wiring::read_only_directory(settings::current()?)?
        .http_secret()
        .map_err(|error| unusable_http_secret(&error))?;
    let secret = secret.ok_or_else(|| {
        Failure::Usage(
            "No HTTP secret yet. `workrail mcp --http` creates it when it first starts.".to_owned(),
        )
    })?;
    print_secret(&secret, format);
    Ok(())
}

pub(super) fn new_http_secret(confirmation: UserConfirmation, format: Format) -> Result<(), Failure> {
    let machine = wiring::open_directory(settings::current()?)?;
    confirm::confirm_by_typing(
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

/// What is wrong with the file of the HTTP secret, and what to do about it.
pub(crate) fn unusable_http_secret(error: &KeyringError) -> Failure {
    const NEW: &str =
        "`workrail store keys http-secret --new` makes a new secret, which clients then need as well";
    let next = match error {
        KeyringError::Exposed { .. } | KeyringError::ForeignOwner { .. } => {
            format!("{PRIVATE_KEYS}. Otherwise, {NEW}.")
        }
        KeyringError::Io(cause) if cause.kind == FsErrorKind::PermissionDenied => {
            format!("{PRIVATE_KEYS}. Otherwise, {NEW}.")
        }
        KeyringError::Io(cause) if cause.kind == FsErrorKind::TooManyOpenFiles => {
            "Close other programs or raise the limit of open files (`ulimit -n`), then try again.".to_owned()
        }
        KeyringError::Io(cause) if cause.kind != FsErrorKind::WrongKind => {
            format!("Check the disk and the data directory, then try again. If that does not help, {NEW}.")
        }
        KeyringError::Locked => "Try again in a moment.".to_owned(),
        KeyringError::Io(_)
        | KeyringError::Invalid { .. }
        | KeyringError::UnknownVersion { .. }
        | KeyringError::KeyNotGiven
        | KeyringError::OtherKey
        | KeyringError::Usable { .. } => format!("{NEW}."),
    };
    Failure::Environment(format!("The HTTP secret cannot be used: {error}.\n{next}"))
}

fn print_secret(secret: &HttpSecret, format: Format) {
    match format {
        Format::Json => output::json(&json!({ "file": HTTP_SECRET, "secret": secret.reveal() })),
        Format::Text => output::line(secret.reveal()),
    }
}

/// Whether a rotation now encrypts keys that were stored without encryption.
fn starts_encrypting(store: &AnyStore) -> Result<bool, Failure> {
    let AnyStore::Database { shared, .. } = store else { return Ok(false) };
    let address = wiring::database(settings::current()?)?;
    let has_key = address.is_some_and(|address| store_key(address.key_file()).is_ok_and(|key| key.is_some()));
    Ok(has_key && shared.has_wrapped_keys() == Ok(Some(false)))
}

pub(super) fn rotate(confirmation: UserConfirmation, format: Format) -> Result<(), Failure> {
    let EngineWithStore { engine, store, .. } = wiring::open_existing()?;
    let before = engine
        .keys()?
        .ok_or_else(|| Failure::Usage("No keys to rotate yet. The first run creates them.".to_owned()))?;
    if format == Format::Text {
        print(&before)?;
        if before.previous.is_some() {
            output::toned(Tone::Warning, "The rotation invalidates tokens signed with the previous key.");
        }
        if starts_encrypting(&store)? {
            output::toned(
                Tone::Warning,
                "The keys are encrypted from now on: servers that were started without the key stop answering until they have \
                 it and are restarted.",
            );
        }
    }
    confirm::confirm_by_typing(
        confirmation,
        "Type `rotate` to sign new tokens with a new key:",
        &["rotate".to_owned()],
    )?;
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
