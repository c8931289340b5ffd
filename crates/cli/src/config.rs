//! `workrail config`: shows and changes the settings, even if they are invalid.

use std::process::{Command, ExitCode};

use clap::Subcommand;
use serde_json::{Value as Json, json};
use workrail_host::config::{self, ConfigPath, variable};
use workrail_model::approval::RequiredProof;
use workrail_model::config::{Applies, Key, SettingDifference, SettingValue, Settings, differences};
use workrail_model::preferences::Autonomy;
use workrail_model::server::ServerRecord;
use workrail_ports::servers::ServerDirectory as _;

use crate::outcome::{self, EXIT_CODES, Failure, Format};
use crate::output::{self, Tone};
use crate::presence::OriginRecord;
use crate::sessions::prefs;
use crate::settings::{self, unusable};
use crate::{presence, wiring};

#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// List all settings, where each value comes from, and servers that still use old values.
    #[command(after_help = format!("{EXIT_CODES}\n\nExample: workrail config list"))]
    List {
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Print the value of a setting.
    #[command(after_help = format!("{EXIT_CODES}\n\nExample: workrail config get retention.ttl_days"))]
    Get {
        /// The setting, such as retention.ttl_days.
        key: String,
        /// Print JSON, including where the value comes from.
        #[arg(long)]
        json: bool,
    },
    /// Change a setting in the file. Comments and order are preserved.
    #[command(after_help = format!(
        "Separate list items with colons.\n\n{EXIT_CODES}\n\n\
         Examples:\n  workrail config set retention.ttl_days 30\n  \
         workrail config set sources.paths ~/flows:/srv/flows\n  workrail config set tools.start_session"
    ))]
    Set {
        /// The setting, such as retention.ttl_days.
        key: String,
        /// The new value. Omit it to reset the setting to its default.
        value: Option<String>,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Print the path of the settings file.
    #[command(after_help = "Example: $EDITOR \"$(workrail config path)\"")]
    Path {
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Open the settings file in $VISUAL or $EDITOR, then check it.
    #[command(after_help = format!("{EXIT_CODES}\n\nExample: EDITOR=nano workrail config edit"))]
    Edit,
}

pub(crate) fn run(command: ConfigCommand) -> ExitCode {
    let (done, json) = match command {
        ConfigCommand::List { json } => (list(Format::json_if(json)), json),
        ConfigCommand::Get { key, json } => (get(&key, Format::json_if(json)), json),
        ConfigCommand::Set { key, value, json } => (set(&key, value.as_deref(), Format::json_if(json)), json),
        ConfigCommand::Path { json } => (path(Format::json_if(json)), json),
        ConfigCommand::Edit => (edit(), false),
    };
    outcome::finish(done, Format::json_if(json))
}

fn config_path() -> Result<ConfigPath, Failure> {
    settings::config_path().map_err(|error| unusable(&error))
}

fn key(text: &str) -> Result<Key, Failure> {
    Key::parse(text).ok_or_else(|| {
        let known: Vec<&str> = Key::ALL.iter().map(|key| key.as_str()).collect();
        Failure::Usage(format!("Unknown setting `{text}`. The settings are: {}.", known.join(", ")))
    })
}

fn shown(key: Key, settings: &Settings) -> Json {
    let setting = settings.get(key);
    let restart = match key.applies() {
        Applies::Live => None,
        Applies::AtRestart(trigger) => Some(trigger),
    };
    json!({
        "key": key.as_str(), "value": setting.map(|setting| setting.value.to_json()),
        "origin": setting.map(|setting| setting.origin), "default": key.default().map(|value| value.to_json()),
        "variable": variable(key).map(|variable| variable.name), "restart": restart, "what": key.what(),
    })
}

/// A running server that uses outdated settings.
pub(crate) struct OutdatedServer {
    pub(crate) server: ServerRecord,
    pub(crate) differences: Vec<SettingDifference>,
}

/// Running servers whose settings differ from the current ones. They are only named: whether their records can be read
/// decides nothing.
pub(crate) fn outdated_servers(in_file: &Settings) -> Result<Vec<OutdatedServer>, Failure> {
    let running = wiring::read_only_directory(&settings::fresh()?)?.servers().unwrap_or_default();
    let compared = running.into_iter().map(|server| {
        let differences = differences(in_file, &server.settings);
        OutdatedServer { server, differences }
    });
    Ok(compared.filter(|server| !server.differences.is_empty()).collect())
}

fn list(format: Format) -> Result<(), Failure> {
    let current = settings::current()?;
    // A server is compared with the file: this shell's variables are not the server's.
    let config_path = config_path()?;
    let in_file = config::load_file(&config_path).map_err(|error| unusable(&error))?;
    let outdated = outdated_servers(&in_file)?;
    if format == Format::Json {
        let settings: Vec<Json> = Key::ALL.iter().map(|key| shown(*key, &current.settings)).collect();
        let servers: Vec<Json> = outdated
            .iter()
            .map(|server| json!({ "serverId": server.server.server_id, "differences": server.differences }))
            .collect();
        let hash = current.settings.hash();
        output::json(
            &json!({ "path": config_path.path, "hash": hash, "settings": settings, "serversBehind": servers }),
        );
        return Ok(());
    }
    let row = |key: &Key| {
        let setting = current.settings.get(*key);
        let value = setting.map_or_else(|| key.when_unset().to_owned(), |setting| setting.value.to_string());
        let origin = setting.map_or("default", |setting| setting.origin.as_str()).to_owned();
        vec![key.as_str().to_owned(), value, origin, key.what().to_owned()]
    };
    output::table(&["setting", "value", "set by", "what it does"], Key::ALL.iter().map(row));
    outdated.iter().for_each(warn_of_outdated);
    Ok(())
}

/// Names the settings for which a client must be restarted.
pub(crate) fn warn_of_outdated(outdated: &OutdatedServer) {
    for difference in &outdated.differences {
        let Some(trigger) = difference.restart else { continue };
        output::toned(
            Tone::Warning,
            &format!(
                "Server {} (process {}) still uses an old value of `{}`: it changes {}, so restart that client.",
                outdated.server.server_id,
                outdated.server.process_id,
                difference.key.as_str(),
                trigger.what(),
            ),
        );
    }
}

/// The variable of this process that overrides the setting in the file, and its value.
pub(crate) fn overriding_variable(key: Key) -> Option<(&'static str, String)> {
    variable(key).and_then(|variable| Some((variable.name, variable.get()?)))
}

/// Warns if a variable of this process overrides the setting in the file.
fn warn_of_override(key: Key) {
    if let Some((name, overriding)) = overriding_variable(key) {
        output::toned(
            Tone::Warning,
            &format!(
                "The environment variable `{name}` is set to `{overriding}` and overrides the settings file."
            ),
        );
    }
}

fn get(text: &str, format: Format) -> Result<(), Failure> {
    let key = key(text)?;
    let current = settings::current()?;
    match format {
        Format::Json => output::json(&shown(key, &current.settings)),
        Format::Text => {
            if let Some(setting) = current.settings.get(key) {
                output::line(&setting.value.to_string());
            }
        }
    }
    Ok(())
}

/// The typed value, checked; `None` without one, which resets the setting.
fn read(key: Key, value: Option<&str>) -> Result<Option<SettingValue>, Failure> {
    let problem = |problem| Failure::Usage(format!("`{}`: {problem}", key.as_str()));
    value.map(|value| key.kind().read(value).map_err(problem)).transpose()
}

/// Whether a change gives agents more autonomy, which must be confirmed at a terminal.
pub(crate) fn needs_a_terminal(key: Key, value: Option<&str>) -> Result<bool, Failure> {
    let wanted = read(key, value)?.or_else(|| key.default());
    let Ok(before) = config::load_file(&config_path()?) else { return Ok(false) };
    Ok(weakens(&before, key, wanted.as_ref()).is_some())
}

/// Changes a setting in the file without asking; without a value it is reset.
pub(crate) fn change(key: Key, value: Option<&str>) -> Result<ConfigPath, Failure> {
    let config_path = config_path()?;
    match read(key, value)? {
        Some(value) => config::set(&config_path, key, &value),
        None => config::unset(&config_path, key),
    }
    .map_err(|error| unusable(&error))?;
    Ok(config_path)
}

fn set(text: &str, value: Option<&str>, format: Format) -> Result<(), Failure> {
    let key = key(text)?;
    confirm_weakening(&config_path()?, key, read(key, value)?.or_else(|| key.default()).as_ref())?;
    let config_path = change(key, value)?;
    let effective =
        config::load(Some(&config_path), settings::named_store()).map_err(|error| unusable(&error))?;
    if format == Format::Json {
        output::json(&shown(key, &effective));
        return Ok(());
    }
    output::toned(Tone::Good, &written(key, value, &config_path));
    warn_of_override(key);
    let in_file = config::load_file(&config_path).map_err(|error| unusable(&error))?;
    outdated_servers(&in_file)?.iter().for_each(warn_of_outdated);
    Ok(())
}

/// What was done to the settings file.
fn written(key: Key, value: Option<&str>, config_path: &ConfigPath) -> String {
    let path = &config_path.path;
    match (value, key.default()) {
        (Some(_), _) => format!("Written to {path}"),
        (
            None,
            Some(default @ (SettingValue::Text(_) | SettingValue::Switch(_) | SettingValue::Count(_))),
        ) => {
            format!("Reset `{}` to its default, {default}, in {path}", key.as_str())
        }
        (None, Some(SettingValue::List(_) | SettingValue::Git(_)) | None) => {
            format!("Reset `{}` to its default in {path}", key.as_str())
        }
    }
}

/// A change that gives agents more autonomy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WeakenedSafeguard {
    Autonomy {
        before: Autonomy,
        after: Autonomy,
    },
    AllowChat,
    AllowDescendants,
    /// A passkey would no longer be required.
    AllowLabels,
}

fn weakens(before: &Settings, key: Key, wanted: Option<&SettingValue>) -> Option<WeakenedSafeguard> {
    if key == Key::Autonomy
        && let Some(SettingValue::Text(text)) = wanted
        && let Some(after) = Autonomy::parse(text)
    {
        let before = before.preferences().autonomy;
        return (after > before).then_some(WeakenedSafeguard::Autonomy { before, after });
    }
    let is_on = before.is_on(key);
    match wanted {
        Some(SettingValue::Switch(true)) if key == Key::ApprovalsChat && !is_on => {
            Some(WeakenedSafeguard::AllowChat)
        }
        Some(SettingValue::Switch(false)) if key == Key::ApprovalsRefuseDescendants && is_on => {
            Some(WeakenedSafeguard::AllowDescendants)
        }
        Some(SettingValue::Text(text))
            if key == Key::ApprovalsRequire
                && RequiredProof::parse(text).is_some_and(|after| after < before.required_proof()) =>
        {
            Some(WeakenedSafeguard::AllowLabels)
        }
        Some(SettingValue::List(after))
            if key == Key::ApprovalsRequireIn
                && before.list(key).iter().any(|folder| !after.contains(folder)) =>
        {
            Some(WeakenedSafeguard::AllowLabels)
        }
        Some(_) | None => None,
    }
}

/// A change that gives agents more autonomy must be confirmed, as approving is (G63).
fn confirm_weakening(
    config_path: &ConfigPath,
    key: Key,
    wanted: Option<&SettingValue>,
) -> Result<(), Failure> {
    // An unreadable file has nothing to compare with, and the next step refuses it.
    let Ok(before) = config::load_file(config_path) else { return Ok(()) };
    let asked = |what: &str, way: &str| {
        presence::requester(&wiring::read_only_default()?, what, OriginRecord::Nothing)?;
        presence::require_typed(&format!("Type {} to switch it {way}:", key.as_str()), key.as_str())
    };
    match weakens(&before, key, wanted) {
        None => Ok(()),
        Some(WeakenedSafeguard::Autonomy { before, after }) => prefs::allow_default(before, after),
        Some(WeakenedSafeguard::AllowChat) => asked("Allowing approvals in the chat", "on"),
        Some(WeakenedSafeguard::AllowDescendants) => {
            asked("Switching `approvals.refuse_descendants` off", "off")
        }
        // Even if none is enrolled: the caller's variables decide which store is checked.
        Some(WeakenedSafeguard::AllowLabels) => Err(Failure::Usage(format!(
            "Weakening `{}` needs a passkey. Open the console with `workrail console`, enrol one if there is none, and change \
             it under Settings. Nothing was changed.",
            key.as_str()
        ))),
    }
}

fn path(format: Format) -> Result<(), Failure> {
    let config_path = config_path()?;
    match format {
        Format::Json => {
            output::json(&json!({ "path": config_path.path, "exists": config_path.path.exists() }))
        }
        Format::Text => output::line(config_path.path.as_str()),
    }
    Ok(())
}

fn edit() -> Result<(), Failure> {
    let config_path = config_path()?;
    let editor = ["VISUAL", "EDITOR"].iter().filter_map(|name| std::env::var(name).ok());
    let editor = editor.map(|words| words.trim().to_owned()).find(|words| !words.is_empty());
    let Some(editor) = editor else {
        let path = &config_path.path;
        return Err(Failure::Usage(format!("Neither VISUAL nor EDITOR is set. The file is {path}")));
    };
    config::prepare(&config_path).map_err(|error| unusable(&error))?;
    // Split at spaces, so that `code --wait` works; no shell is involved.
    let mut words = editor.split_whitespace();
    let program = words.next().unwrap_or(&editor);
    let ended = Command::new(program).args(words).arg(&config_path.path).status();
    let ended = ended.map_err(|error| Failure::Usage(format!("`{program}` cannot be started: {error}")))?;
    if !ended.success() {
        return Err(Failure::Environment(format!("`{program}` ended with {ended}; nothing was checked.")));
    }
    config::load_file(&config_path).map_err(|error| unusable(&error))?;
    output::toned(Tone::Good, &format!("{} has no problems.", config_path.path));
    Ok(())
}
