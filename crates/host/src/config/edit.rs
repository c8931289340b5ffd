//! Changes one setting in the file and leaves all the rest of it as it stands: comments, order, spacing.

use toml_edit::{Array, DocumentMut, Item, Table, value};
use workrail_model::config::{Key, Value};

use super::{ConfigError, ConfigPath, read};
use crate::whole_file;

/// Writes a value; the file and its folder are made when they are not there.
pub fn set(place: &ConfigPath, key: Key, new: &Value) -> Result<(), ConfigError> {
    change(place, |document| {
        let (table, name) = spot(document, key);
        let item = match new {
            Value::Switch(on) => value(*on),
            Value::Count(count) => value(i64::from(*count)),
            Value::Text(text) => value(text),
            Value::List(entries) => value(entries.iter().collect::<Array>()),
        };
        match table.get_mut(name) {
            // A comment behind the old value stays behind the new one.
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

/// Takes a value out, so that the default holds again.
pub fn unset(place: &ConfigPath, key: Key) -> Result<(), ConfigError> {
    change(place, |document| {
        let (table, name) = spot(document, key);
        table.remove(name);
        if let Some((outer, _)) = key.as_str().split_once('.')
            && document.get(outer).and_then(Item::as_table).is_some_and(Table::is_empty)
        {
            document.remove(outer);
        }
    })
}

/// Makes the file when it is not there, with every setting as a comment, so that an editor shows what there is.
pub fn prepare(place: &ConfigPath) -> Result<(), ConfigError> {
    if read::text(&ConfigPath { named: false, ..place.clone() })?.is_some() {
        return Ok(());
    }
    let mut text =
        String::from("# Settings of WorkRail. A line without `#` in front overrides the default.\n");
    let mut table = "";
    for key in Key::ALL {
        let (outer, name) = key.as_str().split_once('.').unwrap_or(("", key.as_str()));
        if outer != table {
            text.push_str(&format!("\n[{outer}]\n"));
            table = outer;
        }
        let default = key.default().map_or_else(|| "\"\"".to_owned(), |value| value.to_json().to_string());
        text.push_str(&format!("# {}\n# {name} = {default}\n", key.what()));
    }
    let unwritable = |error: std::io::Error| {
        let (path, detail) = (place.path.clone(), error.to_string());
        ConfigError::Unwritable { path, detail }
    };
    whole_file::write(&place.path, &text).map_err(unwritable)
}

/// The table that holds the key, and the key's name there.
fn spot(document: &mut DocumentMut, key: Key) -> (&mut dyn toml_edit::TableLike, &'static str) {
    match key.as_str().split_once('.') {
        None => (document.as_table_mut(), key.as_str()),
        Some((outer, name)) => {
            let item = document.entry(outer).or_insert_with(toml_edit::table);
            if item.as_table_like().is_none() {
                *item = toml_edit::table();
            }
            // Made a table right above when it was none.
            (item.as_table_like_mut().expect("a table"), name)
        }
    }
}

fn change(place: &ConfigPath, edit: impl FnOnce(&mut DocumentMut)) -> Result<(), ConfigError> {
    // The file need not exist yet, also when it was named.
    let text = read::text(&ConfigPath { named: false, ..place.clone() })?.unwrap_or_default();
    // What is wrong with it now is said before anything is written over it.
    read::parse(place, &text)?;
    let syntax = |error: toml_edit::TomlError| {
        let (path, detail) = (place.path.clone(), error.to_string());
        ConfigError::Syntax { path, detail }
    };
    let mut document: DocumentMut = text.parse().map_err(syntax)?;
    edit(&mut document);
    let new = document.to_string();
    if new == text {
        return Ok(());
    }
    read::parse(place, &new)?;
    let unwritable = |error: std::io::Error| {
        let (path, detail) = (place.path.clone(), error.to_string());
        ConfigError::Unwritable { path, detail }
    };
    whole_file::write(&place.path, &new).map_err(unwritable)
}
