//! The server's entry in a client's JSON.

use jsonc_parser::cst::{CstInputValue, CstObject};

use super::json::{array_in, ended, object_in, parsed, put, string, text_in, unambiguous};
use super::table::{EntryShape, HttpMembers};
use super::{ARGUMENTS, NAME, json};

const AUTHORIZATION: &str = "Authorization";
/// The names that clients use for a server's address.
const URLS: [&str; 3] = ["url", "httpUrl", "serverUrl"];

fn servers_or_new(object: &CstObject, key: &str) -> Result<CstObject, String> {
    Ok(match object_in(object, key)? {
        Some(servers) => servers,
        None => object.object_value_or_set(key),
    })
}

/// The entry of WorkRail, checked.
fn workrail_entry(servers: &CstObject, key: &str) -> Result<Option<CstObject>, String> {
    let Some(property) = servers.get(NAME) else { return Ok(None) };
    let entry = property.object_value().ok_or_else(|| format!("`{key}.{NAME}` is not an object"))?;
    unambiguous(&entry, &format!("`{key}.{NAME}`"))?;
    Ok(Some(entry))
}

fn list(words: &[&str]) -> CstInputValue {
    CstInputValue::Array(words.iter().map(|word| string(word)).collect())
}

type EntryMembers = Vec<(&'static str, CstInputValue)>;

/// The members that are always set, and those that are only set in a new entry.
fn members(shape: EntryShape, command: &str) -> (EntryMembers, EntryMembers) {
    let plain = vec![("command", string(command)), ("args", list(&ARGUMENTS))];
    match shape {
        EntryShape::Plain => (plain, Vec::new()),
        EntryShape::Typed(kind) => (plain, vec![("type", string(kind))]),
        EntryShape::WithTools(kind) => (plain, vec![("type", string(kind)), ("tools", list(&["*"]))]),
        EntryShape::Words => {
            let words: Vec<&str> = std::iter::once(command).chain(ARGUMENTS).collect();
            let started = vec![("type", string("local")), ("enabled", CstInputValue::Bool(true))];
            (vec![("command", list(&words))], started)
        }
    }
}

pub(super) fn install(text: &str, key: &str, shape: EntryShape, command: &str) -> Result<String, String> {
    let (root, object) = parsed(text)?;
    let servers = servers_or_new(&object, key)?;
    let (exact, only_new) = members(shape, command);
    match workrail_entry(&servers, key)? {
        // Members that the user added, such as variables, stay.
        Some(entry) if !is_http(&entry) => {
            for (member, value) in exact {
                put(&entry, member, value);
            }
        }
        Some(_) | None => {
            // `type` comes first, as people write it.
            let (kind, rest): (Vec<_>, Vec<_>) =
                only_new.into_iter().partition(|(member, _)| *member == "type");
            let members = kind.into_iter().chain(exact).chain(rest);
            let entry = members.map(|(member, value)| (member.to_owned(), value)).collect();
            set(&servers, CstInputValue::Object(entry));
        }
    }
    Ok(ended(root.to_string()))
}

fn set(servers: &CstObject, entry: CstInputValue) {
    match servers.get(NAME) {
        Some(property) => property.set_value(entry),
        None => drop(servers.append(NAME, entry)),
    }
}

/// Whether an entry names an address and not a program.
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
    let servers = servers_or_new(&object, key)?;
    match workrail_entry(&servers, key)? {
        // Members that the user added, such as other headers, stay.
        Some(entry) if is_http(&entry) => {
            put(&entry, members.url, string(url));
            let headers = entry.object_value_or_set("headers");
            unambiguous(&headers, &format!("`{key}.{NAME}.headers`"))?;
            put(&headers, AUTHORIZATION, string(authorization));
        }
        // A program's arguments and variables mean nothing to a server that is already running.
        Some(_) | None => {
            let kind = members.says_type.map(|kind| ("type".to_owned(), string(kind)));
            let headers = vec![(AUTHORIZATION.to_owned(), string(authorization))];
            let rest = [
                (members.url.to_owned(), string(url)),
                ("headers".to_owned(), CstInputValue::Object(headers)),
            ];
            set(&servers, CstInputValue::Object(kind.into_iter().chain(rest).collect()));
        }
    }
    Ok(ended(root.to_string()))
}

pub(super) fn remove(text: &str, key: &str) -> Result<String, String> {
    let (root, object) = parsed(text)?;
    match object_in(&object, key)?.and_then(|servers| servers.get(NAME)) {
        Some(property) => {
            property.remove();
            Ok(root.to_string())
        }
        None => Ok(text.to_owned()),
    }
}

/// The command with which the file starts WorkRail, or the address where it is reached.
pub(super) fn command(text: &str, key: &str) -> Result<Option<String>, String> {
    let (_, object) = parsed(text)?;
    let Some(entry) = object_in(&object, key)?.and_then(|servers| servers.get(NAME)?.object_value()) else {
        return Ok(None);
    };
    let first = array_in(&entry, "command").ok().flatten().and_then(|words| {
        words.elements().first().and_then(|word| word.as_string_lit()?.decoded_value().ok())
    });
    let named = text_in(&entry, "command").or(first);
    Ok(named.or_else(|| URLS.iter().find_map(|url| text_in(&entry, url))))
}

/// Adds tools to a list in the entry; a file without the entry is unchanged.
pub(super) fn add_tools(text: &str, key: &str, member: &str, tools: &[String]) -> Result<String, String> {
    match command(text, key)? {
        Some(_) => json::add_to_list(text, &[key, NAME, member], tools),
        None => Ok(text.to_owned()),
    }
}

pub(super) fn remove_tools(text: &str, key: &str, member: &str, tools: &[String]) -> Result<String, String> {
    json::remove_from_list(text, &[key, NAME, member], tools)
}
