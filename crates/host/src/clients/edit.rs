//! What one config entry does to the text of its file.

use std::io::ErrorKind;

use camino::Utf8Path;

use super::table::{ConfigContent, ConfigEntry, HttpMembers, ServerEntry};
use super::{
    Client, ClientError, ClientFile, ConnectionMethod, Setup, authorization, block, entry, hooks, json,
    own_files, remote_authorization, texts, toml,
};
use crate::bounded;
use crate::env_vars::TOKEN;

/// Some of these files contain histories; a larger one is not ours to edit.
const CLIENT_FILE_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// Why a text was not edited.
pub(super) enum EditRefusal {
    Malformed(String),
    NotOurs,
    NoHttp,
    NoVariable,
}

impl From<String> for EditRefusal {
    fn from(detail: String) -> Self {
        Self::Malformed(detail)
    }
}

fn tools() -> Vec<String> {
    own_files::read_only_tools().map(str::to_owned).collect()
}

/// The text with WorkRail added; `text` is `None` if there is no file yet.
pub(super) fn install(
    client: Client,
    config_entry: &ConfigEntry,
    setup: &Setup,
    text: Option<&str>,
) -> Result<String, EditRefusal> {
    let program = setup.program(config_entry.scope);
    let now = text.unwrap_or_default();
    Ok(match &config_entry.content {
        ConfigContent::Server(entry) => install_server(client, config_entry, entry, setup, now)?,
        ConfigContent::Hooks(file) => hooks::install(now, file, &program)?,
        ConfigContent::Instructions => block::install(now)?,
        ConfigContent::Own(file) => match text {
            Some(other) if !other.trim().is_empty() && !other.contains(texts::WRITTEN_BY_INSTALL) => {
                return Err(EditRefusal::NotOurs);
            }
            Some(_) | None => own_files::text(*file, setup, &program),
        },
        ConfigContent::ToolList { path, prefix } => {
            let entries: Vec<String> =
                own_files::read_only_tools().map(|tool| format!("{prefix}{tool}")).collect();
            json::add_to_list(now, path, &entries)?
        }
        ConfigContent::EntryToolList { servers, member } => entry::add_tools(now, servers, member, &tools())?,
        ConfigContent::CodexTools => toml::allow(now, &own_files::read_only_tools().collect::<Vec<_>>())?,
    })
}

fn install_server(
    client: Client,
    config_entry: &ConfigEntry,
    entry: &ServerEntry,
    setup: &Setup,
    text: &str,
) -> Result<String, EditRefusal> {
    match (entry, &setup.connection) {
        (ServerEntry::Json { servers, http, .. }, ConnectionMethod::Remote { url, without_variable }) => {
            let members: HttpMembers = (*http).ok_or(EditRefusal::NoHttp)?;
            let sent = remote_authorization(client, *without_variable).ok_or(EditRefusal::NoVariable)?;
            Ok(entry::install_http(text, servers, members, url, &sent)?)
        }
        (ServerEntry::Toml, ConnectionMethod::Remote { url, .. }) => {
            Ok(toml::install_remote(text, url, TOKEN.name)?)
        }
        (ServerEntry::Json { servers, shape, .. }, ConnectionMethod::Program) => {
            Ok(entry::install(text, servers, *shape, &setup.program(config_entry.scope))?)
        }
        (ServerEntry::Toml, ConnectionMethod::Program) => {
            Ok(toml::install(text, &setup.program(config_entry.scope))?)
        }
        (ServerEntry::Json { servers, http, .. }, ConnectionMethod::Http { url, secret }) => {
            let members: HttpMembers = (*http).ok_or(EditRefusal::NoHttp)?;
            let sent =
                authorization(client, config_entry.scope, secret.as_ref()).ok_or(EditRefusal::NoHttp)?;
            Ok(entry::install_http(text, servers, members, url, &sent)?)
        }
        (ServerEntry::Toml, ConnectionMethod::Http { url, secret }) => {
            let sent =
                authorization(client, config_entry.scope, secret.as_ref()).ok_or(EditRefusal::NoHttp)?;
            Ok(toml::install_http(text, url, &sent)?)
        }
    }
}

/// The text without WorkRail; `None` if the file held nothing else.
pub(super) fn remove(config_entry: &ConfigEntry, text: &str) -> Result<Option<String>, EditRefusal> {
    Ok(match &config_entry.content {
        ConfigContent::Server(ServerEntry::Json { servers, .. }) => Some(entry::remove(text, servers)?),
        ConfigContent::Server(ServerEntry::Toml) => Some(toml::remove(text)?),
        ConfigContent::Hooks(file) => hooks::remove(text, file)?,
        ConfigContent::Instructions => block::remove(text)?,
        // A file of that name that we did not write stays.
        ConfigContent::Own(_) => (!text.contains(texts::WRITTEN_BY_INSTALL)).then(|| text.to_owned()),
        ConfigContent::ToolList { path, prefix } => {
            let entries: Vec<String> =
                own_files::read_only_tools().map(|tool| format!("{prefix}{tool}")).collect();
            Some(json::remove_from_list(text, path, &entries)?)
        }
        ConfigContent::EntryToolList { servers, member } => {
            Some(entry::remove_tools(text, servers, member, &tools())?)
        }
        ConfigContent::CodexTools => {
            Some(toml::disallow(text, &own_files::read_only_tools().collect::<Vec<_>>())?)
        }
    })
}

pub(super) fn command_in(file: &ClientFile) -> Result<Option<String>, ClientError> {
    let Some(text) = read(&file.path)? else { return Ok(None) };
    let text = text.trim_start_matches('\u{feff}');
    let entries =
        file.client.profile().config_entries.iter().filter_map(|config_entry| match &config_entry.content {
            ConfigContent::Server(entry) if config_entry.scope == file.scope => Some(entry),
            ConfigContent::Server(_)
            | ConfigContent::Hooks(_)
            | ConfigContent::Instructions
            | ConfigContent::Own(_)
            | ConfigContent::ToolList { .. }
            | ConfigContent::EntryToolList { .. }
            | ConfigContent::CodexTools => None,
        });
    let found = match entries.into_iter().next() {
        Some(ServerEntry::Json { servers, .. }) => entry::command(text, servers),
        Some(ServerEntry::Toml) => toml::command(text),
        None => Ok(None),
    };
    found.map_err(|detail| ClientError::Malformed { path: file.path.clone(), detail })
}

pub(super) fn read(path: &Utf8Path) -> Result<Option<String>, ClientError> {
    let unreadable = |detail: String| ClientError::Unreadable { path: path.to_owned(), detail };
    let bytes = match path.canonicalize_utf8().and_then(|real| bounded::read(&real, CLIENT_FILE_BYTES_MAX)) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(unreadable(error.to_string())),
    };
    String::from_utf8(bytes).map(Some).map_err(|_| unreadable("it is not UTF-8".to_owned()))
}
