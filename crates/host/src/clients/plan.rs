//! Plans the changes that set WorkRail up, file by file, and applies them.

use camino::{Utf8Path, Utf8PathBuf};

use super::edit::{self, EditRefusal};
use super::ledger::{Ledger, ReceiptChange};
use super::table::{ConfigContent, ConfigEntry};
use super::{Bases, Client, ClientError, ClientFile, ConnectionMethod, Setup, SetupPart, SetupScope};
use crate::whole_file;

/// A client to set up, and its scope.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SetupTarget {
    pub client: Client,
    pub scope: SetupScope,
}

#[derive(Clone, Copy, Debug)]
pub enum Intent<'a> {
    Install(&'a Setup),
    Uninstall,
}

/// A file's current text, and its text after the change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileChange {
    pub path: Utf8PathBuf,
    /// Absent when the file does not exist yet.
    pub before: Option<String>,
    /// Absent when the file is to be removed.
    pub after: Option<String>,
    pub clients: Vec<Client>,
    pub parts: Vec<SetupPart>,
    pub scope: SetupScope,
    /// Whether `after` contains a secret: then only the user may read the file.
    pub is_private: bool,
    receipt: ReceiptChange,
}

impl FileChange {
    pub fn is_needed(&self) -> bool {
        self.before != self.after
    }
}

/// A file and the config entries that apply to it, in the order of the table.
struct FileEdits {
    path: Utf8PathBuf,
    scope: SetupScope,
    config_entries: Vec<(Client, &'static ConfigEntry)>,
}

/// Every file involved in setting up or removing these parts, whether it has to change or not.
///
/// Writes nothing. If one file cannot be read or edited, the whole plan is refused.
pub fn plan(
    targets: &[SetupTarget],
    parts: &[SetupPart],
    intent: Intent<'_>,
    bases: &Bases,
    ledger: &Ledger,
) -> Result<Vec<FileChange>, ClientError> {
    let files = edited_files(targets, parts, bases);
    let planned = files.iter().map(|file| match intent {
        Intent::Install(setup) => installed(file, setup, bases, ledger).map(Some),
        Intent::Uninstall => removed(file, targets, bases, ledger),
    });
    planned.filter_map(Result::transpose).collect()
}

fn edited_files(targets: &[SetupTarget], parts: &[SetupPart], bases: &Bases) -> Vec<FileEdits> {
    let mut files: Vec<FileEdits> = Vec::new();
    for SetupTarget { client, scope } in targets {
        let wanted =
            |config_entry: &&ConfigEntry| config_entry.scope == *scope && parts.contains(&config_entry.part);
        for config_entry in client.profile().config_entries.iter().filter(wanted) {
            let Some(path) = bases.path_of(config_entry) else { continue };
            match files.iter_mut().find(|file| file.path == path) {
                Some(file) => file.config_entries.push((*client, config_entry)),
                None => files.push(FileEdits {
                    path,
                    scope: *scope,
                    config_entries: vec![(*client, config_entry)],
                }),
            }
        }
    }
    files
}

fn refused(client: Client, config_entry: &ConfigEntry, path: &Utf8Path, refusal: EditRefusal) -> ClientError {
    let path = path.to_owned();
    match refusal {
        EditRefusal::Malformed(detail) => ClientError::Malformed { path, detail },
        EditRefusal::NotOurs => ClientError::NotOurs { path, part: config_entry.part.as_str() },
        EditRefusal::NoHttp => ClientError::NoHttp { client: client.as_str() },
        EditRefusal::NoVariable => ClientError::NoVariable { client: client.as_str() },
    }
}

/// Splits off the byte order mark that some editors write; it stays where it is.
fn split_mark(text: &str) -> (&str, &str) {
    match text.strip_prefix('\u{feff}') {
        Some(rest) => ("\u{feff}", rest),
        None => ("", text),
    }
}

fn installed(
    file: &FileEdits,
    setup: &Setup,
    bases: &Bases,
    ledger: &Ledger,
) -> Result<FileChange, ClientError> {
    let before = edit::read(&file.path)?;
    let (mark, rest) = split_mark(before.as_deref().unwrap_or_default());
    let mut text = before.is_some().then(|| rest.to_owned());
    for (client, config_entry) in &file.config_entries {
        let edited = edit::install(*client, config_entry, setup, text.as_deref());
        text = Some(edited.map_err(|refusal| refused(*client, config_entry, &file.path, refusal))?);
    }
    // An entry that had nothing to do must not create an empty file.
    let after = text.filter(|text| before.is_some() || !text.is_empty()).map(|text| format!("{mark}{text}"));
    let receipt = match (&before, ledger.receipt(&file.path)) {
        (Some(now), Some(receipt)) if receipt.is_of(now) => {
            ReceiptChange::Record { original: receipt.original }
        }
        (Some(now), _) if holds_workrail(&file.path, now, bases) => ReceiptChange::Forget,
        (_, _) => ReceiptChange::first(before.as_deref()),
    };
    let has_server =
        file.config_entries.iter().any(|(_, config_entry)| config_entry.part == SetupPart::Server);
    let has_secret = matches!(setup.connection, ConnectionMethod::Http { secret: Some(_), .. });
    let is_private = has_server && has_secret && file.scope == SetupScope::User;
    Ok(change(file, before, after, is_private, receipt))
}

fn change(
    file: &FileEdits,
    before: Option<String>,
    after: Option<String>,
    is_private: bool,
    receipt: ReceiptChange,
) -> FileChange {
    let mut clients: Vec<Client> = file.config_entries.iter().map(|(client, _)| *client).collect();
    clients.dedup();
    let mut parts: Vec<SetupPart> =
        file.config_entries.iter().map(|(_, config_entry)| config_entry.part).collect();
    parts.dedup();
    FileChange {
        path: file.path.clone(),
        before,
        after,
        clients,
        parts,
        scope: file.scope,
        is_private,
        receipt,
    }
}

/// `None` for a file that another client still needs.
fn removed(
    file: &FileEdits,
    targets: &[SetupTarget],
    bases: &Bases,
    ledger: &Ledger,
) -> Result<Option<FileChange>, ClientError> {
    if file.config_entries.iter().any(|(_, config_entry)| is_shared(config_entry, &file.path, targets, bases))
    {
        return Ok(None);
    }
    let before = edit::read(&file.path)?;
    let Some(now) = &before else {
        return Ok(Some(change(file, None, None, false, ReceiptChange::Forget)));
    };
    let (mark, rest) = split_mark(now);
    let mut text = Some(rest.to_owned());
    for (client, config_entry) in &file.config_entries {
        let Some(now) = text else { break };
        text = edit::remove(config_entry, &now)
            .map_err(|refusal| refused(*client, config_entry, &file.path, refusal))?;
    }
    let after = text.map(|text| format!("{mark}{text}"));
    let is_removed = after.as_deref().is_none_or(|text| !holds_workrail(&file.path, text, bases));
    let (after, receipt) = match ledger.receipt(&file.path) {
        Some(receipt) if receipt.is_of(now) && is_removed => (receipt.original, ReceiptChange::Forget),
        Some(receipt) if receipt.is_of(now) => (after, ReceiptChange::Record { original: receipt.original }),
        Some(_) | None => (after, ReceiptChange::Forget),
    };
    Ok(Some(change(file, before, after, false, receipt)))
}

/// Whether another client that stays set up reads the same instructions.
fn is_shared(config_entry: &ConfigEntry, path: &Utf8Path, targets: &[SetupTarget], bases: &Bases) -> bool {
    if !matches!(config_entry.content, ConfigContent::Instructions) {
        return false;
    }
    let others = Client::ALL.iter().copied().filter(|client| {
        !targets.contains(&SetupTarget { client: *client, scope: config_entry.scope })
            && client.profile().config_entries.iter().any(|other| {
                matches!(other.content, ConfigContent::Instructions)
                    && other.scope == config_entry.scope
                    && bases.path_of(other).as_deref() == Some(path)
            })
    });
    let is_set_up = |file: &ClientFile| matches!(Client::command_in(file), Ok(Some(_)));
    others
        .flat_map(|client| client.server_files(bases))
        .filter(|file| file.scope == config_entry.scope)
        .any(|file| is_set_up(&file))
}

/// Whether a text holds anything that WorkRail writes into this file, for any client.
fn holds_workrail(path: &Utf8Path, text: &str, bases: &Bases) -> bool {
    let config_entries = Client::ALL.iter().flat_map(|client| client.profile().config_entries);
    let here = config_entries.filter(|config_entry| bases.path_of(config_entry).as_deref() == Some(path));
    let (_, rest) = split_mark(text);
    here.into_iter().any(|config_entry| match edit::remove(config_entry, rest) {
        Ok(left) => left.as_deref() != Some(rest),
        // An unreadable file may contain something of ours.
        Err(_) => true,
    })
}

/// Writes a change and returns the path of the backup.
///
/// Reads the file again first, so that nothing its owner wrote since the change was planned is lost.
pub fn apply(change: &FileChange, ledger: &Ledger) -> Result<Option<Utf8PathBuf>, ClientError> {
    let unwritable = |detail: String| ClientError::Unwritable { path: change.path.clone(), detail };
    if !change.is_needed() {
        return Ok(None);
    }
    if edit::read(&change.path)? != change.before {
        return Err(unwritable("it was changed by another program in the meantime; try again".to_owned()));
    }
    let write_failed = |error: std::io::Error| unwritable(error.to_string());
    let backup_failed = |error: std::io::Error| ClientError::BackupFailed {
        path: change.path.clone(),
        folder: ledger.folder().to_owned(),
        detail: error.to_string(),
    };
    let backup = match &change.before {
        Some(text) => Some(ledger.back_up(&change.path, text).map_err(backup_failed)?),
        None => None,
    };
    match &change.after {
        Some(text) => {
            ledger.note_folders(&change.path).map_err(backup_failed)?;
            // Before the file: a receipt for bytes that the file never gets does not fit, and is ignored.
            if let ReceiptChange::Record { original } = &change.receipt {
                ledger.record(&change.path, original.as_deref(), text).map_err(backup_failed)?;
            }
            match change.is_private {
                true => whole_file::write_private(&change.path, text).map_err(write_failed)?,
                false => whole_file::write(&change.path, text).map_err(write_failed)?,
            }
        }
        None => {
            std::fs::remove_file(&change.path).map_err(write_failed)?;
            // A folder that stays in the list is tried again next time.
            let _ = ledger.remove_folders(&change.path);
        }
    }
    if change.receipt == ReceiptChange::Forget || change.after.is_none() {
        ledger.forget(&change.path);
    }
    Ok(backup)
}

/// What each file would contain if it did not exist yet, to be copied by hand.
pub fn printed(
    target: SetupTarget,
    parts: &[SetupPart],
    setup: &Setup,
    bases: &Bases,
) -> Vec<(Utf8PathBuf, String)> {
    let files = edited_files(&[target], parts, bases);
    let shown = files.into_iter().filter_map(|file| {
        let text = file.config_entries.iter().try_fold(None::<String>, |text, (client, config_entry)| {
            edit::install(*client, config_entry, setup, text.as_deref()).map(Some)
        });
        Some((file.path, text.ok().flatten()?))
    });
    shown.collect()
}
