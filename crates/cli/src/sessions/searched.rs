//! Searches for a purged text: in every file of a data directory, or every row of a tenant (G85).

use std::fs::File;
use std::io::{ErrorKind, Read as _};

use camino::{Utf8Path, Utf8PathBuf};
use workrail_core::bundle::Purge;
use workrail_host::data_dir::data_dir;
use workrail_model::id::SessionId;
use workrail_store_pg::PgStore;

use crate::outcome::Failure;
use crate::settings;
use crate::store::AnyStore;

/// Files are read in pieces of this size.
pub(super) const PIECE_BYTES: usize = 1 << 20;

/// A file or row that contains the text.
#[derive(Clone, Debug)]
pub(super) struct TextMatch {
    pub(super) location: String,
    /// The session that it belongs to.
    pub(super) session: Option<SessionId>,
}

/// What contains the text, and what could not be searched.
#[derive(Debug, Default)]
pub(super) struct SearchOutcome {
    pub(super) matches: Vec<TextMatch>,
    /// One sentence each.
    pub(super) unsearched: Vec<String>,
}

impl SearchOutcome {
    /// The matches, if everything was searched.
    fn complete(self) -> Result<Vec<TextMatch>, Failure> {
        match self.unsearched.into_iter().next() {
            Some(problem) => Err(Failure::Environment(format!(
                "{problem}. Nothing was changed. Remove the cause, then run the command again."
            ))),
            None => Ok(self.matches),
        }
    }

    /// Whether everything was searched and nothing contains the text.
    pub(super) fn is_clean(&self) -> bool {
        self.matches.is_empty() && self.unsearched.is_empty()
    }
}

#[derive(Debug)]
pub(super) enum SearchedStore<'a> {
    Directory(Utf8PathBuf),
    Database(&'a PgStore),
}

impl<'a> SearchedStore<'a> {
    pub(super) fn of(store: &'a AnyStore) -> Result<Self, Failure> {
        Ok(match store {
            AnyStore::Directory(_) => {
                let root = data_dir(&settings::current()?.settings);
                Self::Directory(root.map_err(|error| Failure::Environment(error.to_string()))?)
            }
            AnyStore::Database { shared, .. } => Self::Database(shared),
        })
    }

    /// Where the log of a session contains it.
    pub(super) fn in_session(&self, session: SessionId, purge: &Purge) -> Result<Vec<TextMatch>, Failure> {
        match self {
            Self::Directory(root) => files(&root.join("sessions").join(session.to_string()), root, purge),
            Self::Database(store) => rows(store, Some(session), purge),
        }
        .complete()
    }

    pub(super) fn everywhere(&self, purge: &Purge) -> SearchOutcome {
        match self {
            Self::Directory(root) => files(root, root, purge),
            Self::Database(store) => rows(store, None, purge),
        }
    }

    /// Indexes and caches quote goals and titles. They are rebuilt if missing (G18). In a database they are removed
    /// with their session. What cannot be removed is found by the next search.
    pub(super) fn remove_caches(&self, purge: &Purge) {
        let Self::Directory(root) = self else { return };
        for cache in files(&root.join("cache"), root, purge).matches {
            let _ = std::fs::remove_file(cache.location);
        }
    }
}

fn rows(store: &PgStore, session: Option<SessionId>, purge: &Purge) -> SearchOutcome {
    match store.rows_with(session, &|bytes| purge.is_in(bytes)) {
        Ok(rows) => {
            let matches = rows.into_iter();
            let matches = matches.map(|row| TextMatch { location: row.location, session: row.session });
            SearchOutcome { matches: matches.collect(), unsearched: Vec::new() }
        }
        Err(error) => SearchOutcome {
            matches: Vec::new(),
            unsearched: vec![format!("The rows cannot be searched: {error}")],
        },
    }
}

/// Searches every file beneath a folder.
fn files(folder: &Utf8Path, root: &Utf8Path, purge: &Purge) -> SearchOutcome {
    let sessions = root.join("sessions");
    let session_of = |path: &Utf8Path| {
        let name = path.strip_prefix(&sessions).ok()?.components().next()?;
        SessionId::parse(name.as_str()).ok()
    };
    let mut outcome = SearchOutcome::default();
    let mut open = vec![folder.to_owned()];
    while let Some(folder) = open.pop() {
        let entries = match folder.read_dir_utf8() {
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            Err(error) => {
                outcome.unsearched.push(unreadable(&folder, &error));
                continue;
            }
            Ok(entries) => entries,
        };
        for entry in entries {
            match entry.and_then(|entry| Ok((entry.file_type()?, entry.into_path()))) {
                Ok((kind, path)) if kind.is_dir() => open.push(path),
                Ok((kind, path)) if kind.is_file() => match holds(&path, purge) {
                    Ok(true) => outcome
                        .matches
                        .push(TextMatch { session: session_of(&path), location: path.into_string() }),
                    Ok(false) => {}
                    Err(error) => outcome.unsearched.push(unreadable(&path, &error)),
                },
                Ok(_) => {}
                Err(error) => outcome.unsearched.push(unreadable(&folder, &error)),
            }
        }
    }
    outcome.matches.sort_unstable_by(|left, right| left.location.cmp(&right.location));
    outcome.unsearched.sort_unstable();
    outcome
}

fn holds(path: &Utf8Path, purge: &Purge) -> std::io::Result<bool> {
    let mut file = match File::open(path) {
        // A server may end, or clean up, meanwhile.
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
        file => file?,
    };
    let mut piece = Vec::new();
    loop {
        let read = (&mut file).take(PIECE_BYTES as u64).read_to_end(&mut piece)?;
        if purge.is_in(&piece) {
            return Ok(true);
        }
        if read == 0 {
            return Ok(false);
        }
        // A match that spans two pieces is found with the next one.
        let searched = piece.len().saturating_sub(purge.longest());
        piece.drain(..searched);
    }
}

fn unreadable(path: &Utf8Path, error: &std::io::Error) -> String {
    format!(
        "`{path}` cannot be searched: {error}. Make it readable (`chmod`, `chown`) and look for the text in it."
    )
}
