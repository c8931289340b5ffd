//! Clients whose file is JSON, with comments or without.

use jsonc_parser::ParseOptions;
use jsonc_parser::cst::{CstInputValue, CstObject, CstRootNode};

use super::{Launch, NAME};

/// Comments and trailing commas are common in these files; anything looser is a mistake.
fn options() -> ParseOptions {
    ParseOptions {
        allow_comments: true,
        allow_trailing_commas: true,
        allow_loose_object_property_names: false,
        allow_missing_commas: false,
        allow_single_quoted_strings: false,
        allow_hexadecimal_numbers: false,
        allow_unary_plus_numbers: false,
        ..ParseOptions::default()
    }
}

/// The file's root object; an empty file is an empty object.
fn parsed(text: &str) -> Result<(CstRootNode, CstObject), String> {
    let root = CstRootNode::parse(text, &options()).map_err(|error| error.to_string())?;
    let object = root.object_value_or_create().ok_or("it is not a JSON object")?;
    unambiguous(&object, "the file")?;
    Ok((root, object))
}

/// A key that is there twice has no one place to edit.
fn unambiguous(object: &CstObject, what: &str) -> Result<(), String> {
    let mut names: Vec<String> =
        object.properties().iter().filter_map(jsonc_parser::cst::CstObjectProp::decoded_name).collect();
    names.sort();
    match names.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => Err(format!("{what} has `{}` twice", pair[0])),
        None => Ok(()),
    }
}

fn servers(object: &CstObject, key: &str) -> Result<Option<CstObject>, String> {
    match object.get(key) {
        None => Ok(None),
        Some(property) => {
            let servers = property.object_value().ok_or_else(|| format!("`{key}` is not an object"))?;
            unambiguous(&servers, &format!("`{key}`"))?;
            Ok(Some(servers))
        }
    }
}

pub(super) fn install(text: &str, key: &str, says_type: bool, launch: &Launch) -> Result<String, String> {
    let (root, object) = parsed(text)?;
    let servers = match servers(&object, key)? {
        Some(servers) => servers,
        None => object.object_value_or_set(key),
    };
    let command = CstInputValue::String(launch.command.clone());
    let arguments = Launch::ARGUMENTS.iter().map(|word| CstInputValue::String((*word).to_owned()));
    let arguments = CstInputValue::Array(arguments.collect());
    match servers.get(NAME) {
        // What the user added, such as variables, stays.
        Some(property) => {
            let entry = property.object_value().ok_or_else(|| format!("`{key}.{NAME}` is not an object"))?;
            unambiguous(&entry, &format!("`{key}.{NAME}`"))?;
            put(&entry, "command", &launch.command, command);
            if words(&entry) != Some(Launch::ARGUMENTS.map(str::to_owned).to_vec()) {
                match entry.get("args") {
                    Some(property) => property.set_value(arguments),
                    None => drop(entry.append("args", arguments)),
                }
            }
        }
        None => {
            let mut entry = Vec::new();
            if says_type {
                entry.push(("type".to_owned(), CstInputValue::String("stdio".to_owned())));
            }
            entry.push(("command".to_owned(), command));
            entry.push(("args".to_owned(), arguments));
            servers.append(NAME, CstInputValue::Object(entry));
        }
    }
    Ok(ended(root.to_string()))
}

/// Sets a text only when it is another one, so that nothing is reformatted for nothing.
fn put(entry: &CstObject, key: &str, text: &str, value: CstInputValue) {
    match entry.get(key) {
        Some(property) => {
            let now = property.value().and_then(|value| value.as_string_lit()?.decoded_value().ok());
            if now.as_deref() != Some(text) {
                property.set_value(value);
            }
        }
        None => drop(entry.append(key, value)),
    }
}

fn words(entry: &CstObject) -> Option<Vec<String>> {
    let elements = entry.array_value("args")?.elements();
    elements.iter().map(|element| element.as_string_lit()?.decoded_value().ok()).collect()
}

pub(super) fn remove(text: &str, key: &str) -> Result<String, String> {
    let (root, object) = parsed(text)?;
    match servers(&object, key)?.and_then(|servers| servers.get(NAME)) {
        Some(property) => {
            property.remove();
            Ok(root.to_string())
        }
        None => Ok(text.to_owned()),
    }
}

/// The command that the file starts WorkRail with.
pub(super) fn command(text: &str, key: &str) -> Result<Option<String>, String> {
    let (_, object) = parsed(text)?;
    let entry = servers(&object, key)?.and_then(|servers| servers.get(NAME)?.object_value());
    Ok(entry.and_then(|entry| entry.get("command")?.value()?.as_string_lit()?.decoded_value().ok()))
}

fn ended(mut text: String) -> String {
    if !text.ends_with('\n') {
        text.push('\n');
    }
    text
}
