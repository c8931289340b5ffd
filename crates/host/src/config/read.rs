//! Reads the settings file: every key must be known and every value of its type, or the error names the position.

use toml::Table;
use workrail_model::config::{
    GitSource, GitSources, Key, SettingValue, ValueKind, ValueOrigin, ValueProblem, is_source_name,
};

use super::{ConfigError, ConfigPath, GivenSettings};
use crate::bounded;

/// A settings file is written by hand, so it is small.
pub(super) const CONFIG_BYTES_MAX: u64 = 256 * 1024;

pub(super) fn file(config_path: &ConfigPath) -> Result<GivenSettings, ConfigError> {
    match text(config_path)? {
        Some(text) => parse(config_path, &text),
        None => Ok(Vec::new()),
    }
}

/// The file's text; `None` if it is the usual file and does not exist.
pub(super) fn text(config_path: &ConfigPath) -> Result<Option<String>, ConfigError> {
    let unreadable = |detail: String| ConfigError::Unreadable { path: config_path.path.clone(), detail };
    // Users keep such files elsewhere and link them here; the link must lead to a regular file.
    let real = config_path.path.canonicalize_utf8();
    let bytes = match real.and_then(|path| bounded::read(&path, CONFIG_BYTES_MAX)) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound && !config_path.named => return Ok(None),
        Err(error) => return Err(unreadable(error.to_string())),
    };
    String::from_utf8(bytes).map(Some).map_err(|_| unreadable("it is not UTF-8".to_owned()))
}

pub(super) fn parse(config_path: &ConfigPath, text: &str) -> Result<GivenSettings, ConfigError> {
    let table: Table = text.parse().map_err(|error: toml::de::Error| {
        let (path, detail) = (config_path.path.clone(), error.to_string());
        ConfigError::Syntax { path, detail }
    })?;
    let mut given = Vec::new();
    for (name, value) in &table {
        match value {
            toml::Value::Table(inner) => {
                for (member, value) in inner {
                    given.push(entry(config_path, &format!("{name}.{member}"), value)?);
                }
            }
            toml::Value::String(_)
            | toml::Value::Integer(_)
            | toml::Value::Float(_)
            | toml::Value::Boolean(_)
            | toml::Value::Datetime(_)
            | toml::Value::Array(_) => given.push(entry(config_path, name, value)?),
        }
    }
    Ok(given)
}

fn entry(
    config_path: &ConfigPath,
    name: &str,
    value: &toml::Value,
) -> Result<(Key, SettingValue, ValueOrigin), ConfigError> {
    let Some(key) = Key::parse(name) else {
        let key = name.chars().take(80).collect();
        return Err(ConfigError::UnknownKey { path: config_path.path.clone(), key, nearest: nearest(name) });
    };
    if let (ValueKind::GitSources, toml::Value::Table(table)) = (key.kind(), value) {
        return Ok((key, SettingValue::Git(git_sources(config_path, table)?), ValueOrigin::File));
    }
    let problem = |problem| ConfigError::WrongValue { path: config_path.path.clone(), key, problem };
    let plain = plain(value).ok_or_else(|| {
        let found = value.to_string().chars().filter(|c| !c.is_control()).take(80).collect();
        problem(ValueProblem { wanted: key.kind().what(), found })
    })?;
    Ok((key, key.kind().checked(plain).map_err(problem)?, ValueOrigin::File))
}

/// The tables `[sources.git.NAME]`. Addresses are not checked here: one that is not allowed is listed with the reason
/// and must not stop everything else from working.
fn git_sources(config_path: &ConfigPath, table: &Table) -> Result<GitSources, ConfigError> {
    let mut sources = GitSources::new();
    for (name, value) in table {
        let wrong = |member: &str, wanted: &str, found: &str| {
            let shown = |text: &str| text.chars().filter(|c| !c.is_control()).take(80).collect::<String>();
            let member = shown(&format!("sources.git.{name}{member}"));
            let problem = ValueProblem { wanted: wanted.to_owned(), found: shown(found) };
            ConfigError::WrongSource { path: config_path.path.clone(), member, problem }
        };
        if !is_source_name(name) {
            return Err(wrong("", "a name of lower-case letters, digits, `-` and `_`, a letter first", name));
        }
        let toml::Value::Table(members) = value else {
            return Err(wrong("", "a table with `url`", &value.to_string()));
        };
        for member in members.keys() {
            if !GitSource::MEMBERS.contains(&member.as_str()) {
                let key = format!("sources.git.{name}.{member}").chars().take(80).collect();
                let nearest = workrail_model::nearest::nearest(member, GitSource::MEMBERS);
                return Err(ConfigError::UnknownKey { path: config_path.path.clone(), key, nearest });
            }
        }
        let text = |member: &'static str| match members.get(member) {
            None => Ok(None),
            Some(toml::Value::String(text)) => Ok(Some(text.as_str())),
            Some(other) => Err(wrong(&format!(".{member}"), "a text", &other.to_string())),
        };
        let url = text("url")?.ok_or_else(|| wrong(".url", "the address of a repository", "missing"))?;
        let mut source = GitSource::new(url);
        source.r#ref = text("ref")?.map(str::to_owned);
        source.folder = text("folder")?.map(str::to_owned);
        if let Some(hours) = members.get("sync_hours") {
            let read = hours.as_integer().and_then(|hours| u32::try_from(hours).ok());
            let wanted = ValueKind::Count.what();
            source.sync_hours = read
                .filter(|hours| ValueKind::Count.accepts(&SettingValue::Count(*hours)))
                .ok_or_else(|| wrong(".sync_hours", &wanted, &hours.to_string()))?;
        }
        if let Some(switch) = members.get("allow_local") {
            let read = switch.as_bool();
            source.allow_local =
                read.ok_or_else(|| wrong(".allow_local", "true or false", &switch.to_string()))?;
        }
        sources.insert(name.clone(), source);
    }
    let checked = Key::SourceGit.kind().checked(SettingValue::Git(sources)).map_err(|_| {
        let problem =
            ValueProblem { wanted: "shorter texts and fewer sources".to_owned(), found: "…".to_owned() };
        ConfigError::WrongValue { path: config_path.path.clone(), key: Key::SourceGit, problem }
    })?;
    match checked {
        SettingValue::Git(sources) => Ok(sources),
        SettingValue::Switch(_) | SettingValue::Count(_) | SettingValue::Text(_) | SettingValue::List(_) => {
            Ok(GitSources::new())
        }
    }
}

fn plain(value: &toml::Value) -> Option<SettingValue> {
    match value {
        toml::Value::Boolean(on) => Some(SettingValue::Switch(*on)),
        toml::Value::Integer(count) => u32::try_from(*count).ok().map(SettingValue::Count),
        toml::Value::String(text) => Some(SettingValue::Text(text.clone())),
        toml::Value::Array(entries) => {
            let texts = entries.iter().map(|entry| entry.as_str().map(str::to_owned));
            texts.collect::<Option<Vec<String>>>().map(SettingValue::List)
        }
        toml::Value::Float(_) | toml::Value::Datetime(_) | toml::Value::Table(_) => None,
    }
}

/// The key the user probably meant.
fn nearest(name: &str) -> Option<&'static str> {
    workrail_model::nearest::nearest(name, Key::ALL.iter().map(|key| key.as_str()))
}
