//! Adds and removes workflow sources in the settings file: folders, plugins and git repositories.

use camino::{Utf8Component, Utf8Path, Utf8PathBuf};
use serde_json::json;
use workrail_host::config::{self, ConfigPath};
use workrail_host::sources::{Mirror, Sources, plugin_name};
use workrail_model::config::{GitSource, Key, SettingValue, is_source_name};

use super::AddGit;
use crate::config::{outdated_servers, overriding_variable, warn_of_outdated};
use crate::outcome::{Failure, Format};
use crate::output::{self, Tone};
use crate::settings::{self, unusable};

fn config_path() -> Result<ConfigPath, Failure> {
    settings::config_path().map_err(|error| unusable(&error))
}

/// A folder in the form in which it is registered: absolute.
fn absolute(path: &Utf8Path) -> Result<Utf8PathBuf, Failure> {
    let full = std::path::absolute(path).ok().and_then(|full| Utf8PathBuf::from_path_buf(full).ok());
    // The meaning of `..` depends on the file system, so the folder must exist.
    let upward = |full: &Utf8PathBuf| full.components().any(|part| part == Utf8Component::ParentDir);
    let full = full.map(|full| match upward(&full) {
        true => full.canonicalize_utf8().unwrap_or(full),
        false => full,
    });
    full.ok_or_else(|| Failure::Usage(format!("`{path}` cannot be made an absolute path.")))
}

pub(super) fn add_folder(path: &Utf8Path, key: Key, format: Format) -> Result<(), Failure> {
    let RegistrationResult { config_path, source, change } = register_folder(path, key)?;
    report(&config_path, key, &source, change, format)
}

/// The result of registering or removing a source.
#[derive(Debug)]
pub(crate) struct RegistrationResult {
    config_path: ConfigPath,
    source: String,
    change: SourceChange,
}

/// What happened to the settings file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SourceChange {
    Registered,
    AlreadyRegistered,
    Removed,
}

impl SourceChange {
    /// As JSON output names it.
    fn as_str(self) -> &'static str {
        match self {
            Self::Registered => "registered",
            Self::AlreadyRegistered => "already_registered",
            Self::Removed => "removed",
        }
    }

    /// The sentence about a source.
    fn described(self, source: &str) -> String {
        match self {
            Self::Registered => format!("Registered {source}"),
            Self::AlreadyRegistered => format!("Already registered: {source}"),
            Self::Removed => format!("Removed source {source}"),
        }
    }

    /// The warning about a variable of this process that overrides the settings file.
    fn overridden(self, variable: &str, value: &str) -> String {
        match self {
            Self::Registered | Self::AlreadyRegistered => format!(
                "This source is not used yet: the environment variable `{variable}` is set to `{value}` and overrides the \
                 settings file."
            ),
            Self::Removed => {
                format!("`{variable}` is set to `{value}` and still overrides the settings file.")
            }
        }
    }
}

/// Registers a folder or a plugin in the settings file.
pub(crate) fn register_folder(path: &Utf8Path, key: Key) -> Result<RegistrationResult, Failure> {
    let full = absolute(path)?;
    if !full.is_dir() {
        return Err(Failure::Usage(format!(
            "`{full}` is not a folder that can be read. Nothing was written."
        )));
    }
    if full.as_str().contains(':') {
        return Err(Failure::Usage("A folder whose path contains a colon cannot be registered.".to_owned()));
    }
    if key == Key::SourcePlugins {
        plugin_name(&full).map_err(|wrong| {
            Failure::Usage(format!("`{full}`: {wrong}; {}. Nothing was written.", wrong.fix))
        })?;
    }
    let config_path = config_path()?;
    let mut folders = settings_in_file(&config_path)?.list(key).to_vec();
    let source = full.to_string();
    if folders.contains(&source) {
        return Ok(RegistrationResult { config_path, source, change: SourceChange::AlreadyRegistered });
    }
    folders.push(source.clone());
    config::set(&config_path, key, &SettingValue::List(folders)).map_err(|error| unusable(&error))?;
    Ok(RegistrationResult { config_path, source, change: SourceChange::Registered })
}

fn settings_in_file(config_path: &ConfigPath) -> Result<workrail_model::config::Settings, Failure> {
    // The file need not exist yet.
    let config_path = ConfigPath { named: false, ..config_path.clone() };
    config::load_file(&config_path).map_err(|error| unusable(&error))
}

pub(super) fn add_git(git: AddGit, format: Format) -> Result<(), Failure> {
    let AddGit { name, url, git_ref, folder, sync_hours, allow_local, .. } = git;
    let git = NewGit { name, url, git_ref, folder, sync_hours, allow_local };
    let RegistrationResult { config_path, source, change } = register_git(git)?;
    report(&config_path, Key::SourceGit, &source, change, format)?;
    if format == Format::Text {
        output::line(&format!("Fetch it now: workrail workflow sources sync {source}"));
    }
    Ok(())
}

/// A git source to register.
#[derive(Debug)]
pub(crate) struct NewGit {
    pub(crate) name: String,
    pub(crate) url: String,
    pub(crate) git_ref: Option<String>,
    pub(crate) folder: Option<String>,
    pub(crate) sync_hours: u32,
    pub(crate) allow_local: bool,
}

/// Registers a git repository in the settings file, without fetching it yet.
pub(crate) fn register_git(git: NewGit) -> Result<RegistrationResult, Failure> {
    if !is_source_name(&git.name) {
        let rule = "lower-case letters, digits, `-` and `_`, a letter first";
        return Err(Failure::Usage(format!(
            "`{}` cannot name a source: {rule}. Nothing was written.",
            git.name
        )));
    }
    let config_path = config_path()?;
    if settings_in_file(&config_path)?.git_sources().contains_key(&git.name) {
        let name = &git.name;
        let text = format!(
            "Source `{name}` already exists. Remove it first: workrail workflow sources remove {name}"
        );
        return Err(Failure::Usage(text));
    }
    let source = GitSource {
        r#ref: git.git_ref,
        folder: git.folder,
        sync_hours: git.sync_hours,
        allow_local: git.allow_local,
        ..GitSource::new(&git.url)
    };
    if let Err(refused) = source.checked() {
        return Err(Failure::Usage(format!(
            "`{}`: {refused}; {}. Nothing was written.",
            source.url,
            refused.fix()
        )));
    }
    config::add_git(&config_path, &git.name, &source).map_err(|error| unusable(&error))?;
    Ok(RegistrationResult { config_path, source: git.name, change: SourceChange::Registered })
}

/// Reports what was done, what hides it here, and which servers do not know it yet.
fn report(
    config_path: &ConfigPath,
    key: Key,
    source: &str,
    change: SourceChange,
    format: Format,
) -> Result<(), Failure> {
    let outdated = outdated_servers(&settings_in_file(config_path)?)?;
    let affected = || outdated.iter().filter(|server| server.differences.iter().any(|one| one.key == key));
    if format == Format::Json {
        let servers: Vec<String> = affected().map(|outdated| outdated.server.server_id.to_string()).collect();
        output::json(&json!({
            "source": source, "key": key.as_str(), "path": config_path.path, "change": change.as_str(),
            "overriddenBy": overriding_variable(key).map(|(name, _)| name), "serversToRestart": servers,
        }));
        return Ok(());
    }
    output::toned(Tone::Good, &format!("{} ({})", change.described(source), config_path.path));
    if let Some((name, overriding)) = overriding_variable(key) {
        output::toned(Tone::Warning, &change.overridden(name, &overriding));
    }
    affected().for_each(warn_of_outdated);
    Ok(())
}

pub(super) fn remove(source: &str, format: Format) -> Result<(), Failure> {
    let (RegistrationResult { config_path, source, change }, key) = forget(source)?;
    report(&config_path, key, &source, change, format)
}

/// Removes a source from the settings file, and its fetched copy; also returns the setting it was in.
pub(crate) fn forget(source: &str) -> Result<(RegistrationResult, Key), Failure> {
    let config_path = config_path()?;
    let in_file = settings_in_file(&config_path)?;
    if in_file.git_sources().contains_key(source) {
        let mirrors = Sources::from_settings(&settings::fresh()?.settings);
        let mirror = mirrors.mirrors().iter().find(|mirror| mirror.name == source);
        config::remove_git(&config_path, source).map_err(|error| unusable(&error))?;
        if let Some(Err(error)) = mirror.map(Mirror::forget) {
            output::notice(&format!("The fetched copy could not be deleted: {error}"));
        }
        let removed =
            RegistrationResult { config_path, source: source.to_owned(), change: SourceChange::Removed };
        return Ok((removed, Key::SourceGit));
    }
    let full = absolute(Utf8Path::new(source))?;
    for key in [Key::SourcePaths, Key::SourcePlugins] {
        let folders = in_file.list(key);
        let remaining: Vec<String> = folders
            .iter()
            .filter(|folder| *folder != source && folder.as_str() != full.as_str())
            .cloned()
            .collect();
        if remaining.len() == folders.len() {
            continue;
        }
        let done = match remaining.is_empty() {
            true => config::unset(&config_path, key),
            false => config::set(&config_path, key, &SettingValue::List(remaining)),
        };
        done.map_err(|error| unusable(&error))?;
        return Ok((
            RegistrationResult { config_path, source: source.to_owned(), change: SourceChange::Removed },
            key,
        ));
    }
    let known: Vec<String> = in_file.git_sources().into_keys().collect();
    let folders =
        [Key::SourcePaths, Key::SourcePlugins].into_iter().flat_map(|key| in_file.list(key).to_vec());
    let known: Vec<String> = known.into_iter().chain(folders).collect();
    let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
    Err(Failure::Usage(format!(
        "`{source}` is not registered in {}. Registered: {known}. `workrail workflow sources list` shows them all.",
        config_path.path
    )))
}
