//! Changes one setting in the file and preserves the rest: comments, order, spacing.

use toml_edit::{Array, DocumentMut, Item, Table, TableLike, value};
use workrail_model::config::{GitSource, Key, SYNC_HOURS_DEFAULT, SettingValue, ValueKind};

use super::{ConfigError, ConfigPath, read};
use crate::whole_file;

/// Writes a value, creating the file and its folder if needed.
pub fn set(config_path: &ConfigPath, key: Key, new: &SettingValue) -> Result<(), ConfigError> {
    if let SettingValue::Git(sources) = new {
        return sources.iter().try_for_each(|(name, source)| add_git(config_path, name, source));
    }
    change(config_path, |document| {
        let Some((table, name)) = spot(document, key) else { return };
        let item = match new {
            SettingValue::Switch(on) => value(*on),
            SettingValue::Count(count) => value(i64::from(*count)),
            SettingValue::Text(text) => value(text),
            SettingValue::List(entries) => value(entries.iter().collect::<Array>()),
            // Written above, as one table each.
            SettingValue::Git(_) => return,
        };
        match table.get_mut(name) {
            // A comment after the old value is kept after the new one.
            Some(Item::Value(old)) => {
                let decor = old.decor().clone();
                if let Item::Value(mut new) = item {
                    *new.decor_mut() = decor;
                    *old = new;
                }
            }
            Some(other) => *other = item,
            None => {
                table.insert(name, item);
            }
        }
    })
}

/// Removes a value, so that the default applies again.
pub fn unset(config_path: &ConfigPath, key: Key) -> Result<(), ConfigError> {
    change(config_path, |document| {
        let Some((table, name)) = spot(document, key) else { return };
        table.remove(name);
        if let Some((outer, _)) = key.as_str().split_once('.') {
            drop_if_empty(document, outer);
        }
    })
}

/// Writes `[sources.git.NAME]`, replacing one of that name.
pub fn add_git(config_path: &ConfigPath, name: &str, source: &GitSource) -> Result<(), ConfigError> {
    change(config_path, |document| {
        let is_new = !document.contains_key("sources");
        let Some((sources, member)) = spot(document, Key::SourceGit) else { return };
        let git = sources.entry(member).or_insert_with(|| {
            let mut table = Table::new();
            // `[sources.git]` alone means nothing and is not written.
            table.set_implicit(true);
            Item::Table(table)
        });
        let Some(git) = git.as_table_like_mut() else { return };
        let mut table = Table::new();
        table.insert("url", value(&source.url));
        if let Some(git_ref) = &source.r#ref {
            table.insert("ref", value(git_ref));
        }
        if let Some(folder) = &source.folder {
            table.insert("folder", value(folder));
        }
        if source.sync_hours != SYNC_HOURS_DEFAULT {
            table.insert("sync_hours", value(i64::from(source.sync_hours)));
        }
        if source.allow_local {
            table.insert("allow_local", value(true));
        }
        git.insert(name, Item::Table(table));
        if let Some(sources) = document.get_mut("sources").and_then(Item::as_table_mut).filter(|_| is_new) {
            sources.set_implicit(true);
        }
    })
}

/// Removes `[sources.git.NAME]`.
pub fn remove_git(config_path: &ConfigPath, name: &str) -> Result<(), ConfigError> {
    change(config_path, |document| {
        let Some((sources, member)) = spot(document, Key::SourceGit) else { return };
        let Some(git) = sources.get_mut(member).and_then(Item::as_table_like_mut) else { return };
        git.remove(name);
        if git.is_empty() {
            sources.remove(member);
        }
        drop_if_empty(document, "sources");
    })
}

/// Creates the file if it does not exist, with every setting as a comment, so that an editor shows all of them.
pub fn prepare(config_path: &ConfigPath) -> Result<(), ConfigError> {
    if read::text(&ConfigPath { named: false, ..config_path.clone() })?.is_some() {
        return Ok(());
    }
    let mut text =
        String::from("# Settings of WorkRail. A line without `#` in front overrides the default.\n");
    let mut table = "";
    // Keys above the first table header belong to no table.
    let (in_tables, on_top): (Vec<&Key>, Vec<&Key>) =
        Key::ALL.iter().partition(|key| key.as_str().contains('.'));
    for key in on_top.into_iter().chain(in_tables) {
        let (outer, name) = key.as_str().split_once('.').unwrap_or(("", key.as_str()));
        if outer != table {
            text.push_str(&format!("\n[{outer}]\n"));
            table = outer;
        }
        if key.kind() == ValueKind::GitSources {
            text.push_str(&format!("# {}\n", key.what()));
            continue;
        }
        let default = key.default().map_or_else(|| "\"\"".to_owned(), |value| value.to_json().to_string());
        text.push_str(&format!("# {}\n# {name} = {default}\n", key.what()));
    }
    write(config_path, &text)
}

fn drop_if_empty(document: &mut DocumentMut, outer: &str) {
    if document.get(outer).and_then(Item::as_table).is_some_and(Table::is_empty) {
        document.remove(outer);
    }
}

/// The table that holds the key, and the key's name in it. `None` if the file has something else in place of the
/// table; `change` has already refused such a file, because no setting has that name.
fn spot(document: &mut DocumentMut, key: Key) -> Option<(&mut dyn TableLike, &'static str)> {
    match key.as_str().split_once('.') {
        None => Some((document.as_table_mut(), key.as_str())),
        Some((outer, name)) => {
            let table = document.entry(outer).or_insert_with(toml_edit::table).as_table_like_mut()?;
            Some((table, name))
        }
    }
}

fn change(config_path: &ConfigPath, edit: impl FnOnce(&mut DocumentMut)) -> Result<(), ConfigError> {
    // The file need not exist yet, even if the user named it.
    let text = read::text(&ConfigPath { named: false, ..config_path.clone() })?.unwrap_or_default();
    // Report existing problems before writing over them.
    read::parse(config_path, &text)?;
    let syntax = |error: toml_edit::TomlError| {
        let (path, detail) = (config_path.path.clone(), error.to_string());
        ConfigError::Syntax { path, detail }
    };
    let mut document: DocumentMut = text.parse().map_err(syntax)?;
    edit(&mut document);
    let new = document.to_string();
    if new == text {
        return Ok(());
    }
    read::parse(config_path, &new)?;
    write(config_path, &new)
}

fn write(config_path: &ConfigPath, text: &str) -> Result<(), ConfigError> {
    whole_file::write(&config_path.path, text).map_err(|error| {
        let (path, detail) = (config_path.path.clone(), error.to_string());
        ConfigError::Unwritable { path, detail }
    })
}
