//! Clients whose file is JSON, with comments or without.

use jsonc_parser::ParseOptions;
use jsonc_parser::cst::{CstInputValue, CstObject, CstRootNode};

use super::{HttpMembers, Launch, NAME};

const AUTHORIZATION: &str = "Authorization";
/// How the clients call the address of a server.
const URLS: [&str; 2] = ["url", "httpUrl"];

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
            if is_http(&entry) {
                property.set_value(started(says_type, command, arguments));
                return Ok(ended(root.to_string()));
            }
            put(&entry, "command", &launch.command, command);
            if words(&entry) != Some(Launch::ARGUMENTS.map(str::to_owned).to_vec()) {
                match entry.get("args") {
                    Some(property) => property.set_value(arguments),
                    None => drop(entry.append("args", arguments)),
                }
            }
        }
        None => {
            servers.append(NAME, started(says_type, command, arguments));
        }
    }
    Ok(ended(root.to_string()))
}

fn started(says_type: bool, command: CstInputValue, arguments: CstInputValue) -> CstInputValue {
    let mut entry = Vec::new();
    if says_type {
        entry.push(("type".to_owned(), CstInputValue::String("stdio".to_owned())));
    }
    entry.push(("command".to_owned(), command));
    entry.push(("args".to_owned(), arguments));
    CstInputValue::Object(entry)
}

/// Whether an entry names an address and no program.
fn is_http(entry: &CstObject) -> bool {
    entry.get("command").is_none() && URLS.iter().any(|url| entry.get(url).is_some())
}

pub(super) fn install_http(
    text: &str,
    key: &str,
    members: HttpMembers,
    url: &str,
    authorization: &str,
) -> Result<String, String> {
    let (root, object) = parsed(text)?;
    let servers = match servers(&object, key)? {
        Some(servers) => servers,
        None => object.object_value_or_set(key),
    };
    let string = |text: &str| CstInputValue::String(text.to_owned());
    let mut entry = Vec::new();
    if let Some(kind) = members.says_type {
        entry.push(("type".to_owned(), string(kind)));
    }
    entry.push((members.url.to_owned(), string(url)));
    let headers = vec![(AUTHORIZATION.to_owned(), string(authorization))];
    entry.push(("headers".to_owned(), CstInputValue::Object(headers)));
    match servers.get(NAME) {
        None => drop(servers.append(NAME, CstInputValue::Object(entry))),
        Some(property) => {
            let known = property.object_value().ok_or_else(|| format!("`{key}.{NAME}` is not an object"))?;
            unambiguous(&known, &format!("`{key}.{NAME}`"))?;
            match is_http(&known) {
                // What the user added, such as other headers, stays.
                true => {
                    put(&known, members.url, url, string(url));
                    let headers = known.object_value_or_set("headers");
                    unambiguous(&headers, &format!("`{key}.{NAME}.headers`"))?;
                    put(&headers, AUTHORIZATION, authorization, string(authorization));
                }
                // A program's arguments and variables mean nothing to a server that runs already.
                false => property.set_value(CstInputValue::Object(entry)),
            }
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

/// The command that the file starts WorkRail with, or the address where it is reached.
pub(super) fn command(text: &str, key: &str) -> Result<Option<String>, String> {
    let (_, object) = parsed(text)?;
    let entry = servers(&object, key)?.and_then(|servers| servers.get(NAME)?.object_value());
    let text =
        |entry: &CstObject, member: &str| entry.get(member)?.value()?.as_string_lit()?.decoded_value().ok();
    Ok(entry
        .and_then(|entry| text(&entry, "command").or_else(|| URLS.iter().find_map(|url| text(&entry, url)))))
}

fn ended(mut text: String) -> String {
    if !text.ends_with('\n') {
        text.push('\n');
    }
    text
}
