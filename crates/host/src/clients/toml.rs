//! Clients whose file is TOML.

use toml_edit::{Array, DocumentMut, InlineTable, Item, Table, TableLike, value};

use super::{ARGUMENTS, NAME};

const SERVERS: &str = "mcp_servers";
const URL: &str = "url";
const HEADERS: &str = "http_headers";
const TOKEN_VARIABLE: &str = "bearer_token_env_var";
const AUTHORIZATION: &str = "Authorization";

fn parsed(text: &str) -> Result<DocumentMut, String> {
    text.parse().map_err(|error: toml_edit::TomlError| error.to_string())
}

fn servers(document: &DocumentMut) -> Result<Option<&dyn TableLike>, String> {
    match document.get(SERVERS) {
        None => Ok(None),
        Some(item) => item.as_table_like().map(Some).ok_or_else(|| format!("`{SERVERS}` is not a table")),
    }
}

fn entry(document: &DocumentMut) -> Result<Option<&dyn TableLike>, String> {
    match servers(document)?.and_then(|servers| servers.get(NAME)) {
        None => Ok(None),
        Some(item) => {
            item.as_table_like().map(Some).ok_or_else(|| format!("`{SERVERS}.{NAME}` is not a table"))
        }
    }
}

pub(super) fn install(text: &str, command: &str) -> Result<String, String> {
    let mut document = parsed(text)?;
    let known = entry(&document)?;
    let same = known.is_some_and(|entry| {
        let words = entry.get("args").and_then(Item::as_array).map(|words| words.iter().collect::<Vec<_>>());
        let words = words.map(|words| words.iter().map(|word| word.as_str()).collect::<Vec<_>>());
        entry.get("command").and_then(Item::as_str) == Some(command)
            && words == Some(ARGUMENTS.iter().map(|word| Some(*word)).collect())
    });
    if same {
        return Ok(text.to_owned());
    }
    let entry = entry_or_new(&mut document)?;
    for member in [URL, HEADERS, TOKEN_VARIABLE] {
        entry.remove(member);
    }
    entry.insert("command", value(command));
    entry.insert("args", value(ARGUMENTS.iter().copied().collect::<Array>()));
    Ok(document.to_string())
}

fn entry_or_new(document: &mut DocumentMut) -> Result<&mut dyn TableLike, String> {
    let servers = document.entry(SERVERS).or_insert_with(|| {
        let mut table = Table::new();
        // No empty `[mcp_servers]` above the only table.
        table.set_implicit(true);
        Item::Table(table)
    });
    let servers = servers.as_table_like_mut().ok_or_else(|| format!("`{SERVERS}` is not a table"))?;
    let entry = servers.entry(NAME).or_insert_with(toml_edit::table);
    entry.as_table_like_mut().ok_or_else(|| format!("`{SERVERS}.{NAME}` is not a table"))
}

pub(super) fn install_http(text: &str, url: &str, authorization: &str) -> Result<String, String> {
    let mut document = parsed(text)?;
    let known = entry(&document)?;
    let same = known.is_some_and(|entry| {
        let headers = entry.get(HEADERS).and_then(Item::as_table_like);
        let sent = headers.and_then(|headers| headers.get(AUTHORIZATION)).and_then(Item::as_str);
        entry.get(URL).and_then(Item::as_str) == Some(url)
            && sent == Some(authorization)
            && entry.get("command").is_none()
    });
    if same {
        return Ok(text.to_owned());
    }
    let entry = entry_or_new(&mut document)?;
    for member in ["command", "args", "env", TOKEN_VARIABLE] {
        entry.remove(member);
    }
    entry.insert(URL, value(url));
    match entry.get_mut(HEADERS).and_then(Item::as_table_like_mut) {
        Some(headers) => drop(headers.insert(AUTHORIZATION, value(authorization))),
        None => {
            let mut headers = InlineTable::new();
            headers.insert(AUTHORIZATION, authorization.into());
            entry.insert(HEADERS, value(headers));
        }
    }
    Ok(document.to_string())
}

/// Codex sends the value of this variable itself, and expands no variables in other members.
pub(super) fn install_remote(text: &str, url: &str, variable: &str) -> Result<String, String> {
    let mut document = parsed(text)?;
    let same = entry(&document)?.is_some_and(|entry| {
        entry.get(URL).and_then(Item::as_str) == Some(url)
            && entry.get(TOKEN_VARIABLE).and_then(Item::as_str) == Some(variable)
            && ["command", HEADERS].iter().all(|member| entry.get(member).is_none())
    });
    if same {
        return Ok(text.to_owned());
    }
    let entry = entry_or_new(&mut document)?;
    for member in ["command", "args", "env", HEADERS] {
        entry.remove(member);
    }
    entry.insert(URL, value(url));
    entry.insert(TOKEN_VARIABLE, value(variable));
    Ok(document.to_string())
}

pub(super) fn remove(text: &str) -> Result<String, String> {
    let mut document = parsed(text)?;
    if entry(&document)?.is_none() {
        return Ok(text.to_owned());
    }
    if let Some(servers) = document.get_mut(SERVERS).and_then(Item::as_table_like_mut) {
        servers.remove(NAME);
    }
    Ok(document.to_string())
}

const TOOLS: &str = "tools";
const APPROVAL: &str = "approval_mode";

/// Lets these tools run without asking; a file without the server's table is unchanged.
pub(super) fn allow(text: &str, tools: &[&str]) -> Result<String, String> {
    let mut document = parsed(text)?;
    if entry(&document)?.is_none() {
        return Ok(text.to_owned());
    }
    let entry = entry_or_new(&mut document)?;
    let known = entry.entry(TOOLS).or_insert_with(|| {
        let mut table = Table::new();
        table.set_implicit(true);
        Item::Table(table)
    });
    let known =
        known.as_table_like_mut().ok_or_else(|| format!("`{SERVERS}.{NAME}.{TOOLS}` is not a table"))?;
    for tool in tools {
        let table = known.entry(tool).or_insert_with(toml_edit::table);
        let table = table.as_table_like_mut().ok_or_else(|| format!("`{TOOLS}.{tool}` is not a table"))?;
        // What the user decided about a tool stays.
        if table.get(APPROVAL).is_none() {
            table.insert(APPROVAL, value("approve"));
        }
    }
    Ok(document.to_string())
}

/// Undoes what `allow` wrote.
pub(super) fn disallow(text: &str, tools: &[&str]) -> Result<String, String> {
    let mut document = parsed(text)?;
    if entry(&document)?.is_none() {
        return Ok(text.to_owned());
    }
    let entry = entry_or_new(&mut document)?;
    let Some(known) = entry.get_mut(TOOLS).and_then(Item::as_table_like_mut) else {
        return Ok(text.to_owned());
    };
    let mut is_changed = false;
    for tool in tools {
        let is_unedited = known.get(tool).and_then(Item::as_table_like).is_some_and(|table| {
            table.len() == 1 && table.get(APPROVAL).and_then(Item::as_str) == Some("approve")
        });
        if is_unedited {
            known.remove(tool);
            is_changed = true;
        }
    }
    if known.is_empty() {
        entry.remove(TOOLS);
    }
    Ok(if is_changed { document.to_string() } else { text.to_owned() })
}

pub(super) fn command(text: &str) -> Result<Option<String>, String> {
    let document = parsed(text)?;
    let entry = entry(&document)?;
    let text = |member: &str| entry.and_then(|entry| entry.get(member)?.as_str()).map(str::to_owned);
    Ok(text("command").or_else(|| text(URL)))
}

/// A boolean at the end of a path of tables.
pub(super) fn boolean(text: &str, path: &[&str]) -> Option<bool> {
    let document = parsed(text).ok()?;
    let (first, rest) = path.split_first()?;
    let item = rest.iter().try_fold(document.get(first)?, |item, key| item.get(key))?;
    item.as_bool()
}
