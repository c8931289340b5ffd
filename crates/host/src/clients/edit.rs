//! Plans a change to a client's file, and carries it out with a backup beside it.

use std::io::ErrorKind;

use camino::{Utf8Path, Utf8PathBuf};

use super::{Client, ClientError, ClientFile, Credential, HttpEndpoint, Launch, Syntax, json, toml};
use crate::{bounded, whole_file};

/// Histories are kept in some of these files; more than this is none of ours.
const CLIENT_FILE_BYTES_MAX: u64 = 64 * 1024 * 1024;
/// Backups beside one file; then the oldest name is used again.
const BACKUPS_MAX: usize = 9;

/// What a file says, and what it is to say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    pub path: Utf8PathBuf,
    /// Absent when the file does not exist yet.
    pub before: Option<String>,
    pub after: String,
    /// Whether `after` holds a secret: then only the user may read the file.
    pub is_private: bool,
}

impl Change {
    pub fn is_needed(&self) -> bool {
        self.before.as_deref().unwrap_or_default() != self.after
    }
}

/// The file with WorkRail in it.
pub fn installed(file: &ClientFile, launch: &Launch) -> Result<Change, ClientError> {
    planned(file, |text| match file.client.syntax() {
        Syntax::Json { servers, says_type } => json::install(text, servers, says_type, launch),
        Syntax::Toml => toml::install(text, launch),
    })
}

/// The file with WorkRail in it, reached over HTTP.
pub fn installed_http(file: &ClientFile, endpoint: &HttpEndpoint) -> Result<Change, ClientError> {
    let client = file.client;
    let members = client.http_members().ok_or(ClientError::NoHttp { client: client.as_str() })?;
    let authorization = endpoint.authorization(client);
    let change = planned(file, |text| match client.syntax() {
        Syntax::Json { servers, .. } => {
            json::install_http(text, servers, members, &endpoint.url, &authorization)
        }
        Syntax::Toml => toml::install_http(text, &endpoint.url, &authorization),
    })?;
    Ok(Change { is_private: matches!(endpoint.credential, Credential::Secret(_)), ..change })
}

/// The file without WorkRail.
pub fn removed(file: &ClientFile) -> Result<Change, ClientError> {
    planned(file, |text| match file.client.syntax() {
        Syntax::Json { servers, .. } => json::remove(text, servers),
        Syntax::Toml => toml::remove(text),
    })
}

fn planned(
    file: &ClientFile,
    edit: impl FnOnce(&str) -> Result<String, String>,
) -> Result<Change, ClientError> {
    let path = file.path.clone();
    let before = read(&path)?;
    let text = before.as_deref().unwrap_or_default();
    // Some editors leave a mark in front of the text; it stays where it is.
    let (mark, rest) = match text.strip_prefix('\u{feff}') {
        Some(rest) => ("\u{feff}", rest),
        None => ("", text),
    };
    let after = edit(rest).map_err(|detail| ClientError::Malformed { path: path.clone(), detail })?;
    let after = if before.is_none() && rest == after { String::new() } else { format!("{mark}{after}") };
    Ok(Change { path, before, after, is_private: false })
}

impl Client {
    /// The command that a file starts WorkRail with, or the address where it is reached; `None` when it has neither.
    pub fn command_in(file: &ClientFile) -> Result<Option<String>, ClientError> {
        let Some(text) = read(&file.path)? else { return Ok(None) };
        let text = text.trim_start_matches('\u{feff}');
        let found = match file.client.syntax() {
            Syntax::Json { servers, .. } => json::command(text, servers),
            Syntax::Toml => toml::command(text),
        };
        found.map_err(|detail| ClientError::Malformed { path: file.path.clone(), detail })
    }
}

fn read(path: &Utf8Path) -> Result<Option<String>, ClientError> {
    let unreadable = |detail: String| ClientError::Unreadable { path: path.to_owned(), detail };
    let bytes = match path.canonicalize_utf8().and_then(|real| bounded::read(&real, CLIENT_FILE_BYTES_MAX)) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(unreadable(error.to_string())),
    };
    String::from_utf8(bytes).map(Some).map_err(|_| unreadable("it is not UTF-8".to_owned()))
}

/// Writes a change; returns where the file as it was is kept.
///
/// The file is read once more: what its owner wrote since the change was planned is not lost.
pub fn apply(change: &Change) -> Result<Option<Utf8PathBuf>, ClientError> {
    let unwritable = |detail: String| ClientError::Unwritable { path: change.path.clone(), detail };
    if !change.is_needed() {
        return Ok(None);
    }
    if read(&change.path)? != change.before {
        return Err(unwritable("it was changed by another program in the meantime; try again".to_owned()));
    }
    let written = |error: std::io::Error| unwritable(error.to_string());
    let backup = match &change.before {
        Some(text) => {
            let backup = backup_path(&change.path);
            whole_file::write_like(&backup, text, &change.path).map_err(written)?;
            Some(backup)
        }
        None => None,
    };
    match change.is_private {
        true => whole_file::write_private(&change.path, &change.after).map_err(written)?,
        false => whole_file::write(&change.path, &change.after).map_err(written)?,
    }
    Ok(backup)
}

/// The first free name.
fn backup_path(path: &Utf8Path) -> Utf8PathBuf {
    let name = |number: usize| Utf8PathBuf::from(format!("{path}.workrail-backup-{number}"));
    (1..BACKUPS_MAX).map(name).find(|path| !path.exists()).unwrap_or_else(|| name(BACKUPS_MAX))
}
