//! Searches for a purged text: in every file of a data directory, or every row of a tenant (G85).

use std::fs::File;
use std::io::Read as _;

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
    }

    pub(super) fn everywhere(&self, purge: &Purge) -> Result<Vec<TextMatch>, Failure> {
        match self {
            Self::Directory(root) => files(root, root, purge),
            Self::Database(store) => rows(store, None, purge),
        }
    }

    /// Indexes and caches quote goals and titles. They are rebuilt if missing (G18). In a database they are removed
    /// with their session.
    pub(super) fn remove_caches(&self, purge: &Purge) -> Result<(), Failure> {
        let Self::Directory(root) = self else { return Ok(()) };
        for path in holding(&root.join("cache"), purge)? {
            match std::fs::remove_file(&path) {
                // A server drops an index that has a deleted session.
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                removed => removed.map_err(|error| unreadable(&path, &error))?,
            }
        }
        Ok(())
    }
}

fn rows(store: &PgStore, session: Option<SessionId>, purge: &Purge) -> Result<Vec<TextMatch>, Failure> {
    let found = store.rows_with(session, &|bytes| purge.is_in(bytes));
    let found =
        found.map_err(|error| Failure::Environment(format!("The rows cannot be searched: {error}")))?;
    Ok(found.into_iter().map(|row| TextMatch { location: row.location, session: row.session }).collect())
}

fn files(folder: &Utf8Path, root: &Utf8Path, purge: &Purge) -> Result<Vec<TextMatch>, Failure> {
    let sessions = root.join("sessions");
    let session_of = |path: &Utf8Path| {
        let name = path.strip_prefix(&sessions).ok()?.components().next()?;
        SessionId::parse(name.as_str()).ok()
    };
    let found = holding(folder, purge)?.into_iter();
    Ok(found.map(|path| TextMatch { session: session_of(&path), location: path.into_string() }).collect())
}

/// Every file beneath a folder that contains the text.
fn holding(folder: &Utf8Path, purge: &Purge) -> Result<Vec<Utf8PathBuf>, Failure> {
    let mut found = Vec::new();
    let mut open = vec![folder.to_owned()];
    while let Some(folder) = open.pop() {
        let entries = match folder.read_dir_utf8() {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
            entries => entries.map_err(|error| unreadable(&folder, &error))?,
        };
        for entry in entries {
            let entry = entry.map_err(|error| unreadable(&folder, &error))?;
            let kind = entry.file_type().map_err(|error| unreadable(entry.path(), &error))?;
            if kind.is_dir() {
                open.push(entry.path().to_owned());
            } else if kind.is_file() && holds(entry.path(), purge)? {
                found.push(entry.path().to_owned());
            }
        }
    }
    found.sort_unstable();
    Ok(found)
}

fn holds(path: &Utf8Path, purge: &Purge) -> Result<bool, Failure> {
    let mut file = match File::open(path) {
        // A server may end, or clean up, meanwhile.
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(false),
        file => file.map_err(|error| unreadable(path, &error))?,
    };
    let mut piece = Vec::new();
    loop {
        let read = (&mut file)
            .take(PIECE_BYTES as u64)
            .read_to_end(&mut piece)
            .map_err(|error| unreadable(path, &error))?;
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

fn unreadable(path: &Utf8Path, error: &std::io::Error) -> Failure {
    Failure::Environment(format!("`{path}` cannot be searched: {error}"))
}
